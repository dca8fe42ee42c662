//! Plain routine names (`dgemm`), and the dense index that the counters use.

use crate::base::Dtype;
use crate::plan::Routine;

/// Every routine that can run on devices, in the order of the counters' index.
pub const ROUTINES: [Routine; 34] = [
    Routine::Gemm,
    Routine::Symm,
    Routine::Hemm,
    Routine::Syrk,
    Routine::Herk,
    Routine::Syr2k,
    Routine::Her2k,
    Routine::Trmm,
    Routine::Trsm,
    Routine::Gemmt,
    Routine::GemmBatch,
    Routine::Gemv,
    Routine::Ger,
    Routine::Gerc,
    Routine::Symv,
    Routine::Hemv,
    Routine::Trmv,
    Routine::Trsv,
    Routine::Syr,
    Routine::Her,
    Routine::Syr2,
    Routine::Her2,
    Routine::Axpy,
    Routine::Scal,
    Routine::RealScal,
    Routine::Copy,
    Routine::Swap,
    Routine::Rot,
    Routine::Rotm,
    Routine::Dot,
    Routine::Dotc,
    Routine::Nrm2,
    Routine::Asum,
    Routine::Iamax,
];

/// Index of a routine of one element type in the counters.
#[must_use]
pub fn index(routine: Routine, dtype: Dtype) -> usize {
    let r = ROUTINES.iter().position(|&x| x == routine).unwrap_or(0);
    r * Dtype::ALL.len() + dtype as usize
}

/// The plain name, as the BLAS spells it.
#[must_use]
pub fn name(routine: Routine, dtype: Dtype) -> &'static str {
    let row: [&'static str; 4] = match routine {
        Routine::Gemm => ["sgemm", "dgemm", "cgemm", "zgemm"],
        Routine::Symm => ["ssymm", "dsymm", "csymm", "zsymm"],
        Routine::Hemm => ["ssymm", "dsymm", "chemm", "zhemm"],
        Routine::Syrk => ["ssyrk", "dsyrk", "csyrk", "zsyrk"],
        Routine::Herk => ["ssyrk", "dsyrk", "cherk", "zherk"],
        Routine::Syr2k => ["ssyr2k", "dsyr2k", "csyr2k", "zsyr2k"],
        Routine::Her2k => ["ssyr2k", "dsyr2k", "cher2k", "zher2k"],
        Routine::Trmm => ["strmm", "dtrmm", "ctrmm", "ztrmm"],
        Routine::Trsm => ["strsm", "dtrsm", "ctrsm", "ztrsm"],
        Routine::Gemmt => ["sgemmt", "dgemmt", "cgemmt", "zgemmt"],
        Routine::GemmBatch => ["sgemm_batch", "dgemm_batch", "cgemm_batch", "zgemm_batch"],
        Routine::Gemv => ["sgemv", "dgemv", "cgemv", "zgemv"],
        Routine::Ger => ["sger", "dger", "cgeru", "zgeru"],
        Routine::Gerc => ["sger", "dger", "cgerc", "zgerc"],
        Routine::Symv => ["ssymv", "dsymv", "csymv", "zsymv"],
        Routine::Hemv => ["ssymv", "dsymv", "chemv", "zhemv"],
        Routine::Trmv => ["strmv", "dtrmv", "ctrmv", "ztrmv"],
        Routine::Trsv => ["strsv", "dtrsv", "ctrsv", "ztrsv"],
        Routine::Syr => ["ssyr", "dsyr", "csyr", "zsyr"],
        Routine::Her => ["ssyr", "dsyr", "cher", "zher"],
        Routine::Syr2 => ["ssyr2", "dsyr2", "csyr2", "zsyr2"],
        Routine::Her2 => ["ssyr2", "dsyr2", "cher2", "zher2"],
        Routine::Axpy => ["saxpy", "daxpy", "caxpy", "zaxpy"],
        Routine::Scal => ["sscal", "dscal", "cscal", "zscal"],
        Routine::RealScal => ["sscal", "dscal", "csscal", "zdscal"],
        Routine::Copy => ["scopy", "dcopy", "ccopy", "zcopy"],
        Routine::Swap => ["sswap", "dswap", "cswap", "zswap"],
        Routine::Rot => ["srot", "drot", "csrot", "zdrot"],
        Routine::Rotm => ["srotm", "drotm", "srotm", "drotm"],
        Routine::Dot => ["sdot", "ddot", "cdotu", "zdotu"],
        Routine::Dotc => ["sdot", "ddot", "cdotc", "zdotc"],
        Routine::Nrm2 => ["snrm2", "dnrm2", "scnrm2", "dznrm2"],
        Routine::Asum => ["sasum", "dasum", "scasum", "dzasum"],
        Routine::Iamax => ["isamax", "idamax", "icamax", "izamax"],
    };
    row[dtype as usize]
}

/// The names of all indices.
#[must_use]
pub fn all() -> Vec<&'static str> {
    ROUTINES
        .iter()
        .flat_map(|&r| Dtype::ALL.map(|d| name(r, d)))
        .collect()
}

/// The names among these that are not the name of a routine that devices run.
#[must_use]
pub fn unknown(some: &[String]) -> Vec<&str> {
    let known = all();
    let names = some.iter().map(String::as_str);
    names.filter(|name| !known.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_dense_and_agree_with_names() {
        let names = all();
        for (i, &r) in ROUTINES.iter().enumerate() {
            for d in Dtype::ALL {
                assert_eq!(index(r, d), i * 4 + d as usize);
                assert_eq!(names[index(r, d)], name(r, d));
            }
        }
    }

    #[test]
    fn what_is_no_routine_is_told() {
        let some = ["dgemm", "gemm", "scasum", "dgbmv", ""].map(str::to_owned);
        assert_eq!(unknown(&some), ["gemm", "dgbmv", ""]);
    }
}
