//! Plans of trmm, `B := alpha op(A) B`, and trsm, `B := alpha op(A)^-1 B`, or with A on the right, on several devices.
//!
//! The columns of B (A on the left) or its rows (A on the right) do not depend on each other: each device owns a panel
//! of them, contiguous if A is on the left. Along the other dimension B is cut like A into lines of tiles, here
//! numbered in the order in which they are finished. Only tiles of the stored triangle of A are used (BLASX, section
//! III-B):
//!
//! * trsm: `B_i := A_ii^-1 (alpha B_i - sum A_is B_s)` over the `s < i`, which are solutions by then. This is the
//!   left-looking order: a line is brought up to date when its turn has come. The first kernel starts when two tiles
//!   have arrived, and line i needs i + 1 new tiles of A and its own of B for i + 1 kernels per tile of B: the work per
//!   tile grows from the start, and a line is written back once. The right-looking order of PLASMA, and so of XKBlas,
//!   in which each solution updates all lines that follow, needs all of B for its first sweep, one kernel per tile, and
//!   out of core writes the unfinished lines of B back with every sweep. That order offers more independent kernels,
//!   which a device that one tile keeps busy does not need.
//! * trmm: `B_i := alpha A_ii B_i`, in place, then `B_i += alpha A_is B_s` over the `s > i`, which are not overwritten
//!   yet. This is the order of trsm backwards.
//!
//! Lines are taken in blocks: lines outside a block contribute to it by one product of blocks, whose tiles are computed
//! in the order of gemm.

use std::ops::Range;

use super::blocks::Largest;
use super::problem::{Access, Problem, Task};
use super::split::{self, Span};
use super::tiles::{self, part, stored};
use super::tiling::Tiling;
use super::{Resources, Value};
use crate::base::kernel::Kernel;
use crate::base::{DeviceId, Op, Routine, Side, TileSize, Uplo};

const MINUS_ONE: Value = Value { re: -1.0, im: 0.0 };

pub(super) fn lower(
    p: &Problem,
    machine: &Resources,
    tiling: Option<Tiling>,
) -> Option<Vec<Vec<Task>>> {
    if p.m == 0 || p.n == 0 {
        return Some(Vec::new());
    }
    let left = p.form.side == Side::Left;
    let (order, free) = tiles::extents(p);
    let tiling = tiling?;
    let panels = tiles::shares(free, machine, tiling.tile.m);
    let used = panels.len();
    let mut lines = split::grid(order, tiling.tile.m);
    if backwards(p) {
        lines.reverse();
    }
    let lists = panels.iter().enumerate().map(|(i, panel)| {
        let list = Lines {
            p,
            device: machine.device(i, used),
            left,
            lines: &lines,
        };
        list.tasks(&panel.grid(tiling.tile.m), &tiling)
    });
    Some(lists.collect())
}

/// The largest share of any device.
pub(super) fn largest(p: &Problem, machine: &Resources, tile: &TileSize) -> Option<Largest> {
    let tile = tile.m;
    let (order, free) = tiles::extents(p);
    let shares = tiles::shares(free, machine, tile);
    let widest = shares.iter().map(|s| s.len).max()?;
    let line = split::longest(order, tile);
    let across = Largest::longest_of(shares.iter().map(|s| s.len), tile);
    // Here rows of tiles are the lines, whichever side A stands on.
    Some(Largest {
        m: order,
        n: widest,
        k: order,
        longest: [line, across, line],
        elements: order
            .saturating_mul(order)
            .saturating_add(order.saturating_mul(widest)),
        products: 1,
        triangle: true,
        ops: None,
    })
}

/// Whether the last line of B is finished first.
fn backwards(p: &Problem) -> bool {
    let left = p.form.side == Side::Left;
    let lower = (p.form.uplo == Uplo::Lower) == (p.op_a == Op::None);
    // If a lower triangle is on the left of B, a line depends on earlier lines; if it is on the right, on later ones. A
    // solution needs these lines finished, a product needs them as they were before the call.
    let on_earlier = lower == left;
    on_earlier == (p.routine == Routine::Trmm)
}

/// The lines of B in one device's panel.
struct Lines<'a> {
    p: &'a Problem,
    device: DeviceId,
    left: bool,
    /// The lines of tiles, in the order in which they are finished.
    lines: &'a [Span],
}

impl Lines<'_> {
    fn tasks(&self, across: &[Span], tiling: &Tiling) -> Vec<Task> {
        let (along_block, across_block) = (tiling.block_rows, tiling.block_cols);
        let count = self.lines.len();
        let solves = self.p.routine == Routine::Trsm;
        let mut tasks = Vec::with_capacity(count * (count + 1) / 2 * across.len());
        for tiles in across.chunks(across_block) {
            for start in (0..count).step_by(along_block) {
                let end = (start + along_block).min(count);
                if self.p.alpha.is_zero() {
                    // With a zero alpha B becomes zero, whatever A and B hold.
                    self.own(start..end, tiles, &mut tasks);
                } else if solves {
                    self.outer(start..end, 0..start, tiles, &mut tasks);
                    for i in start..end {
                        self.inner(i, start..i, tiles, &mut tasks);
                        self.own(i..i + 1, tiles, &mut tasks);
                    }
                } else {
                    for i in start..end {
                        self.own(i..i + 1, tiles, &mut tasks);
                        self.inner(i, i + 1..end, tiles, &mut tasks);
                    }
                    self.outer(start..end, end..count, tiles, &mut tasks);
                }
            }
        }
        tasks
    }

    /// Adds the products of other lines to a block of lines.
    fn outer(&self, block: Range<usize>, others: Range<usize>, tiles: &[Span], to: &mut Vec<Task>) {
        let (lines, across) = (block.len(), tiles.len());
        let order = tiles::growing(lines, across);
        let first = others.start == 0;
        for (step, &other) in self.lines[others].iter().enumerate() {
            for &(i, j) in &order {
                let line = self.lines[block.start + i];
                to.push(self.product(line, other, tiles[j], first && step == 0));
            }
        }
    }

    /// Adds the products of other lines of the same block to one line.
    fn inner(&self, i: usize, others: Range<usize>, tiles: &[Span], to: &mut Vec<Task>) {
        for s in others {
            for &tile in tiles {
                to.push(self.product(self.lines[i], self.lines[s], tile, s == 0));
            }
        }
    }

    /// Runs the routine's own kernel on tiles of lines.
    fn own(&self, block: Range<usize>, tiles: &[Span], to: &mut Vec<Task>) {
        let p = self.p;
        for i in block {
            let line = self.lines[i];
            // The first product that was subtracted from a line has multiplied it by alpha already; the first line has
            // no such product.
            let multiplied = p.routine == Routine::Trsm && i > 0 && !p.alpha.is_zero();
            for &tile in tiles {
                let (rows, cols) = self.of_b(line, tile);
                to.push(Task {
                    device: self.device,
                    kernel: Kernel {
                        m: rows.len,
                        n: cols.len,
                        k: line.len,
                        alpha: if multiplied { Value::ONE } else { p.alpha },
                        ..p.kernel()
                    },
                    parts: vec![
                        part(0, line, line, Access::Read),
                        part(1, rows, cols, Access::Update),
                    ],
                });
            }
        }
    }

    /// Adds the product of another line to a tile of a line. In a trsm the first product for a line also multiplies the
    /// line by alpha.
    fn product(&self, line: Span, other: Span, tile: Span, first: bool) -> Task {
        let p = self.p;
        let (rows, cols) = self.of_b(line, tile);
        let (other_rows, other_cols) = self.of_b(other, tile);
        let b = part(1, other_rows, other_cols, Access::Read);
        let ((op_a, op_b), a, b) = if self.left {
            let a = stored(0, p.op_a, line, other);
            ((p.op_a, Op::None), a, b)
        } else {
            let a = stored(0, p.op_a, other, line);
            ((Op::None, p.op_a), b, a)
        };
        let (alpha, beta) = match p.routine {
            Routine::Trsm if first => (MINUS_ONE, p.alpha),
            Routine::Trsm => (MINUS_ONE, Value::ONE),
            _ => (p.alpha, Value::ONE),
        };
        Task {
            device: self.device,
            kernel: Kernel {
                routine: Routine::Gemm,
                op_a,
                op_b,
                m: rows.len,
                n: cols.len,
                k: other.len,
                alpha,
                beta,
                ..p.kernel()
            },
            parts: vec![a, b, part(1, rows, cols, Access::Update)],
        }
    }

    /// The rows and columns of B that a tile of a line has.
    fn of_b(&self, line: Span, tile: Span) -> (Span, Span) {
        if self.left {
            (line, tile)
        } else {
            (tile, line)
        }
    }
}
