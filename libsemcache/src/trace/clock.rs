//! The clock of the trace.

use rustix::time::{ClockId, clock_gettime};

/// The host's monotonic clock, in nanoseconds.
#[must_use]
pub fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// A clock of the host, in nanoseconds.
pub(super) fn read(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0)
}
