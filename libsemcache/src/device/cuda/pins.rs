//! Page-locked (pinned) host memory: the ranges that the copy engines read and write without staging memory.

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

    /// Removes a range; returns whether it was registered.
    pub(super) fn remove(&self, start: usize, len: usize) -> bool {
        let mut pins = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if pins.get(&start) == Some(&(start + len)) {
            pins.remove(&start);
            return true;
        }
        false
    }

    /// Whether one registered range holds all of the bytes: the driver refuses copies that cross from one range to
    /// another.
    pub(super) fn holds(&self, start: usize, end: usize) -> bool {
        let pins = self.0.read().unwrap_or_else(PoisonError::into_inner);
        pins.range(..=start)
            .next_back()
            .is_some_and(|(_, &e)| end <= e)
    }
}
