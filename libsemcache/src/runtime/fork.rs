//! fork: the parent's results come home before, the child computes on the host.
//!
//! Devices cannot be used after fork, the child has no service thread, and it inherits page protection. So
//! the prepare handler brings the newest bytes home and holds every lock; the parent goes on with its
//! replicas still valid; the child opens all memory and never touches a device again. While devices are still
//! coming up there is nothing to bring home: the parent's go on coming up, the child knows nothing of them.
//!
//! Others have handlers, too, and those that run before the fork run in the opposite order of their registration. Ours is
//! registered first, so nothing of ours is locked while others wait for their own locks or threads (OpenBLAS's end, and
//! map and free memory): the same threads may be in a call, at a fault, or in a hook.
#![expect(unsafe_code, reason = "pthread_atfork")]

use std::cell::{Cell, UnsafeCell};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::process::masked::Masked;
use crate::process::{descriptors, loads};

use super::mode::{Mode, mode, set_mode};
use super::present;
use super::started::{get, hold};
use crate::cache::flush::Frozen;
use crate::host;

/// What stands still between the handlers of one fork, besides loads of libraries: the start of the runtime, the cache if
/// there is one, and the thread's signals, last to go on: a handler of the program that touches a closed page while this thread holds the
/// cache would wait for ever.
type Still = (MutexGuard<'static, ()>, Option<Frozen>, Masked);

/// See [`Still`].
struct StillCell(UnsafeCell<Option<Still>>);

// SAFETY: written by `prepare` after it took the lock of start-up, taken by `parent` or `child`, which run on the
// same thread before that lock is released: whoever touches the cell holds the lock.
unsafe impl Sync for StillCell {}

static STILL: StillCell = StillCell(UnsafeCell::new(None));

/// Whether the handlers are there.
static WATCHED: AtomicBool = AtomicBool::new(false);
/// Whether devices are coming up, or were to.
static BEGUN: AtomicBool = AtomicBool::new(false);

std::thread_local! {
    /// The handlers were not for the fork that this thread is at.
    static PASSED_OVER: Cell<bool> = const { Cell::new(false) };
}

impl StillCell {
    fn put(&self, still: Still) {
        // SAFETY: the caller holds the lock of start-up (it is inside `still`), see above.
        unsafe { *self.0.get() = Some(still) };
    }

    fn take(&self) -> Option<Still> {
        // SAFETY: this thread put it there and still holds the lock of start-up, or nothing was ever put.
        unsafe { (*self.0.get()).take() }
    }
}

/// Registers the handlers, once, before anybody else registers any, and before there are two threads: a fork must not
/// find another one in our allocator.
pub fn watch() {
    if WATCHED.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: the handlers are functions of this library, which is never unloaded (`-z nodelete`).
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}

/// From now on a child computes on the host: devices come up.
pub(crate) fn register() {
    semcache_fault::lineage::mark();
    BEGUN.store(true, Ordering::Release);
    watch();
}

/// Makes a child with a copy of the memory past libc's `fork`, which would have called the handlers. `make` returns the
/// child's id, 0 in the child, or a negative number. A child that begins in another function calls [`begun`] there.
///
/// `_Fork` is for signal handlers: one that interrupted this thread with a lock of ours gets a child that nobody was told
/// of (`mode::orphan`).
pub fn around(make: impl FnOnce() -> i64) -> i64 {
    if !WATCHED.load(Ordering::Acquire) {
        return make();
    }
    if host::interrupted() {
        PASSED_OVER.set(true);
        let made = make();
        PASSED_OVER.set(false);
        return made;
    }
    prepare();
    let made = make();
    if made == 0 {
        child()
    } else {
        parent()
    }
    made
}

/// In a child of [`around`] that begins elsewhere, before anything else.
pub fn begun() {
    if WATCHED.load(Ordering::Acquire) {
        child();
    }
}

extern "C" fn prepare() {
    // In a handler that interrupted this thread with a lock of ours, which the thread gives back later in parent and
    // child; a child of a process with devices finds out by itself (`mode::orphan`).
    if host::interrupted() {
        PASSED_OVER.set(true);
        return;
    }
    let masked = Masked::new();
    // Again, after the hook of `fork`: libc's own callers do not come by it, nor do [`around`]'s.
    loads::stand_still();
    let held = hold();
    let frozen = get().and_then(|r| r.cache).map(|cache| {
        let frozen = cache.freeze();
        cache.unpin_for_fork();
        frozen
    });
    STILL.put((held, frozen, masked));
    host::before_fork();
}

extern "C" fn parent() {
    if PASSED_OVER.take() {
        return;
    }
    host::after_fork_parent();
    if let Some(still) = STILL.take() {
        loads::go_on();
        drop(still);
    }
}

extern "C" fn child() {
    if PASSED_OVER.take() {
        return;
    }
    semcache_fault::lineage::acknowledge();
    loads::alone();
    present::alone();
    descriptors::forget_all();
    host::after_fork_child();
    // Without devices nothing is lost by a fork.
    if BEGUN.load(Ordering::Acquire) && mode() != Mode::Off {
        set_mode(Mode::Forked);
    }
    semcache_fault::handler::reset_after_fork();
    host::forget_users();
    if let Some((held, frozen, _masked)) = STILL.take() {
        if let (Some(cache), Some(f)) = (get().and_then(|r| r.cache), frozen) {
            cache.thaw_child(f);
        }
        drop(held);
    }
    crate::base::counters::reset();
}
