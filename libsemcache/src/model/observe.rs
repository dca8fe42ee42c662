//! Correction of the rates by measured times.
//!
//! Rates of simulated devices are not corrected: these are predicted as the machine that they model.

use super::exec;
use super::rates::{DeviceRates, HostRates, LinkRate, Rates, Total};
use crate::base::timed::{Copied, Operation, Timed, What};
use crate::base::{DeviceId, Routine, Work};

/// The rates that a machine starts from, and the rates as corrected by measurements. The caller holds the lock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Refined {
    first: Rates,
    now: Rates,
    /// The rates when they last counted as moved, the number of questions then, and of those until now.
    basis: Rates,
    moved_at: u64,
    asked: u64,
    /// How many measurements corrected each rate.
    evidence: Evidence,
}

/// The rates of a kind of devices that are corrected, by their places in the evidence: four types of products, memory, and the links.
const DEVICE_RATES: usize = 8;
const MEMORY: usize = 4;
const H2D: usize = 5;
const D2H: usize = 6;
const P2P: usize = 7;

/// The number of measurements behind each rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Evidence {
    devices: [[u32; DEVICE_RATES]; 4],
    host: [u32; 6],
    locking: u32,
}

/// Least weight of a new measurement: in the long run the estimate follows measurements with a time constant of about eight. The
/// first ones have more: the rate that they correct came from a table.
const WEIGHT: f64 = 0.125;
/// Weight of a copy that took longer than predicted: other copies, in the other direction or of other devices, may have held it up,
/// and nothing makes a copy faster than the link.
const SLOW_COPY: f64 = 0.03;
/// One measurement counts as at most that many times faster or slower than the estimate: a page fault or a preempted
/// thread during the measurement is not a property of the machine.
const LEAP: f64 = 4.0;
/// Estimates stay within this factor of the rates at the start.
const TRUST: f64 = 64.0;
/// Rates that moved by this factor may change decisions.
const MOVED: f64 = 1.25;
/// The time of a transfer of fewer bytes depends on latency, not on bandwidth.
const LEAST_BYTES: usize = 1 << 20;
/// Copies of shorter columns do not reach the rate of the link.
const LEAST_RUN: usize = 64 << 10;
/// Page-locking fewer bytes than this shows the driver's overhead.
const LEAST_LOCKED: usize = 16 << 20;
/// If arithmetic or traffic take less than this share of the predicted time, the measurement shows overhead, not a
/// rate.
const LEAST_SHARE: f64 = 0.5;
/// A product with a shorter dimension tells nothing of large products, on a device and on the host.
const LEAST_ORDER: usize = 512;
const LEAST_ON_HOST: usize = 256;

impl Refined {
    /// Starts from these rates.
    #[must_use]
    pub const fn new(first: Rates) -> Refined {
        Refined {
            first,
            now: first,
            basis: first,
            moved_at: 0,
            asked: 0,
            evidence: Evidence {
                devices: [[0; DEVICE_RATES]; 4],
                host: [0; 6],
                locking: 0,
            },
        }
    }

    /// The present rates.
    #[must_use]
    pub const fn machine(&self) -> &Rates {
        &self.now
    }

    /// Whether a rate has moved by more than a quarter since this was last true: what was decided before may be decided otherwise now.
    /// Asked after each correction. It is true less and less often, since rates that measurements scatter about move as well: from one time
    /// to the next the number of corrections doubles.
    #[must_use]
    pub fn have_moved(&mut self) -> bool {
        self.asked += 1;
        if self.asked < 2 * self.moved_at {
            return false;
        }
        let pairs = corrected(&self.now).zip(corrected(&self.basis));
        let moved = pairs.fold(false, |moved, (now, basis)| {
            moved || now > MOVED * basis || basis > MOVED * now
        });
        if moved {
            (self.basis, self.moved_at) = (self.now, self.asked);
        }
        moved
    }

    /// Corrects the rates by a time that was measured while this number of devices were in use, if it says something about a rate,
    /// and returns whether it did.
    pub fn observe(&mut self, timed: &Timed, devices: usize) -> bool {
        match timed.what {
            What::Operation(device, operation) => {
                self.on_device(device, operation, devices, timed.seconds)
            }
            What::Locking(bytes) => self.locking(bytes, devices, timed.seconds),
        }
    }

    fn on_device(
        &mut self,
        device: DeviceId,
        operation: Operation,
        devices: usize,
        seconds: f64,
    ) -> bool {
        let kind = self.now.kinds.kind(device);
        let first = self.first.of(device);
        let evidence = &mut self.evidence.devices[kind];
        let now = &mut self.now.kinds.each_mut()[kind];
        let shared = devices > 1;
        let copy = |copied: Copied, now: &mut LinkRate, first, count, total: &mut Total| {
            let before = now.bytes_per_s;
            let slow = slow_copy(copied, shared);
            let known =
                slow.is_some_and(|slow| link(now, first, count, slow, copied.bytes, seconds));
            // What devices reach together depends on what each of them reaches.
            total.scale(now.bytes_per_s / before);
            known
        };
        let (h2d_all, d2h_all) = (&mut self.now.h2d_all, &mut self.now.d2h_all);
        match operation {
            Operation::Upload(copied) => copy(
                copied,
                &mut now.h2d,
                &first.h2d,
                &mut evidence[H2D],
                h2d_all,
            ),
            Operation::Download(copied) => copy(
                copied,
                &mut now.d2h,
                &first.d2h,
                &mut evidence[D2H],
                d2h_all,
            ),
            Operation::Peer(_, bytes) => {
                let count = &mut evidence[P2P];
                link(&mut now.p2p, &first.p2p, count, SLOW_COPY, bytes, seconds)
            }
            Operation::Kernel(work) => kernel(now, first, evidence, &work, seconds),
            Operation::Sparse(_) | Operation::Dense(_) | Operation::Within => false,
        }
    }

    /// Corrects the rate of page-locking, for all numbers of devices by the same factor.
    fn locking(&mut self, bytes: usize, devices: usize, seconds: f64) -> bool {
        if bytes < LEAST_LOCKED {
            return false;
        }
        let mut rate = self.now.pin.of(devices);
        let (before, first) = (rate, self.first.pin.of(devices));
        let expected = bytes as f64 / rate;
        let weight = weight(&mut self.evidence.locking);
        let corrected = rate_of(&mut rate, first, expected, 0.0, seconds, |_| weight);
        self.now.pin.scale(rate / before);
        corrected
    }

    /// Corrects the rates of the host BLAS by the seconds of one of its calls, with operands in host memory.
    pub fn host(&mut self, work: &Work, seconds: f64) -> bool {
        let (now, first) = (&mut self.now.host, &self.first.host);
        let (arithmetic, memory) = exec::host_parts(work, now);
        if !tells(work, arithmetic > memory, LEAST_ON_HOST) {
            return false;
        }
        let (rate, first_rate, at) = host_rate(now, first, work, arithmetic > memory);
        let (expected, overhead) = (arithmetic.max(memory), first.call_s);
        let count = &mut self.evidence.host[at];
        rate_of(rate, first_rate, expected, overhead, seconds, |_| {
            weight(count)
        })
    }
}

/// The rates that measurements correct.
fn corrected(rates: &Rates) -> impl Iterator<Item = f64> {
    fn of_kind(kind: &DeviceRates) -> [f64; DEVICE_RATES] {
        let [s, d, c, z] = kind.gemm.map(|gemm| gemm.peak_flops);
        let [h2d, d2h, p2p] = [&kind.h2d, &kind.d2h, &kind.p2p].map(|link| link.bytes_per_s);
        [s, d, c, z, kind.memory_bandwidth, h2d, d2h, p2p]
    }
    let host = &rates.host;
    let of_host = [host.memory_bandwidth, host.cache_bandwidth, rates.pin.of(1)];
    let devices = rates.kinds.each().iter().flat_map(of_kind);
    devices.chain(host.gemm_flops).chain(of_host)
}

/// The weight of one more measurement; counts it.
fn weight(evidence: &mut u32) -> f64 {
    *evidence = evidence.saturating_add(1);
    (1.0 / (1.0 + f64::from(*evidence))).max(WEIGHT)
}

/// The weight that a copy has if it took longer than predicted; `None` if its time tells nothing of the link.
fn slow_copy(copied: Copied, shared: bool) -> Option<f64> {
    if copied.run < LEAST_RUN {
        None
    } else if shared {
        Some(0.0)
    } else {
        Some(SLOW_COPY)
    }
}

/// Whether the time of this work tells the rate of arithmetic, or of memory: products of which no dimension is shorter than `least`, and
/// levels 1 and 2 without triangles, whose functions have rates of their own.
fn tells(work: &Work, arithmetic: bool, least: usize) -> bool {
    if arithmetic {
        work.routine == Routine::Gemm && work.m.min(work.n).min(work.k) >= least
    } else {
        !work.is_level3() && work.routine.triangle().is_none()
    }
}

fn kernel(
    now: &mut DeviceRates,
    first: &DeviceRates,
    evidence: &mut [u32; DEVICE_RATES],
    work: &Work,
    seconds: f64,
) -> bool {
    let (arithmetic, memory) = exec::parts(work, now);
    let overhead = exec::launch_s(work, now);
    let of_type = work.dtype as usize;
    if !tells(work, arithmetic > memory, LEAST_ORDER) {
        return false;
    }
    let (rate, first, count) = if arithmetic > memory {
        let rate = &mut now.gemm[of_type].peak_flops;
        (rate, first.gemm[of_type].peak_flops, &mut evidence[of_type])
    } else {
        let rate = &mut now.memory_bandwidth;
        (rate, first.memory_bandwidth, &mut evidence[MEMORY])
    };
    rate_of(
        rate,
        first,
        arithmetic.max(memory),
        overhead,
        seconds,
        |_| weight(count),
    )
}

/// The host rate that limits the work, its value at the start, and its place in the evidence.
fn host_rate<'a>(
    now: &'a mut HostRates,
    first: &HostRates,
    work: &Work,
    arithmetic: bool,
) -> (&'a mut f64, f64, usize) {
    let of_type = work.dtype as usize;
    if arithmetic {
        let rate = &mut now.gemm_flops[of_type];
        (rate, first.gemm_flops[of_type], of_type)
    } else if work.traffic() <= now.cache_bytes {
        (&mut now.cache_bandwidth, first.cache_bandwidth, 4)
    } else {
        (&mut now.memory_bandwidth, first.memory_bandwidth, 5)
    }
}

fn link(
    now: &mut LinkRate,
    first: &LinkRate,
    evidence: &mut u32,
    slow: f64,
    bytes: usize,
    seconds: f64,
) -> bool {
    if bytes < LEAST_BYTES {
        return false;
    }
    let expected = bytes as f64 / now.bytes_per_s;
    let weight = |faster: f64| {
        if faster < 1.0 { slow } else { weight(evidence) }
    };
    rate_of(
        &mut now.bytes_per_s,
        first.bytes_per_s,
        expected,
        now.latency_s,
        seconds,
        weight,
    )
}

/// Moves a rate towards the value at which the prediction would equal the measured seconds less the overhead;
/// `expected` are the seconds at the present rate. `weight` has the measurement's weight, given how many times faster than the
/// rate it is.
fn rate_of(
    rate: &mut f64,
    first: f64,
    expected: f64,
    overhead: f64,
    seconds: f64,
    weight: impl FnOnce(f64) -> f64,
) -> bool {
    let net = seconds - overhead;
    if !net.is_finite() || expected < LEAST_SHARE * (expected + overhead) || net <= 0.0 {
        return false;
    }
    let faster = (expected / net).clamp(1.0 / LEAP, LEAP);
    let weight = weight(faster);
    let smoothed = *rate * (1.0 - weight + weight * faster);
    if !smoothed.is_finite() {
        return false;
    }
    *rate = smoothed.clamp(first / TRUST, first * TRUST);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Dtype, Routine};

    const ONE: DeviceId = DeviceId(0);

    fn refined() -> Refined {
        Refined::new(Rates::h200(HostRates::of_cores(8)))
    }

    fn on_one(operation: Operation, seconds: f64) -> Timed {
        Timed {
            what: What::Operation(ONE, operation),
            seconds,
        }
    }

    /// A copy of as many bytes in one run.
    fn bytes(bytes: usize) -> Copied {
        Copied { bytes, run: bytes }
    }

    #[test]
    fn converges_to_what_is_measured() {
        let mut r = refined();
        let n = 100 << 20;
        for _ in 0..60 {
            // 80 GB/s after a latency of 7 us.
            let s = n as f64 / 80e9 + 7e-6;
            assert!(r.observe(&on_one(Operation::Upload(bytes(n)), s), 1));
        }
        assert!((r.machine().of(ONE).h2d.bytes_per_s / 80e9 - 1.0).abs() < 0.01);
        let mut other = r;
        other.now.kinds.each_mut()[0].h2d = other.first.of(ONE).h2d;
        // Several devices together reach more as well.
        assert!((other.now.h2d_all.of(2) / 105e9 * 55.4 / 80.0 - 1.0).abs() < 0.01);
        other.now.h2d_all = other.first.h2d_all;
        assert_eq!(other.now, refined().now);

        let work = Work::gemm(Dtype::D, 4096, 4096, 4096);
        let half = 2.0 * exec::device_s(&work, r.machine().of(ONE));
        for _ in 0..60 {
            r.observe(&on_one(Operation::Kernel(work), half), 1);
        }
        let now = exec::device_s(&work, r.machine().of(ONE));
        assert!((now / half - 1.0).abs() < 0.01);
        let host = 3.0 * exec::host_s(&work, &r.machine().host);
        for _ in 0..60 {
            r.host(&work, host);
        }
        assert!((exec::host_s(&work, &r.machine().host) / host - 1.0).abs() < 0.01);
    }

    /// A GPU that no table knows, whose hardware told nothing: nine times faster than expected.
    #[test]
    fn ten_products_on_an_unknown_gpu_are_enough() {
        let mut r = Refined::new(Rates::generic(HostRates::of_cores(8)));
        let work = Work::gemm(Dtype::D, 4096, 4096, 4096);
        let known = Rates::h100(HostRates::of_cores(8));
        let seconds = exec::device_s(&work, known.of(ONE));
        for _ in 0..10 {
            assert!(r.observe(&on_one(Operation::Kernel(work), seconds), 1));
        }
        let found = exec::device_s(&work, r.machine().of(ONE));
        assert!((found / seconds - 1.0).abs() < 0.15, "{}", found / seconds);
    }

    #[test]
    fn copies_beside_others_are_slow_for_their_own_reasons() {
        let n = 64 << 20;
        let half = bytes(n).bytes as f64 / 20e9;
        let rate = |r: &Refined| r.machine().of(ONE).d2h.bytes_per_s;
        let mut r = refined();
        // Of several devices: their common link may be the limit.
        r.observe(&on_one(Operation::Download(bytes(n)), half), 2);
        assert_eq!(rate(&r), rate(&refined()));
        // Of one device: the other direction may have been busy.
        r.observe(&on_one(Operation::Download(bytes(n)), half), 1);
        assert!(rate(&r) > 0.97 * rate(&refined()) && rate(&r) < rate(&refined()));
        // In short columns, or with a part in staging memory.
        for run in [0, 8 << 10] {
            let copied = Copied { bytes: n, run };
            assert!(!r.observe(&on_one(Operation::Download(copied), half), 1));
        }
        let fast = n as f64 / 200e9;
        assert!(r.observe(&on_one(Operation::Download(bytes(n)), fast), 2));
        assert!(rate(&r) > 1.2 * rate(&refined()));
    }

    #[test]
    fn page_locking_is_corrected_for_every_number_of_devices() {
        let mut r = refined();
        let first = r.machine().pin;
        let locking = |seconds| Timed {
            what: What::Locking(64 << 20),
            seconds,
        };
        let twice = 2.0 * (64 << 20) as f64 / first.of(2);
        for _ in 0..60 {
            assert!(r.observe(&locking(twice), 2));
        }
        for n in [1, 2, 4, 8] {
            assert!((r.machine().pin.of(n) / first.of(n) - 0.5).abs() < 0.01);
        }
        let little = What::Locking(1 << 20);
        let little = Timed {
            what: little,
            seconds: 1.0,
        };
        assert!(!r.observe(&little, 2));
    }

    #[test]
    fn memory_bound_work_corrects_the_bandwidth() {
        let mut r = refined();
        let work = Work {
            routine: Routine::Gemv,
            ..Work::gemm(Dtype::D, 20_000, 20_000, 1)
        };
        let before = *r.machine();
        assert!(r.observe(&on_one(Operation::Kernel(work), 1.0), 1));
        assert!(r.host(&work, 1e-6 + before.host.call_s));
        let now = r.machine();
        assert!(now.of(ONE).memory_bandwidth < before.of(ONE).memory_bandwidth);
        assert!(now.host.memory_bandwidth > before.host.memory_bandwidth);
        assert_eq!(now.of(ONE).gemm, before.of(ONE).gemm);
        assert_eq!(now.host.gemm_flops, before.host.gemm_flops);
    }

    #[test]
    fn rates_that_moved_are_told_once() {
        let mut r = refined();
        let work = Work {
            routine: Routine::Gemv,
            ..Work::gemm(Dtype::D, 20_000, 20_000, 1)
        };
        let seconds = exec::host_s(&work, &r.machine().host);
        for _ in 0..10 {
            assert!(r.host(&work, 1.1 * seconds));
        }
        assert!(!r.have_moved());
        for _ in 0..10 {
            assert!(r.host(&work, 2.0 * seconds));
        }
        assert!(r.have_moved() && !r.have_moved());
        // Measurements that scatter for ever.
        let times = (0..1000).filter(|i| {
            let seconds = if i / 10 % 2 == 0 { 0.5 } else { 2.0 } * seconds;
            r.host(&work, seconds);
            r.have_moved()
        });
        assert!((3..=10).contains(&times.count()));
    }

    #[test]
    fn outliers_and_nonsense_do_little() {
        let mut r = refined();
        let download = |n, s| on_one(Operation::Download(bytes(n)), s);
        for s in [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e-9] {
            assert!(!r.observe(&download(1 << 30, s), 1), "{s}");
        }
        assert!(!r.observe(&download(1000, 1.0), 1));
        let small = Work::gemm(Dtype::S, 8, 8, 8);
        let triangle = Work {
            routine: Routine::Trsm,
            ..Work::gemm(Dtype::S, 4096, 4096, 4096)
        };
        for work in [small, triangle] {
            assert!(!r.observe(&on_one(Operation::Kernel(work), 1.0), 1));
        }
        assert!(!r.observe(&on_one(Operation::Within, 1.0), 1));
        assert_eq!(r, refined());
        // A pause of a second in a transfer of 20 ms lowers the rate by at most a tenth.
        r.observe(&download(1 << 30, 1.0), 1);
        let now = r.machine().of(ONE).d2h.bytes_per_s;
        assert!(now > 0.9 * 55.4e9 && now < 55.4e9);
        for _ in 0..10_000 {
            r.observe(&download(1 << 30, 1e6), 1);
        }
        assert_eq!(r.machine().of(ONE).d2h.bytes_per_s, 55.4e9 / TRUST);
    }
}
