//! Plans of matrix-vector routines that use one triangle of the matrix (symv, trmv, trsv, syr and their relatives): on
//! one device, with one kernel if its memory holds the operands. A device that holds the matrix does them in one pass;
//! more devices would have to exchange vectors, and no machine gains from that.
//!
//! A matrix that does not fit passes through the device in square tiles, the vectors in pieces of the same length. The
//! tiles on the diagonal go to the routine's own kernel, each tile beside it to gemv or ger, as a rectangle of a matrix
//! that is neither symmetric nor triangular:
//!
//! * symv, hemv: `y_i += alpha A_is x_s` and, with the same tile, `y_s += alpha A_is^T x_i` (`^H` for hemv).
//! * trmv: `x_i := op(A)_ii x_i`, then `x_i += op(A)_is x_s` with pieces of x that are not overwritten yet.
//! * trsv: `x_i -= op(A)_is x_s` with pieces that are solved, then `x_i := op(A)_ii^-1 x_i`.
//! * syr, her, syr2, her2: `A_is += alpha x_i x_s^T` or `x_i x_s^H`; with two vectors one more such update of the tile.

use super::level2::{matrix, vector, within};
use super::problem::{Access, Operand, Part, Problem, Task};
use super::resources::{MOST_TASKS, Resources};
use super::split::Span;
use crate::base::kernel::Kernel;
use crate::base::{Op, Routine, Uplo, Value};

/// The share (1/`TILE_SHARE`) of the memory that a task uses at most. If not all operands fit, each part of an operand that
/// is on the device takes as much memory as the largest part. Eight of these are a tile with the four pieces of vectors that
/// symv reads and writes for it, and the next tile of the same line, which needs two other pieces.
const TILE_SHARE: usize = 8;

/// The tasks of symv, hemv, trmv, trsv, syr, her, syr2 or her2, all for the preferred device: one if nine tenths of the
/// memory hold the operands. `None` if the memory is so small that there would be more than `MOST_TASKS`.
pub(super) fn lower(p: &Problem, machine: &Resources) -> Option<Vec<Vec<Task>>> {
    if p.n == 0 {
        return Some(Vec::new());
    }
    let tile = if fits(p, machine) {
        p.n
    } else {
        tile(p, machine)?
    };
    let mut lines = within(Span::all(p.n), tile);
    if backwards(p) {
        lines.reverse();
    }
    let tiles = Tiles { p, machine };
    let mut list = Vec::new();
    for (i, &line) in lines.iter().enumerate() {
        match p.routine {
            Routine::Trmv => {
                list.push(tiles.own(line));
                list.extend(lines[i + 1..].iter().map(|&s| tiles.product(line, s)));
            }
            Routine::Trsv => {
                list.extend(lines[..i].iter().map(|&s| tiles.product(line, s)));
                list.push(tiles.own(line));
            }
            // The kernel on the diagonal comes first: that of symv multiplies y_i by beta.
            _ => {
                list.push(tiles.own(line));
                for &other in &lines[..i] {
                    tiles.beside(line, other, &mut list);
                }
            }
        }
    }
    Some(vec![list])
}

/// Whether nine tenths of the memory hold the operands.
fn fits(p: &Problem, machine: &Resources) -> bool {
    let elements = |o: &Operand| o.rows.saturating_mul(o.cols);
    let all = p.operands.iter().map(elements);
    let all = all.fold(0, usize::saturating_add);
    all.saturating_mul(p.dtype.size()) <= machine.memory - machine.memory / 10
}

/// The number of rows of each tile but the last ones: as many as the memory allows, or fewer, so that all lines of tiles
/// have about as many.
fn tile(p: &Problem, machine: &Resources) -> Option<usize> {
    // A task has a tile of t x t elements and at most two pieces of t: (t + 1)^2 - 1 elements.
    let most = (machine.memory / TILE_SHARE / p.dtype.size()).saturating_add(1);
    let tile = most.isqrt() - 1;
    if tile == 0 {
        return None;
    }
    let lines = p.n.div_ceil(tile);
    // Each pair of lines has a tile, of one or two tiles.
    (lines.saturating_mul(lines) <= MOST_TASKS).then(|| p.n.div_ceil(lines))
}

/// Whether the last line of tiles is the first to be finished: the pieces of x that a line of op(A) needs belong to earlier
/// lines if op(A) is a lower triangle. A solution needs them finished, a product needs them as they were before the call.
fn backwards(p: &Problem) -> bool {
    let lower = (p.form.uplo == Uplo::Lower) == (p.op_a == Op::None);
    match p.routine {
        Routine::Trmv => lower,
        Routine::Trsv => !lower,
        _ => false,
    }
}

/// The tiles of one call.
struct Tiles<'a> {
    p: &'a Problem,
    machine: &'a Resources,
}

impl Tiles<'_> {
    /// The routine's own kernel on the tile on the diagonal.
    fn own(&self, line: Span) -> Task {
        let p = self.p;
        let part = |(i, o): (usize, &Operand)| {
            if o.vector {
                vector(o, i, line, p.access(i))
            } else {
                matrix(i, line, line, p.access(i))
            }
        };
        let parts = p.operands.iter().enumerate().map(part).collect();
        self.task(self.kernel(p.routine, line, line), parts)
    }

    /// Adds the tasks of symv and of the updates for the stored tile of two lines.
    fn beside(&self, line: Span, other: Span, list: &mut Vec<Task>) {
        let p = self.p;
        let (rows, cols) = match p.form.uplo {
            Uplo::Lower => (line, other),
            Uplo::Upper => (other, line),
        };
        let hermitian = p.routine.hermitian();
        let conj = |v: Value| match hermitian {
            true => Value { im: -v.im, ..v },
            false => v,
        };
        match p.routine {
            Routine::Symv | Routine::Hemv => {
                let turned = if hermitian { Op::ConjTrans } else { Op::Trans };
                list.push(self.gemv(Op::None, (rows, cols), (1, 2), p.alpha));
                list.push(self.gemv(turned, (rows, cols), (1, 2), p.alpha));
            }
            Routine::Syr | Routine::Her => {
                list.push(self.ger((rows, cols), (0, 0), p.alpha));
            }
            _ => {
                list.push(self.ger((rows, cols), (0, 1), p.alpha));
                list.push(self.ger((rows, cols), (1, 0), conj(p.alpha)));
            }
        }
    }

    /// `x_i += op(A)_is x_s` for trmv, `x_i -= op(A)_is x_s` for trsv, where `line` is i and `other` is s.
    fn product(&self, line: Span, other: Span) -> Task {
        let p = self.p;
        let tile = match p.op_a {
            Op::None => (line, other),
            Op::Trans | Op::ConjTrans => (other, line),
        };
        let re = if p.routine == Routine::Trmv {
            1.0
        } else {
            -1.0
        };
        self.gemv(p.op_a, tile, (1, 1), Value { re, im: 0.0 })
    }

    /// Adds `alpha op(A) x` to y with a tile of the stored triangle; `x` and `y` are operands of the call.
    fn gemv(
        &self,
        op_a: Op,
        (rows, cols): (Span, Span),
        (x, y): (usize, usize),
        alpha: Value,
    ) -> Task {
        let p = self.p;
        let (summed, kept) = match op_a {
            Op::None => (cols, rows),
            Op::Trans | Op::ConjTrans => (rows, cols),
        };
        let kernel = Kernel {
            op_a,
            alpha,
            beta: Value::ONE,
            ..self.kernel(Routine::Gemv, rows, cols)
        };
        let parts = vec![
            matrix(0, rows, cols, Access::Read),
            vector(&p.operands[x], x, summed, Access::Read),
            vector(&p.operands[y], y, kept, Access::Update),
        ];
        self.task(kernel, parts)
    }

    /// Adds `alpha x y^T`, or `alpha x y^H` if the matrix is Hermitian, to a tile of the stored triangle; `x` and `y` are
    /// operands of the call.
    fn ger(&self, (rows, cols): (Span, Span), (x, y): (usize, usize), alpha: Value) -> Task {
        let p = self.p;
        let routine = match p.routine.hermitian() {
            true => Routine::Gerc,
            false => Routine::Ger,
        };
        let kernel = Kernel {
            alpha,
            ..self.kernel(routine, rows, cols)
        };
        let parts = vec![
            vector(&p.operands[x], x, rows, Access::Read),
            vector(&p.operands[y], y, cols, Access::Read),
            matrix(p.operands.len() - 1, rows, cols, Access::Update),
        ];
        self.task(kernel, parts)
    }

    fn kernel(&self, routine: Routine, rows: Span, cols: Span) -> Kernel {
        Kernel {
            routine,
            m: rows.len,
            n: cols.len,
            ..self.p.kernel()
        }
    }

    fn task(&self, kernel: Kernel, parts: Vec<Part>) -> Task {
        Task {
            device: self.machine.prefer,
            kernel,
            parts,
        }
    }
}
