//! The BLAS routines that devices run, in one table. [`Routine::record`] gives the names of a routine, its arguments,
//! and for each operand its rows and columns and whether it is read or written. The shim reads the arguments of a call
//! in this order, `blas::args` checks them, `device::api` computes which memory a kernel touches, and `model` predicts
//! its time, all from this table.

mod flags;
mod record;

pub use flags::{Diag, Form, Op, Side, Uplo};
pub use record::{ByRows, Cut, Dim, Extent, Flag, Number, Record, Signature, Sizes, Slot, Usage};

use super::{Dtype, Solver};

use Dim::{K, M, N};
use Extent::{Columns, Matrix, OpA, OpB, Rows, Triangle, Vector};
use Flag::{Diag as DIAG, Order, Side as SIDE, TransA, TransB, Uplo as UPLO};
use Number::{Absent, Element, Real};
use Usage::{Accumulate, Multiply, Overwrite, Update};

const fn read(extent: Extent) -> Slot {
    slot(extent, Usage::Read)
}

const fn slot(extent: Extent, usage: Usage) -> Slot {
    Slot { extent, usage }
}

const fn signature(
    (cut, by_rows): (Cut, ByRows),
    flags: &'static [Flag],
    sizes: &'static [Dim],
    operands: &'static [Slot],
) -> Signature {
    Signature {
        flags,
        sizes,
        operands,
        cut,
        by_rows,
        most_order: usize::MAX,
    }
}

const GEMM: Signature = signature(
    (Cut::Product, ByRows::Exchanged),
    &[TransA, TransB],
    &[M, N, K],
    &[
        read(OpA(M, K)),
        read(OpB(K, N)),
        slot(Matrix(M, N), Accumulate),
    ],
);
const SYMM: Signature = signature(
    (Cut::Symmetric, ByRows::Same),
    &[SIDE, UPLO],
    &[M, N],
    &[
        read(Triangle(K)),
        read(Matrix(M, N)),
        slot(Matrix(M, N), Accumulate),
    ],
);
const SYRK: Signature = signature(
    (Cut::RankK, ByRows::Other),
    &[UPLO, TransA],
    &[N, K],
    &[read(OpA(N, K)), slot(Triangle(N), Accumulate)],
);
const SYR2K: Signature = signature(
    (Cut::RankK, ByRows::Other),
    &[UPLO, TransA],
    &[N, K],
    &[
        read(OpA(N, K)),
        read(OpA(N, K)),
        slot(Triangle(N), Accumulate),
    ],
);
const GEMMT: Signature = Signature {
    most_order: 1024,
    ..signature(
        (Cut::RankK, ByRows::Exchanged),
        &[UPLO, TransA, TransB],
        &[N, K],
        &[
            read(OpA(N, K)),
            read(OpB(K, N)),
            slot(Triangle(N), Accumulate),
        ],
    )
};
const TRMM: Signature = signature(
    (Cut::Triangular, ByRows::Same),
    &[SIDE, UPLO, TransA, DIAG],
    &[M, N],
    &[read(Triangle(K)), slot(Matrix(M, N), Multiply)],
);
const GEMV: Signature = signature(
    (Cut::PartsOfVector, ByRows::Turned),
    &[TransA],
    &[M, N],
    &[read(Matrix(M, N)), read(Columns), slot(Rows, Accumulate)],
);
const GER: Signature = signature(
    (Cut::Panels, ByRows::Exchanged),
    &[],
    &[M, N],
    &[read(Vector(M)), read(Vector(N)), slot(Matrix(M, N), Update)],
);
const SYMV: Signature = signature(
    (Cut::Whole, ByRows::Same),
    &[UPLO],
    &[N],
    &[
        read(Triangle(N)),
        read(Vector(N)),
        slot(Vector(N), Accumulate),
    ],
);
const TRMV: Signature = signature(
    (Cut::Whole, ByRows::Turned),
    &[UPLO, TransA, DIAG],
    &[N],
    &[read(Triangle(N)), slot(Vector(N), Update)],
);
const SYR: Signature = signature(
    (Cut::Whole, ByRows::Same),
    &[UPLO],
    &[N],
    &[read(Vector(N)), slot(Triangle(N), Update)],
);
const SYR2: Signature = signature(
    (Cut::Whole, ByRows::Same),
    &[UPLO],
    &[N],
    &[read(Vector(N)), read(Vector(N)), slot(Triangle(N), Update)],
);
const GEADD: Signature = signature(
    (Cut::Matrices, ByRows::Same),
    &[],
    &[M, N],
    &[read(Matrix(M, N)), slot(Matrix(M, N), Accumulate)],
);
const OMATCOPY: Signature = signature(
    (Cut::Matrices, ByRows::Same),
    &[Order, TransA],
    &[M, N],
    // B = op(A) is of such a shape that op(B) has that of A.
    &[read(Matrix(M, N)), slot(OpA(M, N), Overwrite)],
);
const IMATCOPY: Signature = signature(
    (Cut::Matrices, ByRows::Same),
    &[Order, TransA],
    &[M, N],
    &[slot(Matrix(M, N), Multiply)],
);
const AXPBY: Signature = signature(
    (Cut::Vectors, ByRows::Same),
    &[],
    &[M],
    &[read(Vector(M)), slot(Vector(M), Accumulate)],
);
const AXPY: Signature = signature(
    (Cut::Vectors, ByRows::Same),
    &[],
    &[M],
    &[read(Vector(M)), slot(Vector(M), Update)],
);
const SCAL: Signature = signature(
    (Cut::Vectors, ByRows::Same),
    &[],
    &[M],
    &[slot(Vector(M), Update)],
);
const COPY: Signature = signature(
    (Cut::Vectors, ByRows::Same),
    &[],
    &[M],
    &[read(Vector(M)), slot(Vector(M), Overwrite)],
);
const SWAP: Signature = signature(
    (Cut::Vectors, ByRows::Same),
    &[],
    &[M],
    &[slot(Vector(M), Update), slot(Vector(M), Update)],
);
const DOT: Signature = signature(
    (Cut::Value, ByRows::Same),
    &[],
    &[M],
    &[read(Vector(M)), read(Vector(M))],
);
const NRM2: Signature = signature((Cut::Value, ByRows::Same), &[], &[M], &[read(Vector(M))]);

/// The number of routines, and drivers of LAPACK, in all element types: of the indices of tables with an entry for each.
pub const MAX_ROUTINES: usize = (Routine::ALL.len() + Solver::ALL.len()) * Dtype::ALL.len();

/// Makes the enumeration and its records from one table. A line has: the variant, the BLAS level, the floating point
/// operations divided by `m n k`, the plain names by element type (a type that has no such routine has the name of the
/// routine that computes the same), the arguments, and the scalars alpha and beta.
macro_rules! routines {
    ($($(#[$doc:meta])* $variant:ident: $level:literal, $flops:literal, $names:expr, $signature:expr, $alpha:expr, $beta:expr;)*) => {
        /// The routines that can run on devices, and what they compute: their operands are A, B and C, or x and y, in
        /// the order of [`Routine::operands`]. One variant per operation; the element type is data.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Routine {
            $($(#[$doc])* $variant,)*
        }

        impl Routine {
            /// Every routine, in the order of the variants.
            pub const ALL: &[Routine] = &[$(Routine::$variant,)*];

            /// The record of the routine: its names, arguments, operands and work.
            #[must_use]
            pub const fn record(self) -> &'static Record {
                match self {
                    $(Routine::$variant => const {
                        &Record {
                            level: $level,
                            flops: $flops,
                            names: $names,
                            signature: $signature,
                            alpha: $alpha,
                            beta: $beta,
                        }
                    },)*
                }
            }
        }
    };
}

routines! {
    /// `C := alpha op(A) op(B) + beta C`
    Gemm: 3, 2, ["sgemm", "dgemm", "cgemm", "zgemm"], GEMM, Element, Element;
    /// `C := alpha A B + beta C` (left) or `alpha B A + beta C` (right), A symmetric
    Symm: 3, 2, ["ssymm", "dsymm", "csymm", "zsymm"], SYMM, Element, Element;
    /// As symm, A Hermitian: the imaginary parts on its diagonal are taken as zero.
    Hemm: 3, 2, ["ssymm", "dsymm", "chemm", "zhemm"], SYMM, Element, Element;
    /// `C := alpha op(A) op(A)^T + beta C`, C symmetric
    Syrk: 3, 1, ["ssyrk", "dsyrk", "csyrk", "zsyrk"], SYRK, Element, Element;
    /// `C := alpha op(A) op(A)^H + beta C`, C Hermitian: alpha and beta are real, and the diagonal of C becomes real.
    /// `op_a` is not `Trans`.
    Herk: 3, 1, ["ssyrk", "dsyrk", "cherk", "zherk"], SYRK, Real, Real;
    /// `C := alpha op(A) op(B)^T + alpha op(B) op(A)^T + beta C`, C symmetric, with `op_a` for both
    Syr2k: 3, 2, ["ssyr2k", "dsyr2k", "csyr2k", "zsyr2k"], SYR2K, Element, Element;
    /// `C := alpha op(A) op(B)^H + conj(alpha) op(B) op(A)^H + beta C`, C Hermitian: beta is real, and the diagonal of
    /// C becomes real.
    Her2k: 3, 2, ["ssyr2k", "dsyr2k", "cher2k", "zher2k"], SYR2K, Element, Real;
    /// `B := alpha op(A) B` (left) or `alpha B op(A)` (right), A triangular
    Trmm: 3, 1, ["strmm", "dtrmm", "ctrmm", "ztrmm"], TRMM, Element, Absent;
    /// As trmm, with `op(A)^-1`.
    Trsm: 3, 1, ["strsm", "dtrsm", "ctrsm", "ztrsm"], TRMM, Element, Absent;
    /// One triangle of `C := alpha op(A) op(B) + beta C`. Also called gemmtr.
    Gemmt: 3, 1, ["sgemmt", "dgemmt", "cgemmt", "zgemmt"], GEMMT, Element, Element;
    /// Several gemms in one call. A plan never contains it: each product is planned as one `Gemm`.
    GemmBatch: 3, 2, ["sgemm_batch", "dgemm_batch", "cgemm_batch", "zgemm_batch"], GEMM, Element, Element;
    /// `y := alpha op(A) x + beta y`
    Gemv: 2, 2, ["sgemv", "dgemv", "cgemv", "zgemv"], GEMV, Element, Element;
    /// `A := A + alpha x y^T` (`ger` and `geru`)
    Ger: 2, 2, ["sger", "dger", "cgeru", "zgeru"], GER, Element, Absent;
    /// `A := A + alpha x y^H`
    Gerc: 2, 2, ["sger", "dger", "cgerc", "zgerc"], GER, Element, Absent;
    /// `y := alpha A x + beta y`, A symmetric
    Symv: 2, 2, ["ssymv", "dsymv", "csymv", "zsymv"], SYMV, Element, Element;
    /// As symv, A Hermitian: the imaginary parts on its diagonal are taken as zero.
    Hemv: 2, 2, ["ssymv", "dsymv", "chemv", "zhemv"], SYMV, Element, Element;
    /// `x := op(A) x`, A triangular
    Trmv: 2, 1, ["strmv", "dtrmv", "ctrmv", "ztrmv"], TRMV, Absent, Absent;
    /// As trmv, with `op(A)^-1`.
    Trsv: 2, 1, ["strsv", "dtrsv", "ctrsv", "ztrsv"], TRMV, Absent, Absent;
    /// `A := A + alpha x x^T`, A symmetric
    Syr: 2, 1, ["ssyr", "dsyr", "csyr", "zsyr"], SYR, Element, Absent;
    /// `A := A + alpha x x^H`, A Hermitian: alpha is real, and the diagonal of A becomes real.
    Her: 2, 1, ["ssyr", "dsyr", "cher", "zher"], SYR, Real, Absent;
    /// `A := A + alpha x y^T + alpha y x^T`, A symmetric
    Syr2: 2, 2, ["ssyr2", "dsyr2", "csyr2", "zsyr2"], SYR2, Element, Absent;
    /// `A := A + alpha x y^H + conj(alpha) y x^H`, A Hermitian: the diagonal of A becomes real.
    Her2: 2, 2, ["ssyr2", "dsyr2", "cher2", "zher2"], SYR2, Element, Absent;
    /// `C := alpha A + beta C`
    Geadd: 2, 3, ["sgeadd", "dgeadd", "cgeadd", "zgeadd"], GEADD, Element, Element;
    /// `B := alpha op(A)`
    Omatcopy: 2, 1, ["somatcopy", "domatcopy", "comatcopy", "zomatcopy"], OMATCOPY, Element, Absent;
    /// `A := alpha op(A)`. The BLAS has a second leading dimension, that of the result, which must be that of A here,
    /// and A must be square if it is transposed.
    Imatcopy: 2, 1, ["simatcopy", "dimatcopy", "cimatcopy", "zimatcopy"], IMATCOPY, Element, Absent;
    /// `y := y + alpha x`
    Axpy: 1, 2, ["saxpy", "daxpy", "caxpy", "zaxpy"], AXPY, Element, Absent;
    /// `y := alpha x + beta y`
    Axpby: 1, 3, ["saxpby", "daxpby", "caxpby", "zaxpby"], AXPBY, Element, Element;
    /// `x := alpha x`. Unlike with the scalars of levels 2 and 3, NaN and Inf in x propagate as in the reference.
    Scal: 1, 1, ["sscal", "dscal", "cscal", "zscal"], SCAL, Element, Absent;
    /// As scal, for a complex vector and a real scalar (`csscal`, `zdscal`).
    RealScal: 1, 1, ["sscal", "dscal", "csscal", "zdscal"], SCAL, Real, Absent;
    /// `y := x`
    Copy: 1, 0, ["scopy", "dcopy", "ccopy", "zcopy"], COPY, Absent, Absent;
    /// `x <-> y`
    Swap: 1, 0, ["sswap", "dswap", "cswap", "zswap"], SWAP, Absent, Absent;
    /// `(x, y) := (c x + s y, c y - s x)`, where c and s are real: the real parts of alpha and beta, and the last
    /// arguments.
    Rot: 1, 6, ["srot", "drot", "csrot", "zdrot"], SWAP, Real, Real;
    /// `(x, y) := (h11 x + h12 y, h21 x + h22 y)` of real vectors. Real and imaginary part of alpha are h11 and h21, of
    /// beta h12 and h22; the last argument is an array of five numbers.
    Rotm: 1, 6, ["srotm", "drotm", "srotm", "drotm"], SWAP, Element, Element;
    /// `x^T y`: one element (`dot` and `dotu`)
    Dot: 1, 2, ["sdot", "ddot", "cdotu", "zdotu"], DOT, Absent, Absent;
    /// `x^H y`: one element
    Dotc: 1, 2, ["sdot", "ddot", "cdotc", "zdotc"], DOT, Absent, Absent;
    /// The Euclidean norm, scaled against overflow: a real number of the precision of the elements.
    Nrm2: 1, 2, ["snrm2", "dnrm2", "scnrm2", "dznrm2"], NRM2, Absent, Absent;
    /// The sum of |re| + |im|: a real number of the precision of the elements.
    Asum: 1, 1, ["sasum", "dasum", "scasum", "dzasum"], NRM2, Absent, Absent;
    /// The index, counted from one, of the first element of the largest |re| + |im|: an `i64`.
    Iamax: 1, 1, ["isamax", "idamax", "icamax", "izamax"], NRM2, Absent, Absent;
}

impl Routine {
    /// The plain name, as the BLAS spells it (`dgemm`).
    #[must_use]
    pub fn name(self, dtype: Dtype) -> &'static str {
        self.record().names[dtype as usize]
    }

    /// The operands, in the order in which the BLAS has them.
    #[must_use]
    pub fn operands(self) -> &'static [Slot] {
        self.record().signature.operands
    }

    /// The BLAS level: 1, 2 or 3.
    #[must_use]
    pub fn level(self) -> u8 {
        self.record().level
    }

    /// Whether the routine returns a value and writes no operand.
    #[must_use]
    pub fn reduces(self) -> bool {
        self.operands().iter().all(|slot| slot.usage == Usage::Read)
    }

    /// The operand of which one triangle is used.
    #[must_use]
    pub fn triangle(self) -> Option<usize> {
        let mut operands = self.operands().iter();
        operands.position(|slot| slot.extent.is_triangle())
    }

    /// Whether the routine writes the operand of which one triangle is used. The written operand is the last one.
    #[must_use]
    pub fn writes_triangle(self) -> bool {
        let last = self.operands().last();
        last.is_some_and(|slot| slot.extent.is_triangle() && slot.usage != Usage::Read)
    }

    /// Whether the second operand has a transposition flag of its own.
    #[must_use]
    pub fn has_op_b(self) -> bool {
        self.record().signature.flags.contains(&Flag::TransB)
    }

    /// Whether the routine is syrk, herk, syr2k or her2k.
    #[must_use]
    pub const fn updates_rank_k(self) -> bool {
        matches!(
            self,
            Routine::Syrk | Routine::Herk | Routine::Syr2k | Routine::Her2k
        )
    }

    /// Whether the symmetric operand is Hermitian: only for complex types, with a real diagonal.
    #[must_use]
    pub const fn hermitian(self) -> bool {
        matches!(
            self,
            Routine::Hemm
                | Routine::Herk
                | Routine::Her2k
                | Routine::Hemv
                | Routine::Her
                | Routine::Her2
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variant_has_its_own_record() {
        for (i, routine) in Routine::ALL.iter().copied().enumerate() {
            assert_eq!(routine as usize, i);
            let name = format!("{routine:?}").to_lowercase();
            let plain = routine.name(Dtype::Z);
            let known = match routine {
                Routine::GemmBatch => "zgemm_batch".to_owned(),
                Routine::RealScal => "zdscal".to_owned(),
                Routine::Ger => "zgeru".to_owned(),
                Routine::Rot => "zdrot".to_owned(),
                Routine::Rotm => "drotm".to_owned(),
                Routine::Dot => "zdotu".to_owned(),
                Routine::Nrm2 | Routine::Asum => format!("dz{name}"),
                Routine::Iamax => "izamax".to_owned(),
                _ => format!("z{name}"),
            };
            assert_eq!(plain, known);
        }
    }

    #[test]
    fn values_are_returned_by_five() {
        let reducing: Vec<Routine> = Routine::ALL
            .iter()
            .copied()
            .filter(|r| r.reduces())
            .collect();
        use Routine::{Asum, Dot, Dotc, Iamax, Nrm2};
        assert_eq!(reducing, [Dot, Dotc, Nrm2, Asum, Iamax]);
    }

    #[test]
    fn operands_as_stored() {
        let stored = |routine: Routine, op_a, op_b| -> Vec<(usize, usize)> {
            let sizes = Sizes {
                m: 2,
                n: 3,
                k: 4,
                op_a,
                op_b,
            };
            let operands = routine.operands().iter();
            operands.map(|slot| slot.extent.stored(&sizes)).collect()
        };
        let (none, trans) = (Op::None, Op::ConjTrans);
        assert_eq!(stored(Routine::Gemm, none, none), [(2, 4), (4, 3), (2, 3)]);
        assert_eq!(
            stored(Routine::Gemm, trans, trans),
            [(4, 2), (3, 4), (2, 3)]
        );
        assert_eq!(stored(Routine::Gemv, none, none), [(2, 3), (3, 1), (2, 1)]);
        assert_eq!(stored(Routine::Gemv, trans, none), [(2, 3), (2, 1), (3, 1)]);
        assert_eq!(
            stored(Routine::Syr2k, trans, none),
            [(4, 3), (4, 3), (3, 3)]
        );
        assert_eq!(stored(Routine::Omatcopy, none, none), [(2, 3), (2, 3)]);
        assert_eq!(stored(Routine::Omatcopy, trans, none), [(2, 3), (3, 2)]);
        assert_eq!(stored(Routine::Trsm, trans, none), [(4, 4), (2, 3)]);
    }
}
