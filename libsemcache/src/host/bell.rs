//! What wakes the thread that returns freed blocks (`idle`), and what it is asked for.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32};

use rustix::thread::futex;
use rustix::thread::futex::Timespec;

use super::runs::SPACE;

/// How often [`trim`] looks whether it is done, and how many times.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

const PAUSES: usize = 100;

pub(super) static ALIVE: AtomicBool = AtomicBool::new(false);

/// Changes when there is reason to look.
pub(super) static BELL: AtomicU32 = AtomicU32::new(0);

/// It sleeps without a limit. Changes under the heap's lock.
pub(super) static ASLEEP: AtomicBool = AtomicBool::new(false);

/// Requests to return everything, and the last one that was met.
pub(super) static WANTED: AtomicU32 = AtomicU32::new(0);

pub(super) static MET: AtomicU32 = AtomicU32::new(0);

fn ring() {
    BELL.fetch_add(1, Release);
    let _ = futex::wake(&BELL, futex::Flags::PRIVATE, 1);
}

/// A block was cached (`crowded`: and now there are too many). After the heap's lock was given back.
pub(super) fn cached(crowded: bool) {
    if ALIVE.load(Relaxed) && (crowded || ASLEEP.load(Relaxed)) {
        ring();
    }
}

/// Has everything returned, pinned or not, and waits for that, but not for ever: the calling thread may hold what
/// the device needs.
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

/// Has everything returned soon: memory is wanted.
pub(super) fn hurry() {
    if ALIVE.load(Acquire) {
        WANTED.fetch_add(1, Release);
        ring();
    }
}

/// Forgets the thread: a child of fork has none.
pub(super) fn forget() {
    ALIVE.store(false, Relaxed);
}
