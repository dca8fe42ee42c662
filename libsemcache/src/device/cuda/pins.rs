//! Page-locked host memory: which ranges the copy engines reach without a detour.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// Registered ranges by start, with their ends. They never overlap.
#[derive(Debug, Default)]
pub(super) struct Pins(RwLock<BTreeMap<usize, usize>>);

impl Pins {
    pub(super) fn add(&self, start: usize, len: usize) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(start, start + len);
    }

    /// Whether there was such a range.
    pub(super) fn remove(&self, start: usize, len: usize) -> bool {
        let mut pins = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if pins.get(&start) == Some(&(start + len)) {
            pins.remove(&start);
            return true;
        }
        false
    }

    /// Whether one range holds all of the bytes: the driver refuses copies that cross from one to another.
    pub(super) fn holds(&self, start: usize, end: usize) -> bool {
        let pins = self.0.read().unwrap_or_else(PoisonError::into_inner);
        pins.range(..=start)
            .next_back()
            .is_some_and(|(_, &e)| end <= e)
    }
}
