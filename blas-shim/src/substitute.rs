//! Substitutes for routines that the host BLAS lacks, computed by the host BLAS's gemm.
//!
//! A program can call such a routine nevertheless: it looked the name up at run time and found this library's, or it
//! was built with another BLAS. (Where the library has the operation under another name, [`resolve`](crate::resolve)
//! finds that.) No lock is held and nothing is allocated while gemm runs: gemm may report an illegal argument to a
//! handler of the program's that does not return.

use semcache::base::Routine;
use semcache::blas::batch::Batch;
use semcache::blas::{Call, Checked, check};

use crate::decode::batch::is_batch;
use crate::symbols::Class;

mod gemm;
mod gemmt;

pub(crate) use gemm::HostGemm;

/// A function that computes a call by calling the host BLAS's gemm.
type Substitute = fn(HostGemm, &Call);

/// The routines that have a substitute, besides the batches.
const SUBSTITUTES: &[(Routine, Substitute)] = &[(Routine::Gemmt, gemmt::gemmt)];

fn substitute(routine: Routine) -> Option<Substitute> {
    let mut all = SUBSTITUTES.iter();
    Some(all.find(|(of, _)| *of == routine)?.1)
}

/// Whether a substitute exists for calls of this class.
pub(crate) fn is_made_of_gemm(class: Class) -> bool {
    is_batch(class) || class.routine().and_then(substitute).is_some()
}

impl HostGemm {
    /// Computes a call of a routine that has a substitute.
    pub(crate) fn run(self, call: &Call) {
        if let Some(substitute) = substitute(call.routine) {
            substitute(self, call);
        }
    }

    /// Computes the products of a batch from index `from` on. If one of them has illegal arguments, only that product
    /// is passed to gemm, which reports it.
    pub(crate) fn batch(self, batch: &Batch, from: usize) {
        let rest = batch.calls.get(from..).unwrap_or_default();
        if let Some(bad) = rest.iter().find(|call| check(call) == Checked::Bad) {
            self.call(bad);
            return;
        }
        for call in rest {
            self.call(call);
        }
    }
}
