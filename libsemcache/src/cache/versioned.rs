//! A value that cannot be changed unnoticed.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A value and a number that is another one after every change: whoever saw the same number twice saw the same
/// value. No two values of the process ever share a number.
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

    /// The number of the value as it is now.
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

/// Whoever asks for the right to change the value is taken to have changed it.
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
