//! Latency of page faults, as a histogram over the logarithm of the nanoseconds.
//!
//! Time runs from the handler's entry to its return, by the monotonic clock in the vDSO; the time that the kernel takes
//! to raise the signal and to leave it (1 to 3 us) is not included.

use core::sync::atomic::{AtomicU64, Ordering};

/// Four buckets an octave: a percentile is exact to 12 %.
const PER_OCTAVE_BITS: u32 = 2;
const BUCKETS: usize = 64 << PER_OCTAVE_BITS;

/// The numbers of faults by their time. It fills whole pages, so that another process can map it.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Histogram([AtomicU64; BUCKETS]);

/// The faults of this process.
pub static FAULTS: Histogram = Histogram::new();

fn bucket(ns: u64) -> usize {
    let ns = ns.max(1 << PER_OCTAVE_BITS);
    let octave = ns.ilog2();
    let within = (ns >> (octave - PER_OCTAVE_BITS)) & ((1 << PER_OCTAVE_BITS) - 1);
    ((octave as usize) << PER_OCTAVE_BITS) | within as usize
}

/// The middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let octave = (bucket >> PER_OCTAVE_BITS) as u32;
    let within = (bucket & ((1 << PER_OCTAVE_BITS) - 1)) as u64;
    if octave < PER_OCTAVE_BITS {
        return 0;
    }
    let width = 1u64 << (octave - PER_OCTAVE_BITS);
    (1u64 << octave) + within * width + width / 2
}

impl Histogram {
    const fn new() -> Histogram {
        Histogram([const { AtomicU64::new(0) }; BUCKETS])
    }

    /// Records one fault of `ns` nanoseconds.
    pub fn record(&self, ns: u64) {
        if let Some(count) = self.0.get(bucket(ns)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The time in nanoseconds that `percent` of all recorded faults did not exceed; `None` before the first.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let total: u64 = self.0.iter().map(|c| c.load(Ordering::Relaxed)).sum();
        if total == 0 {
            return None;
        }
        // Rounded up without `f64::ceil`, which needs std.
        let exact = total as f64 * (percent / 100.0);
        let floor = exact as u64;
        let rank = (floor + u64::from(exact > floor as f64)).clamp(1, total);
        let mut seen = 0;
        for (index, count) in self.0.iter().enumerate() {
            seen += count.load(Ordering::Relaxed);
            if seen >= rank {
                return Some(middle(index));
            }
        }
        None
    }

    /// Sets all numbers to zero.
    pub fn reset(&self) {
        for count in &self.0 {
            if count.load(Ordering::Relaxed) != 0 {
                count.store(0, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_an_eighth() {
        let faults = Histogram::new();
        let percentile = |percent| faults.percentile(percent);
        assert_eq!(percentile(50.0), None);
        for ns in 1..=1000u64 {
            faults.record(ns * 1000);
        }
        for (percent, expected) in [(50.0, 500_000.0), (99.0, 990_000.0), (100.0, 1_000_000.0)] {
            let got = percentile(percent).unwrap() as f64;
            assert!((got / expected - 1.0).abs() < 0.125, "{percent}: {got}");
        }
        faults.record(0);
        faults.record(u64::MAX);
        assert!(percentile(0.0).unwrap() < 10);
        assert!(percentile(100.0).unwrap() > u64::MAX / 2);
        faults.reset();
        assert_eq!(percentile(50.0), None);
    }
}
