//! The service thread's side: takes and completes faults, and frees slots that their owners abandoned.

use super::spin::{SPIN, keep_spinning};
use super::{
    ASLEEP, Code, FREE, Fault, Mailbox, NOT_OURS, POSTED, RETRY, SLEEPS, TAKEN, Verdict,
    generation, phase, swap, with_phase,
};
use crate::sync::{self, Ordering};
use core::time::Duration;

impl Mailbox {
    /// The next fault, or `None` after about `timeout`. The service thread calls this in a loop; each call is its sign
    /// of life.
    pub fn take(&self, timeout: Duration) -> Option<Fault> {
        self.heartbeat.fetch_add(1, Ordering::Relaxed);
        self.busy.store(0, Ordering::Release);
        let deadline =
            sync::now_ns().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let mut spins_since = None;
        loop {
            let rung = self.doorbell.load(Ordering::Acquire);
            if let Some(fault) = self.sweep() {
                return Some(fault);
            }
            if keep_spinning(&mut spins_since, SPIN) {
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

    /// Sleeps until an owner finds the service thread dead; on return the thread `tid` is the service thread (M6).
    pub fn stand_by(&self, tid: u32) {
        self.standby.store(tid, Ordering::Release);
        while self.alarm.load(Ordering::Acquire) == 0 {
            self.alarm.sleep(0, Duration::from_secs(3600));
        }
        // `server` is set before `standby` is cleared: an owner that sees no thread standing by sees the new service
        // thread.
        self.attach(tid);
        self.standby.store(0, Ordering::Release);
        self.busy.store(0, Ordering::Release);
        for slot in &self.slots {
            let word = slot.word.load(Ordering::Acquire);
            if phase(word) == TAKEN && swap(slot, word, word - TAKEN + RETRY) && word & ASLEEP != 0
            {
                slot.word.wake_all();
            }
        }
        sync::say(b"semcache: the thread that serves page faults has ended; another one goes on\n");
    }

    /// Takes a fault whose bit is set.
    fn sweep(&self) -> Option<Fault> {
        for (row, bits) in self.posted.iter().enumerate() {
            let mut set = bits.load(Ordering::Acquire);
            while set != 0 {
                let bit = set.trailing_zeros();
                set &= set - 1;
                // The bit is cleared before the slot is read: a later post sets it again.
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
            // Set before the slot says "taken", so that the owner of a taken slot never sees an idle service thread.
            self.busy.store(1, Ordering::Release);
            if swap(slot, word, word - POSTED + TAKEN) {
                let who = slot.who.load(Ordering::Relaxed);
                return Some(Fault {
                    slot: index,
                    generation: generation(word),
                    addr: slot.addr.load(Ordering::Relaxed),
                    write: who & 1 != 0,
                    tid: who >> 1,
                    code: Code {
                        at: slot.at.load(Ordering::Relaxed),
                        stack: slot.stack.load(Ordering::Relaxed),
                    },
                });
            }
        }
    }

    /// Looks at all slots when the service thread is idle: finds posts without a bit (M5), and frees slots that were
    /// already done at the last look (M1).
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
                if swap(slot, word, with_phase(generation(word), FREE)) {
                    self.abandoned.fetch_add(1, Ordering::Relaxed);
                }
                slot.seen.store(0, Ordering::Relaxed);
            } else {
                slot.seen.store(done, Ordering::Relaxed);
            }
        }
        None
    }

    /// Gives the verdict on a fault taken and wakes its owner. Without effect if the owner stopped waiting.
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
}
