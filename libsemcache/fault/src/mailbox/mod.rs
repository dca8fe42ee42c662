//! The way from a faulting thread to the service thread and back: a static array of slots.
//!
//! A faulting thread *posts* (address, is-write) and gets a [`Ticket`]; it spins shortly, then sleeps on the slot's
//! word. The service thread *takes* a fault, makes the page accessible and *completes* the fault with a [`Verdict`];
//! the faulting thread, owner of the slot, *collects* the verdict and frees the slot.
//!
//! # The slot's word
//!
//! `generation << 4 | asleep << 3 | phase`. Every change is a compare-exchange on the word, so that
//! each phase has one writer:
//!
//! ```text
//! FREE -claim, generation + 1-> CLAIMED -poster-> POSTED -service-> TAKEN -service-> RETRY | NOT_OURS
//!   ^                                                                                     |
//!   +--------------------------- collected by the owner, or reaped ----------------------+
//! ```
//!
//! - M1 The program may `siglongjmp` out of the wait. Its ticket is served all the same. The slot, done but not
//!   collected, is claimed by a poster that finds no free slot, or freed by the idle service thread when it sees the
//!   slot done for the second time.
//! - M2 An owner whose generation is gone retries its access, which is always safe: the access faults again if the page
//!   is still protected.
//! - M3 The owner sets `asleep` before it sleeps; the thread that completes the slot wakes the owner only if it is set.
//! - M4 The *doorbell* counts posts; its lowest bit says that the service thread sleeps. The service thread reads the
//!   doorbell, looks through the slots, and sleeps only if the doorbell has not changed since. A poster publishes the
//!   slot before it rings. Neither needs a sequentially consistent fence.
//! - M5 The `posted` bitmap is a hint that saves looking at every slot. A post whose thread left (`siglongjmp`) between
//!   posting and setting its bit is found when the idle service thread looks at all slots.
//!
//! A poster that leaves in the few instructions between claiming and posting loses its slot for good; there are 1024
//! slots.
//!
//! - M6 A second service thread stands by, asleep. If a waiting owner finds the first service thread gone, or silent
//!   for too long, the owner wakes the second: that returns the faults that the first had taken, to be retried, and
//!   serves from then on. An owner stops waiting (H5) only if there is neither.
//!
//! The model checker runs the same code (`tests/loom.rs`), two slots and no time-outs:
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target-loom \
//!     cargo test -p semcache-fault --release --test loom
//! ```

mod poster;
mod service;
mod spin;

#[cfg(not(loom))]
pub(crate) use spin::tune;

use crate::sync::{self, AtomicU32, AtomicU64, AtomicUsize, Ordering, Word};
#[cfg(not(loom))]
use core::time::Duration;

/// How many faults can be under way or abandoned at a time.
pub const SLOTS: usize = if cfg!(loom) { 2 } else { 1024 };
const BITMAP: usize = SLOTS.div_ceil(64);

const FREE: u32 = 0;
const CLAIMED: u32 = 1;
const POSTED: u32 = 2;
const TAKEN: u32 = 3;
const RETRY: u32 = 4;
const NOT_OURS: u32 = 5;
const PHASE: u32 = 7;
const ASLEEP: u32 = 8;
const GENERATION: u32 = 16;

/// The doorbell's bit for "the service thread sleeps", and the amount that one post adds.
const SLEEPS: u32 = 1;
const RING: u32 = 2;

const fn phase(word: u32) -> u32 {
    word & PHASE
}

const fn generation(word: u32) -> u32 {
    word / GENERATION
}

/// The word of a generation in a phase; generations wrap at 28 bits.
const fn with_phase(generation: u32, phase: u32) -> u32 {
    generation.wrapping_mul(GENERATION) + phase
}

/// The outcome of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The page is accessible, or may be by now: retry the access.
    Retry,
    /// The page is not tracked after all: chain to the program's handler.
    NotOurs,
}

/// A poster's claim on a verdict. The poster may drop it without waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the verdict decides whether to retry or to chain"]
pub struct Ticket {
    slot: usize,
    generation: u32,
}

/// Where the code was that made an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Code {
    /// The address of the instruction.
    pub at: usize,
    /// The stack pointer there.
    pub stack: usize,
}

/// A fault that the service thread took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a thread waits for it to be completed"]
pub struct Fault {
    slot: usize,
    generation: u32,
    /// The address that faulted.
    pub addr: usize,
    /// Whether the access was a write.
    pub write: bool,
    /// The thread that waits.
    pub tid: u32,
    /// The code that made the access.
    pub code: Code,
}

#[derive(Debug)]
#[repr(align(64))]
struct Slot {
    word: Word,
    addr: AtomicUsize,
    /// See [`Code`].
    at: AtomicUsize,
    stack: AtomicUsize,
    /// `tid << 1 | write`; thread ids have 22 bits.
    who: AtomicU32,
    /// The word when the idle service thread last looked; 0 if the slot was not done then.
    seen: AtomicU32,
}

/// The mailbox. The process has one, behind the functions of this module; loom models make their own.
#[derive(Debug)]
pub struct Mailbox {
    slots: [Slot; SLOTS],
    posted: [AtomicU64; BITMAP],
    doorbell: Word,
    next: AtomicU32,
    abandoned: AtomicU64,
    /// The service's thread id, 0 while there is none.
    server: AtomicU32,
    /// Counts the service thread's calls of `take`; it stands still while the service thread is busy or dead.
    heartbeat: AtomicU32,
    busy: AtomicU32,
    /// The service thread that stands by, 0 while there is none; and the word that wakes it.
    standby: AtomicU32,
    alarm: Word,
}

macro_rules! new {
    () => {
        Mailbox {
            slots: sync::array!(Slot {
                word: Word::new(FREE),
                addr: AtomicUsize::new(0),
                at: AtomicUsize::new(0),
                stack: AtomicUsize::new(0),
                who: AtomicU32::new(0),
                seen: AtomicU32::new(0),
            }),
            posted: sync::array!(AtomicU64::new(0)),
            doorbell: Word::new(0),
            next: AtomicU32::new(0),
            abandoned: AtomicU64::new(0),
            server: AtomicU32::new(0),
            heartbeat: AtomicU32::new(0),
            busy: AtomicU32::new(0),
            standby: AtomicU32::new(0),
            alarm: Word::new(0),
        }
    };
}

impl Mailbox {
    /// An empty mailbox.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Mailbox {
        new!()
    }

    /// An empty mailbox.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Mailbox {
        new!()
    }

    /// Number of tickets that were found abandoned.
    pub fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Whether a service thread is attached.
    pub fn serving(&self) -> bool {
        self.server.load(Ordering::Acquire) != 0
    }

    /// Names the service thread; 0 detaches.
    pub fn attach(&self, tid: u32) {
        self.server.store(tid, Ordering::Release);
    }

    /// Empties the mailbox in the child of a fork, where the service thread and all waiting threads do not exist.
    pub fn reset_after_fork(&self) {
        for slot in &self.slots {
            let gone = generation(slot.word.load(Ordering::Relaxed)).wrapping_add(1);
            slot.word.store(with_phase(gone, FREE), Ordering::Release);
            slot.seen.store(0, Ordering::Relaxed);
        }
        for bits in &self.posted {
            bits.store(0, Ordering::Relaxed);
        }
        self.doorbell.store(0, Ordering::Relaxed);
        self.busy.store(0, Ordering::Relaxed);
        self.standby.store(0, Ordering::Relaxed);
        self.alarm.store(0, Ordering::Relaxed);
        self.server.store(0, Ordering::Release);
    }
}

impl Default for Mailbox {
    fn default() -> Mailbox {
        Mailbox::new()
    }
}

fn swap(slot: &Slot, old: u32, new: u32) -> bool {
    slot.word
        .compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}

#[cfg(not(loom))]
static MAILBOX: Mailbox = Mailbox::new();

/// Posts a fault of the calling thread to the process's mailbox.
#[cfg(not(loom))]
pub fn post(addr: usize, write: bool, code: Code) -> Ticket {
    MAILBOX.post(addr, write, sync::current_tid(), code)
}

/// Waits for the verdict on a posted fault.
#[cfg(not(loom))]
pub fn wait(ticket: Ticket) -> Verdict {
    MAILBOX.wait(ticket)
}

/// The next fault for the service thread, or `None` after about `timeout`.
#[cfg(not(loom))]
pub fn take(timeout: Duration) -> Option<Fault> {
    MAILBOX.take(timeout)
}

/// Gives the verdict on a fault taken.
#[cfg(not(loom))]
pub fn complete(fault: Fault, verdict: Verdict) {
    MAILBOX.complete(fault, verdict);
}

/// Declares the calling thread to be the service thread. From now on faults are posted; before, they are chained.
#[cfg(not(loom))]
pub fn attach() {
    MAILBOX.attach(sync::current_tid());
}

/// Waits, as long as it takes, until the service thread is gone; then the calling thread is the service thread (M6).
#[cfg(not(loom))]
pub fn stand_by() {
    MAILBOX.stand_by(sync::current_tid());
}

/// Declares that there is no service thread any more: later faults are chained.
#[cfg(not(loom))]
pub fn detach() {
    MAILBOX.attach(0);
}

/// Whether a service thread is attached.
#[cfg(not(loom))]
#[must_use]
pub fn serving() -> bool {
    MAILBOX.serving()
}

/// Number of tickets that were found abandoned.
#[cfg(not(loom))]
#[must_use]
pub fn abandoned() -> u64 {
    MAILBOX.abandoned()
}

/// Empties the mailbox in the child of a fork.
#[cfg(not(loom))]
pub fn reset_after_fork() {
    MAILBOX.reset_after_fork();
}
