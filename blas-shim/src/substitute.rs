//! Routines that the host BLAS does not have, from the one that every BLAS has: its gemm.
//!
//! A program can call such a routine nevertheless: it looked the name up at run time and found it here, or was built
//! with another library. (Where the library has the operation under another name, [`resolve`](crate::resolve) finds that.)
//! No lock is held here and nothing is allocated: gemm may report an argument to a handler of the program's that does not
//! return.

use semcache::base::Routine;
use semcache::blas::batch::Batch;
use semcache::blas::{Call, Checked, check};

use crate::decode::batch::is_batch;
use crate::symbols::Class;

mod gemm;
mod gemmt;

pub(crate) use gemm::HostGemm;

/// Computes a call by the host's gemm.
type Substitute = fn(HostGemm, &Call);

/// The routines that are computed so, besides the batches.
const SUBSTITUTES: &[(Routine, Substitute)] = &[(Routine::Gemmt, gemmt::gemmt)];

fn substitute(routine: Routine) -> Option<Substitute> {
    let mut all = SUBSTITUTES.iter();
    Some(all.find(|(of, _)| *of == routine)?.1)
}

/// Whether the host's gemm computes calls of this class, where the host has none of their own.
pub(crate) fn is_made_of_gemm(class: Class) -> bool {
    is_batch(class) || class.routine().and_then(substitute).is_some()
}

impl HostGemm {
    /// Computes a call of a routine that is made of gemm.
    pub(crate) fn run(self, call: &Call) {
        if let Some(substitute) = substitute(call.routine) {
            substitute(self, call);
        }
    }

    /// The products of a batch from one on; of a batch with illegal arguments only a product with such, to report it.
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
