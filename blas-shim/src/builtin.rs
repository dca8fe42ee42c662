//! The BLAS calls of a test build (feature `builtin-blas`): every decoded call is computed on the calling thread by
//! this library's own arithmetic, which otherwise completes calls that devices and the host BLAS cannot complete.

#![expect(unsafe_code, reason = "the tests' clients find two functions by name")]

use core::sync::atomic::{AtomicU64, Ordering};

use semcache::base::counters::{MAX_ROUTINES, PAGE, PASSED};
use semcache::blas::batch::{Batch, Batched};
use semcache::blas::checks::{Group, check};
use semcache::blas::local::compute;
use semcache::blas::{Call, Outcome};

use crate::core::Facts;

static CALLS: AtomicU64 = AtomicU64::new(0);

/// The number of BLAS calls that reached this module; the tests' client programs read the number.
#[unsafe(no_mangle)]
extern "C" fn semcache_test_builtin_calls() -> u64 {
    CALLS.load(Ordering::Relaxed)
}

/// The number of BLAS calls that the shim passed to the host BLAS for the `reason`th of its reasons; the tests' client
/// programs read the number.
#[unsafe(no_mangle)]
extern "C" fn semcache_test_host_calls(reason: i32) -> u64 {
    let Ok(reason) = usize::try_from(reason) else {
        return 0;
    };
    let why = PASSED[reason % PASSED.len()];
    let routines = 0..MAX_ROUTINES;
    routines
        .map(|routine| PAGE.calls.sum_passed(routine, why))
        .sum()
}

/// Computes a call on the calling thread, if the arguments of the call are valid.
pub(crate) fn call(call: &Call, _facts: &Facts<'_>) -> Outcome {
    CALLS.fetch_add(1, Ordering::Relaxed);
    compute(None, call)
}

/// Computes the products of a batch; counts as one call.
pub(crate) fn batch(batch: &Batch, _facts: &Facts<'_>) -> Batched {
    if check(&Group::batch(batch)).is_err() {
        return Batched::Host;
    }
    CALLS.fetch_add(1, Ordering::Relaxed);
    for call in &batch.calls {
        let _ = compute(None, call);
    }
    Batched::Done
}
