//! Which kinds of calls devices run for the first time.
//!
//! The first kernel of a kind loads its code: on an H100 the first dgemv took 22 to 39 ms, the first dtrsm of order 512 7 to 10 ms. Such
//! a time says nothing of later calls, so it is no prediction error. Libraries have several kernels for a routine, which they choose by
//! the sizes; a kind is a routine, an element type, and the magnitude of each size.

use core::hash::{BuildHasher as _, BuildHasherDefault};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustc_hash::FxHasher;

use crate::base::Work;

/// Bits in the table: two kinds that share one count as the same.
const BITS: usize = 1 << 12;
const WORDS: usize = BITS / 64;

/// The kinds that devices have run, a bit for each.
#[derive(Debug)]
pub struct FirstRuns([AtomicU64; WORDS]);

impl Default for FirstRuns {
    fn default() -> Self {
        FirstRuns([const { AtomicU64::new(0) }; WORDS])
    }
}

impl FirstRuns {
    /// Notes that devices run a call. Returns whether it is the first of its kind.
    pub fn note(&self, work: &Work) -> bool {
        let magnitude = |n: usize| n.max(1).ilog2();
        let sizes = [work.m, work.n, work.k].map(magnitude);
        let hash = BuildHasherDefault::<FxHasher>::default().hash_one((
            work.routine,
            work.side,
            work.dtype,
            sizes,
        ));
        let bit = (hash >> 52) as usize;
        let mask = 1 << (bit % 64);
        let word = &self.0[bit / 64];
        word.load(Relaxed) & mask == 0 && word.fetch_or(mask, Relaxed) & mask == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Dtype;

    #[test]
    fn a_kind_has_one_first_run() {
        let runs = FirstRuns::default();
        let first = |dtype, n| runs.note(&Work::gemm(dtype, n, n, n));
        assert!(first(Dtype::D, 512));
        assert!(!first(Dtype::D, 512) && !first(Dtype::D, 600));
        assert!(first(Dtype::D, 1024) && first(Dtype::S, 512));
        assert!(!first(Dtype::D, 1024) && !first(Dtype::S, 512));
        assert!(first(Dtype::Z, 0) && !first(Dtype::Z, 1));
    }
}
