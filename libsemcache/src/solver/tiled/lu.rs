//! LU with partial pivoting by block columns. A panel, which is a block column from its diagonal on, is factored by one device; its pivots
//! and what is below its diagonal go to the others, which exchange rows of their block columns before they update them.

use super::blocked::{Blocked, regular};
use super::sides::Part;
use super::tiling::Tiling;
use crate::base::dense::{DenseKernel, Step};
use crate::base::{Diag, Intent, Op, Rect, Uplo};
use crate::cache::task::Use;
use crate::hints::view::View;
use crate::solver::compute::{finite, info, pivots_of, sums_of};
use crate::solver::queue::{HEAD, Made, Queueing, Refused};
use crate::sparse::arrays::Own;

/// A factorization that is being queued.
pub(super) struct Lu<'q, 'a> {
    pub(super) queueing: &'q mut Queueing<'a>,
    pub(super) tiling: &'q Tiling,
    /// Where the program's matrix is kept.
    pub(super) from: usize,
    /// The block columns, as operands that are changed.
    pub(super) columns: Vec<Use>,
    /// Where the answer of each block column is kept: INFO and pivots of a panel, and sums.
    pub(super) answers: Vec<usize>,
    /// How many sums there are in each.
    pub(super) sums: Vec<usize>,
}

impl Lu<'_, '_> {
    fn view(&self, column: usize) -> View {
        let from = self.tiling.at(column);
        let to = from + self.tiling.width(column);
        self.queueing.system.a.columns(from, to)
    }

    /// The pivots of a panel, which are as many as its columns, or as its rows if these are less.
    fn pivots(&self, panel: usize) -> usize {
        self.tiling.width(panel).min(self.tiling.rows_from(panel))
    }

    /// These rows and columns of a block column, as an operand.
    fn rows(
        &self,
        column: usize,
        (from, rows): (usize, usize),
        cols: usize,
        access: Intent,
    ) -> Result<Use, Refused> {
        let whole = self.columns.get(column).ok_or(Refused::Other)?;
        let element = whole.size;
        let all = self.queueing.system.a.rows * element;
        let view = Rect::new(from * element, rows * element, all, cols);
        // Its owner keeps the whole block column; others have of it what they read.
        let footprint = match self.queueing.device == self.tiling.owner(0, column) {
            true => whole.view,
            false => view,
        };
        Ok(Use {
            view,
            footprint,
            access,
            ..whole.clone()
        })
    }

    fn answer(&self, column: usize) -> Result<usize, Refused> {
        self.answers.get(column).copied().ok_or(Refused::Other)
    }

    /// Queues the exchanges of rows of a block column that a panel found.
    fn exchange(&mut self, column: usize, by: usize) -> Result<(), Refused> {
        let (rows, cols) = (self.tiling.rows_from(by), self.tiling.width(column));
        let kernel = DenseKernel {
            m: rows,
            n: self.pivots(by),
            sides: cols,
            ..self.queueing.system.kernel(Step::Exchange)
        };
        let at = (self.tiling.at(by), rows);
        let exchanged = self.rows(column, at, cols, Intent::Update)?;
        let pivots = (self.answer(by)?, Intent::Read);
        self.queueing.dense(kernel, None, Some(&exchanged), pivots)
    }

    /// Solves for right sides. Rows of L are not exchanged by later panels yet, so that right sides are what further block columns would
    /// be.
    pub(super) fn solve(&mut self, parts: &mut [Part]) -> Result<(), Refused> {
        let lower = (Uplo::Lower, Op::None, Diag::Unit);
        let upper = (Uplo::Upper, Op::None, Diag::NonUnit);
        let panels = self.tiling.panels();
        for part in &*parts {
            for by in 0..panels {
                let (first, rows) = (self.tiling.at(by), self.tiling.rows_from(by));
                let inner = self.pivots(by);
                part.exchange(self.queueing, first, (self.answer(by)?, inner))?;
                let triangle = self.rows(by, (first, inner), inner, Intent::Read)?;
                part.solve(self.queueing, triangle, lower, (first, inner))?;
                if rows > inner {
                    let below = (first + inner, rows - inner);
                    let left = self.rows(by, below, inner, Intent::Read)?;
                    part.subtract(self.queueing, (left, Op::None), [below, (first, inner)])?;
                }
            }
            for by in (0..panels).rev() {
                let (first, inner) = (self.tiling.at(by), self.pivots(by));
                let triangle = self.rows(by, (first, inner), inner, Intent::Read)?;
                part.solve(self.queueing, triangle, upper, (first, inner))?;
                if first > 0 {
                    let above = self.rows(by, (0, first), inner, Intent::Read)?;
                    let rows = [(0, first), (first, inner)];
                    part.subtract(self.queueing, (above, Op::None), rows)?;
                }
            }
        }
        parts
            .iter_mut()
            .try_for_each(|part| part.sum(self.queueing))
    }

    /// What is left to do once all panels are factored: exchanges in the block columns before each panel, and sums of all elements.
    pub(super) fn finish(&mut self) -> Result<(), Refused> {
        for column in 0..self.columns.len() {
            self.queueing.device = self.tiling.owner(0, column);
            for by in column + 1..self.tiling.panels() {
                self.exchange(column, by)?;
            }
            let all = self.columns.get(column).ok_or(Refused::Other)?;
            let sums = self.queueing.sum(all, self.answer(column)?, 0)?;
            self.sums.push(sums);
        }
        Ok(())
    }

    /// The pivots; `None` if the matrix is singular or has elements that are no usual numbers.
    pub(super) fn found(&self) -> Result<Option<Vec<i64>>, Refused> {
        let mut all = Vec::new();
        for (column, sums) in self.sums.iter().enumerate() {
            let answer = self.queueing.answer(self.answer(column)?)?;
            if !finite(&sums_of(self.queueing.system.dtype, answer, *sums)) {
                return Ok(None);
            }
            if column >= self.tiling.panels() {
                continue;
            }
            if info(answer) != 0 {
                return Ok(None);
            }
            let before = i64::try_from(self.tiling.at(column)).unwrap_or(i64::MAX);
            let of_panel = pivots_of(&answer[HEAD..], self.tiling.rows_from(column))?;
            all.extend(of_panel.iter().map(|pivot| pivot + before));
        }
        Ok(Some(all))
    }

    /// The block columns, with the parts of the program's matrix whose place they are to take.
    pub(super) fn made(&mut self) -> Result<Vec<Made>, Refused> {
        let mut all = Vec::new();
        for (column, copy) in self.columns.iter().enumerate() {
            let view = self.view(column);
            let to = self.queueing.part(self.from, view)?;
            self.queueing.device = self.tiling.owner(0, column);
            all.push(self.queueing.made(view, copy, &to));
        }
        Ok(all)
    }
}

impl Blocked for Lu<'_, '_> {
    fn load(&mut self, column: usize) -> Result<(), Refused> {
        self.queueing.device = self.tiling.owner(0, column);
        let view = self.view(column);
        let from = self.queueing.part(self.from, view)?;
        let copy = self.queueing.copied(view, &from)?;
        debug_assert_eq!(self.columns.len(), column);
        self.columns.push(copy);
        let pivots = match column < self.tiling.panels() {
            true => self.pivots(column),
            false => 0,
        };
        // Pivots that exchange nothing, should a device that finds no pivot store none.
        let mut answer = vec![0; HEAD];
        answer.extend((1..=pivots as i64).flat_map(i64::to_ne_bytes));
        let answer = Own::new(self.queueing.cache, answer.into());
        self.answers.push(self.queueing.own(answer));
        Ok(())
    }

    fn factor(&mut self, panel: usize) -> Result<(), Refused> {
        self.queueing.device = self.tiling.owner(0, panel);
        let (rows, cols) = (self.tiling.rows_from(panel), self.tiling.width(panel));
        let at = (self.tiling.at(panel), rows);
        let factored = self.rows(panel, at, cols, Intent::Update)?;
        let kernel = DenseKernel {
            m: rows,
            n: cols,
            ..self.queueing.system.kernel(Step::Lu)
        };
        let to = (self.answer(panel)?, Intent::Update);
        self.queueing.dense(kernel, Some(&factored), None, to)
    }

    /// A panel has all of its rows at once.
    fn spread(&mut self, _: usize) -> Result<(), Refused> {
        Ok(())
    }

    fn is_regular(&self, end: usize) -> Result<bool, Refused> {
        let panels = self.answers.iter().copied();
        regular(self.queueing, panels.take(end))
    }

    fn update(&mut self, column: usize, by: usize) -> Result<(), Refused> {
        self.queueing.device = self.tiling.owner(0, column);
        self.exchange(column, by)?;
        let (first, rows) = (self.tiling.at(by), self.tiling.rows_from(by));
        let (inner, cols) = (self.pivots(by), self.tiling.width(column));
        let triangle = self.rows(by, (first, inner), inner, Intent::Read)?;
        let top = self.rows(column, (first, inner), cols, Intent::Update)?;
        let lower = (Uplo::Lower, Op::None, Diag::Unit);
        self.queueing
            .solve(triangle, lower, top.clone(), (inner, cols))?;
        if rows == inner {
            return Ok(());
        }
        let below = (first + inner, rows - inner);
        let left = self.rows(by, below, inner, Intent::Read)?;
        let changed = self.rows(column, below, cols, Intent::Update)?;
        let top = Use {
            access: Intent::Read,
            ..top
        };
        let sizes = [rows - inner, cols, inner];
        self.queueing
            .subtract((left, Op::None), top, changed, sizes)
    }
}
