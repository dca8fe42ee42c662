//! Memory that system calls of the program use right now: its pages are not closed meanwhile.
//!
//! Its lock is a leaf: nothing but a change of protection happens under it. The hooks of system calls take no
//! other one unless a page is in the call's way, because anybody may be their caller: a driver that writes
//! to a pipe with its own lock held, while the cache's lock is held around a call of that driver.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::Access;
use crate::protect;

/// Address, length, whether the kernel writes it.
type Buffer = (usize, usize, bool);

/// The buffers of system calls under way, known to the cache or not: a block may become known, or change its name,
/// while the kernel is at it.
#[derive(Debug, Default)]
pub(super) struct Held(Mutex<Vec<Buffer>>);

/// The buffers, held still: none comes or goes until this is dropped.
#[derive(Debug)]
pub(super) struct Still<'a>(MutexGuard<'a, Vec<Buffer>>);

impl Held {
    /// Nothing comes or goes until the result is dropped.
    pub(super) fn lock(&self) -> Still<'_> {
        Still(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A system call begins. Whether every page permits it as it is; none is restricted further until [`Held::leave`].
    pub(super) fn enter(&self, addr: usize, len: usize, write: bool) -> bool {
        let mut still = self.lock();
        still.0.push((addr, len, write));
        protect::range_permits(addr, len, write)
    }

    /// It is over.
    pub(super) fn leave(&self, addr: usize, len: usize, write: bool) {
        let mut still = self.lock();
        if let Some(i) = still.0.iter().position(|b| *b == (addr, len, write)) {
            still.0.swap_remove(i);
        }
    }
}

impl Still<'_> {
    /// A child of fork makes no system call of its parent's.
    pub(super) fn forget(mut self) {
        self.0.clear();
    }

    /// Whether a system call needs more of these bytes than `access` permits.
    pub(super) fn forbids(&self, addr: usize, len: usize, access: Access) -> bool {
        self.0.iter().any(|&(a, n, write)| {
            a < addr.saturating_add(len) && addr < a.saturating_add(n) && !access.permits(write)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_forbids_what_it_needs() {
        let held = Held::default();
        assert!(held.enter(1000, 10, false));
        assert!(held.enter(2000, 10, true));
        let still = held.lock();
        assert!(still.forbids(1009, 1, Access::None) && !still.forbids(1010, 990, Access::None));
        assert!(still.forbids(0, 1001, Access::None));
        assert!(!still.forbids(0, 1001, Access::Read));
        assert!(still.forbids(0, 2001, Access::Read));
        assert!(!still.forbids(0, 2001, Access::ReadWrite));
        drop(still);
        held.leave(1000, 10, false);
        assert!(!held.lock().forbids(1000, 10, Access::None));
        assert!(held.lock().forbids(2000, 10, Access::None));
        held.lock().forget();
        assert!(!held.lock().forbids(0, usize::MAX, Access::None));
    }

    #[test]
    fn the_same_buffer_twice_is_held_until_both_are_over() {
        let held = Held::default();
        held.enter(64, 8, true);
        held.enter(64, 8, true);
        held.leave(64, 8, true);
        assert!(held.lock().forbids(64, 8, Access::None));
        held.leave(64, 8, true);
        assert!(!held.lock().forbids(64, 8, Access::None));
    }
}
