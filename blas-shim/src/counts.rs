//! Counters of BLAS calls that the shim passes to the host BLAS without asking the runtime: which of the process's counters
//! ([`Passed`]) a thread counts in.

#![expect(
    unsafe_code,
    reason = "a thread finds its counters through a pointer in its thread-local block"
)]

use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::symbols::Symbol;
use crate::thread::{self, State};
use semcache::base::counters::{PAGE, Passed, WhyHost};

/// Where the process counted when its sites were told last ([`join`](semcache::runtime::counted::join)).
static TOLD: AtomicU32 = AtomicU32::new(0);

/// Before a thread's first count, and before each count of a thread that has no counters of its own: the process counts where
/// its launcher finds it, and the thread gets counters of its own as long as there are some.
/// Returns whether the process has begun to count somewhere else, so that its sites must be told.
#[cold]
pub(crate) fn begin(thread: &State) -> bool {
    let generation = semcache::runtime::counted::join();
    if let Some(own) = PAGE.calls.take() {
        thread.slot.set(ptr::from_ref(own));
    }
    TOLD.swap(generation, Relaxed) != generation
}

/// In the child of a fork, whose counters are zero: none of them is taken, and its thread counts anew.
pub(crate) fn child() {
    semcache::runtime::timed::small::child();
    thread::state().slot.set(ptr::null());
}

/// Counts one call of a symbol's routine, at the call site of a number.
pub(crate) fn count(thread: &State, symbol: &Symbol, site: Option<usize>, reason: WhyHost) {
    let index = symbol.index();
    // SAFETY: null, or set by `begin` to counters in a static that no other thread writes.
    match unsafe { thread.slot.get().as_ref() } {
        Some(own) => own.count_alone(index, site, reason),
        None => PAGE.calls.shared().count(index, site, reason),
    }
    if reason != WhyHost::Small
        && let Some(site) = site.and_then(|number| PAGE.sites.get(number))
    {
        site.host(reason);
    }
}

/// The offset of the counter of small calls in a thread's [`Passed`], to which the stubs add: of the call site of a number, or of
/// the symbol's routine.
pub(crate) fn small_offset(symbol: &Symbol, site: Option<usize>) -> u32 {
    Passed::small_offset(symbol.index(), site) as u32
}
