//! The faulting thread's side: post, wait, collect.

use super::spin::{SPIN, SPIN_ALONE, keep_spinning};
use super::{
    ASLEEP, CLAIMED, Code, FREE, Mailbox, NOT_OURS, POSTED, RETRY, RING, SLEEPS, SLOTS, Slot,
    Ticket, Verdict, generation, phase, swap, with_phase,
};
use crate::sync::{self, Ordering};
use core::time::Duration;

/// How long an owner sleeps before it looks for a sign of life of the service thread, and after how many such sleeps
/// without one the service thread counts as dead: 10 s.
const PATIENCE_NS: u64 = 100_000_000;
const PATIENCE: Duration = Duration::from_nanos(PATIENCE_NS);
const PATIENCE_ROUNDS: u32 = 100;

/// What an owner knows of the service thread between two sleeps.
#[derive(Default)]
struct Life {
    beat: u32,
    rounds: u32,
}

impl Mailbox {
    /// Posts a fault of the thread `tid`. While all slots are in use, waits, yielding the CPU.
    pub fn post(&self, addr: usize, write: bool, tid: u32, code: Code) -> Ticket {
        let (index, slot, word) = loop {
            if let Some(claimed) = self.claim() {
                break claimed;
            }
            sync::yield_now();
        };
        slot.addr.store(addr, Ordering::Relaxed);
        slot.at.store(code.at, Ordering::Relaxed);
        slot.stack.store(code.stack, Ordering::Relaxed);
        slot.who
            .store(tid << 1 | u32::from(write), Ordering::Relaxed);
        // Only the thread that claimed a slot changes the word of a claimed slot.
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

    /// Claims a free slot, or else one that is done and was not collected (M1).
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
                let new = with_phase(generation(old).wrapping_add(1), CLAIMED);
                if fits && swap(slot, old, new) {
                    if reuse {
                        // The slot's last owner may still sleep; the thread that completed the slot wakes it.
                        self.abandoned.fetch_add(1, Ordering::Relaxed);
                    }
                    return Some((index, slot, new));
                }
            }
        }
        None
    }

    /// Waits for the verdict and frees the slot. A slot that was reused means [`Verdict::Retry`] (M2); a dead service
    /// thread means [`Verdict::NotOurs`].
    pub fn wait(&self, ticket: Ticket) -> Verdict {
        let Some(slot) = self.slots.get(ticket.slot) else {
            return Verdict::NotOurs;
        };
        let mut spins_since = None;
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
                if swap(slot, word, with_phase(ticket.generation, FREE)) {
                    return verdict;
                }
                continue;
            }
            // Of several owners each would keep a CPU busy that the service thread, or another owner, may need.
            let spin = if self.queue_is_empty() {
                SPIN_ALONE
            } else {
                SPIN
            };
            if keep_spinning(&mut spins_since, spin) {
                continue;
            }
            if word & ASLEEP == 0 && !swap(slot, word, word | ASLEEP) {
                continue;
            }
            let asleep_since = sync::now_ns();
            slot.word.sleep(word | ASLEEP, PATIENCE);
            // A sleep that a signal cut short does not count towards the service thread's silence.
            if sync::now_ns() - asleep_since >= PATIENCE_NS / 2
                && self.dead(&mut life)
                && swap(slot, word | ASLEEP, with_phase(ticket.generation, FREE))
            {
                return Verdict::NotOurs;
            }
        }
    }

    /// Whether no fault waits to be taken: the service thread takes one at a time.
    fn queue_is_empty(&self) -> bool {
        (self.posted.iter()).all(|bits| bits.load(Ordering::Relaxed) == 0)
    }

    /// Whether no verdict will ever come: the service thread was never attached, or is gone, or neither works nor calls
    /// `take`; and no other thread stands by to take its place.
    fn dead(&self, life: &mut Life) -> bool {
        let server = self.server.load(Ordering::Acquire);
        if server != 0 && thread_exists(server) {
            let beat = self.heartbeat.load(Ordering::Relaxed);
            if self.busy.load(Ordering::Acquire) != 0 || beat != life.beat {
                *life = Life { beat, rounds: 0 };
                return false;
            }
            life.rounds += 1;
            if life.rounds < PATIENCE_ROUNDS {
                return false;
            }
        }
        let standby = self.standby.load(Ordering::Acquire);
        if standby == 0 || !thread_exists(standby) {
            // The thread that stood by may have taken over since.
            return self.server.load(Ordering::Acquire) == server;
        }
        *life = Life::default();
        self.alarm.store(1, Ordering::Release);
        self.alarm.wake_all();
        false
    }
}

#[cfg(not(loom))]
fn thread_exists(tid: u32) -> bool {
    crate::sys::thread_exists(tid)
}

#[cfg(loom)]
fn thread_exists(_tid: u32) -> bool {
    true
}
