//! Lifetime of memory that devices use: what happens to a block's entry when the program calls free, realloc, munmap,
//! mremap or madvise.

use std::sync::TryLockError;

use crate::process::signals_blocked::SignalsBlocked;

use super::{Cache, CacheError, State, names};
use crate::base::{AllocId, Interval, Rect};
use crate::device::api::DeviceError;
use crate::host::{Block, Observer, Release};
use crate::transfer::Deps;

/// Freed blocks at once whose memory is kept until devices have finished with it; beyond this, a free waits for the
/// devices.
const QUARANTINE_MAX: usize = 64;

// The program's threads call these methods from free, munmap and the like. Signals are blocked while the calling thread
// holds the lock: a signal handler that touched an inaccessible page there would wait for the service thread, and the
// service thread for the lock.
impl Observer for Cache {
    fn release(&self, block: Block) -> Release {
        let _blocked = SignalsBlocked::new();
        let mut state = self.lock();
        state.holds.freed(block.id);
        self.release_locked(&mut state, block)
    }

    fn abandon(&self, block: Block) -> Release {
        let _blocked = SignalsBlocked::new();
        self.abandon_locked(&mut self.lock(), block)
    }

    fn busy(&self, id: AllocId) -> bool {
        // Any allocation may ask, also one by the driver's code while this thread or another holds the lock and waits
        // for the device: the answer is then that devices still use the block.
        let _blocked = SignalsBlocked::new();
        let mut guard = match self.state.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return true,
        };
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
        let _blocked = SignalsBlocked::new();
        self.surrender_locked(&mut self.lock(), block, start, len);
    }

    fn unpin(&self, start: usize, len: usize) {
        // Unpinning takes locks of the driver, which the service thread needs as well.
        let _blocked = SignalsBlocked::new();
        self.backend.unpin(start, len);
    }

    fn resized(&self, id: AllocId, new_len: usize, content: usize) {
        let _blocked = SignalsBlocked::new();
        let mut guard = self.lock();
        let State { entries, pools, .. } = &mut *guard;
        if let Some(e) = entries.get_mut(&id) {
            let tracked = if self.traps() {
                Interval {
                    start: 0,
                    end: new_len,
                }
            } else {
                Interval::default()
            };
            // New pages are not registered for write tracking.
            let ended = if new_len == e.block.len {
                Ok(())
            } else {
                self.renew_scans(e, pools)
            };
            if let Err(err) = ended.and_then(|()| self.resize(e, pools, new_len, content, tracked))
            {
                log::error!("resizing a block: {err:?}");
            }
        }
    }
}

impl Cache {
    fn release_locked(&self, state: &mut State, block: Block) -> Release {
        names::forget(block.start, block.start + block.len);
        let Some(mut e) = state.remove(block.id) else {
            return Release::Now;
        };
        let State { pools, dying, .. } = state;
        let mut deps = Deps::default();
        e.host.ops.all(&mut deps);
        super::flush::release_stores(&mut e, pools);
        if e.guarded {
            let _ = e.open_pages(self.gate);
        }
        self.end_marks(&mut e);
        drop(e);
        if deps.settled(self.backend) {
            return Release::Now;
        }
        if dying.len() >= QUARANTINE_MAX {
            // An error is ignored: a lost device reads nothing any more.
            let _ = deps.wait(self.backend);
            return Release::Now;
        }
        dying.insert(block.id, deps);
        Release::Quarantine
    }

    pub(crate) fn abandon_locked(&self, state: &mut State, block: Block) -> Release {
        self.surrender_locked(state, block, block.start, block.len);
        self.release_locked(state, block)
    }

    fn surrender_locked(&self, state: &mut State, block: Block, start: usize, len: usize) {
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
        match self.open_locked(
            state,
            block.id,
            Interval {
                start: from,
                end: to,
            },
            true,
        ) {
            Ok(()) => {}
            // The stale host bytes move to memory where a read of them would not be trapped, so the process ends here.
            Err(err @ (CacheError::DataLost | CacheError::Device(DeviceError::Lost { .. }))) => {
                super::lost::end_process(start, &err)
            }
            Err(err) => {
                let left = state.entries.get(&block.id).map(|e| e.dir.stale());
                let span = Rect::interval(from, to);
                if left.is_some_and(|stale| stale.overlaps(&span)) {
                    super::lost::end_process(start, &err)
                }
                log::error!("memory at {start:#x} changes hands: {err:?}");
            }
        }
    }
}
