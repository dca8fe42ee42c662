//! Libraries that come into the process, or go, on our account: a driver, a BLAS, and what the driver loads in its turn.
//!
//! The dynamic linker does not expect a fork in the middle of that: a child that loads a library of its own then ends
//! with "Inconsistency detected by ld.so". A program that loads nothing in threads never meets this, so it must not
//! because of ours: a fork waits for loads under way, and a load for forks.

use core::cell::Cell;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;
use core::time::Duration;
use std::time::Instant;

use rustix::thread::futex;
use semcache_fault::broken;

/// How long a fork waits: longer than a driver needs, but not for ever, for a load may want what the thread that forks
/// has: a lock of an allocator whose own handler for forks ran before ours.
const PATIENCE: Duration = Duration::from_secs(5);

/// Threads that load.
static LOADING: AtomicU32 = AtomicU32::new(0);
/// Forks that wait or are under way.
static FORKS: AtomicU32 = AtomicU32::new(0);

std::thread_local! {
    /// Guards of this thread that are alive. Const and without a destructor.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// This thread loads or unloads libraries, or is in a call that may, until dropped.
#[derive(Debug)]
pub struct Loading(());

impl Loading {
    /// As soon as no fork is under way.
    #[expect(clippy::new_without_default, reason = "a guard, not a value")]
    #[must_use]
    pub fn new() -> Loading {
        if DEPTH.replace(DEPTH.get() + 1) == 0 {
            enter();
        }
        Loading(())
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            leave();
        }
    }
}

fn enter() {
    loop {
        LOADING.fetch_add(1, SeqCst);
        let forks = FORKS.load(SeqCst);
        if forks == 0 {
            return;
        }
        leave();
        // An error (another number by now, a signal) only means: look again.
        let _ = futex::wait(&FORKS, futex::Flags::PRIVATE, forks, None);
    }
}

fn leave() {
    LOADING.fetch_sub(1, SeqCst);
    wake(&LOADING);
}

fn wake(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::PRIVATE, u32::MAX >> 1);
}

/// Before a fork, and before any lock that a load could want: returns when nothing is being loaded, unless by this very
/// thread (a driver starts a program to make its device files), and nothing begins until [`go_on`].
pub fn stand_still() {
    FORKS.fetch_add(1, SeqCst);
    if DEPTH.get() > 0 || broken!("break-loads") {
        return;
    }
    let began = Instant::now();
    loop {
        let loading = LOADING.load(SeqCst);
        let left = PATIENCE.saturating_sub(began.elapsed());
        if loading == 0 || left.is_zero() {
            return;
        }
        let left = futex::Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let _ = futex::wait(&LOADING, futex::Flags::PRIVATE, loading, Some(&left));
    }
}

/// After the fork, in the parent.
pub fn go_on() {
    FORKS.fetch_sub(1, SeqCst);
    wake(&FORKS);
}

/// After the fork, in the child: other threads do not exist there.
pub fn alone() {
    FORKS.store(0, SeqCst);
    LOADING.store(u32::from(DEPTH.get() > 0), SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;

    /// One test: forks and loads are the process's.
    #[test]
    fn a_fork_and_a_load_wait_for_each_other() {
        static FORKED: AtomicBool = AtomicBool::new(false);
        static LOADED: AtomicBool = AtomicBool::new(false);
        let outer = Loading::new();
        // Its own load does not hold a thread's fork up.
        stand_still();
        // Nor does a fork hold up what is within a load.
        drop(Loading::new());
        go_on();
        std::thread::scope(|s| {
            let fork = s.spawn(|| {
                stand_still();
                FORKED.store(true, SeqCst);
                while FORKS.load(SeqCst) == 1 {
                    std::thread::yield_now();
                }
                // The load that came meanwhile, in no matter how many attempts, is not under way.
                assert!(!LOADED.load(SeqCst));
                go_on();
            });
            while FORKS.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert!(!FORKED.load(SeqCst));
            drop(outer);
            while !FORKED.load(SeqCst) {
                std::thread::yield_now();
            }
            s.spawn(|| {
                let _loading = Loading::new();
                LOADED.store(true, SeqCst);
            });
            // A second fork lets the first go on.
            stand_still();
            fork.join().unwrap();
            assert!(!LOADED.load(SeqCst));
            go_on();
        });
        assert!(LOADED.load(SeqCst));
        assert_eq!((LOADING.load(SeqCst), FORKS.load(SeqCst)), (0, 0));
    }
}
