//! Counters of BLAS calls that the shim passes to the host BLAS without asking the runtime: which of the process's counters
//! ([`Passed`]) a thread counts in.

#![expect(
    unsafe_code,
    reason = "a thread finds its counters through a pointer in its thread-local block"
)]

use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use semcache::base::Routine;
use semcache::base::counters::{OWNED, PAGE, Passed, WhyHost};
use semcache::blas::names;

use crate::symbols::{Class, Symbol};
use crate::thread::{self, State};

static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The index of a symbol's routine in the tables of counters: calls under all names of one operation on one type are counted
/// together. That of the first routine for a symbol whose calls are not counted ([`Class::Jump`]).
pub(crate) fn index(symbol: &Symbol) -> usize {
    let routine = match symbol.class {
        Class::Jump => Routine::ALL[0],
        Class::Strided => Routine::GemmBatch,
        Class::Call(routine) | Class::Sub(routine) => routine,
    };
    names::index(routine, symbol.dtype)
}

/// Before a thread's first count, and before each count of a thread that has no counters of its own: the process counts where
/// its launcher finds it, and the thread gets counters of its own as long as there are some.
#[cold]
pub(crate) fn begin(thread: &State) {
    semcache::runtime::counted::join();
    // The number of taken counters stops at the limit, so that it cannot wrap.
    let index = TAKEN.fetch_update(Relaxed, Relaxed, |n| (n < OWNED).then_some(n + 1));
    if let Ok(index) = index {
        thread.slot.set(ptr::from_ref(&PAGE.calls.passed()[index]));
    }
}

/// In the child of a fork, whose counters are zero: its thread counts anew.
pub(crate) fn child() {
    TAKEN.store(0, Relaxed);
    semcache::runtime::timed::small::child();
    thread::state().slot.set(ptr::null());
}

/// Counts one call of a symbol's routine.
pub(crate) fn count(thread: &State, symbol: &Symbol, reason: WhyHost) {
    let index = index(symbol);
    // SAFETY: null, or set by `begin` to counters in a static that no other thread writes.
    match unsafe { thread.slot.get().as_ref() } {
        Some(own) => own.count_alone(index, reason),
        None => PAGE.calls.passed()[OWNED].count(index, reason),
    }
}

/// The offset of the counter of a symbol's small calls in a thread's [`Passed`], to which the stubs add.
pub(crate) fn small_offset(symbol: &Symbol) -> u32 {
    Passed::small_offset(index(symbol)) as u32
}
