//! The BLAS routines that devices run. [`Routine::record`] says of each what it is called, which operands it has, and what
//! it does with them; whoever checks a call, plans it, launches its kernel or predicts its time reads that.

mod flags;
mod record;

pub use flags::{Diag, Form, Op, Side, Uplo};
pub use record::{Dim, Extent, Record, Shape, Slot, Use};

use super::Dtype;

use Dim::{K, M, N};
use Extent::{Columns, Matrix, OpA, OpB, Rows, Triangle, Vector};
use Use::{Accumulate, Multiply, Overwrite, Update};

const fn read(extent: Extent) -> Slot {
    slot(extent, Use::Read)
}

const fn slot(extent: Extent, usage: Use) -> Slot {
    Slot { extent, usage }
}

const GEMM: &[Slot] = &[
    read(OpA(M, K)),
    read(OpB(K, N)),
    slot(Matrix(M, N), Accumulate),
];
const SYMM: &[Slot] = &[
    read(Triangle(K)),
    read(Matrix(M, N)),
    slot(Matrix(M, N), Accumulate),
];
const SYRK: &[Slot] = &[read(OpA(N, K)), slot(Triangle(N), Accumulate)];
const SYR2K: &[Slot] = &[
    read(OpA(N, K)),
    read(OpA(N, K)),
    slot(Triangle(N), Accumulate),
];
const GEMMT: &[Slot] = &[
    read(OpA(N, K)),
    read(OpB(K, N)),
    slot(Triangle(N), Accumulate),
];
const TRMM: &[Slot] = &[read(Triangle(K)), slot(Matrix(M, N), Multiply)];
const GEMV: &[Slot] = &[read(Matrix(M, N)), read(Columns), slot(Rows, Accumulate)];
const GER: &[Slot] = &[read(Vector(M)), read(Vector(N)), slot(Matrix(M, N), Update)];
const SYMV: &[Slot] = &[
    read(Triangle(N)),
    read(Vector(N)),
    slot(Vector(N), Accumulate),
];
const TRMV: &[Slot] = &[read(Triangle(N)), slot(Vector(N), Update)];
const SYR: &[Slot] = &[read(Vector(N)), slot(Triangle(N), Update)];
const SYR2: &[Slot] = &[read(Vector(N)), read(Vector(N)), slot(Triangle(N), Update)];
const AXPY: &[Slot] = &[read(Vector(M)), slot(Vector(M), Update)];
const SCAL: &[Slot] = &[slot(Vector(M), Update)];
const COPY: &[Slot] = &[read(Vector(M)), slot(Vector(M), Overwrite)];
const SWAP: &[Slot] = &[slot(Vector(M), Update), slot(Vector(M), Update)];
const DOT: &[Slot] = &[read(Vector(M)), read(Vector(M))];
const NRM2: &[Slot] = &[read(Vector(M))];

/// Makes the enumeration and its records of one table. A line is: the variant, the BLAS level, the plain names by element
/// type (of types without such a routine the names of what is the same operation there), and the operands.
macro_rules! routines {
    ($($(#[$doc:meta])* $variant:ident: $level:literal, $names:expr, $operands:expr;)*) => {
        /// The routines that can run on devices. One variant per operation; the element type is data.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[expect(missing_docs, reason = "the names are those of the BLAS")]
        pub enum Routine {
            $($(#[$doc])* $variant,)*
        }

        impl Routine {
            /// Every routine, in the order of the variants.
            pub const ALL: &[Routine] = &[$(Routine::$variant,)*];

            /// What is known of it.
            #[must_use]
            pub const fn record(self) -> &'static Record {
                match self {
                    $(Routine::$variant => const {
                        &Record { level: $level, names: $names, operands: $operands }
                    },)*
                }
            }
        }
    };
}

routines! {
    Gemm: 3, ["sgemm", "dgemm", "cgemm", "zgemm"], GEMM;
    Symm: 3, ["ssymm", "dsymm", "csymm", "zsymm"], SYMM;
    Hemm: 3, ["ssymm", "dsymm", "chemm", "zhemm"], SYMM;
    Syrk: 3, ["ssyrk", "dsyrk", "csyrk", "zsyrk"], SYRK;
    Herk: 3, ["ssyrk", "dsyrk", "cherk", "zherk"], SYRK;
    Syr2k: 3, ["ssyr2k", "dsyr2k", "csyr2k", "zsyr2k"], SYR2K;
    Her2k: 3, ["ssyr2k", "dsyr2k", "cher2k", "zher2k"], SYR2K;
    Trmm: 3, ["strmm", "dtrmm", "ctrmm", "ztrmm"], TRMM;
    Trsm: 3, ["strsm", "dtrsm", "ctrsm", "ztrsm"], TRMM;
    /// `gemmt` and `gemmtr`
    Gemmt: 3, ["sgemmt", "dgemmt", "cgemmt", "zgemmt"], GEMMT;
    /// Several gemms in one call. No problem has it: each of them is one of `Gemm`.
    GemmBatch: 3, ["sgemm_batch", "dgemm_batch", "cgemm_batch", "zgemm_batch"], GEMM;
    Gemv: 2, ["sgemv", "dgemv", "cgemv", "zgemv"], GEMV;
    /// `ger` and `geru`
    Ger: 2, ["sger", "dger", "cgeru", "zgeru"], GER;
    Gerc: 2, ["sger", "dger", "cgerc", "zgerc"], GER;
    Symv: 2, ["ssymv", "dsymv", "csymv", "zsymv"], SYMV;
    Hemv: 2, ["ssymv", "dsymv", "chemv", "zhemv"], SYMV;
    Trmv: 2, ["strmv", "dtrmv", "ctrmv", "ztrmv"], TRMV;
    Trsv: 2, ["strsv", "dtrsv", "ctrsv", "ztrsv"], TRMV;
    Syr: 2, ["ssyr", "dsyr", "csyr", "zsyr"], SYR;
    Her: 2, ["ssyr", "dsyr", "cher", "zher"], SYR;
    Syr2: 2, ["ssyr2", "dsyr2", "csyr2", "zsyr2"], SYR2;
    Her2: 2, ["ssyr2", "dsyr2", "cher2", "zher2"], SYR2;
    Axpy: 1, ["saxpy", "daxpy", "caxpy", "zaxpy"], AXPY;
    /// `scal` with a scalar of the vector's type
    Scal: 1, ["sscal", "dscal", "cscal", "zscal"], SCAL;
    /// `csscal`, `zdscal`: complex vector, real scalar
    RealScal: 1, ["sscal", "dscal", "csscal", "zdscal"], SCAL;
    Copy: 1, ["scopy", "dcopy", "ccopy", "zcopy"], COPY;
    Swap: 1, ["sswap", "dswap", "cswap", "zswap"], SWAP;
    /// With real c and s, which stand in alpha and beta.
    Rot: 1, ["srot", "drot", "csrot", "zdrot"], SWAP;
    /// The columns of H stand in alpha and beta, as two numbers each.
    Rotm: 1, ["srotm", "drotm", "srotm", "drotm"], SWAP;
    /// `dot` and `dotu`
    Dot: 1, ["sdot", "ddot", "cdotu", "zdotu"], DOT;
    Dotc: 1, ["sdot", "ddot", "cdotc", "zdotc"], DOT;
    Nrm2: 1, ["snrm2", "dnrm2", "scnrm2", "dznrm2"], NRM2;
    Asum: 1, ["sasum", "dasum", "scasum", "dzasum"], NRM2;
    Iamax: 1, ["isamax", "idamax", "icamax", "izamax"], NRM2;
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
        self.record().operands
    }

    /// 1, 2 or 3.
    #[must_use]
    pub fn level(self) -> u8 {
        self.record().level
    }

    /// Whether it returns a value instead of writing an operand.
    #[must_use]
    pub fn reduces(self) -> bool {
        self.operands().iter().all(|slot| slot.usage == Use::Read)
    }

    /// Whether its matrix is Hermitian: of complex types only, with a real diagonal.
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
            let shape = Shape {
                m: 2,
                n: 3,
                k: 4,
                op_a,
                op_b,
            };
            let operands = routine.operands().iter();
            operands.map(|slot| slot.extent.stored(&shape)).collect()
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
        assert_eq!(stored(Routine::Trsm, trans, none), [(4, 4), (2, 3)]);
    }
}
