//! Driver scope: whether the calling thread runs code of a device's libraries, which may hold locks of their own and
//! enter the hooks again by an allocation, a free or a system call.
//!
//! Memory that these libraries allocate is never an operand: it must not take the place of the program's blocks (a CUDA
//! driver and cuBLAS make thousands of allocations). And while such code runs, the hooks must not call the device.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};

/// Whether any thread has ever been in driver scope. Until then the thread-local depth is not read: a sanitizer that
/// starts calls hooks before thread-local variables exist, and a signal handler may enter a hook at any time.
static EVER: AtomicBool = AtomicBool::new(false);

std::thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Driver scope: the calling thread runs code of a device's library, or is about to, until this is dropped.
#[derive(Debug)]
pub struct Inside(());

impl Inside {
    /// Begins driver scope.
    #[expect(clippy::new_without_default, reason = "a guard, not a value")]
    #[must_use]
    pub fn new() -> Inside {
        EVER.store(true, Ordering::Relaxed);
        DEPTH.set(DEPTH.get() + 1);
        Inside(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Whether the calling thread is in driver scope.
#[must_use]
pub fn inside() -> bool {
    EVER.load(Ordering::Relaxed) && DEPTH.get() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_until_the_last_one_ends() {
        assert!(!inside());
        let outer = Inside::new();
        drop(Inside::new());
        assert!(inside());
        assert!(std::thread::scope(|s| s.spawn(|| !inside()).join()).unwrap());
        drop(outer);
        assert!(!inside());
    }
}
