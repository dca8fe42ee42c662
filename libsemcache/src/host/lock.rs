#![expect(unsafe_code, reason = "a lock hands out references to what it guards")]
//! A mutex that allocates nothing and that can be held across fork(2).
//!
//! `std::sync::Mutex` cannot be released without its guard, which a pair of fork handlers cannot carry. This lock can
//! be held across fork: the forking thread can take the lock again meanwhile (fork handlers of other libraries may
//! allocate), every other thread waits, and both parent and child release the lock.

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::ops::{Deref, DerefMut};

use semcache_fault::handler::deferral;

use crate::process::signals_blocked::{SignalsBlocked, if_bare_handlers, if_handlers};

std::thread_local! {
    /// Set while this thread holds every lock for fork. Const and without a destructor: reading the cell never
    /// allocates, which matters inside malloc.
    static FORKING: Cell<bool> = const { Cell::new(false) };
    /// How many locks this thread holds or is about to take, except the one under which signal handlers are deferred.
    static HOLDS: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread holds a lock. In a signal handler that means that the handler has interrupted code under the
/// lock.
pub(super) fn held_here() -> bool {
    HOLDS.get() > 0 || deferral::LARGE.mine()
}

/// Says whether this thread holds every [`Lock`] on behalf of a fork in progress.
pub(super) fn set_forking(yes: bool) {
    FORKING.with(|f| f.set(yes));
}

/// A value that one thread at a time may use; other threads wait on a futex.
pub(super) struct Lock<T> {
    own: deferral::Lock,
    /// If set, the futex of this lock in place of `own`: the one under which the program's signal handlers are
    /// deferred.
    deferring: Option<&'static deferral::Lock>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, and at most one guard is in use at a time: `lock`
// admits one thread, and the forking thread's nested guards are used by that thread alone.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self {
            own: deferral::Lock::new(),
            deferring: None,
            value: UnsafeCell::new(value),
        }
    }

    /// A lock that blocks no signals: the program's signal handlers are deferred while a thread holds it, which costs
    /// that thread no system call. There is one such lock, and only tables are read and written under it.
    pub(super) const fn deferring(value: T) -> Self {
        Self {
            deferring: Some(&deferral::LARGE),
            own: deferral::Lock::new(),
            value: UnsafeCell::new(value),
        }
    }

    fn word(&self) -> &deferral::Lock {
        self.deferring.unwrap_or(&self.own)
    }

    /// Waits until the calling thread has exclusive access to the value; until it releases the lock, no signal handler
    /// of the program interrupts it. Not reentrant, except between [`Lock::hold`] and [`Lock::release`].
    pub(super) fn lock(&self) -> Guard<'_, T> {
        let blocked = match self.deferring {
            Some(_) => if_bare_handlers(),
            None => if_handlers(),
        };
        let nested = !self.take();
        Guard {
            lock: self,
            nested,
            _blocked: blocked,
        }
    }

    /// False if the calling thread holds the lock already, for a fork in progress.
    fn take(&self) -> bool {
        self.count(|holds| holds + 1);
        if !self.word().attempt() {
            if FORKING.with(Cell::get) {
                self.count(|holds| holds - 1);
                return false;
            }
            self.word().wait();
        }
        true
    }

    /// Counts the locks of this thread. The lock under which handlers are deferred is not counted: its futex names its
    /// owner.
    fn count(&self, change: impl FnOnce(u32) -> u32) {
        if self.deferring.is_none() {
            HOLDS.set(change(HOLDS.get()));
        }
    }

    /// Takes the lock for the time of a fork. The caller blocks signals.
    pub(super) fn hold(&self) {
        let _ = self.take();
    }

    /// Releases what [`Lock::hold`] took; in the child too, whose copy of the futex says that the lock is held.
    pub(super) fn release(&self) {
        self.word().give_back();
        // A child that was made past libc's fork handlers releases locks that other threads of its parent held.
        self.count(|holds| holds.saturating_sub(1));
    }
}

impl<T> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("held", &self.word().held())
            .finish_non_exhaustive()
    }
}

/// Exclusive access to the value, until dropped.
pub(super) struct Guard<'a, T> {
    lock: &'a Lock<T>,
    nested: bool,
    /// Dropped last: signals stay blocked until the lock is released.
    _blocked: Option<SignalsBlocked>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this guard's thread holds the lock (see the Sync argument), so no other thread has a reference.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; the guard itself is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        if !self.nested {
            self.lock.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        static L: Lock<u64> = Lock::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..20_000 {
                        let mut g = L.lock();
                        let v = *g;
                        core::hint::spin_loop();
                        *g = v + 1;
                    }
                });
            }
        });
        assert_eq!(*L.lock(), 80_000);
    }

    #[test]
    fn held_for_fork_admits_its_thread_only() {
        let l = Lock::new(1);
        assert!(!held_here());
        l.hold();
        set_forking(true);
        *l.lock() += 1;
        *l.lock() += 1;
        set_forking(false);
        assert!(held_here());
        std::thread::scope(|s| {
            let t = s.spawn(|| *l.lock());
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(!t.is_finished());
            l.release();
            assert!(!held_here());
            assert_eq!(t.join().expect("joins"), 3);
        });
    }
}
