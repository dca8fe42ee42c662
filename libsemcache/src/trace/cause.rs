//! For which call or fault a thread works.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The next number of a call or fault.
static NEXT: AtomicU64 = AtomicU64::new(1);

std::thread_local! {
    static CAUSE: Cell<u64> = const { Cell::new(0) };
}

/// The number of the call or fault for which this thread works; 0 if none.
#[must_use]
pub fn cause() -> u64 {
    CAUSE.get()
}

/// Until this is dropped, the calling thread works for one call or fault.
#[derive(Debug)]
pub struct Within {
    id: u64,
    before: u64,
}

impl Within {
    /// Begins a new call or fault.
    #[expect(clippy::new_without_default, reason = "a guard, not a value")]
    #[must_use]
    pub fn new() -> Within {
        let id = NEXT.fetch_add(1, Relaxed);
        let before = CAUSE.replace(id);
        Within { id, before }
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        CAUSE.set(self.before);
    }
}
