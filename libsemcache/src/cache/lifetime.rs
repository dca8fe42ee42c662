//! What the program does with memory that devices use: free, realloc, munmap, mremap, madvise.

use super::{Cache, State};
use crate::base::{Access, AllocId, Interval};
use crate::host::{Block, Observer, Release};
use crate::transfer::Deps;

/// Freed blocks in quarantine at once; beyond this a free waits for the devices.
const QUARANTINE_MAX: usize = 64;

impl Observer for Cache {
    fn release(&self, block: Block) -> Release {
        let mut guard = self.lock();
        let Some(mut e) = guard.remove(block.id) else {
            return Release::Now;
        };
        let State { pools, dying, .. } = &mut *guard;
        let mut deps = Deps::default();
        e.host.ops.all(&mut deps);
        super::flush::release_stores(&mut e, pools);
        if e.guarded {
            let _ = self.gate.apply(block.start, block.len, Access::ReadWrite);
        }
        drop(e);
        if deps.settled(self.backend) {
            return Release::Now;
        }
        if dying.len() >= QUARANTINE_MAX {
            // A lost device reads nothing any more.
            let _ = deps.wait(self.backend);
            return Release::Now;
        }
        dying.insert(block.id, deps);
        Release::Quarantine
    }

    fn busy(&self, id: AllocId) -> bool {
        let mut guard = self.lock();
        let Some(deps) = guard.dying.get_mut(&id) else {
            return false;
        };
        if deps.settled(self.backend) {
            guard.dying.remove(&id);
            return false;
        }
        true
    }

    fn surrender(&self, block: Block, start: usize, len: usize) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(e) = state.entries.get(&block.id) else {
            return;
        };
        let from = start.max(e.block.start) - e.block.start;
        let to = (start + len)
            .min(e.block.start + e.block.len)
            .saturating_sub(e.block.start);
        if from >= to {
            return;
        }
        if let Err(err) = self.open_locked(
            state,
            block.id,
            Interval {
                start: from,
                end: to,
            },
            true,
        ) {
            log::error!("memory at {start:#x} changes hands with its newest bytes lost: {err:?}");
        }
    }

    fn resized(&self, id: AllocId, new_len: usize) {
        let mut guard = self.lock();
        let State { entries, pools, .. } = &mut *guard;
        if let Some(e) = entries.get_mut(&id) {
            let tracked = if self.gate.traps() {
                Interval {
                    start: 0,
                    end: new_len,
                }
            } else {
                Interval::default()
            };
            if let Err(err) = self.resize(e, pools, new_len, tracked) {
                log::error!("resizing a block: {err:?}");
            }
        }
    }
}
