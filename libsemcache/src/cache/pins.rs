//! Page-locking the program's memory, so that copies need no detour (decision D12).
//!
//! A block is pinned as a whole when it first becomes an operand: before any page of it is closed, for a device
//! refuses closed pages, and without the cache's lock, for it takes time. `host::pins` remembers what is pinned
//! and ends it before pages change; here is what calls the device. Nothing depends on a pin but speed.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use log::{debug, warn};

use super::Cache;
use crate::base::AllocId;
use crate::base::counters::COUNTERS;
use crate::host::pins::{self, Claim, Pinned, Refusal};
use crate::host::{self, Block};

/// The smallest block that is pinned: a call of the driver costs as much as sending a few hundred kilobytes through
/// a staging buffer.
const LEAST: usize = 256 << 10;
/// Of a block that is mostly untouched, operands must span this share (in percent) before all of it is made
/// present and pinned.
const SHARE: usize = 50;
/// What fork copies without anybody noticing: 0.4 to 0.75 s for each gigabyte that is pinned.
const FORK_MOST: usize = 16 << 20;

/// Bytes that may be pinned; 0: not asked for yet.
static BUDGET: AtomicUsize = AtomicUsize::new(0);

/// Sets the budget. The default is three quarters of the memory that the process may use.
pub fn set_budget(bytes: usize) {
    BUDGET.store(bytes.max(1), Ordering::Relaxed);
}

fn budget() -> usize {
    match BUDGET.load(Ordering::Relaxed) {
        0 => {
            let bytes = (host::memory() / 4 * 3).max(1);
            // Nobody's choice is overwritten.
            let _ = BUDGET.compare_exchange(0, bytes, Ordering::Relaxed, Ordering::Relaxed);
            BUDGET.load(Ordering::Relaxed)
        }
        known => known,
    }
}

/// The right to pin one range. Dropped without a verdict (a panic), it says no: others wait for it.
struct Claimed {
    start: usize,
    result: Result<(), Refusal>,
}

impl Drop for Claimed {
    fn drop(&mut self) {
        pins::finish(self.start, self.result);
    }
}

impl Cache {
    /// Bytes that using a block as an operand would pin first.
    #[must_use]
    pub fn unpinned(&self, block: &Block) -> usize {
        if block.len >= LEAST && pins::pending(block) {
            block.len
        } else {
            0
        }
    }

    /// A block is an operand from `at` on for `len` bytes: pins it, if that is worth it and possible. `call` are
    /// the blocks of this call, whose pins are not given up for it. Nothing is locked, and nothing of the block is
    /// closed by this call yet; the block is marked in use.
    pub fn pin(&self, block: &Block, at: usize, len: usize, call: &[Option<Block>]) {
        if block.len < LEAST {
            return;
        }
        let Claim::Yours {
            start,
            len,
            covered,
        } = pins::claim(block, at, len)
        else {
            return;
        };
        let mut claimed = Claimed {
            start,
            result: Err(Refusal::Never),
        };
        host::idle::start();
        claimed.result = self.try_pin(block.id, start, len, covered, call);
        match claimed.result {
            Ok(()) => COUNTERS.host.pinned.add(len as u64),
            Err(Refusal::Sparse) => {}
            Err(_) => COUNTERS.host.pin_refused.add(1),
        }
    }

    fn try_pin(
        &self,
        id: AllocId,
        start: usize,
        len: usize,
        covered: usize,
        call: &[Option<Block>],
    ) -> Result<(), Refusal> {
        if self.lock().entries.get(&id).is_some_and(|e| e.guarded) {
            return Err(Refusal::Never);
        }
        if covered / SHARE * 100 < len && host::present_share(start, len) < SHARE {
            return Err(Refusal::Sparse);
        }
        while pins::reserve(start, budget()).is_err() {
            if !self.give_up_oldest(call) {
                static SAID: Once = Once::new();
                SAID.call_once(|| {
                    warn!(
                        "no more memory is page-locked: {} bytes are, of {}; copies of other blocks are slower",
                        pins::bytes(),
                        budget()
                    );
                });
                return Err(Refusal::Budget);
            }
        }
        let began = Instant::now();
        // What nobody has touched yet would be faulted in by one thread inside the driver.
        host::populate(start, len);
        let result = self.backend.pin(start, len);
        let spent = began.elapsed();
        COUNTERS
            .host
            .pin_us
            .add(u64::try_from(spent.as_micros()).unwrap_or(u64::MAX));
        result.map_err(|error| {
            static SAID: Once = Once::new();
            SAID.call_once(|| {
                warn!("{len} bytes at {start:#x} cannot be page-locked: {error}; further ones are only counted");
            });
            Refusal::Never
        })?;
        debug!("pinned {len} bytes at {start:#x} in {spent:?}");
        Ok(())
    }

    /// Undoes the pin of the block that was used longest ago, among those with nothing closed or in flight.
    fn give_up_oldest(&self, call: &[Option<Block>]) -> bool {
        let mut after = 0;
        while let Some(p) = pins::oldest(after) {
            after = p.stamp;
            let wanted = call.iter().flatten().any(|b| b.start == p.start);
            if !wanted && self.unused(p.id) && self.undo(&p) {
                return true;
            }
        }
        false
    }

    /// Whether devices have nothing of a block that is not on the host, and nothing in flight over it.
    fn unused(&self, id: AllocId) -> bool {
        let mut state = self.lock();
        if state.dying.contains_key(&id) {
            return false;
        }
        state.entries.get_mut(&id).is_none_or(|e| {
            e.host.ops.prune(self.backend);
            e.dir.stale().is_empty() && e.host.ops.is_empty()
        })
    }

    pub(super) fn undo(&self, pinned: &Pinned) -> bool {
        let mine = pins::take(pinned);
        if mine {
            self.backend.unpin(pinned.start, pinned.len);
            pins::gone(pinned.start);
        }
        mine
    }

    /// Before fork, with everything home: fork copies every pinned page at once, so hardly any stays. In the parent
    /// blocks are pinned again at their next use, if they are open then.
    pub fn unpin_for_fork(&self) {
        if pins::bytes() <= FORK_MOST {
            return;
        }
        while let Some(p) = pins::oldest(0) {
            self.undo(&p);
        }
    }
}
