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
pub struct DriverScope(());

impl DriverScope {
    /// Begins driver scope.
    #[expect(clippy::new_without_default, reason = "a guard, not a value")]
    #[must_use]
    pub fn new() -> DriverScope {
        EVER.store(true, Ordering::Relaxed);
        DEPTH.set(DEPTH.get() + 1);
        DriverScope(())
    }
}

impl Drop for DriverScope {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Whether the calling thread is in driver scope.
#[must_use]
pub fn in_driver_scope() -> bool {
    EVER.load(Ordering::Relaxed) && DEPTH.get() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_until_the_last_one_ends() {
        assert!(!in_driver_scope());
        let outer = DriverScope::new();
        drop(DriverScope::new());
        assert!(in_driver_scope());
        assert!(std::thread::scope(|s| s.spawn(|| !in_driver_scope()).join()).unwrap());
        drop(outer);
        assert!(!in_driver_scope());
    }
}
