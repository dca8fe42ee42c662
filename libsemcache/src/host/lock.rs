#![expect(unsafe_code, reason = "a lock hands out references to what it guards")]
//! A mutual exclusion that allocates nothing and that fork(2) survives.
//!
//! `std::sync::Mutex` cannot be released without its guard, which a pair of fork handlers cannot carry.
//! This one can be held across fork: the forking thread enters it again meanwhile (fork handlers of other
//! libraries may allocate), every other thread waits, and both parent and child release it.

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::thread::futex;

use crate::base::masked::{Masked, if_handlers};

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// How often a waiter looks again before it sleeps: critical sections here are tens of nanoseconds long.
const SPINS: u32 = 100;

std::thread_local! {
    /// Set while this thread holds every lock for fork. Const and without a destructor: reading it never
    /// allocates, which matters inside malloc.
    static FORKING: Cell<bool> = const { Cell::new(false) };
    /// How many locks this thread holds, or is about to take.
    static HOLDS: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread holds a lock: then a signal handler runs here that interrupted it.
pub(super) fn held_here() -> bool {
    HOLDS.get() > 0
}

/// Says whether this thread holds every [`Lock`] on behalf of a fork in progress.
pub(super) fn set_forking(yes: bool) {
    FORKING.with(|f| f.set(yes));
}

/// A value behind a futex.
pub(super) struct Lock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, and at most one guard is in use at a time: `lock`
// admits one thread, and the forking thread's nested guards are used by that thread alone.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until the value is this thread's, whom no handler of the program's interrupts then. Not reentrant, except
    /// between [`Lock::hold`] and [`Lock::release`].
    pub(super) fn lock(&self) -> Guard<'_, T> {
        let masked = if_handlers();
        let nested = !self.take();
        Guard {
            lock: self,
            nested,
            _masked: masked,
        }
    }

    /// False if the forking thread has it.
    fn take(&self) -> bool {
        HOLDS.set(HOLDS.get() + 1);
        if self
            .word
            .compare_exchange(FREE, HELD, Acquire, Relaxed)
            .is_err()
        {
            if FORKING.with(Cell::get) {
                HOLDS.set(HOLDS.get() - 1);
                return false;
            }
            self.wait();
        }
        true
    }

    #[cold]
    fn wait(&self) {
        for _ in 0..SPINS {
            if self
                .word
                .compare_exchange(FREE, HELD, Acquire, Relaxed)
                .is_ok()
            {
                return;
            }
            core::hint::spin_loop();
        }
        while self.word.swap(AWAITED, Acquire) != FREE {
            // Errors (the word changed, a signal) only mean: look again.
            let _ = futex::wait(&self.word, futex::Flags::PRIVATE, AWAITED, None);
        }
    }

    /// Takes the lock for the time of a fork. The caller blocks signals.
    pub(super) fn hold(&self) {
        let _ = self.take();
    }

    /// Gives back what [`Lock::hold`] took; in the child too, whose copy of the word says held.
    pub(super) fn release(&self) {
        if self.word.swap(FREE, Release) == AWAITED {
            let _ = futex::wake(&self.word, futex::Flags::PRIVATE, 1);
        }
        // A child that nobody was told of gives up locks that other threads of its parent held.
        HOLDS.set(HOLDS.get().saturating_sub(1));
    }
}

impl<T> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("word", &self.word.load(Relaxed))
            .finish()
    }
}

/// The right to the value, until dropped.
pub(super) struct Guard<'a, T> {
    lock: &'a Lock<T>,
    nested: bool,
    /// Until after the lock is given back.
    _masked: Option<Masked>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this guard's thread holds the lock (see the Sync argument), so nobody else has a reference.
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
