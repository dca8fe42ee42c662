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

    /// Where registered ranges that follow each other meet, if they hold all of the bytes: the driver refuses copies that cross
    /// from one range to another. `None` if some byte is not registered.
    pub(super) fn borders(&self, start: usize, end: usize) -> Option<Vec<usize>> {
        let pins = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let (_, &first) = pins.range(..=start).next_back()?;
        let (mut at, mut borders) = (first, Vec::new());
        // An empty range is held if its first byte is.
        if at <= start {
            return None;
        }
        while at < end {
            borders.push(at);
            at = *pins.get(&at)?;
        }
        Some(borders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_follow_each_other() {
        let pins = Pins::default();
        for (start, len) in [(100, 50), (150, 10), (160, 40), (300, 10)] {
            pins.add(start, len);
        }
        assert_eq!(pins.borders(100, 150), Some(vec![]));
        assert_eq!(pins.borders(120, 121), Some(vec![]));
        assert_eq!(pins.borders(100, 200), Some(vec![150, 160]));
        assert_eq!(pins.borders(155, 161), Some(vec![160]));
        assert_eq!(pins.borders(155, 201), None);
        assert_eq!(pins.borders(99, 101), None);
        assert_eq!(pins.borders(200, 210), None);
        assert!(pins.remove(150, 10));
        assert_eq!(pins.borders(100, 200), None);
        assert_eq!(pins.borders(160, 200), Some(vec![]));
    }
}
