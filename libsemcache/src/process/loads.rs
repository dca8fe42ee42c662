//! Libraries that come into the process, or go, on our account: a driver, a BLAS, and what the driver loads in its turn.
//!
//! The dynamic linker does not expect a fork in the middle of that: a child that loads a library of its own then ends
//! with "Inconsistency detected by ld.so". A program that loads nothing in threads never meets this, so it must not
//! because of ours: a fork waits for loads under way, and a load for forks.

use core::cell::Cell;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicBool, AtomicU32};
use core::time::Duration;
use std::time::Instant;

use rustix::thread::futex;
use semcache_fault::broken;

/// How long one waits for the other: longer than a driver needs, but not for ever, for a load may want what the thread
/// that forks has: a lock of an allocator whose own handler for forks ran before ours.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who loads, and who forks.
struct Loads {
    /// Threads that load.
    loading: AtomicU32,
    /// Forks that wait or are under way.
    forks: AtomicU32,
    /// A fork has waited in vain: no other does, until all that was being loaded is there.
    stuck: AtomicBool,
}

static PROCESS: Loads = Loads::new();

std::thread_local! {
    /// Guards of this thread that are alive. Const and without a destructor.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// This thread loads or unloads libraries, or is in a call that may, until dropped.
#[derive(Debug)]
pub struct Loading(PhantomData<*const ()>);

impl Loading {
    /// As soon as no fork is under way.
    #[expect(clippy::new_without_default, reason = "a guard, not a value")]
    #[must_use]
    pub fn new() -> Loading {
        if DEPTH.replace(DEPTH.get() + 1) == 0 {
            PROCESS.enter(PATIENCE);
        }
        Loading(PhantomData)
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            PROCESS.leave();
        }
    }
}

/// Before a fork, and before any lock that a load could want: returns when nothing is being loaded, unless by this very
/// thread (a driver starts a program to make its device files), and nothing begins until [`go_on`].
pub fn stand_still() {
    PROCESS.announce();
    if DEPTH.get() == 0 && !broken!("break-loads") {
        PROCESS.await_loads(PATIENCE);
    }
}

/// After the fork, in the parent.
pub fn go_on() {
    PROCESS.forked();
}

/// After the fork, in the child: other threads do not exist there.
pub fn alone() {
    PROCESS.forks.store(0, SeqCst);
    PROCESS.loading.store(u32::from(DEPTH.get() > 0), SeqCst);
}

impl Loads {
    const fn new() -> Loads {
        Loads {
            loading: AtomicU32::new(0),
            forks: AtomicU32::new(0),
            stuck: AtomicBool::new(false),
        }
    }

    fn enter(&self, patience: Duration) {
        let began = Instant::now();
        loop {
            // Each side says what it wants before it looks at the other: at least one of them sees the other.
            self.loading.fetch_add(1, SeqCst);
            let forks = self.forks.load(SeqCst);
            let left = patience.saturating_sub(began.elapsed());
            if forks == 0 || left.is_zero() {
                return;
            }
            self.leave();
            wait(&self.forks, forks, left);
        }
    }

    fn leave(&self) {
        if self.loading.fetch_sub(1, SeqCst) == 1 {
            self.stuck.store(false, SeqCst);
        }
        wake(&self.loading);
    }

    fn announce(&self) {
        self.forks.fetch_add(1, SeqCst);
    }

    fn await_loads(&self, patience: Duration) {
        let began = Instant::now();
        loop {
            let loading = self.loading.load(SeqCst);
            let left = patience.saturating_sub(began.elapsed());
            if loading == 0 || self.stuck.load(SeqCst) {
                return;
            }
            if left.is_zero() {
                self.stuck.store(true, SeqCst);
                return;
            }
            wait(&self.loading, loading, left);
        }
    }

    fn forked(&self) {
        // A child that began in a handler, within the wait before a fork, has forgotten of that one.
        let _ = self
            .forks
            .fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1));
        wake(&self.forks);
    }
}

/// Waits while the word is `seen`, not longer than `left`, and at times not at all.
fn wait(word: &AtomicU32, seen: u32, left: Duration) {
    let left = futex::Timespec {
        tv_sec: left.as_secs().cast_signed(),
        tv_nsec: i64::from(left.subsec_nanos()),
    };
    let _ = futex::wait(word, futex::Flags::PRIVATE, seen, Some(&left));
}

fn wake(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::PRIVATE, u32::MAX >> 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_fork_waits_for_a_load() {
        let (loads, forked) = (Loads::new(), AtomicBool::new(false));
        loads.enter(LONG);
        std::thread::scope(|s| {
            s.spawn(|| {
                loads.announce();
                loads.await_loads(LONG);
                forked.store(true, SeqCst);
                loads.forked();
            });
            while loads.forks.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert!(!forked.load(SeqCst));
            loads.leave();
        });
        assert!(forked.load(SeqCst));
    }

    #[test]
    fn a_load_waits_for_all_forks() {
        let (loads, loaded) = (Loads::new(), AtomicBool::new(false));
        loads.announce();
        loads.announce();
        std::thread::scope(|s| {
            s.spawn(|| {
                loads.enter(LONG);
                loaded.store(true, SeqCst);
                loads.leave();
            });
            // What is only announced holds no fork up for good.
            loads.await_loads(LONG);
            loads.forked();
            std::thread::yield_now();
            assert!(!loaded.load(SeqCst));
            loads.forked();
        });
        assert!(loaded.load(SeqCst));
        assert_eq!(
            (loads.loading.into_inner(), loads.forks.into_inner()),
            (0, 0)
        );
    }

    /// No two are inside at once, of one kind and the other.
    #[test]
    fn never_both() {
        let (loads, loading, forking) = (Loads::new(), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    for _ in 0..2000 {
                        loads.enter(LONG);
                        loading.fetch_add(1, SeqCst);
                        assert_eq!(forking.load(SeqCst), 0);
                        loading.fetch_sub(1, SeqCst);
                        loads.leave();
                    }
                });
                s.spawn(|| {
                    for _ in 0..2000 {
                        loads.announce();
                        loads.await_loads(LONG);
                        forking.fetch_add(1, SeqCst);
                        assert_eq!(loading.load(SeqCst), 0);
                        forking.fetch_sub(1, SeqCst);
                        loads.forked();
                        std::thread::yield_now();
                    }
                });
            }
        });
    }

    #[test]
    fn a_thread_that_loads_may_fork() {
        let outer = Loading::new();
        stand_still();
        // Within a load it does not wait for its own fork.
        drop(Loading::new());
        go_on();
        drop(outer);
    }
}
