//! The way from a faulting thread to the service thread and back: a static array of slots.
//!
//! A faulting thread *posts* (address, is-write) and gets a [`Ticket`]; it spins shortly, then sleeps on
//! the slot's word. The service *takes* a fault, deals with it and *completes* it with a [`Verdict`];
//! the owner *collects* that and frees the slot.
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
//! - M1 The program may `siglongjmp` out of the wait. Its ticket is served all the same, and the slot,
//!   done but not collected, is claimed by a poster that finds no free one, or freed by the idle service
//!   at its second sight.
//! - M2 An owner whose generation is gone retries its access, which is always safe: it faults again if
//!   it must.
//! - M3 `asleep` is set by the owner before it sleeps; who completes the slot wakes only then.
//! - M4 The *doorbell* counts posts; its lowest bit says that the service sleeps. The service reads it,
//!   looks through the slots, and sleeps only if it has not changed since. A poster publishes the slot
//!   before it rings. Neither needs a sequentially consistent fence.
//! - M5 The `posted` bitmap is a hint that saves looking at every slot. A poster that leaves between
//!   posting and setting its bit is found by the idle service's full look.
//!
//! A poster that leaves in the few instructions between claiming and posting loses its slot for good;
//! there are a thousand.
//!
//! The model checker runs the same code (`tests/loom.rs`), two slots and no time-outs:
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target-loom \
//!     cargo test -p semcache-fault --release --test loom
//! ```

use crate::sync::{self, AtomicU32, AtomicU64, AtomicUsize, Ordering, Word};
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

/// The doorbell's bit for "the service sleeps", and what one post adds.
const SLEEPS: u32 = 1;
const RING: u32 = 2;

/// How long each side spins before it sleeps: waking an idle CPU costs more than this.
#[cfg(not(loom))]
const SPIN: u64 = 40_000;
/// [`SPIN`] in nanoseconds once [`tune`] has found more than one CPU; 0 where spinning only delays the
/// other side.
#[cfg(not(loom))]
static SPIN_NS: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(SPIN);
/// How long an owner sleeps before it looks for a sign of life, and how many such sleeps without one
/// make the service dead: 10 s.
const PATIENCE_NS: u64 = 100_000_000;
const PATIENCE: Duration = Duration::from_nanos(PATIENCE_NS);
const PATIENCE_ROUNDS: u32 = 100;

const fn phase(word: u32) -> u32 {
    word & PHASE
}

const fn generation(word: u32) -> u32 {
    word / GENERATION
}

/// What becomes of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The page is open, or may be by now: retry the access.
    Retry,
    /// Not semcache's page after all: chain to the program's handler.
    NotOurs,
}

/// A poster's claim on a verdict. To forget it is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the verdict decides whether to retry or to chain"]
pub struct Ticket {
    slot: usize,
    generation: u32,
}

/// A fault that the service took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "somebody waits for it to be completed"]
pub struct Fault {
    slot: usize,
    generation: u32,
    /// The address that faulted.
    pub addr: usize,
    /// Whether the access was a write.
    pub write: bool,
    /// The thread that waits.
    pub tid: u32,
}

#[derive(Debug)]
#[repr(align(64))]
struct Slot {
    word: Word,
    addr: AtomicUsize,
    /// `tid << 1 | write`; thread ids have 22 bits.
    who: AtomicU32,
    /// The word at the service's last idle look, 0 if it was not done then.
    seen: AtomicU32,
}

/// The mailbox. The process has one, behind the functions of this module; models make their own.
#[derive(Debug)]
pub struct Mailbox {
    slots: [Slot; SLOTS],
    posted: [AtomicU64; BITMAP],
    doorbell: Word,
    next: AtomicU32,
    abandoned: AtomicU64,
    /// The service's thread id, 0 while there is none.
    server: AtomicU32,
    /// Counts the service's visits; it stands still while the service is busy or dead.
    heartbeat: AtomicU32,
    busy: AtomicU32,
}

macro_rules! new {
    () => {
        Mailbox {
            slots: sync::array!(Slot {
                word: Word::new(FREE),
                addr: AtomicUsize::new(0),
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

    /// Posts a fault of the thread `tid`. Waits, yielding the CPU, while every slot is under way.
    pub fn post(&self, addr: usize, write: bool, tid: u32) -> Ticket {
        let (index, slot, word) = loop {
            if let Some(claimed) = self.claim() {
                break claimed;
            }
            sync::yield_now();
        };
        slot.addr.store(addr, Ordering::Relaxed);
        slot.who
            .store(tid << 1 | u32::from(write), Ordering::Relaxed);
        // Only the claimer changes a claimed slot's word.
        slot.word.store(word - CLAIMED + POSTED, Ordering::Release);
        if let Some(bits) = self.posted.get(index / 64) {
            bits.fetch_or(1 << (index % 64), Ordering::AcqRel);
        }
        let before = self.doorbell.fetch_add(RING, Ordering::AcqRel);
        if before & SLEEPS != 0 {
            self.doorbell.fetch_and(!SLEEPS, Ordering::AcqRel);
            self.doorbell.wake_all();
        }
        Ticket {
            slot: index,
            generation: generation(word),
        }
    }

    /// Claims a free slot, else one that is done and was not collected (M1).
    fn claim(&self) -> Option<(usize, &Slot, u32)> {
        let start = self.next.fetch_add(1, Ordering::Relaxed) as usize;
        for reuse in [false, true] {
            for step in 0..SLOTS {
                let index = start.wrapping_add(step) % SLOTS;
                let Some(slot) = self.slots.get(index) else {
                    continue;
                };
                let old = slot.word.load(Ordering::Relaxed);
                let fits = if reuse {
                    phase(old) >= RETRY
                } else {
                    phase(old) == FREE
                };
                let new = generation(old)
                    .wrapping_add(1)
                    .wrapping_mul(GENERATION)
                    .wrapping_add(CLAIMED);
                if fits && swap(slot, old, new) {
                    if reuse {
                        self.abandoned.fetch_add(1, Ordering::Relaxed);
                        // Its last owner may sleep still: it has not seen the verdict.
                        if old & ASLEEP != 0 {
                            slot.word.wake_all();
                        }
                    }
                    return Some((index, slot, new));
                }
            }
        }
        None
    }

    /// Waits for the verdict and frees the slot. A slot that was reused means [`Verdict::Retry`] (M2);
    /// a dead service means [`Verdict::NotOurs`].
    pub fn wait(&self, ticket: Ticket) -> Verdict {
        let Some(slot) = self.slots.get(ticket.slot) else {
            return Verdict::NotOurs;
        };
        let mut spin_until = None;
        let mut life = Life::default();
        loop {
            let word = slot.word.load(Ordering::Acquire);
            if generation(word) != ticket.generation || phase(word) == FREE {
                return Verdict::Retry;
            }
            let verdict = match phase(word) {
                RETRY => Some(Verdict::Retry),
                NOT_OURS => Some(Verdict::NotOurs),
                _ => None,
            };
            if let Some(verdict) = verdict {
                if swap(slot, word, ticket.generation * GENERATION + FREE) {
                    return verdict;
                }
                continue;
            }
            if keep_spinning(&mut spin_until) {
                continue;
            }
            if word & ASLEEP == 0 && !swap(slot, word, word | ASLEEP) {
                continue;
            }
            let asleep_since = sync::now_ns();
            slot.word.sleep(word | ASLEEP, PATIENCE);
            // A sleep that a signal cut short is no measure of the service's silence.
            if sync::now_ns() - asleep_since >= PATIENCE_NS / 2
                && self.dead(&mut life)
                && swap(slot, word | ASLEEP, ticket.generation * GENERATION + FREE)
            {
                return Verdict::NotOurs;
            }
        }
    }

    /// The next fault, or `None` after about `timeout`. The service calls this in a loop; that is its
    /// sign of life.
    pub fn take(&self, timeout: Duration) -> Option<Fault> {
        self.heartbeat.fetch_add(1, Ordering::Relaxed);
        self.busy.store(0, Ordering::Release);
        let deadline =
            sync::now_ns().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let mut spin_until = None;
        loop {
            let rung = self.doorbell.load(Ordering::Acquire);
            if let Some(fault) = self.sweep() {
                return Some(fault);
            }
            if keep_spinning(&mut spin_until) {
                continue;
            }
            if !cfg!(loom) && sync::now_ns() >= deadline {
                return self.look_everywhere();
            }
            if self
                .doorbell
                .compare_exchange(rung, rung | SLEEPS, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                self.doorbell.sleep(rung | SLEEPS, timeout);
                self.doorbell.fetch_and(!SLEEPS, Ordering::AcqRel);
            }
        }
    }

    /// Takes a fault whose bit is set.
    fn sweep(&self) -> Option<Fault> {
        for (row, bits) in self.posted.iter().enumerate() {
            let mut set = bits.load(Ordering::Acquire);
            while set != 0 {
                let bit = set.trailing_zeros();
                set &= set - 1;
                // Cleared before the slot is read: a later post sets it again.
                bits.fetch_and(!(1 << bit), Ordering::AcqRel);
                if let Some(fault) = self.take_slot(row * 64 + bit as usize) {
                    return Some(fault);
                }
            }
        }
        None
    }

    fn take_slot(&self, index: usize) -> Option<Fault> {
        let slot = self.slots.get(index)?;
        loop {
            let word = slot.word.load(Ordering::Acquire);
            if phase(word) != POSTED {
                self.busy.store(0, Ordering::Release);
                return None;
            }
            // Set before the slot says "taken", so that its owner never sees an idle service with it.
            self.busy.store(1, Ordering::Release);
            if swap(slot, word, word - POSTED + TAKEN) {
                let who = slot.who.load(Ordering::Relaxed);
                return Some(Fault {
                    slot: index,
                    generation: generation(word),
                    addr: slot.addr.load(Ordering::Relaxed),
                    write: who & 1 != 0,
                    tid: who >> 1,
                });
            }
        }
    }

    /// The idle service's full look: finds posts without a bit (M5), frees slots that were done at the
    /// last look already (M1).
    fn look_everywhere(&self) -> Option<Fault> {
        for (index, slot) in self.slots.iter().enumerate() {
            let word = slot.word.load(Ordering::Acquire);
            if phase(word) == POSTED
                && let Some(fault) = self.take_slot(index)
            {
                return Some(fault);
            }
            let done = if phase(word) >= RETRY { word } else { 0 };
            if done != 0 && slot.seen.load(Ordering::Relaxed) == done {
                if swap(slot, word, generation(word) * GENERATION + FREE) {
                    self.abandoned.fetch_add(1, Ordering::Relaxed);
                    slot.word.wake_all();
                }
                slot.seen.store(0, Ordering::Relaxed);
            } else {
                slot.seen.store(done, Ordering::Relaxed);
            }
        }
        None
    }

    /// Gives the verdict on a fault taken and wakes its owner. Without effect if the owner gave up.
    pub fn complete(&self, fault: Fault, verdict: Verdict) {
        let Some(slot) = self.slots.get(fault.slot) else {
            return;
        };
        let done = match verdict {
            Verdict::Retry => RETRY,
            Verdict::NotOurs => NOT_OURS,
        };
        loop {
            let word = slot.word.load(Ordering::Relaxed);
            if generation(word) != fault.generation || phase(word) != TAKEN {
                return;
            }
            if swap(slot, word, word - TAKEN + done) {
                if word & ASLEEP != 0 {
                    slot.word.wake_all();
                }
                return;
            }
        }
    }

    /// How many tickets were found abandoned.
    pub fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Whether a service is attached.
    pub fn serving(&self) -> bool {
        self.server.load(Ordering::Acquire) != 0
    }

    /// Names the service's thread; 0 detaches.
    pub fn attach(&self, tid: u32) {
        self.server.store(tid, Ordering::Release);
    }

    /// Whether the service will never answer: there is none, its thread is gone, or it neither works
    /// nor visits.
    fn dead(&self, life: &mut Life) -> bool {
        let server = self.server.load(Ordering::Acquire);
        if server == 0 || !thread_exists(server) {
            return true;
        }
        let beat = self.heartbeat.load(Ordering::Relaxed);
        if self.busy.load(Ordering::Acquire) != 0 || beat != life.beat {
            *life = Life { beat, rounds: 0 };
            return false;
        }
        life.rounds += 1;
        life.rounds >= PATIENCE_ROUNDS
    }

    /// Empties the mailbox in the child of a fork, where the service and all waiting threads are gone.
    pub fn reset_after_fork(&self) {
        for slot in &self.slots {
            let gone = generation(slot.word.load(Ordering::Relaxed)).wrapping_add(1);
            slot.word
                .store(gone.wrapping_mul(GENERATION) + FREE, Ordering::Release);
            slot.seen.store(0, Ordering::Relaxed);
        }
        for bits in &self.posted {
            bits.store(0, Ordering::Relaxed);
        }
        self.doorbell.store(0, Ordering::Relaxed);
        self.busy.store(0, Ordering::Relaxed);
        self.server.store(0, Ordering::Release);
    }
}

impl Default for Mailbox {
    fn default() -> Mailbox {
        Mailbox::new()
    }
}

/// What an owner remembers of the service between two sleeps.
#[derive(Default)]
struct Life {
    beat: u32,
    rounds: u32,
}

fn swap(slot: &Slot, old: u32, new: u32) -> bool {
    slot.word
        .compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}

/// Whether to look again at once; starts the clock at the first call.
#[cfg(not(loom))]
fn keep_spinning(until: &mut Option<u64>) -> bool {
    let spin = SPIN_NS.load(Ordering::Relaxed);
    if spin == 0 {
        return false;
    }
    let until = *until.get_or_insert_with(|| sync::now_ns().saturating_add(spin));
    // The clock costs as much as a few pauses; between two looks at it the word is read again anyway.
    for _ in 0..8 {
        sync::pause();
    }
    sync::now_ns() < until
}

/// The model does not spin: sleeping at once is the harder case.
#[cfg(loom)]
fn keep_spinning(_until: &mut Option<u64>) -> bool {
    false
}

/// Decides whether spinning is worth while.
#[cfg(not(loom))]
pub(crate) fn tune() {
    let alone = rustix::thread::sched_getaffinity(None).is_ok_and(|cpus| cpus.count() == 1);
    SPIN_NS.store(if alone { 0 } else { SPIN }, Ordering::Relaxed);
}

#[cfg(not(loom))]
fn thread_exists(tid: u32) -> bool {
    crate::sys::thread_exists(tid)
}

#[cfg(loom)]
fn thread_exists(_tid: u32) -> bool {
    true
}

#[cfg(not(loom))]
static MAILBOX: Mailbox = Mailbox::new();

/// Posts a fault of the calling thread to the process's mailbox.
#[cfg(not(loom))]
pub fn post(addr: usize, write: bool) -> Ticket {
    MAILBOX.post(addr, write, sync::current_tid())
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

/// Declares the calling thread to be the service. From now on faults are posted; before, they are
/// chained.
#[cfg(not(loom))]
pub fn attach() {
    MAILBOX.attach(sync::current_tid());
}

/// Declares that there is no service any more: later faults are chained.
#[cfg(not(loom))]
pub fn detach() {
    MAILBOX.attach(0);
}

/// Whether a service is attached.
#[cfg(not(loom))]
#[must_use]
pub fn serving() -> bool {
    MAILBOX.serving()
}

/// How many tickets were found abandoned.
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
