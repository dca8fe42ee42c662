//! The cache without a gate, from some moment on: the process does what no gate can notice.
//!
//! Nothing is tracked any more ([`crate::directory`], open territory): results go home before their call returns,
//! inputs are sent at each call. Calls under way on other threads go on: a kernel that was launched has its results
//! brought home here, later ones find open territory, which their calls settle at their ends.

use std::sync::atomic::Ordering;

use crate::process::masked::Masked;

use super::{Cache, CacheError, Entry, State};
use crate::base::{AllocId, Interval};
use crate::device::api::DeviceError;
use crate::directory::Event;
use crate::host::pins;
use crate::transfer::Pool;

impl Cache {
    /// Brings everything home, opens it, and closes nothing from now on. When this returns, that holds for every
    /// thread. What cannot be brought home (a lost device) stays closed.
    ///
    /// # Errors
    /// The first failure; the blocks concerned stay closed, and whoever touches them is told.
    pub fn go_eager(&self) -> Result<(), CacheError> {
        // As everywhere: no handler of the program's touches a closed page on a thread that holds the lock.
        let _masked = Masked::new();
        let mut guard = self.lock();
        self.eager.store(true, Ordering::SeqCst);
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

    /// Whether pages of blocks may be limited.
    pub(super) fn traps(&self) -> bool {
        self.gate.traps() && !self.eager.load(Ordering::SeqCst)
    }

    /// Undoes every pin, for good: whoever else uses a device may want to register the same memory, and is refused
    /// where it is registered already. Not under a lock; waits for copies in place.
    pub fn unpin_for_good(&self) {
        let _masked = Masked::new();
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
    // Nothing is valid any more, and the kernel may soon refuse to be asked what was written.
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

/// A block with lost bytes: their panels stay closed, the others become eager.
fn open_whole_panels(cache: &Cache, e: &mut Entry, pools: &mut [Pool]) -> Result<(), CacheError> {
    let all = Interval::new(0, e.block.len);
    cache.step(
        e,
        pools,
        &Event::Eager {
            span: all,
            on: true,
        },
        None,
    )?;
    cache.apply_derived(e, all)
}
