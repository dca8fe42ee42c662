//! The table of exported BLAS symbols, generated from `symbols.txt` by the build script.

use core::ffi::CStr;

use semcache::base::{Dtype, Routine, Solver};
use semcache::blas::names;

/// How the arguments of a symbol are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// Not offloaded: the arguments are never decoded.
    Jump,
    /// The arguments are those of the routine.
    Call(Routine),
    /// The routine's arguments, followed by the address of the result.
    Sub(Routine),
    /// Several products of one shape, whose matrices follow each other at fixed distances.
    Strided,
    /// A driver of LAPACK: the arguments are never decoded, and its calls are counted and timed.
    Solver(Solver),
}

impl Class {
    /// Whether the arguments are decoded: the calling conventions matter then.
    pub(crate) const fn is_decoded(self) -> bool {
        !matches!(self, Class::Jump | Class::Solver(_))
    }

    /// The routine, if a call is one operation of a routine; `None` for batches and routines that are not offloaded.
    pub(crate) const fn routine(self) -> Option<Routine> {
        match self {
            Class::Jump | Class::Strided | Class::Solver(_) | Class::Call(Routine::GemmBatch) => {
                None
            }
            Class::Call(routine) | Class::Sub(routine) => Some(routine),
        }
    }
}

/// Which of its names a routine was called by. The name decides between Fortran and C arguments, and, except for the
/// unsuffixed names, the width of integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spelling {
    /// `dgemm_`
    Under,
    /// `dgemm_64_`
    Under64,
    /// `scipy_dgemm_`
    ScipyUnder,
    /// `scipy_dgemm_64_`
    ScipyUnder64,
    /// `dgemm`
    Plain,
    /// `dgemm_64`
    Plain64,
    /// `cblas_dgemm`
    Cblas,
    /// `cblas_dgemm64_`
    Cblas64Under,
    /// `cblas_dgemm_64`
    CblasUnder64,
    /// `scipy_cblas_dgemm`
    ScipyCblas,
    /// `scipy_cblas_dgemm64_`
    ScipyCblas64,
}

/// Width of the integers of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    /// LP64: `int`.
    Bits32,
    /// ILP64: `int64_t`.
    Bits64,
}

impl Spelling {
    /// All spellings of the Fortran interface.
    pub(crate) const FORTRAN: [Spelling; 6] = [
        Spelling::Under,
        Spelling::Under64,
        Spelling::ScipyUnder,
        Spelling::ScipyUnder64,
        Spelling::Plain,
        Spelling::Plain64,
    ];
    /// All spellings of the C interface.
    pub(crate) const CBLAS: [Spelling; 5] = [
        Spelling::Cblas,
        Spelling::Cblas64Under,
        Spelling::CblasUnder64,
        Spelling::ScipyCblas,
        Spelling::ScipyCblas64,
    ];

    /// Whether arguments follow the C interface.
    pub(crate) const fn is_cblas(self) -> bool {
        matches!(
            self,
            Spelling::Cblas
                | Spelling::Cblas64Under
                | Spelling::CblasUnder64
                | Spelling::ScipyCblas
                | Spelling::ScipyCblas64
        )
    }

    /// The width that the name promises; `None` for unsuffixed names, which libraries of both widths
    /// export.
    pub(crate) const fn width(self) -> Option<Width> {
        match self {
            Spelling::Under | Spelling::Plain | Spelling::Cblas => None,
            Spelling::ScipyUnder | Spelling::ScipyCblas => Some(Width::Bits32),
            Spelling::Under64
            | Spelling::ScipyUnder64
            | Spelling::Plain64
            | Spelling::Cblas64Under
            | Spelling::CblasUnder64
            | Spelling::ScipyCblas64 => Some(Width::Bits64),
        }
    }

    /// The spelling of the Fortran interface that a library has beside this one, with integers of the same width.
    pub(crate) const fn fortran(self) -> Spelling {
        match self {
            Spelling::Under | Spelling::Plain | Spelling::Cblas => Spelling::Under,
            Spelling::Under64
            | Spelling::Plain64
            | Spelling::Cblas64Under
            | Spelling::CblasUnder64 => Spelling::Under64,
            Spelling::ScipyUnder | Spelling::ScipyCblas => Spelling::ScipyUnder,
            Spelling::ScipyUnder64 | Spelling::ScipyCblas64 => Spelling::ScipyUnder64,
        }
    }

    /// The prefix and the suffix that the spelling adds to the routine's name.
    pub(crate) const fn affixes(self) -> (&'static str, &'static str) {
        match self {
            Spelling::Under => ("", "_"),
            Spelling::Under64 => ("", "_64_"),
            Spelling::ScipyUnder => ("scipy_", "_"),
            Spelling::ScipyUnder64 => ("scipy_", "_64_"),
            Spelling::Plain => ("", ""),
            Spelling::Plain64 => ("", "_64"),
            Spelling::Cblas => ("cblas_", ""),
            Spelling::Cblas64Under => ("cblas_", "64_"),
            Spelling::CblasUnder64 => ("cblas_", "_64"),
            Spelling::ScipyCblas => ("scipy_cblas_", ""),
            Spelling::ScipyCblas64 => ("scipy_cblas_", "64_"),
        }
    }
}

/// One exported name. It holds no pointers: the dynamic linker would write each into a page of every process that the library is
/// preloaded into.
#[derive(Debug)]
pub(crate) struct Symbol {
    /// Where the name begins in [`NAMES`].
    start: u32,
    /// Its length in bytes.
    length: u8,
    /// How its arguments are read.
    pub(crate) class: Class,
    /// Element type; meaningless for [`Class::Jump`].
    pub(crate) dtype: Dtype,
    /// Which of the routine's names this is.
    pub(crate) spelling: Spelling,
    /// Whether some BLAS in common use lacks the routine.
    pub(crate) may_be_missing: bool,
}

impl Symbol {
    /// The name.
    pub(crate) fn name(&self) -> &'static CStr {
        let start = self.start as usize;
        let with_end = &NAMES.as_bytes()[start..=start + usize::from(self.length)];
        CStr::from_bytes_with_nul(with_end).unwrap_or_default()
    }

    /// The routine's name in `symbols.txt`: the name without what the spelling adds.
    pub(crate) fn routine(&self) -> &'static str {
        let (before, after) = self.spelling.affixes();
        let start = self.start as usize;
        &NAMES[start + before.len()..start + usize::from(self.length) - after.len()]
    }

    /// The index of its routine in the tables of counters: calls under all names of one operation on one type are counted
    /// together. That of the first routine for a symbol whose calls are not counted ([`Class::Jump`]).
    pub(crate) fn index(&self) -> usize {
        let routine = match self.class {
            Class::Jump => Routine::ALL[0],
            Class::Strided => Routine::GemmBatch,
            Class::Call(routine) | Class::Sub(routine) => routine,
            Class::Solver(solver) => return names::index_of_solver(solver, self.dtype),
        };
        names::index(routine, self.dtype)
    }
}

impl Symbol {
    /// Another name of the same operation with the same arguments, which a library may have instead of this one.
    pub(crate) fn twin(&self) -> Option<&'static Symbol> {
        let same = |s: &&Symbol| {
            s.class == self.class && s.dtype == self.dtype && s.spelling == self.spelling
        };
        let mut names = SYMBOLS.iter().filter(same);
        let found = self
            .may_be_missing
            .then(|| names.find(|s| s.routine() != self.routine()));
        found.flatten()
    }

    /// The gemm symbol of the same type and spelling, if a library may lack this routine: gemm has the same calling
    /// conventions.
    pub(crate) fn gemm(&self) -> Option<&'static Symbol> {
        let letter = self
            .may_be_missing
            .then(|| self.routine().get(..1))
            .flatten()?;
        SYMBOLS.iter().find(|s| {
            s.spelling == self.spelling && s.routine().strip_prefix(letter) == Some("gemm")
        })
    }
}

include!(concat!(env!("OUT_DIR"), "/symbols.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_spellings_make_of_routines() {
        for symbol in &SYMBOLS {
            let (before, after) = symbol.spelling.affixes();
            let made = format!("{before}{}{after}", symbol.routine());
            assert_eq!(symbol.name().to_str(), Ok(made.as_str()));
        }
        let last = SYMBOLS.last().expect("there are some");
        assert_eq!(last.name().to_bytes().len(), usize::from(last.length));
    }

    /// A batch passes arrays of addresses of its matrices, so its arguments are not those of gemm.
    #[test]
    fn batches_are_no_calls_of_a_routine() {
        let routine = |name: &str| {
            let symbol = SYMBOLS.iter().find(|s| s.routine() == name);
            symbol.expect("it is in symbols.txt").class.routine()
        };
        assert_eq!(routine("dgemm"), Some(Routine::Gemm));
        assert_eq!(routine("cdotu_sub"), Some(Routine::Dot));
        for none in ["dgemm_batch", "zgemm_batch_strided", "dgbmv", "dgesv"] {
            assert_eq!(routine(none), None);
        }
    }
}
