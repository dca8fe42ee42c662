//! A device is gone with everything in its memory (decision D9).

use super::{Cache, CacheError, State};
use crate::base::counters::{COUNTERS, Degraded};
use crate::base::DeviceId;
use crate::directory::Event;
use crate::protect::service::Served;

impl Cache {
    /// Forgets the replicas of a lost device. Newest bytes that only it had are remembered as lost; whoever
    /// touches them ends the process.
    pub(crate) fn lose(&self, state: &mut State, device: DeviceId) -> Result<(), CacheError> {
        COUNTERS.degrade(Degraded::DeviceLost);
        let State { entries, pools, .. } = state;
        for e in entries.values_mut() {
            if e.stores.values().any(|s| s.device == device) {
                // Copies to or from the lost device never complete; nothing may wait for them.
                e.host.ops.forget(device);
                for s in e.stores.values_mut() {
                    s.ops.forget(device);
                }
                self.step(e, pools, &Event::Lost { device }, None)?;
            }
        }
        Ok(())
    }

    /// As [`Cache::lose`], from outside the lock.
    ///
    /// # Errors
    /// A contradiction in the protocol.
    pub fn device_lost(&self, device: DeviceId) -> Result<(), CacheError> {
        let mut state = self.lock();
        self.lose(&mut state, device)
    }
}

/// The one permitted end of the process: the newest bytes existed nowhere else.
#[expect(unsafe_code, clippy::exit, reason = "decision D9: going on would hand out wrong numbers")]
pub(crate) fn end_process(addr: usize) -> Served {
    let text = format!("semcache: a device was lost with the only copy of the matrix at {addr:#x}; ending the process rather than giving wrong numbers\n");
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
    // SAFETY: `_exit` takes no pointer and does not return; atexit handlers must not run, they could write
    // wrong results to files.
    unsafe { libc::_exit(70) }
}
