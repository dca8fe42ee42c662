//! Host memory: which block an address belongs to, how long it lives, and the allocator behind large
//! `malloc`s. Knows nothing of devices or the directory; tells whoever registered as [`Observer`] what
//! happens to a block that is in use.
//!
//! [`heap`] serves the program's large allocations, [`adopt`] follows what it maps itself, [`find`] and
//! [`mark_in_use`] are what the floors above ask. [`runtime_heap`] is what they allocate from.
//!
//! Locks, in the order in which they may nest: pins, own blocks (the only two that do), adopted blocks, guards,
//! observer, runtime heap. Program memory is never touched, and the observer never called, under any of them.

pub mod adopt;
mod adopted;
mod advice;
mod bell;
mod block;
mod coroutine;
mod crew;
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

pub(crate) use block::keep_mergeable;
pub use block::{Block, Provenance};
pub use coroutine::{becomes_stack, runs_here};
pub use crew::populate;
pub use observer::{Observer, Release, set_observer};
pub use physical::memory;
pub use registry::{block, find, forget_users, holding, mark_in_use, prepare, present_share};
pub use runtime_heap::RuntimeHeap;
pub use stands::{stands, vanished};

/// Whether [`before_fork`] would wait for this very thread: in a signal handler that interrupted it in here.
#[must_use]
pub fn interrupted() -> bool {
    lock::held_here()
}

/// Before fork: makes every table of this floor consistent and keeps it so. The forking thread may still
/// allocate and free until it calls one of the other two.
pub fn before_fork() {
    // First: who reads the list allocates meanwhile.
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

/// After fork, in the child. Its memory is a copy; whether blocks stay in use is for the floors above to
/// say ([`forget_users`]); that nothing of it is pinned is certain.
pub fn after_fork_child() {
    after_fork_parent();
    observer::nobody_leaves();
    crew::forget();
    bell::forget();
    pins::forget_all();
}
