//! Whether this thread runs code of a device's libraries, which may hold locks of their own and call back into the
//! hooks: by an allocation, a free, a system call.
//!
//! What they allocate is no operand: it must not take the place of the program's blocks (a CUDA driver and cuBLAS make
//! thousands of them). And while they run they must not be asked anything.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};

/// Somebody has been. Until then nothing is asked of the thread: a sanitizer that begins calls hooks before it has
/// thread-local variables, and a signal handler may come by one at any time.
static EVER: AtomicBool = AtomicBool::new(false);

std::thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// This thread is in a device's library, or about to be, until dropped.
#[derive(Debug)]
pub struct Inside(());

impl Inside {
    /// From now on.
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

/// Whether this thread is in a device's library.
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
