//! The amount of work in a call or a tile, as far as its cost depends on it.

use crate::base::Dtype;

/// A panel of a matrix product with fewer rows or columns than this is not worth a device of its own.
pub const LEAST_PANEL: usize = 256;

/// Bytes of the matrix of a level-2 routine that are worth one more device: that costs a launch and a
/// copy of the vector, tens of microseconds, in which the memory of a large GPU delivers so much.
pub const GRAIN: usize = 32 << 20;

/// Routine families of equal cost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// `C := alpha op(A) op(B) + beta C`
    Gemm,
    /// The same with a symmetric matrix of which one triangle is stored: A of order `k`, first, or second factor.
    Symm {
        /// A stands on the right.
        right: bool,
    },
    /// The update of one triangle of C, of order `m = n`: syrk, herk, syr2k, her2k.
    RankK {
        /// One or two.
        inputs: u8,
    },
    /// trmm and trsm: B, `m` x `n`, in place; A, of order `k`, is a triangle.
    Triangular {
        /// A stands on the right.
        right: bool,
    },
    /// `y := alpha op(A) x + beta y`
    Gemv,
    /// `A := A + alpha x y^T`
    Ger,
    /// `y := alpha A x + beta y` with a symmetric matrix of which one triangle is stored.
    Symv,
    /// `x := op(A) x` with a triangle, or its inverse.
    Trmv {
        /// The inverse: an element of x depends on those before it.
        solves: bool,
    },
    /// The update of one triangle by a product of vectors: syr, her, syr2, her2.
    Syr {
        /// One or two.
        vectors: u8,
    },
    /// Vector routines.
    Vector {
        /// Vectors read, plus vectors written.
        passes: u8,
        /// Floating point operations per element.
        flops: u8,
    },
}

impl Kind {
    /// Whether it is a product of matrices, which is cut into tiles.
    #[must_use]
    pub const fn is_level3(self) -> bool {
        matches!(
            self,
            Kind::Gemm | Kind::Symm { .. } | Kind::RankK { .. } | Kind::Triangular { .. }
        )
    }
}

/// Kind, element type and sizes; `m`, `n`, `k` as in a plan's problem (`n = k = 1` of a vector).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(
    missing_docs,
    reason = "the sizes carry the names of the BLAS arguments"
)]
pub struct Work {
    /// The routine family.
    pub kind: Kind,
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
            kind: Kind::Gemm,
            dtype,
            m,
            n,
            k,
        }
    }

    /// Whether a vector operation leaves one number: dot, nrm2, asum, iamax.
    #[must_use]
    pub const fn reduces(&self) -> bool {
        matches!(
            self.kind,
            Kind::Vector { passes: 1, .. }
                | Kind::Vector {
                    passes: 2,
                    flops: 2
                }
        )
    }

    /// Floating point operations, in real ones.
    #[must_use]
    pub fn flops(&self) -> f64 {
        let (m, n, k) = (self.m as f64, self.n as f64, self.k as f64);
        let real = match self.kind {
            Kind::Gemm | Kind::Symm { .. } => 2.0 * m * n * k,
            Kind::RankK { inputs } => f64::from(inputs) * m * n * k,
            Kind::Triangular { .. } => m * n * k,
            Kind::Gemv | Kind::Ger | Kind::Symv => 2.0 * m * n,
            Kind::Trmv { .. } => m * n,
            Kind::Syr { vectors } => f64::from(vectors) * m * n,
            Kind::Vector { flops, .. } => f64::from(flops) * m,
        };
        real * self.dtype.flop_factor()
    }

    /// Bytes that a kernel moves between its memory and its cores when it reads each input and writes each
    /// output once.
    #[must_use]
    pub fn traffic(&self) -> f64 {
        let (m, n, k) = (self.m as f64, self.n as f64, self.k as f64);
        let elements = match self.kind {
            Kind::Gemm => m * k + k * n + 2.0 * m * n,
            Kind::Symm { .. } => k * k / 2.0 + 3.0 * m * n,
            // Half of C is read, and written.
            Kind::RankK { inputs } => f64::from(inputs) * m * k + m * n,
            Kind::Triangular { .. } => k * k / 2.0 + 2.0 * m * n,
            Kind::Gemv => m * n + m + n,
            Kind::Ger => 2.0 * m * n + m + n,
            Kind::Symv => m * n / 2.0 + 3.0 * n,
            Kind::Trmv { .. } => m * n / 2.0 + 2.0 * n,
            // Half of A is read, and written.
            Kind::Syr { vectors } => m * n + f64::from(vectors) * n,
            Kind::Vector { passes, .. } => f64::from(passes) * m,
        };
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
        let of = |kind| Work { kind, ..w };
        assert_eq!(of(Kind::Symm { right: true }).flops(), w.flops());
        assert_eq!(of(Kind::RankK { inputs: 2 }).flops(), w.flops());
        let halves = [Kind::RankK { inputs: 1 }, Kind::Triangular { right: false }];
        for kind in halves {
            assert_eq!(of(kind).flops(), w.flops() / 2.0);
            assert!(of(kind).traffic() < w.traffic());
        }
        let v = Work {
            kind: Kind::Gemv,
            k: 1,
            ..w
        };
        assert_eq!((v.flops(), v.traffic()), (12.0, 88.0));
        let half = |kind| Work {
            kind,
            n: 3,
            ..Work { m: 3, ..v }
        };
        assert_eq!(half(Kind::Symv).flops(), 18.0);
        assert_eq!(half(Kind::Trmv { solves: true }).flops(), 9.0);
        let (one, two) = (
            half(Kind::Syr { vectors: 1 }),
            half(Kind::Syr { vectors: 2 }),
        );
        assert_eq!((one.flops(), one.traffic()), (9.0, 96.0));
        assert_eq!((two.flops(), two.traffic()), (18.0, 120.0));
        let axpy = Work {
            kind: Kind::Vector {
                passes: 3,
                flops: 2,
            },
            dtype: Dtype::S,
            m: 5,
            n: 1,
            k: 1,
        };
        assert_eq!((axpy.flops(), axpy.traffic()), (10.0, 60.0));
    }
}
