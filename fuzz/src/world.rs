//! The blocks that a thread of a program works on, and how operands are chosen from them.

use std::collections::HashSet;
use std::ffi::c_void;
use std::ptr;

use num_complex::Complex64;
use testkit::Rng;
use testkit::oracle::Dense;

use crate::beside::Beside;
use crate::block::{Block, Origin};
use crate::csr::Sparse;
use crate::element::Type;

/// Blocks of the first element type; the last of them lies between those of other threads.
pub(crate) const FIRST: usize = 5;
/// Blocks of both element types.
pub(crate) const ALL: usize = 8;
/// With those behind them, which have row offsets and column indices of sparse matrices.
pub(crate) const ANY: usize = 10;

/// The block that lies among other data of the program, of the first element type.
pub(crate) const BESIDE: usize = 2;

/// A matrix in a block; positions in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mat {
    pub(crate) slot: usize,
    pub(crate) off: usize,
    pub(crate) ld: usize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

/// A vector in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vect {
    pub(crate) slot: usize,
    pub(crate) off: usize,
    pub(crate) inc: i32,
    pub(crate) n: usize,
}

/// A matrix, or a vector as a matrix of one column; positions in elements of its block.
pub(crate) trait Operand: Copy {
    fn slot(&self) -> usize;
    /// The first element, as passed to a call.
    fn first(&self) -> usize;
    /// Rows and columns.
    fn shape(&self) -> (usize, usize);
    fn element(&self, i: usize, j: usize) -> usize;

    fn elements(&self) -> impl Iterator<Item = usize> + use<Self> {
        let (me, (rows, cols)) = (*self, self.shape());
        (0..cols).flat_map(move |j| (0..rows).map(move |i| me.element(i, j)))
    }

    /// Whether an output lies apart from an input.
    fn apart(&self, input: &impl Operand) -> bool {
        if self.slot() != input.slot() {
            return true;
        }
        let set: HashSet<usize> = self.elements().collect();
        !input.elements().any(|i| set.contains(&i))
    }
}

impl Operand for Mat {
    fn slot(&self) -> usize {
        self.slot
    }
    fn first(&self) -> usize {
        self.off
    }
    fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }
    fn element(&self, i: usize, j: usize) -> usize {
        self.off + j * self.ld + i
    }
}

impl Operand for Vect {
    fn slot(&self) -> usize {
        self.slot
    }
    fn first(&self) -> usize {
        self.off
    }
    fn shape(&self) -> (usize, usize) {
        (self.n, 1)
    }
    fn element(&self, i: usize, _: usize) -> usize {
        let i = if self.inc < 0 { self.n - 1 - i } else { i };
        self.off + i * usize::try_from(self.inc.unsigned_abs()).unwrap()
    }
}

/// A scalar, at some address in memory.
pub(crate) struct Scalar {
    pub(crate) value: Complex64,
    own: [f64; 2],
    at: *const u8,
}

impl Scalar {
    pub(crate) fn p(&self) -> *const c_void {
        if self.at.is_null() {
            ptr::from_ref(&self.own).cast()
        } else {
            self.at.cast()
        }
    }
}

/// A thread's blocks.
pub(crate) struct World {
    pub(crate) slots: Vec<Block>,
    /// The structure around one of them.
    pub(crate) beside: Beside,
    /// Sparse matrices in the blocks.
    pub(crate) sparse: Vec<Sparse>,
    pub(crate) rng: Rng,
    pub(crate) thread: usize,
    pub(crate) step: usize,
    /// A note of what the operation does, for those who debug a failure.
    pub(crate) note: String,
}

impl World {
    /// A group of blocks of one type: its first and how many.
    pub(crate) fn group(&mut self) -> (usize, usize) {
        if self.rng.below(ALL) < FIRST {
            (0, FIRST)
        } else {
            (FIRST, ALL - FIRST)
        }
    }

    /// The same, or the blocks of integers.
    pub(crate) fn any_group(&mut self) -> (usize, usize) {
        match self.any() {
            ALL.. => (ALL, ANY - ALL),
            _ => self.group(),
        }
    }

    /// Any block.
    pub(crate) fn any(&mut self) -> usize {
        self.rng.below(ANY)
    }

    pub(crate) fn pick(&mut self, group: (usize, usize)) -> usize {
        group.0 + self.rng.below(group.1)
    }

    /// Any block that may be freed or resized.
    pub(crate) fn own(&mut self) -> usize {
        loop {
            let slot = self.any();
            if self.slots[slot].origin != Origin::Lent {
                return slot;
            }
        }
    }

    pub(crate) fn size(&mut self) -> usize {
        match self.rng.below(40) {
            0 => 0,
            1 => 1 + self.rng.below(150),
            _ => self.rng.of(&[
                1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 90, 110, 150,
            ]),
        }
    }

    /// A place for a matrix in a block, if it fits.
    pub(crate) fn mat(&mut self, slot: usize, rows: usize, cols: usize) -> Option<Mat> {
        let (len, area) = (self.slots[slot].len, self.slots[slot].area);
        let rng = &mut self.rng;
        if let Some(a) = area {
            if rows > a.rows || cols > a.cols {
                return None;
            }
            let off = a.off
                + rng.below(a.rows - rows.max(1) + 1)
                + rng.below(a.cols - cols.max(1) + 1) * a.ld;
            return Some(Mat {
                slot,
                off,
                ld: a.ld,
                rows,
                cols,
            });
        }
        let least = rows.max(1);
        let most = if cols > 1 {
            len.checked_sub(rows)? / (cols - 1)
        } else {
            least + 5
        };
        if rows > len || most < least {
            return None;
        }
        let ld = if rng.one_in(3) {
            least
        } else {
            least + rng.below((most - least).min(40) + 1)
        };
        let used = if rows == 0 || cols == 0 {
            0
        } else {
            (cols - 1) * ld + rows
        };
        let off = if rng.one_in(3) {
            0
        } else {
            rng.below(len - used + 1)
        };
        Some(Mat {
            slot,
            off,
            ld,
            rows,
            cols,
        })
    }

    /// A place for a vector in a block, if it fits.
    pub(crate) fn vect(&mut self, slot: usize, n: usize) -> Option<Vect> {
        let (len, area) = (self.slots[slot].len, self.slots[slot].area);
        let rng = &mut self.rng;
        if let Some(a) = area {
            let (row, column) = (rng.below(a.rows), rng.below(a.cols));
            if rng.one_in(2) {
                let ld = i32::try_from(a.ld).unwrap();
                return (n <= a.cols).then(|| Vect {
                    slot,
                    off: a.off + row,
                    inc: ld,
                    n,
                });
            }
            return (n <= a.rows).then(|| Vect {
                slot,
                off: a.off + column * a.ld,
                inc: 1,
                n,
            });
        }
        let inc: i32 = rng.of(&[1, 1, 1, 2, 3, 17, -1, -2]);
        let used = if n == 0 {
            0
        } else {
            (n - 1) * usize::try_from(inc.unsigned_abs()).unwrap() + 1
        };
        (used <= len).then(|| Vect {
            slot,
            off: rng.below(len - used + 1),
            inc,
            n,
        })
    }

    /// Whether the block has room for one more element of a vector, in the direction of its increment.
    pub(crate) fn continues(&self, x: &Vect) -> bool {
        let inc = usize::try_from(x.inc.unsigned_abs()).unwrap();
        let room_before = x.off >= inc;
        let room_behind = x.off + x.n * inc < self.slots[x.slot].len;
        if x.inc < 0 { room_before } else { room_behind }
    }

    /// A place for a matrix that becomes `rows` by `cols` by `trans`.
    pub(crate) fn turned(
        &mut self,
        slot: usize,
        trans: u8,
        rows: usize,
        cols: usize,
    ) -> Option<Mat> {
        if trans == b'N' {
            self.mat(slot, rows, cols)
        } else {
            self.mat(slot, cols, rows)
        }
    }

    /// Makes operands so small that the result of the call is exact; returns whether that is possible.
    pub(crate) fn tame(&mut self, slots: &[usize], result: impl Fn(&Self) -> f64) -> bool {
        let exact = self.slots[slots[0]].ty.exact();
        for _ in 0..4 {
            if result(self) <= exact {
                return true;
            }
            let largest =
                |a: &&usize, b: &&usize| self.slots[**a].bound.total_cmp(&self.slots[**b].bound);
            let &slot = slots.iter().max_by(largest).unwrap();
            self.slots[slot].reduce();
        }
        result(self) <= exact
    }

    /// A scalar; real ones have no imaginary part. It may lie in a block other than those of `not`.
    pub(crate) fn scalar(&mut self, ty: Type, real: bool, zero: bool, not: &[usize]) -> Scalar {
        if ty.complex() != real && self.rng.one_in(6) {
            let slot = self.rng.below(ALL);
            let b = &self.slots[slot];
            // Beside a factor in quarters, other numbers than integers may be there.
            let whole = b.bound.is_finite();
            if b.ty == ty && whole && b.area.is_none() && !not.contains(&slot) {
                let i = self.rng.below(b.len);
                let value = b.get(i);
                if value.re.abs().max(value.im.abs()) <= 3.0 && (zero || value != Complex64::ZERO) {
                    return Scalar {
                        value,
                        own: [0.0; 2],
                        at: b.addr(i),
                    };
                }
            }
        }
        let re = self.rng.of(if zero {
            &[0.0, 1.0, 1.0, -1.0, 2.0, 3.0]
        } else {
            &[1.0, 1.0, 1.0, -1.0, 2.0, 3.0]
        });
        let im = if ty.complex() && !real {
            self.rng.of(&[0.0, 0.0, 1.0, -2.0])
        } else {
            0.0
        };
        let value = Complex64::new(re, im);
        let mut bytes = [0u8; 16];
        ty.store(&mut bytes, value);
        let half = |b: &[u8]| f64::from_ne_bytes(b.try_into().unwrap());
        Scalar {
            value,
            own: [half(&bytes[..8]), half(&bytes[8..])],
            at: ptr::null(),
        }
    }

    /// alpha and beta of any kind.
    pub(crate) fn scalars(&mut self, ty: Type, not: &[usize]) -> (Scalar, Scalar) {
        (
            self.scalar(ty, false, true, not),
            self.scalar(ty, false, true, not),
        )
    }

    pub(crate) fn dense(&self, m: &impl Operand) -> Dense {
        let (b, (rows, cols)) = (&self.slots[m.slot()], m.shape());
        Dense::of(rows, cols, |i, j| b.get(m.element(i, j)))
    }

    /// Computes the result of a call on the shadow, and its bound; `keep` leaves elements as they are.
    pub(crate) fn put(
        &mut self,
        m: &impl Operand,
        d: &Dense,
        bound: f64,
        keep: impl Fn(usize, usize) -> bool,
    ) {
        let (rows, cols) = m.shape();
        for j in 0..cols {
            for i in 0..rows {
                if !keep(i, j) {
                    self.slots[m.slot()].set(m.element(i, j), d.at(i, j));
                }
            }
        }
        self.raise(m.slot(), bound);
    }

    /// The same for all elements.
    pub(crate) fn put_all(&mut self, m: &impl Operand, d: &Dense, bound: f64) {
        self.put(m, d, bound, |_, _| false);
    }

    /// The same for one triangle, with a real diagonal if the matrix is Hermitian.
    pub(crate) fn put_triangle(
        &mut self,
        m: &Mat,
        mut d: Dense,
        bound: f64,
        uplo: u8,
        hermitian: bool,
    ) {
        for i in 0..if hermitian { d.rows } else { 0 } {
            d.at_mut(i, i).im = 0.0;
        }
        self.put(m, &d, bound, |i, j| i != j && (uplo == b'U') != (i < j));
    }

    /// An operand's address.
    pub(crate) fn p(&self, m: &impl Operand) -> *const c_void {
        self.slots[m.slot()].addr(m.first()).cast()
    }

    pub(crate) fn bound(&self, slot: usize) -> f64 {
        self.slots[slot].bound
    }

    pub(crate) fn raise(&mut self, slot: usize, bound: f64) {
        let b = &mut self.slots[slot].bound;
        *b = b.max(bound);
    }

    pub(crate) fn ty(&self, slot: usize) -> Type {
        self.slots[slot].ty
    }

    /// Compares a result at once now and then.
    pub(crate) fn sometimes_check(&mut self, slot: usize) {
        let what = format!("after {}", self.note);
        match self.rng.below(6) {
            0 => self.slots[slot].check_all(&what),
            1 => {
                let (from, n) = self.slots[slot].span(&mut self.rng);
                self.slots[slot].check(from, n, &what);
            }
            _ => {}
        }
    }
}
