//! Time that the calling thread has waited for devices, so that the runtime can tell its own cost of a call or a fault
//! from waiting.

use core::cell::Cell;
use std::time::Instant;

use super::spent::{self, Span, Spent};

std::thread_local! {
    /// The nanoseconds, times two; plus one while the thread waits. One word, as the library has little thread-local memory.
    static WAITED: Cell<u64> = const { Cell::new(0) };
}

fn nanoseconds() -> u64 {
    WAITED.get() >> 1
}

/// The calling thread waits for a device, or for a thread that may wait for one, until this is dropped.
#[derive(Debug)]
pub struct Waiting {
    /// What it waits for, since when; `None` inside another wait of this thread.
    since: Option<(Spent, Span)>,
}

impl Waiting {
    /// Begins a wait for something. Inside another wait it is part of that one.
    #[must_use]
    pub fn on(what: Spent) -> Waiting {
        let before = WAITED.get();
        WAITED.set(before | 1);
        Waiting {
            since: (before & 1 == 0).then(|| (what, Span::begin())),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some((what, span)) = self.since {
            let (own, _) = span.end();
            spent::note(what, own);
            WAITED.set(nanoseconds().wrapping_add(own) << 1);
        }
    }
}

/// Measures time on the calling thread, with and without what the thread waits for devices.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    begun: Instant,
    waited: u64,
}

impl Stopwatch {
    /// Starts.
    #[must_use]
    pub fn start() -> Stopwatch {
        Stopwatch {
            begun: Instant::now(),
            waited: nanoseconds(),
        }
    }

    /// Seconds since the start, and how many of them the thread did not wait for devices.
    #[must_use]
    pub fn seconds(&self) -> (f64, f64) {
        let all = self.begun.elapsed().as_secs_f64();
        let waited = nanoseconds().wrapping_sub(self.waited);
        (all, all - waited as f64 * 1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn waiting_is_left_out() {
        let watch = Stopwatch::start();
        let waiting = Waiting::on(Spent::Kernels);
        std::thread::sleep(Duration::from_millis(20));
        drop(Waiting::on(Spent::Turn));
        drop(waiting);
        let (all, own) = watch.seconds();
        assert!(
            all >= 0.02 && own >= 0.0 && own <= all - 0.02,
            "{all} {own}"
        );
        // A wait of another thread does not count.
        std::thread::scope(|s| {
            s.spawn(|| drop(Waiting::on(Spent::Turn)));
        });
        let (all, own) = Stopwatch::start().seconds();
        assert!((all - own).abs() < 1e-12);
    }
}
