//! Latency of page faults, as a histogram over the logarithm of the nanoseconds, and what they took together: in the process, and of
//! each thread, so that the time of a fault is not taken for that of the code which faulted.
//!
//! Time runs from the handler's entry to its return, by the monotonic clock in the vDSO; the time that the kernel takes
//! to raise the signal and to leave it (1 to 3 us) is not included.

#![expect(unsafe_code, reason = "reads the thread pointer")]

use core::arch::asm;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Four buckets an octave: a percentile is exact to 12 %.
const PER_OCTAVE_BITS: u32 = 2;
const BUCKETS: usize = 64 << PER_OCTAVE_BITS;

/// The numbers of faults by their time, and the nanoseconds of all. It fills whole pages, so that another process can map it.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

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
        Histogram {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            sum: AtomicU64::new(0),
        }
    }

    /// Records one fault of `ns` nanoseconds.
    pub fn record(&self, ns: u64) {
        if let Some(count) = self.counts.get(bucket(ns)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(ns, Ordering::Relaxed);
    }

    /// The nanoseconds of all recorded faults together.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }

    /// The time in nanoseconds that `percent` of all recorded faults did not exceed; `None` before the first.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let total: u64 = self.counts.iter().map(|c| c.load(Ordering::Relaxed)).sum();
        if total == 0 {
            return None;
        }
        // Rounded up without `f64::ceil`, which needs std.
        let exact = total as f64 * (percent / 100.0);
        let floor = exact as u64;
        let rank = (floor + u64::from(exact > floor as f64)).clamp(1, total);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count.load(Ordering::Relaxed);
            if seen >= rank {
                return Some(middle(index));
            }
        }
        None
    }
}

/// Threads whose faults are added up at the same time; those of others are not.
const THREADS: usize = 256;
/// Places that are looked at for a thread.
const LOOKED: usize = 8;

/// The faults of one thread.
struct OfThread {
    /// Its thread pointer; 0: nobody's. A thread that has the thread pointer of one that has ended goes on with its sum.
    thread: AtomicUsize,
    ns: AtomicU64,
}

static OF_THREADS: [OfThread; THREADS] = [const {
    OfThread {
        thread: AtomicUsize::new(0),
        ns: AtomicU64::new(0),
    }
}; THREADS];

/// What tells the calling thread from others.
#[inline]
fn this_thread() -> usize {
    let pointer: usize;
    // SAFETY: the first word of the thread's control block holds its own address, by the ABI of thread-local storage.
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, pure)) };
    pointer
}

fn places(thread: usize) -> impl Iterator<Item = &'static OfThread> {
    let first = (thread >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56;
    (first..first + LOOKED).filter_map(|at| OF_THREADS.get(at % THREADS))
}

/// Records one fault of the calling thread, of `ns` nanoseconds.
pub fn record(ns: u64) {
    FAULTS.record(ns);
    let thread = this_thread();
    for place in places(thread) {
        let (acquire, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        let found = place.thread.load(relaxed);
        let mine = found == thread
            || found == 0
                && match place.thread.compare_exchange(0, thread, acquire, relaxed) {
                    Ok(_) => true,
                    // The thread itself may have taken it meanwhile, in a handler that interrupted it.
                    Err(other) => other == thread,
                };
        if mine {
            place.ns.fetch_add(ns, relaxed);
            return;
        }
    }
}

/// The nanoseconds of all recorded faults of the calling thread together, and of earlier threads in its place; a difference of two
/// says what its faults took meanwhile.
#[must_use]
pub fn of_this_thread() -> u64 {
    let thread = this_thread();
    for place in places(thread) {
        match place.thread.load(Ordering::Relaxed) {
            0 => return 0,
            found if found == thread => return place.ns.load(Ordering::Relaxed),
            _ => {}
        }
    }
    0
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
        let faults = Histogram::new();
        assert_eq!((faults.percentile(50.0), faults.sum()), (None, 0));
        faults.record(5);
        faults.record(7);
        assert_eq!(faults.sum(), 12);
    }
}
