//! How many threads are in calls that use devices at this moment.

use core::cell::Cell;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;

/// Number of threads of the process that are in such calls. Calls may nest (a program's xerbla, a signal handler).
pub(super) static THREADS: AtomicU32 = AtomicU32::new(0);

std::thread_local! {
    /// Depth of such calls on this thread. Const and without a destructor.
    pub(super) static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// In the child of a fork: other threads do not exist there.
pub(super) fn alone() {
    THREADS.store(u32::from(DEPTH.get() > 0), SeqCst);
}
