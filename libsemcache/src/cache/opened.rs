//! Pages that were made writable while a fork holds the cache's lock ([`super::frozen`]).

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Pages that are noted one by one; if there are more, all panels count as written.
const MOST_PAGES: usize = 512;

/// The pages that were made writable. They are noted in memory of their own, as no memory is allocated during a fork.
#[derive(Debug)]
pub(super) struct Opened {
    /// Whether faults may be served without the cache's lock.
    pub(super) frozen: bool,
    pages: [usize; MOST_PAGES],
    count: usize,
    /// Whether there were more than have room in `pages`.
    pub(super) more: bool,
}

impl Default for Opened {
    fn default() -> Opened {
        Opened {
            frozen: false,
            pages: [0; MOST_PAGES],
            count: 0,
            more: false,
        }
    }
}

impl Opened {
    /// The addresses of the pages.
    pub(super) fn pages(&self) -> &[usize] {
        &self.pages[..self.count]
    }

    /// Notes the page that begins at an address.
    pub(super) fn note(&mut self, start: usize) {
        if self.pages().last() == Some(&start) {
            return;
        }
        match self.pages.get_mut(self.count) {
            Some(page) => {
                *page = start;
                self.count += 1;
            }
            None => self.more = true,
        }
    }
}

/// A lock that is taken after the cache's, or alone.
#[derive(Debug, Default)]
pub(super) struct Lock(Mutex<Opened>);

impl Lock {
    pub(super) fn lock(&self) -> MutexGuard<'_, Opened> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
