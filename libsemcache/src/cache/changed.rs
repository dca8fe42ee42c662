//! Whether the calling thread's BLAS call may have changed its results: such a call cannot be run again from its beginning,
//! since that would change them twice.

use core::cell::Cell;

std::thread_local! {
    /// The lowest address of a result that may have changed; 0 if none has. Const and without a destructor.
    static BEGUN: Cell<usize> = const { Cell::new(0) };
}

/// Notes that from here on the result at this address may be changed, in host memory or on a device.
pub fn begun(addr: usize) {
    BEGUN.set(addr);
}

/// What one call may have changed. Calls may nest (a program's xerbla, a signal handler): when this is dropped, what the
/// outer call may have changed counts again.
#[derive(Debug)]
pub struct Changes {
    outer: usize,
}

impl Changes {
    /// For a call that has changed nothing yet.
    #[must_use]
    pub fn none() -> Changes {
        Changes {
            outer: BEGUN.replace(0),
        }
    }

    /// The address of a result that the call may have changed.
    #[must_use]
    pub fn result(&self) -> Option<usize> {
        Some(BEGUN.get()).filter(|addr| *addr != 0)
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        BEGUN.set(self.outer);
    }
}
