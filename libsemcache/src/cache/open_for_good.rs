//! Write-through for the whole process: page protection and dirty tracking end for good, because the process does
//! something that page protection cannot notice.
//!
//! No memory is tracked any more ([`crate::directory`], open territory): results are written back before their call
//! returns, inputs are uploaded by each call. Calls under way on other threads go on: results of kernels that were
//! launched are written back here, results of later kernels by the ends of their calls.

use std::sync::atomic::Ordering;

use crate::process::signals_blocked::SignalsBlocked;

use super::{Cache, CacheError, Entry, State};
use crate::base::{AllocId, Interval, Rect};
use crate::device::api::DeviceError;
use crate::directory::Event;
use crate::host::pins;
use crate::transfer::Pool;

impl Cache {
    /// Writes back the newest bytes of all blocks, makes all pages accessible, and protects none from now on. When this
    /// returns, that holds for every thread. A block with bytes that cannot be written back (their device is lost)
    /// stays inaccessible.
    ///
    /// # Errors
    /// The first failure; the blocks concerned stay inaccessible, and the CPU's next access to them faults.
    pub fn go_write_through(&self) -> Result<(), CacheError> {
        // As everywhere: on a thread that holds the lock, no signal handler of the program may touch an inaccessible
        // page.
        let _blocked = SignalsBlocked::new();
        let mut guard = self.lock();
        self.write_through.store(true, Ordering::SeqCst);
        let state = &mut *guard;
        let mut result = Ok(());
        let ids: Vec<_> = state.entries.keys().copied().collect();
        for id in ids {
            let mut done = open_for_good(self, state, id);
            for _ in self.backend.devices() {
                let Err(CacheError::Device(DeviceError::Lost { device })) = done else {
                    break;
                };
                done = self
                    .lose(state, device)
                    .and_then(|()| open_for_good(self, state, id));
            }
            result = result.and(done);
        }
        result
    }

    /// Whether pages of blocks may be protected.
    #[must_use]
    pub fn traps(&self) -> bool {
        self.gate.traps() && !self.write_through.load(Ordering::SeqCst)
    }

    /// Whether results in these whole pages of a block may stay on devices after a call.
    #[must_use]
    pub fn keeps(&self, id: AllocId, rect: &Rect) -> bool {
        let state = self.lock();
        let entry = state.entries.get(&id);
        self.traps() && entry.is_none_or(|e| !e.dir.write_through().overlaps(rect))
    }

    /// Ends every pin, for good: other software that uses a device may want to register the same memory, and is refused
    /// where it is registered already. The caller holds no lock; waits for copies in place.
    pub fn unpin_for_good(&self) {
        let _blocked = SignalsBlocked::new();
        pins::bar();
        while pins::settled() {
            let Some(p) = pins::oldest(0) else {
                return;
            };
            self.undo(&p);
        }
    }
}

fn open_for_good(cache: &Cache, state: &mut State, id: AllocId) -> Result<(), CacheError> {
    let State { entries, pools, .. } = state;
    let Some(e) = entries.get_mut(&id) else {
        return Ok(());
    };
    if e.dir.tracked().is_empty() {
        return Ok(());
    }
    e.pingpong.clear();
    cache.step(e, pools, &Event::Flush, None)?;
    cache.settle_host(e)?;
    // Replicas hold nothing valid any more, and the kernel may soon refuse scans for written pages.
    e.scans.clear();
    cache.end_marks(e);
    if !e.lost.is_empty() {
        return open_whole_panels(cache, e, pools);
    }
    if cache.gate.traps() {
        e.open_pages(cache.gate)
            .map_err(|err| CacheError::Bug(format!("memory stays closed: {err}")))?;
    }
    e.set_guarded(false);
    e.unprotected.clear();
    let (len, content) = (e.block.len, e.block.content);
    cache.resize(e, pools, len, content, Interval::default())
}

/// A block with lost bytes: panels with lost bytes stay inaccessible, its other panels become write-through.
fn open_whole_panels(cache: &Cache, e: &mut Entry, pools: &mut [Pool]) -> Result<(), CacheError> {
    let all = Interval::new(0, e.block.len);
    cache.step(
        e,
        pools,
        &Event::WriteThrough {
            span: all,
            on: true,
        },
        None,
    )?;
    cache.apply_derived(e, all)
}
