//! When the processes of a run time some of their small calls: about a hundred times a second, at no regular intervals, since a program
//! may do what it does at regular ones.

use core::time::Duration;

use semcache::runtime::counted::{self, Run};

/// Nanoseconds between two times, on average, and how far they differ from that.
const EVERY_NS: u64 = 10_000_000;
const AROUND_NS: u64 = 4_000_000;
/// Between two times if no process makes small calls.
const IDLE: Duration = Duration::from_millis(100);

/// The times of a run.
pub(crate) struct Ticks<'a> {
    ticks: counted::Ticks<'a>,
    random: u64,
    pause: Duration,
}

impl Ticks<'_> {
    pub(crate) fn new(run: &Run) -> Ticks<'_> {
        Ticks {
            ticks: run.ticks(),
            random: u64::from(std::process::id()),
            pause: IDLE / 8,
        }
    }

    /// It is time now. Returns how long until the next one.
    pub(crate) fn next(&mut self) -> Duration {
        let any = self.ticks.tick();
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let more = (self.random >> 33) % (2 * AROUND_NS);
        self.pause = match any {
            true => Duration::from_nanos(EVERY_NS - AROUND_NS + more),
            false => (self.pause * 2).min(IDLE),
        };
        self.pause
    }
}
