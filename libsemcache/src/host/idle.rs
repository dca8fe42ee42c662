//! The thread that returns freed blocks which nobody asked for again.
//!
//! It exists from the first block that is to be pinned on, and sleeps while nothing is cached. Undoing a pin calls
//! the device, whose own code allocates and frees: so it happens here and not inside whatever `malloc` or `free`
//! finds a block too old. Who cannot wait for that asks.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32};

use rustix::thread::futex;
use rustix::thread::futex::Timespec;
use semcache_fault::handler::mask::Section;

use super::heap::{self, SPACE};
use super::runs::Due;
use super::{physical, sys};
use crate::protect::threads;

/// How often it looks while there is something.
const TICK: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};
/// How often [`trim`] looks whether it is done, and how many times.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};
const PAUSES: usize = 100;
/// Freed operands keep at most this share of the memory.
const SHARE: usize = 4;

static STARTED: AtomicBool = AtomicBool::new(false);
static ALIVE: AtomicBool = AtomicBool::new(false);
/// Changes when there is reason to look.
static BELL: AtomicU32 = AtomicU32::new(0);
/// It sleeps without a limit. Changes under the heap's lock.
static ASLEEP: AtomicBool = AtomicBool::new(false);
/// Requests to return everything, and the last one that was met.
static WANTED: AtomicU32 = AtomicU32::new(0);
static MET: AtomicU32 = AtomicU32::new(0);

/// Starts the thread, once; freed operands are kept from then on. Called where threads may be made.
pub fn start() {
    if STARTED.swap(true, Relaxed) {
        return;
    }
    ALIVE.store(true, Release);
    if threads::spawn("semcache-idle", threads::STACK, run).is_ok() {
        SPACE.lock().keep_operands(physical::memory() / SHARE);
    } else {
        ALIVE.store(false, Release);
    }
}

fn run() {
    loop {
        let bell = BELL.load(Acquire);
        let wanted = WANTED.load(Acquire);
        let due = if wanted == MET.load(Relaxed) {
            Due::Idle(sys::now_ms())
        } else {
            Due::All
        };
        // What is cached in a process that restricts its system calls stays so.
        let section = Section::begin();
        if section.is_some() {
            heap::reap();
            let _ = heap::discard_overdue(due, usize::MAX);
        }
        if due == Due::All {
            MET.store(wanted, Release);
            let _ = futex::wake(&MET, futex::Flags::PRIVATE, u32::MAX >> 1);
        }
        let more = {
            let space = SPACE.lock();
            let more = space.any_cached();
            ASLEEP.store(!more, Relaxed);
            more
        };
        let limit = (more && section.is_some()).then_some(&TICK);
        drop(section);
        // Errors (rung meanwhile, time, a signal) only mean: look again.
        let _ = futex::wait(&BELL, futex::Flags::PRIVATE, bell, limit);
    }
}

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
