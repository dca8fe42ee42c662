//! The thread that returns freed blocks which nobody asked for again.
//!
//! It exists from the first block that is to be pinned on, and sleeps while nothing is cached. Undoing a pin calls
//! the device, whose own code allocates and frees: so it happens here and not inside whatever `malloc` or `free`
//! finds a block too old. Who cannot wait for that asks.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::thread::futex;
use rustix::thread::futex::Timespec;
use semcache_fault::handler::mask::Section;

use super::bell::{ALIVE, ASLEEP, BELL, MET, WANTED};
use super::runs::{Due, SPACE};
use super::{heap, physical, sys};
use crate::protect::threads;

/// How often it looks while there is something.
const TICK: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};
/// Freed operands keep at most this share of the memory.
const SHARE: usize = 4;

static STARTED: AtomicBool = AtomicBool::new(false);

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
