//! Work of a call or a tile: routine, element type and sizes, from which its time is predicted.

use super::dtype::Dtype;
use super::routine::{Op, Routine, Side, Sizes, Slot, Usage};

/// A matrix product uses no further device for a panel with fewer rows or columns than this.
pub const LEAST_PANEL: usize = 256;

/// A level-2 routine uses one more device for each of these bytes of its matrix: a device costs a launch and a copy of
/// the vector, tens of microseconds, the time in which a large GPU reads that many bytes from its memory.
pub const GRAIN: usize = 32 << 20;

/// The share of a link's rate that copies of matrices from and to page-locked memory reach, by the length of the columns that
/// are copied: 4, 8, 16, 32 and 64 KiB.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RunShares(pub [f64; 5]);

impl RunShares {
    /// The full rate, whatever the length.
    pub const ALL: RunShares = RunShares([1.0; 5]);

    /// The share for columns of this length; between the known lengths it is interpolated.
    #[must_use]
    pub fn of(&self, bytes: usize) -> f64 {
        let octave = ((bytes.max(1) as f64).log2() - 12.0).clamp(0.0, 4.0);
        let low = octave.floor();
        let at = low as usize;
        let (a, b) = (self.0[at], self.0[(at + 1).min(4)]);
        a + (b - a) * (octave - low)
    }
}

/// Routine, element type and sizes; `m`, `n`, `k` as in a plan's problem (`n = k = 1` for a vector).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(
    missing_docs,
    reason = "the sizes carry the names of the BLAS arguments"
)]
pub struct Work {
    /// The routine.
    pub routine: Routine,
    /// The side of the product on which the symmetric or triangular matrix stands, for level-3 routines that have one.
    pub side: Side,
    /// Element type.
    pub dtype: Dtype,
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

impl Work {
    /// A matrix product.
    #[must_use]
    pub const fn gemm(dtype: Dtype, m: usize, n: usize, k: usize) -> Work {
        Work {
            routine: Routine::Gemm,
            side: Side::Left,
            dtype,
            m,
            n,
            k,
        }
    }

    /// Whether the routine is of level 3: a product of matrices, which is cut into tiles.
    #[must_use]
    pub fn is_level3(&self) -> bool {
        self.routine.level() == 3
    }

    /// Multiply-adds of a kernel whose time tells the pace of its device: a large product in double precision, which all devices of
    /// a kind compute at one rate. Of other kernels 0.
    #[must_use]
    pub fn paces(&self) -> usize {
        const LEAST: usize = 1024;
        let large = self.m.min(self.n).min(self.k) >= LEAST;
        if self.routine == Routine::Gemm && self.dtype == Dtype::D && large {
            self.m.saturating_mul(self.n).saturating_mul(self.k)
        } else {
            0
        }
    }

    /// Floating point operations on real numbers.
    #[must_use]
    pub fn flops(&self) -> f64 {
        let (m, n, k) = (self.m as f64, self.n as f64, self.k as f64);
        f64::from(self.routine.record().flops) * m * n * k * self.dtype.flop_factor()
    }

    /// Bytes that a kernel moves between device memory and its cores if it reads each operand once (of a triangle half
    /// of the square) and writes each result once.
    #[must_use]
    pub fn traffic(&self) -> f64 {
        let sizes = Sizes {
            m: self.m,
            // The inputs of an update of a triangle have as many rows as the tile of the output.
            n: if self.routine.writes_triangle() {
                self.m
            } else {
                self.n
            },
            k: self.k,
            op_a: Op::None,
            op_b: Op::None,
        };
        let elements = |slot: &Slot| {
            let (rows, cols) = slot.extent.stored(&sizes);
            let used = match (slot.extent.is_triangle(), slot.usage) {
                (false, _) => rows as f64 * cols as f64,
                (true, Usage::Read) => rows as f64 * cols as f64 / 2.0,
                // A tile of the triangle counts as if half of it were inside the triangle.
                (true, _) => self.m as f64 * self.n as f64 / 2.0,
            };
            match slot.usage {
                Usage::Read | Usage::Overwrite => used,
                Usage::Update | Usage::Accumulate | Usage::Multiply => 2.0 * used,
            }
        };
        let elements: f64 = self.routine.operands().iter().map(elements).sum();
        elements * self.dtype.size() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        let w = Work::gemm(Dtype::D, 2, 3, 4);
        assert_eq!((w.flops(), w.traffic()), (48.0, 8.0 * (8.0 + 12.0 + 12.0)));
        let z = Work {
            dtype: Dtype::Z,
            ..w
        };
        assert_eq!(z.flops(), 192.0);
        let of = |routine| Work { routine, ..w };
        assert_eq!(of(Routine::Symm).flops(), w.flops());
        assert_eq!(of(Routine::Syr2k).flops(), w.flops());
        for routine in [Routine::Syrk, Routine::Trmm] {
            assert_eq!(of(routine).flops(), w.flops() / 2.0);
            assert!(of(routine).traffic() < w.traffic());
        }
        // The tile of the output is two by three, and half of it is updated.
        assert_eq!(of(Routine::Syrk).traffic(), 8.0 * (2.0 * 4.0 + 2.0 * 3.0));
        let v = Work {
            routine: Routine::Gemv,
            k: 1,
            ..w
        };
        assert_eq!((v.flops(), v.traffic()), (12.0, 8.0 * (6.0 + 3.0 + 4.0)));
        let half = |routine| Work {
            routine,
            n: 3,
            ..Work { m: 3, ..v }
        };
        assert_eq!(half(Routine::Symv).flops(), 18.0);
        assert_eq!(half(Routine::Trsv).flops(), 9.0);
        let (one, two) = (half(Routine::Syr), half(Routine::Syr2));
        assert_eq!((one.flops(), one.traffic()), (9.0, 96.0));
        assert_eq!((two.flops(), two.traffic()), (18.0, 120.0));
        let axpy = Work {
            routine: Routine::Axpy,
            dtype: Dtype::S,
            m: 5,
            n: 1,
            ..v
        };
        assert_eq!((axpy.flops(), axpy.traffic()), (10.0, 60.0));
    }
}
