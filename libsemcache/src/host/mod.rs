//! Host memory: which block an address belongs to, how long a block lives, and the allocator that serves large
//! `malloc`s. This module knows nothing of devices or of the coherence directory; the registered [`Observer`] is told
//! when the program frees, unmaps, moves or resizes a block that is in use.
//!
//! [`heap`] serves the program's large allocations, and [`adopt`] follows what the program maps itself. Code that runs
//! BLAS calls looks up the block of an operand by [`find`] and marks the block by [`mark_in_use`]. [`runtime_heap`] is
//! the allocator of the runtime's own data.
//!
//! Locks, in the order in which they may nest: pins, blocks allocated here (only these two are ever held together),
//! adopted blocks, guards, observer, runtime heap. No thread touches program memory or calls the observer while it
//! holds one of them.

pub mod adopt;
mod adopted;
mod advice;
mod bell;
mod block;
mod coroutine;
mod glibc;
mod guarded;
pub mod guards;
pub mod heap;
pub mod idle;
pub mod loader;
mod lock;
mod observer;
mod pages;
mod physical;
pub mod pins;
mod ranges;
mod registry;
mod runs;
pub mod runtime_heap;
mod stack;
mod stands;
mod statics;
mod sys;
mod theirs;
mod touch;

pub(crate) use block::keep_mergeable;
pub use block::{Block, Provenance};
pub use coroutine::{becomes_stack, runs_here};
pub use observer::{Observer, Release, set_observer};
pub use physical::{available, memory};
pub use registry::{block, find, forget_users, holding, mark_in_use, prepare, present_share};
pub use runtime_heap::RuntimeHeap;
pub use stands::{stands, vanished};
pub use touch::populate;

/// Whether [`before_fork`] would wait for the calling thread itself, which is so in a signal handler that interrupted
/// the thread while it held a lock of this module.
#[must_use]
pub fn interrupted() -> bool {
    lock::held_here()
}

/// Before fork: makes every table of this module consistent and keeps it so. The forking thread may still allocate and
/// free memory until it calls [`after_fork_parent`] or [`after_fork_child`].
pub fn before_fork() {
    // First, because a thread that reads the list of loaded objects allocates meanwhile.
    loader::lock_for_fork().hold();
    adopted::hold_for_fork();
    guarded::hold_for_fork();
    pins::hold_for_fork();
    runs::SPACE.hold();
    observer::lock_for_fork().hold();
    runtime_heap::lock_for_fork().hold();
    lock::set_forking(true);
}

/// After fork, in the parent.
pub fn after_fork_parent() {
    lock::set_forking(false);
    runtime_heap::lock_for_fork().release();
    observer::lock_for_fork().release();
    runs::SPACE.release();
    pins::release_after_fork();
    guarded::release_after_fork();
    adopted::release_after_fork();
    loader::lock_for_fork().release();
}

/// After fork, in the child, whose memory is a copy of the parent's: no page of it is pinned. The caller says whether
/// blocks stay in use ([`forget_users`]).
pub fn after_fork_child() {
    after_fork_parent();
    observer::nobody_leaves();
    crate::process::crew::forget();
    bell::forget();
    pins::forget_all();
}
