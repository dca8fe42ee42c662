//! The end of traps: from now on results go home before a call returns, and inputs are sent at each. For processes
//! in which somebody reads and writes memory without a fault and without a system call that could be seen: the kernel
//! later, or another process.

use super::{Cache, CacheError, State};
use crate::base::{Interval, Rect};
use crate::directory::Event;

use std::sync::atomic::Ordering;

impl Cache {
    /// Whether restricted pages trap the CPU, and pages may be restricted.
    pub(crate) fn traps(&self) -> bool {
        self.gate.traps() && !self.eager.load(Ordering::Relaxed)
    }

    /// Everything home and open, and nothing restricted any more; false if nothing ever was. What cannot come home stays closed and is reported as
    /// an error after all the rest is done.
    ///
    /// # Errors
    /// The first failure.
    pub fn stop_trapping(&self) -> Result<bool, CacheError> {
        let mut guard = self.lock();
        if !self.traps() {
            return Ok(false);
        }
        self.eager.store(true, Ordering::Relaxed);
        let State { entries, pools, .. } = &mut *guard;
        let mut result = Ok(true);
        for e in entries.values_mut() {
            let done = self
                .step(e, pools, &Event::Flush, None)
                .and_then(|()| self.settle_host(e))
                .and_then(|()| {
                    if !e.lost.is_empty() {
                        return Err(CacheError::DataLost);
                    }
                    e.open_pages(self.gate)
                        .map_err(|err| CacheError::Bug(format!("memory stays closed: {err}")))?;
                    e.set_guarded(false);
                    let len = e.block.len;
                    // Calls that are under way find at their end that nothing is trapped, and wait for what they left.
                    self.resize(e, pools, len, Interval::default())
                });
            debug_assert!(
                done.is_err() || !e.dir.stale().overlaps(&Rect::interval(0, e.block.len))
            );
            if let Err(err) = done {
                result = Err(err);
            }
        }
        result
    }
}
