//! Page-locked (pinned) host memory of the simulated machine: bookkeeping that is stricter than any driver's. Simulated
//! copies do not need it; it shows errors of the runtime's pinning here instead of as wrong numbers on a GPU.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::base::DeviceId;
use crate::device::api::DeviceError;
use crate::device::host_memory::mapped_writable;

/// Statuses of refusals, as CUDA numbers them.
const INVALID: i32 = 1;
const ALREADY: i32 = 712;

/// The page-locked ranges, which are disjoint.
#[derive(Debug, Default)]
pub(super) struct Pins {
    ranges: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// From start to length.
    ranges: BTreeMap<usize, usize>,
    /// How often memory was pinned twice, unpinned without a pin, or unmapped while it was pinned.
    violations: usize,
}

impl Pins {
    /// Refuses a range that overlaps a pinned range or (in builds with assertions) is not all mapped and accessible.
    pub(super) fn pin(&self, start: usize, len: usize) -> Result<(), DeviceError> {
        let refused = |code| {
            Err(DeviceError::Refused {
                device: DeviceId(0),
                what: "pin",
                code,
            })
        };
        let end = start.saturating_add(len);
        if len == 0 || cfg!(debug_assertions) && !mapped_writable(start, end) {
            return refused(INVALID);
        }
        let mut state = self.lock();
        let before = state.ranges.range(..end).next_back();
        if before.is_some_and(|(s, l)| s + l > start) {
            log::error!("pinned twice: {len} bytes at {start:#x}");
            state.violations += 1;
            return refused(ALREADY);
        }
        state.ranges.insert(start, len);
        Ok(())
    }

    /// Counts a violation unless the range matches a pin exactly and is still mapped.
    pub(super) fn unpin(&self, start: usize, len: usize) {
        let gone =
            cfg!(debug_assertions) && !crate::device::host_memory::mapped(start, start + len);
        let mut state = self.lock();
        let found = state.ranges.get(&start) == Some(&len);
        if found {
            state.ranges.remove(&start);
        }
        if !found || gone {
            state.violations += 1;
            let what = if found {
                "unmapped under its pin"
            } else {
                "never pinned"
            };
            log::error!("unpinned: {len} bytes at {start:#x}, {what}");
        }
    }

    pub(super) fn all(&self) -> Vec<(usize, usize)> {
        self.lock().ranges.iter().map(|(s, l)| (*s, *l)).collect()
    }

    pub(super) fn violations(&self) -> usize {
        self.lock().violations
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
