//! A value with a version: every mutable access to the value renews the version.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A value and its version, a number that changes with every mutable access. Two reads that see the same version saw
/// the same value. No two values of the process ever have the same version.
#[derive(Debug)]
pub(crate) struct Versioned<T> {
    value: T,
    version: u64,
}

fn fresh() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Relaxed) + 1
}

impl<T> Versioned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value,
            version: fresh(),
        }
    }

    /// The version of the value as it is now.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }
}

impl<T> Deref for Versioned<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// Each mutable borrow counts as a change of the value.
impl<T> DerefMut for Versioned<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.version = fresh();
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_shows() {
        let mut a = Versioned::new(vec![1]);
        let first = a.version();
        assert_eq!((a.len(), a.version()), (1, first));
        a.push(2);
        let second = a.version();
        assert_ne!(second, first);
        *a = vec![1];
        assert!(a.version() != second && a.version() != first);
        assert_ne!(Versioned::new(vec![1]).version(), a.version());
    }
}
