//! The thread that returns freed blocks to the system when no allocation has reused them for a while.
//!
//! The thread starts when the first block is to be pinned, and sleeps while no freed block is kept. Unpinning memory
//! calls the device driver, whose own code allocates and frees memory: so this thread unpins, not the call of `malloc`
//! or `free` that finds a block too old. A call that needs the memory at once asks this thread for it (`bell`).

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::thread::futex;
use rustix::thread::futex::Timespec;
use semcache_fault::handler::mask::Section;

use super::bell::{ALIVE, ASLEEP, BELL, MET, WANTED};
use super::runs::{Due, SPACE};
use super::{heap, physical, sys};
use crate::process::threads;

/// How often the thread looks at the kept blocks while there are any.
const TICK: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};
/// Freed operands are kept up to this share of the memory (1/`SHARE`).
const SHARE: usize = 4;

static STARTED: AtomicBool = AtomicBool::new(false);

/// Starts the thread, once; freed operands are kept from then on. Called only where creating a thread is safe.
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
        // In a process that restricts its system calls the kept blocks are not returned.
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
        // An error (the futex has changed, a timeout, a signal) only means: look at the blocks again.
        let _ = futex::wait(&BELL, futex::Flags::PRIVATE, bell, limit);
    }
}
