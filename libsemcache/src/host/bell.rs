//! A futex that wakes the thread that returns freed blocks to the system (`idle`), and the requests to that thread.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32};

use rustix::thread::futex;
use rustix::thread::futex::Timespec;

use super::runs::SPACE;

/// [`trim`] waits at most `PAUSES` times `PAUSE` for its request to be met.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

const PAUSES: usize = 100;

pub(super) static ALIVE: AtomicBool = AtomicBool::new(false);

/// Incremented when the thread is to look at the freed blocks.
pub(super) static BELL: AtomicU32 = AtomicU32::new(0);

/// The thread sleeps without a timeout. Changes under the lock of the owned blocks (`SPACE`).
pub(super) static ASLEEP: AtomicBool = AtomicBool::new(false);

/// The number of requests to return all freed blocks, and the number of the last request that was met.
pub(super) static WANTED: AtomicU32 = AtomicU32::new(0);

pub(super) static MET: AtomicU32 = AtomicU32::new(0);

fn ring() {
    BELL.fetch_add(1, Release);
    let _ = futex::wake(&BELL, futex::Flags::PRIVATE, 1);
}

/// A freed block was kept for reuse (`crowded`: the kept blocks now exceed their limit). Called after the lock of the
/// owned blocks was released.
pub(super) fn cached(crowded: bool) {
    if ALIVE.load(Relaxed) && (crowded || ASLEEP.load(Relaxed)) {
        ring();
    }
}

/// Has all freed blocks returned to the system, pinned or not, and waits for that at most two seconds: the calling
/// thread may hold a lock that the device needs in order to unpin memory. True if the request was met.
pub(super) fn trim() -> bool {
    if !ALIVE.load(Acquire) || !SPACE.lock().any_cached() {
        return false;
    }
    let wanted = WANTED.fetch_add(1, Release).wrapping_add(1);
    ring();
    for _ in 0..PAUSES {
        let met = MET.load(Acquire);
        if met.wrapping_sub(wanted) as i32 >= 0 {
            return true;
        }
        let _ = futex::wait(&MET, futex::Flags::PRIVATE, met, Some(&PAUSE));
    }
    false
}

/// Has all freed blocks returned to the system soon, without waiting: the program needs memory.
pub(super) fn hurry() {
    if ALIVE.load(Acquire) {
        WANTED.fetch_add(1, Release);
        ring();
    }
}

/// Forgets the thread, which does not exist in a child of fork.
pub(super) fn forget() {
    ALIVE.store(false, Relaxed);
}
