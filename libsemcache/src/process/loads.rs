//! Loading and unloading of libraries by the runtime: a driver, a BLAS, and the libraries that the driver loads in its
//! turn. A fork waits for loads in progress, and a load waits for forks.
//!
//! The dynamic linker does not expect a fork during a load: a child that then loads a library of its own ends with
//! "Inconsistency detected by ld.so". A program that loads nothing in threads never meets this by itself, so the
//! runtime's loads must not cause it.

use core::cell::Cell;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicBool, AtomicU32};
use core::time::Duration;
use std::time::Instant;

use rustix::thread::futex;
use semcache_fault::broken;

/// The most that a fork waits for loads and a load for forks: longer than a driver needs to load. Not for ever, because
/// a load may want a lock that the forking thread holds, of an allocator whose own fork handler ran before the
/// runtime's.
const PATIENCE: Duration = Duration::from_secs(5);

/// The threads that load libraries and those that fork.
struct Loads {
    /// Number of threads that load libraries.
    loading: AtomicU32,
    /// Number of forks that wait or are in progress.
    forks: AtomicU32,
    /// A fork has waited for loads until its patience ended: no other fork waits until all loads in progress have
    /// ended.
    stuck: AtomicBool,
}

static PROCESS: Loads = Loads::new();

std::thread_local! {
    /// Number of this thread's guards that are alive. Const and without a destructor.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread loads or unloads libraries, or is in a call that may, until this is dropped.
#[derive(Debug)]
pub struct Loading(PhantomData<*const ()>);

impl Loading {
    /// Begins a load as soon as no fork is in progress.
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

/// Called before a fork, and before the fork takes any lock that a load could want. Returns when no other thread loads
/// a library (the calling thread may: a driver starts a program to make its device files); no load begins until
/// [`go_on`].
pub fn stand_still() {
    PROCESS.announce();
    if DEPTH.get() == 0 && !broken!("break-loads") {
        PROCESS.await_loads(PATIENCE);
    }
}

/// Called after the fork, in the parent: loads may begin again.
pub fn go_on() {
    PROCESS.forked();
}

/// Called after the fork, in the child, where no other thread exists.
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
            // A fork and a load each announce themselves before they look for the other: at least one of them sees the
            // other.
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
        // A child that was forked in a signal handler, during the wait before another fork, has set the count to zero.
        let _ = self
            .forks
            .fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1));
        wake(&self.forks);
    }
}

/// Waits while the word is `seen`, at most for `left`; may return at once.
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
            // A fork that is announced but never made does not block a load for good.
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

    /// No fork is in progress while a load is, and the other way round.
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
        // Within a load the thread does not wait for its own fork.
        drop(Loading::new());
        go_on();
        drop(outer);
    }
}
