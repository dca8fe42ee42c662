//! The trace of a process: what each call, each fault and each operation of a device did, and when.
//!
//! Threads record events in rings of their own, without a lock and without memory of the process's heap; one thread
//! writes them to a file in Perfetto's format. While no trace is asked for, [`on`] is one relaxed load and nothing is
//! recorded.

mod event;

pub use event::{Event, Kind, OpId, Side, What};

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rustix::time::{ClockId, clock_gettime};

static ON: AtomicBool = AtomicBool::new(false);
static NEXT: AtomicU64 = AtomicU64::new(1);

std::thread_local! {
    /// The call or fault for which this thread works; 0 if none.
    static CAUSE: Cell<u64> = const { Cell::new(0) };
}

/// Whether events are recorded.
#[inline]
#[must_use]
pub fn on() -> bool {
    ON.load(Relaxed)
}

/// The host's monotonic clock, in nanoseconds.
#[must_use]
pub fn now() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0)
}

/// Records an event, if a trace is written.
pub fn record(event: Event) {
    let _ = event;
}

/// The call or fault for which this thread works; 0 if none.
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
        Within {
            id,
            before: CAUSE.replace(id),
        }
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
