//! Cholesky by square tiles. Of an upper factor the tiles are those of the lower one, transposed: tile `(i, k)` of the lower triangle is
//! tile `(k, i)` of the upper one.

use super::blocked::{Blocked, regular};
use super::products::MINUS_ONE;
use super::sides::Part;
use super::tiling::Tiling;
use crate::base::dense::{DenseKernel, Step};
use crate::base::{Diag, Form, Intent, Op, Routine, Side, Uplo, Value};
use crate::cache::task::Use;
use crate::device::api::{Kernel, Operand};
use crate::hints::view::View;
use crate::solver::compute::{info, usual};
use crate::solver::queue::{HEAD, Made, Queueing, ROOM, Refused};
use crate::solver::system::adjoint;
use crate::sparse::arrays::Own;

/// A factorization that is being queued.
pub(super) struct Cholesky<'q, 'a> {
    pub(super) queueing: &'q mut Queueing<'a>,
    pub(super) tiling: &'q Tiling,
    /// Where the program's matrix is kept.
    pub(super) from: usize,
    /// The tiles of each column, from the diagonal on, as operands that are changed.
    pub(super) tiles: Vec<Vec<Use>>,
    /// Where each panel's answer and diagonal are kept.
    pub(super) answers: Vec<(usize, usize)>,
}

impl Cholesky<'_, '_> {
    /// The program's part of the matrix that a tile is.
    fn view(&self, row: usize, column: usize) -> View {
        let at = |tile| (self.tiling.at(tile), self.tiling.width(tile));
        let ((first, rows), (from, cols)) = match self.queueing.system.uplo {
            Uplo::Lower => (at(row), at(column)),
            Uplo::Upper => (at(column), at(row)),
        };
        (self.queueing.system.a).block((first, from), (rows, cols))
    }

    fn tile(&self, row: usize, column: usize, access: Intent) -> Result<Use, Refused> {
        let column = self.tiles.get(column).zip(row.checked_sub(column));
        let tile = column.and_then(|(tiles, below)| tiles.get(below));
        let tile = tile.ok_or(Refused::Other)?;
        Ok(Use {
            access,
            ..tile.clone()
        })
    }

    /// Queues a kernel on the device that owns a tile, which it changes.
    fn launch(
        &mut self,
        (row, column): (usize, usize),
        inputs: &[Use],
        kernel: Kernel,
    ) -> Result<(), Refused> {
        self.queueing.device = self.tiling.owner(row, column);
        let mut uses = inputs.to_vec();
        uses.push(self.tile(row, column, Intent::Update)?);
        let placed = |at: &[Operand]| {
            let mut operands = at.iter().copied();
            Kernel {
                at: core::array::from_fn(|_| operands.next().unwrap_or_default()),
                ..kernel
            }
        };
        let Queueing { cache, device, .. } = &*self.queueing;
        cache.queue(*device, &uses, ROOM, &placed)?;
        Ok(())
    }

    /// A kernel that changes a tile of the size of this one.
    fn kernel(&self, routine: Routine, (row, column): (usize, usize), k: usize) -> Kernel {
        let view = self.view(row, column);
        Kernel {
            form: Form {
                uplo: self.queueing.system.uplo,
                ..Form::default()
            },
            m: view.rows,
            n: view.cols,
            k,
            ..Kernel::of(routine, self.queueing.system.dtype, [Operand::default(); 3])
        }
    }

    /// Solves for right sides, by the factor and then by its conjugate transpose.
    pub(super) fn solve(&mut self, parts: &mut [Part]) -> Result<(), Refused> {
        let (uplo, adjoint) = (
            self.queueing.system.uplo,
            adjoint(self.queueing.system.dtype),
        );
        // The tiles are those of L, or of U = L^H.
        let [forward, back] = match uplo {
            Uplo::Lower => [Op::None, adjoint],
            Uplo::Upper => [adjoint, Op::None],
        };
        let columns = self.tiling.columns();
        let rows = |tile| (self.tiling.at(tile), self.tiling.width(tile));
        for part in &*parts {
            for tile in 0..columns {
                let triangle = self.tile(tile, tile, Intent::Read)?;
                let form = (uplo, forward, Diag::NonUnit);
                part.solve(self.queueing, triangle, form, rows(tile))?;
                for below in tile + 1..columns {
                    let factor = (self.tile(below, tile, Intent::Read)?, forward);
                    part.subtract(self.queueing, factor, [rows(below), rows(tile)])?;
                }
            }
            for tile in (0..columns).rev() {
                for below in tile + 1..columns {
                    let factor = (self.tile(below, tile, Intent::Read)?, back);
                    part.subtract(self.queueing, factor, [rows(tile), rows(below)])?;
                }
                let triangle = self.tile(tile, tile, Intent::Read)?;
                let form = (uplo, back, Diag::NonUnit);
                part.solve(self.queueing, triangle, form, rows(tile))?;
            }
        }
        parts
            .iter_mut()
            .try_for_each(|part| part.sum(self.queueing))
    }

    /// Whether all panels are those of a positive definite matrix of usual numbers, once devices have computed them.
    pub(super) fn usual(&self) -> Result<bool, Refused> {
        for (answer, diagonal) in &self.answers {
            let diagonal = self.queueing.answer(*diagonal)?;
            if info(self.queueing.answer(*answer)?) != 0 || !usual(self.queueing.system, diagonal) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The tiles, with the parts of the program's matrix whose place they are to take.
    pub(super) fn made(&mut self) -> Result<Vec<Made>, Refused> {
        let mut all = Vec::new();
        for column in 0..self.tiles.len() {
            for row in column..self.tiling.columns() {
                let view = self.view(row, column);
                let to = self.queueing.part(self.from, view)?;
                let copy = self.tile(row, column, Intent::Read)?;
                self.queueing.device = self.tiling.owner(row, column);
                all.push(self.queueing.made(view, &copy, &to));
            }
        }
        Ok(all)
    }
}

impl Blocked for Cholesky<'_, '_> {
    fn load(&mut self, column: usize) -> Result<(), Refused> {
        let mut tiles = Vec::new();
        for row in column..self.tiling.columns() {
            self.queueing.device = self.tiling.owner(row, column);
            let view = self.view(row, column);
            let from = self.queueing.part(self.from, view)?;
            tiles.push(self.queueing.copied(view, &from)?);
        }
        debug_assert_eq!(self.tiles.len(), column);
        self.tiles.push(tiles);
        Ok(())
    }

    fn factor(&mut self, panel: usize) -> Result<(), Refused> {
        self.queueing.device = self.tiling.owner(panel, panel);
        let tile = self.tile(panel, panel, Intent::Update)?;
        let order = self.tiling.width(panel);
        let kernel = DenseKernel {
            m: order,
            n: order,
            ..self.queueing.system.kernel(Step::Cholesky)
        };
        let answer = Own::new(self.queueing.cache, vec![0; HEAD].into());
        let answer = self.queueing.own(answer);
        let to = (answer, Intent::Overwrite);
        self.queueing.dense(kernel, Some(&tile), None, to)?;
        let diagonal = self.queueing.diagonal(self.view(panel, panel), &tile)?;
        self.answers.push((answer, diagonal));
        Ok(())
    }

    fn spread(&mut self, panel: usize) -> Result<(), Refused> {
        let factor = self.tile(panel, panel, Intent::Read)?;
        for row in panel + 1..self.tiling.columns() {
            let at = (row, panel);
            let kernel = self.kernel(Routine::Trsm, at, self.tiling.width(panel));
            let side = match kernel.form.uplo {
                Uplo::Lower => Side::Right,
                Uplo::Upper => Side::Left,
            };
            let kernel = Kernel {
                form: Form {
                    side,
                    diag: Diag::NonUnit,
                    ..kernel.form
                },
                op_a: adjoint(kernel.dtype),
                ..kernel
            };
            self.launch(at, core::slice::from_ref(&factor), kernel)?;
        }
        Ok(())
    }

    fn is_regular(&self, end: usize) -> Result<bool, Refused> {
        let panels = self.answers.iter().map(|(answer, _)| *answer);
        regular(self.queueing, panels.take(end))
    }

    fn update(&mut self, column: usize, by: usize) -> Result<(), Refused> {
        let upper = self.queueing.system.uplo == Uplo::Upper;
        let adjoint = adjoint(self.queueing.system.dtype);
        let inner = self.tiling.width(by);
        let of_column = self.tile(column, by, Intent::Read)?;
        for row in column..self.tiling.columns() {
            let at = (row, column);
            let (routine, inputs) = match row == column {
                true => (Routine::Herk, vec![of_column.clone()]),
                false => {
                    let of_row = self.tile(row, by, Intent::Read)?;
                    let inputs = match upper {
                        true => vec![of_column.clone(), of_row],
                        false => vec![of_row, of_column.clone()],
                    };
                    (Routine::Gemm, inputs)
                }
            };
            let kernel = Kernel {
                op_a: if upper { adjoint } else { Op::None },
                op_b: if upper { Op::None } else { adjoint },
                alpha: MINUS_ONE,
                beta: Value::ONE,
                ..self.kernel(routine, at, inner)
            };
            self.launch(at, &inputs, kernel)?;
        }
        Ok(())
    }
}
