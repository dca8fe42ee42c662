//! Device loss: a device is gone with everything in its memory.

use std::sync::atomic::Ordering;

use super::task::Use;
use super::{Cache, CacheError, State, names};
use crate::base::counters::{Degraded, degrade};
use crate::base::{AllocId, DeviceId, Rect};
use crate::device::api::DeviceError;
use crate::directory::Event;

impl Cache {
    /// Drops the replicas of a lost device. Newest bytes that existed only there are recorded as lost: a CPU access to
    /// one of them ends the process.
    pub(crate) fn lose(&self, state: &mut State, device: DeviceId) -> Result<(), CacheError> {
        self.lost.store(true, Ordering::Relaxed);
        if degrade(Degraded::DeviceLost) {
            log::warn!("{device:?} is lost; what it was to do is done on the host");
        }
        let State { entries, pools, .. } = state;
        for e in entries.values_mut() {
            if e.stores.values().any(|s| s.device == device) || e.host.ops.involve(device) {
                // Copies to or from the lost device never complete; no thread may wait for them. Bytes of copies from
                // that device to the host that were in flight did not arrive.
                for rect in e.host.ops.forget(device, self.backend) {
                    e.lost.insert(&rect);
                }
                for s in e.stores.values_mut() {
                    if s.device == device {
                        s.ops.clear();
                    }
                }
                self.step(e, pools, &Event::Lost { device }, None)?;
            }
        }
        Ok(())
    }

    /// Drops the replicas of a lost device. Newest bytes that existed only there are lost: a CPU access to one of them
    /// ends the process.
    ///
    /// # Errors
    /// A contradiction in the protocol.
    pub fn device_lost(&self, device: DeviceId) -> Result<(), CacheError> {
        let mut state = self.lock();
        self.lose(&mut state, device)
    }
}

/// Whether the host held the newest bytes of an output before a call, and how many copies to the host had been queued
/// for its allocation then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCopy {
    newest: bool,
    downloads: u64,
}

impl State {
    /// Notes whether the host holds the newest bytes of `rect`, before a call writes `rect`.
    pub(super) fn host_copy(&self, id: AllocId, rect: &Rect) -> HostCopy {
        match self.entries.get(&id) {
            Some(e) => HostCopy {
                newest: !e.dir.stale().overlaps(rect),
                downloads: e.downloads,
            },
            None => HostCopy {
                newest: false,
                downloads: 0,
            },
        }
    }
}

impl Cache {
    /// Notes what the host has of a result, before an operation writes it on a device.
    #[must_use]
    pub fn host_copy(&self, id: AllocId, rect: &Rect) -> HostCopy {
        self.lock().host_copy(id, rect)
    }

    /// Whether some of these bytes existed only on a lost device.
    #[must_use]
    pub fn is_lost(&self, id: AllocId, rect: &Rect) -> bool {
        let state = self.lock();
        state
            .entries
            .get(&id)
            .is_some_and(|e| e.lost.overlaps(rect))
    }

    /// Takes the host's bytes of `rect` as valid although a lost device had newer ones, because the host is about to
    /// compute `rect` again. Refused (the bytes stay lost) if the computation reads the old contents, and the host does
    /// not hold them as they were before the call. Returns whether the bytes were taken as valid.
    pub fn reclaim(&self, id: AllocId, rect: &Rect, overwritten: bool, before: &HostCopy) -> bool {
        let mut state = self.lock();
        let Some(e) = state.entries.get_mut(&id) else {
            return false;
        };
        let usable = overwritten || (before.newest && e.downloads == before.downloads);
        if usable {
            e.lost.remove(rect);
        }
        usable
    }

    /// After `error`: if a lost device had the only copy of a result, the host's bytes, from before the call, are taken for the newest
    /// ones. Returns whether the host has them.
    pub fn takes_back(&self, error: &CacheError, stored: &Use, before: &HostCopy) -> bool {
        if let CacheError::Device(DeviceError::Lost { device }) = error {
            // If this fails, the next use of the device reports the loss again.
            let _ = self.device_lost(*device);
        }
        self.is_lost(stored.id, &stored.view)
            && self.reclaim(stored.id, &stored.view, false, before)
    }
}

/// Ends the process: the newest bytes existed only on a device and cannot be copied to the host.
pub(crate) fn end_process(addr: usize, why: &CacheError) -> ! {
    end(&format!(
        "the only copy of the matrix{} at {addr:#x} is gone ({why:?})",
        named(addr)
    ))
}

/// Ends the process after a panic in a call that had begun to change the matrix at `addr`.
pub(crate) fn end_after_panic(addr: usize) -> ! {
    end(&format!(
        "a panic may have left the matrix{} at {addr:#x} half computed",
        named(addr)
    ))
}

/// A blank and the name of the matrix at an address, if the program has named it.
fn named(addr: usize) -> String {
    names::at(addr).map_or_else(String::new, |name| format!(" {name}"))
}

/// Ends the process, since going on would give the program wrong numbers. The runtime may end it for no other reason.
#[expect(
    unsafe_code,
    reason = "`_exit`: going on would give the program wrong numbers"
)]
fn end(what: &str) -> ! {
    let text = format!("semcache: {what}; ending the process rather than giving wrong numbers\n");
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
    // SAFETY: `_exit` takes no pointer and does not return; atexit handlers must not run, since they could write wrong
    // results to files.
    unsafe { libc::_exit(70) }
}
