//! fork: the parent's results come home before, the child computes on the host.
//!
//! Devices cannot be used after fork, the child has no service thread, and it inherits page protection. So
//! the prepare handler brings the newest bytes home and holds every lock; the parent goes on with its
//! replicas still valid; the child opens all memory and never touches a device again.
#![expect(unsafe_code, reason = "pthread_atfork")]

use std::cell::UnsafeCell;

use super::{Mode, init, set_mode};
use crate::cache::flush::Frozen;
use crate::host;

/// The cache's guard between the handlers of one fork.
struct Held(UnsafeCell<Option<Frozen>>);

// SAFETY: written by `prepare` after it took the cache's lock, taken by `parent` or `child`, which run on the
// same thread before that lock is released: whoever touches the cell holds the lock.
unsafe impl Sync for Held {}

static FROZEN: Held = Held(UnsafeCell::new(None));

impl Held {
    fn put(&self, frozen: Frozen) {
        // SAFETY: the caller holds the cache's lock (it is inside `frozen`), see above.
        unsafe { *self.0.get() = Some(frozen) };
    }

    fn take(&self) -> Option<Frozen> {
        // SAFETY: this thread put it there and still holds the cache's lock, or nothing was ever put.
        unsafe { (*self.0.get()).take() }
    }
}

/// Registers the handlers, once, when devices come into use.
pub(crate) fn register() {
    // SAFETY: the handlers are functions of this library, which is never unloaded (`-z nodelete`).
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}

extern "C" fn prepare() {
    if let Some(cache) = init::get().and_then(|r| r.cache) {
        FROZEN.put(cache.freeze());
        cache.unpin_for_fork();
    }
    host::before_fork();
}

extern "C" fn parent() {
    host::after_fork_parent();
    drop(FROZEN.take());
}

extern "C" fn child() {
    host::after_fork_child();
    set_mode(Mode::Forked);
    semcache_fault::handler::reset_after_fork();
    host::forget_users();
    let taken = FROZEN.take();
    if let (Some(cache), Some(f)) = (init::get().and_then(|r| r.cache), taken) {
        cache.thaw_child(f);
    }
    crate::base::counters::reset();
}
