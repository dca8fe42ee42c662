//! fork: results on devices are written back before it, the parent keeps its devices, and the child computes on the
//! host.
//!
//! Devices cannot be used after fork, the child has no service thread, and it inherits page protection. So the prepare
//! handler writes the newest bytes back and holds every lock of the runtime; in the parent the replicas stay valid; the
//! child makes all memory accessible and never touches a device again. While devices are still coming up nothing has to
//! be written back: in the parent they go on coming up, and the child has no runtime.
//!
//! Other libraries register fork handlers, too. Prepare handlers run in the opposite order of their registration, and
//! the one below is registered first, so it runs last: no lock of the runtime is held while another library's prepare
//! handler waits for locks or threads (OpenBLAS ends its threads, and maps and frees memory). Those threads may be in a
//! BLAS call, at a page fault, or in a hook.
#![expect(unsafe_code, reason = "pthread_atfork")]

use std::cell::{Cell, UnsafeCell};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::process::signals_blocked::SignalsBlocked;
use crate::process::{background, descriptors, loads};

use super::mode::{Mode, mode, set_mode};
use super::started::{get, hold};
use super::{counted, init, present};
use crate::cache::frozen::Frozen;
use crate::host;

/// What a fork's prepare handler holds until the parent or child handler runs, besides the stop on loading libraries:
/// the lock of start-up, the cache's lock if there is a cache, and the block on the thread's signals, which is released
/// last: a signal handler of the program that touches an inaccessible page while this thread holds the cache's lock
/// would wait for ever.
type Still = (MutexGuard<'static, ()>, Option<Frozen>, SignalsBlocked);

/// See [`Still`].
struct StillCell(UnsafeCell<Option<Still>>);

// SAFETY: written by `prepare` after it took the lock of start-up, taken by `parent` or `child`, which run on the same
// thread before that lock is released: every access to the cell holds the lock.
unsafe impl Sync for StillCell {}

static STILL: StillCell = StillCell(UnsafeCell::new(None));

/// Whether the fork handlers are registered.
static WATCHED: AtomicBool = AtomicBool::new(false);
/// Whether start-up of devices has begun.
static BEGUN: AtomicBool = AtomicBool::new(false);

std::thread_local! {
    /// The prepare handler did nothing for the fork that this thread is making, so the parent and child handlers do
    /// nothing either.
    static PASSED_OVER: Cell<bool> = const { Cell::new(false) };
}

impl StillCell {
    fn put(&self, still: Still) {
        // SAFETY: the caller holds the lock of start-up (it is inside `still`), see above.
        unsafe { *self.0.get() = Some(still) };
    }

    fn take(&self) -> Option<Still> {
        // SAFETY: this thread put the value there and still holds the lock of start-up, or nothing was ever put.
        unsafe { (*self.0.get()).take() }
    }
}

/// Registers the fork handlers, once: before any other library registers some, and before there is a second thread,
/// since a fork must not happen while another thread holds the allocator's lock.
pub fn watch() {
    if WATCHED.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: the handlers are functions of this library, which is never unloaded (`-z nodelete`).
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}

/// Called when devices start coming up: a child that forks from now on computes on the host.
pub(crate) fn register() {
    semcache_fault::lineage::mark();
    BEGUN.store(true, Ordering::Release);
    watch();
}

/// Makes a child that copies the memory without libc's `fork`, which would have called the handlers. `make` returns the
/// child's id, 0 in the child, or a negative number. A child that starts in another function calls [`begun`] there.
///
/// `_Fork` may be called in signal handlers: if the handler interrupted this thread while it held a lock of the
/// runtime, no fork handler runs, and the child finds out by itself that it is one (`mode::orphan`).
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

/// The first call in a child of [`around`] that starts in another function.
pub fn begun() {
    if WATCHED.load(Ordering::Acquire) {
        child();
    }
}

extern "C" fn prepare() {
    // A signal handler forks, and it interrupted this thread while it held a lock of the runtime, which the thread
    // releases later in parent and child; a child of a process with devices finds out by itself that it is one
    // (`mode::orphan`).
    if host::interrupted() {
        PASSED_OVER.set(true);
        return;
    }
    let blocked = SignalsBlocked::new();
    background::forking();
    // Done again after the hook of `fork` did so: libc's own forks do not pass that hook, nor do those of [`around`].
    loads::stand_still();
    let held = hold();
    let frozen = get().and_then(|r| r.cache).map(|cache| {
        let frozen = cache.freeze();
        cache.unpin_for_fork();
        frozen
    });
    STILL.put((held, frozen, blocked));
    host::before_fork();
}

extern "C" fn parent() {
    if PASSED_OVER.take() {
        return;
    }
    host::after_fork_parent();
    if let Some((held, frozen, _blocked)) = STILL.take() {
        loads::go_on();
        if let (Some(cache), Some(frozen)) = (get().and_then(|r| r.cache), frozen) {
            cache.thaw_parent(frozen);
        }
        drop(held);
    }
}

extern "C" fn child() {
    background::alone();
    if PASSED_OVER.take() {
        return;
    }
    semcache_fault::lineage::acknowledge();
    loads::alone();
    present::alone();
    descriptors::forget_all();
    host::after_fork_child();
    // A process that never started devices loses none by a fork.
    if BEGUN.load(Ordering::Acquire) && mode() != Mode::Off {
        set_mode(Mode::Forked);
    }
    semcache_fault::handler::reset_after_fork();
    host::forget_users();
    if let Some((held, frozen, _blocked)) = STILL.take() {
        if let (Some(cache), Some(f)) = (get().and_then(|r| r.cache), frozen) {
            cache.thaw_child(f);
        }
        drop(held);
    }
    counted::child();
    init::child();
}
