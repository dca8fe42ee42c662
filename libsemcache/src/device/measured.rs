//! Measured times of operations: what becomes of the start and the end of an operation that a device has executed.
//!
//! While a trace is written, every operation is timed and its times are recorded as [`Event::Ran`]. One operation in 256
//! of each stream is a sample: it is timed without a trace, too, and its time is added to the counters `sampled`. Samples, and the
//! first operations of each stream, correct the rates by which calls are predicted ([`crate::base::timed`]).

use std::sync::OnceLock;

use crate::base::DeviceId;
use crate::base::counters::{COUNTERS, on_device};
use crate::base::timed::{self, Operation, Timed, What};
use crate::trace::{self, Event, OpId};

/// One operation of a stream in this number is a sample.
const ONE_IN: u64 = 256;
/// This number of operations of each stream are timed at first, so that the first calls on a GPU correct its rates.
const FIRST: u64 = 48;

/// Why an operation is timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reason {
    /// The time is added to the counters.
    sample: bool,
    /// The time corrects the rates.
    rates: bool,
    /// The start and the end are recorded.
    traced: bool,
}

impl Reason {
    /// Whether and why the `nth` operation of a stream, from 1, is timed.
    pub(super) fn of(nth: u64) -> Option<Reason> {
        let sample = is_sample(nth);
        let reason = Reason {
            sample,
            rates: sample || nth <= FIRST,
            traced: trace::on() || WATCHER.get().is_some(),
        };
        (reason.rates || reason.traced).then_some(reason)
    }

    /// Counts and records the times of an operation that is complete, in nanoseconds of the host's monotonic clock. `queueing` is
    /// how long the host took to queue it: on an idle stream the span includes that.
    pub(super) fn fulfil(self, op: OpId, operation: Operation, span: (u64, u64), queueing: u64) {
        let (device, ns) = (DeviceId(op.device()), span.1 - span.0);
        if self.sample {
            count(device, operation, ns);
        }
        if self.rates && queueing.saturating_mul(FREE_OF_QUEUEING) <= ns {
            timed::note(Timed {
                what: What::Operation(device, operation),
                seconds: ns as f64 * 1e-9,
            });
        }
        if self.traced {
            trace::record(Event::Ran { op, span });
            if let Some(watcher) = WATCHER.get() {
                watcher(op, span);
            }
        }
    }
}

/// The time of an operation tells a rate if it is at least this many times as long as the host took to queue it.
const FREE_OF_QUEUEING: u64 = 8;

/// Whether the `nth` operation of a stream, from 1, is a sample. Every 256 operations contain one, each time at another
/// position: a call whose tiles are 256 operations, or a part of 256, is not sampled at the same tile every time.
fn is_sample(nth: u64) -> bool {
    /// Odd, so that the position takes all 256 values.
    const STEP: u64 = 149;
    let (block, position) = (
        nth.saturating_sub(1) / ONE_IN,
        nth.saturating_sub(1) % ONE_IN,
    );
    position == (ONE_IN - 1).wrapping_add(block.wrapping_mul(STEP)) % ONE_IN
}

fn count(device: DeviceId, operation: Operation, ns: u64) {
    let sampled = &COUNTERS.sampled;
    if let Operation::Kernel(work) = operation
        && work.paces() > 0
    {
        on_device(device).sampled_work.add(work.paces() as u64);
        on_device(device).sampled_ns.add(ns);
    }
    let (amount, of, time) = match operation {
        Operation::Upload(copied) => (copied.bytes, &sampled.h2d_bytes, &sampled.h2d_ns),
        Operation::Download(copied) => (copied.bytes, &sampled.d2h_bytes, &sampled.d2h_ns),
        Operation::Peer(_, bytes) => (bytes, &sampled.p2p_bytes, &sampled.p2p_ns),
        Operation::Kernel(_) | Operation::Sparse(_) | Operation::Dense(_) => {
            (1, &sampled.kernels, &sampled.kernel_ns)
        }
        Operation::Within => return,
    };
    of.add(amount as u64);
    time.add(ns);
}

/// A function that learns of each operation that was timed, with its start and its end.
pub type Watcher = fn(OpId, (u64, u64));

static WATCHER: OnceLock<Watcher> = OnceLock::new();

/// From now on every operation is timed as under a trace, and `watcher` is called with its times, under locks of the
/// machine. For tests, and for the stand-in of the CUDA driver, which answers from the times of a simulated machine. Of
/// several calls the first one counts.
pub fn watch(watcher: Watcher) {
    let _ = WATCHER.set(watcher);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_256_operations_contain_one_sample_at_changing_positions() {
        let mut positions = [false; 256];
        for block in 0..256 {
            let samples: Vec<u64> = (1..=256).filter(|i| is_sample(block * 256 + i)).collect();
            assert_eq!(samples.len(), 1, "{block}");
            positions[usize::try_from(samples[0]).unwrap() - 1] = true;
        }
        assert!(positions.iter().all(|seen| *seen));
        assert!(
            is_sample(256),
            "the first operations of a stream load kernels and are no samples"
        );
    }

    #[test]
    fn without_a_trace_the_first_operations_and_samples_are_timed() {
        let (sample, rates, traced) = (false, true, false);
        let first = Reason {
            sample,
            rates,
            traced,
        };
        assert_eq!(Reason::of(FIRST), Some(first));
        assert_eq!(Reason::of(FIRST + 1), None);
        let sample = Some(Reason {
            sample: true,
            ..first
        });
        assert_eq!(Reason::of(256), sample);
    }
}
