//! Time that the calling thread has waited for devices, so that the runtime can tell its own cost of a call or a fault
//! from waiting.

use core::cell::Cell;
use std::time::Instant;

std::thread_local! {
    static SECONDS: Cell<f64> = const { Cell::new(0.0) };
    static WAITING: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread waits for a device, or for a thread that may wait for one, until this is dropped.
#[derive(Debug)]
pub struct Waiting {
    /// When the wait began; `None` inside another wait of this thread.
    since: Option<Instant>,
}

impl Waiting {
    /// Begins a wait.
    #[expect(clippy::new_without_default, reason = "a guard, not a value")]
    #[must_use]
    pub fn new() -> Waiting {
        let already = WAITING.replace(true);
        Waiting {
            since: (!already).then(Instant::now),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            WAITING.set(false);
            SECONDS.set(SECONDS.get() + since.elapsed().as_secs_f64());
        }
    }
}

/// Measures time on the calling thread, with and without what the thread waits for devices.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    begun: Instant,
    waited_s: f64,
}

impl Stopwatch {
    /// Starts.
    #[must_use]
    pub fn start() -> Stopwatch {
        Stopwatch {
            begun: Instant::now(),
            waited_s: SECONDS.get(),
        }
    }

    /// Seconds since the start, and how many of them the thread did not wait for devices.
    #[must_use]
    pub fn seconds(&self) -> (f64, f64) {
        let all = self.begun.elapsed().as_secs_f64();
        (all, all - (SECONDS.get() - self.waited_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn waiting_is_left_out() {
        let watch = Stopwatch::start();
        let waiting = Waiting::new();
        std::thread::sleep(Duration::from_millis(20));
        drop(Waiting::new());
        drop(waiting);
        let (all, own) = watch.seconds();
        assert!(
            all >= 0.02 && own >= 0.0 && own <= all - 0.02,
            "{all} {own}"
        );
        // A wait of another thread does not count.
        std::thread::scope(|s| {
            s.spawn(|| drop(Waiting::new()));
        });
        let (all, own) = Stopwatch::start().seconds();
        assert!((all - own).abs() < 1e-12);
    }
}
