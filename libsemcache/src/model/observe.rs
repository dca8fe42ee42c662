//! Correction of the rates by measured times.
//!
//! Rates of simulated devices are not corrected: these are predicted as the machine that they model.

use super::exec;
use super::rates::{DeviceRates, HostRates, LinkRate, Rates};
use crate::base::{DeviceId, Work};

/// The quantity that a measurement is about.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Quantity {
    /// On a device: it corrects the rates of all devices of its kind.
    Device(DeviceId, DeviceQuantity),
    /// A call of the host BLAS with its operands in host memory.
    Host(Work),
}

/// A quantity on a device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DeviceQuantity {
    /// Bytes from host to the device.
    H2d(usize),
    /// Bytes from the device to the host.
    D2h(usize),
    /// Bytes to the device from another.
    P2p(usize),
    /// A kernel on operands that the device holds.
    Kernel(Work),
}

/// One measured time. The caller vouches that nothing else used the link or processor meanwhile.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Observed {
    /// The quantity that was timed.
    pub quantity: Quantity,
    /// The measured time.
    pub seconds: f64,
}

/// The built-in rates of a machine, and the rates as corrected by measurements. The caller holds the lock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Refined {
    built_in: Rates,
    now: Rates,
}

/// Weight of a new measurement: the estimate follows measurements with a time constant of about eight.
const WEIGHT: f64 = 0.125;
/// One measurement counts as at most that many times faster or slower than the estimate: a page fault or a preempted
/// thread during the measurement is not a property of the machine.
const LEAP: f64 = 4.0;
/// Estimates stay within this factor of the built-in rates.
const TRUST: f64 = 64.0;
/// The time of a transfer of fewer bytes depends on latency, not on bandwidth.
const LEAST_BYTES: usize = 1 << 20;
/// If arithmetic or traffic take less than this share of the predicted time, the measurement shows overhead, not a
/// rate.
const LEAST_SHARE: f64 = 0.5;

impl Refined {
    /// Starts from built-in rates.
    #[must_use]
    pub const fn new(built_in: Rates) -> Refined {
        Refined {
            built_in,
            now: built_in,
        }
    }

    /// The present rates.
    #[must_use]
    pub const fn machine(&self) -> &Rates {
        &self.now
    }

    /// Corrects the rates by a measurement if it says something about a rate, and returns whether it did.
    pub fn observe(&mut self, seen: &Observed) -> bool {
        if !seen.seconds.is_finite() || seen.seconds <= 0.0 {
            return false;
        }
        let (now, built_in) = (&mut self.now, &self.built_in);
        match seen.quantity {
            Quantity::Device(device, quantity) => {
                let (kind, first) = (now.kinds.kind(device), built_in.of(device));
                on_device(
                    &mut now.kinds.each_mut()[kind],
                    first,
                    quantity,
                    seen.seconds,
                )
            }
            Quantity::Host(work) => {
                let (arithmetic, memory) = exec::host_parts(&work, &now.host);
                let (rate, first) =
                    host_rate(&mut now.host, &built_in.host, &work, arithmetic > memory);
                let (expected, overhead) = (arithmetic.max(memory), built_in.host.call_s);
                rate_of(rate, first, expected, overhead, seen.seconds)
            }
        }
    }
}

fn on_device(
    now: &mut DeviceRates,
    built_in: &DeviceRates,
    quantity: DeviceQuantity,
    seconds: f64,
) -> bool {
    match quantity {
        DeviceQuantity::H2d(bytes) => link(&mut now.h2d, &built_in.h2d, bytes, seconds),
        DeviceQuantity::D2h(bytes) => link(&mut now.d2h, &built_in.d2h, bytes, seconds),
        DeviceQuantity::P2p(bytes) => link(&mut now.p2p, &built_in.p2p, bytes, seconds),
        DeviceQuantity::Kernel(work) => {
            let (arithmetic, memory) = exec::parts(&work, now);
            let overhead = exec::launch_s(&work, now);
            let of_type = work.dtype as usize;
            let (rate, first) = if arithmetic > memory {
                (
                    &mut now.gemm[of_type].peak_flops,
                    built_in.gemm[of_type].peak_flops,
                )
            } else {
                (&mut now.memory_bandwidth, built_in.memory_bandwidth)
            };
            rate_of(rate, first, arithmetic.max(memory), overhead, seconds)
        }
    }
}

/// The host rate that limits the work, and its built-in value.
fn host_rate<'a>(
    now: &'a mut HostRates,
    built_in: &HostRates,
    work: &Work,
    arithmetic: bool,
) -> (&'a mut f64, f64) {
    let of_type = work.dtype as usize;
    if arithmetic {
        (&mut now.gemm_flops[of_type], built_in.gemm_flops[of_type])
    } else if work.traffic() <= now.cache_bytes {
        (&mut now.cache_bandwidth, built_in.cache_bandwidth)
    } else {
        (&mut now.memory_bandwidth, built_in.memory_bandwidth)
    }
}

fn link(now: &mut LinkRate, built_in: &LinkRate, bytes: usize, seconds: f64) -> bool {
    if bytes < LEAST_BYTES {
        return false;
    }
    let expected = bytes as f64 / now.bytes_per_s;
    let first = built_in.bytes_per_s;
    rate_of(
        &mut now.bytes_per_s,
        first,
        expected,
        now.latency_s,
        seconds,
    )
}

/// Moves a rate towards the value at which the prediction would equal the measured seconds less the overhead;
/// `expected` are the seconds at the present rate.
fn rate_of(rate: &mut f64, built_in: f64, expected: f64, overhead: f64, seconds: f64) -> bool {
    let net = seconds - overhead;
    if expected < LEAST_SHARE * (expected + overhead) || net <= 0.0 {
        return false;
    }
    let faster = (expected / net).clamp(1.0 / LEAP, LEAP);
    let smoothed = *rate * (1.0 - WEIGHT + WEIGHT * faster);
    if !smoothed.is_finite() {
        return false;
    }
    *rate = smoothed.clamp(built_in / TRUST, built_in * TRUST);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Dtype, Routine};

    const ONE: DeviceId = DeviceId(0);

    fn on_one(quantity: DeviceQuantity) -> Quantity {
        Quantity::Device(ONE, quantity)
    }

    fn refined() -> Refined {
        Refined::new(Rates::h200(HostRates::of_cores(8)))
    }
    fn seen(quantity: Quantity, seconds: f64) -> Observed {
        Observed { quantity, seconds }
    }

    #[test]
    fn converges_to_what_is_measured() {
        let mut r = refined();
        let bytes = 100 << 20;
        for _ in 0..60 {
            // 20 GB/s after a latency of 7 us.
            let s = bytes as f64 / 20e9 + 7e-6;
            assert!(r.observe(&seen(on_one(DeviceQuantity::H2d(bytes)), s)));
        }
        assert!((r.machine().of(ONE).h2d.bytes_per_s / 20e9 - 1.0).abs() < 0.01);
        let mut other = r;
        other.now.kinds.each_mut()[0].h2d = other.built_in.of(ONE).h2d;
        assert_eq!(other, refined());

        let work = Work::gemm(Dtype::D, 4096, 4096, 4096);
        let half = 2.0 * exec::device_s(&work, r.machine().of(ONE));
        for _ in 0..60 {
            r.observe(&seen(on_one(DeviceQuantity::Kernel(work)), half));
        }
        let now = exec::device_s(&work, r.machine().of(ONE));
        assert!((now / half - 1.0).abs() < 0.01);
        let host = 3.0 * exec::host_s(&work, &r.machine().host);
        for _ in 0..60 {
            r.observe(&seen(Quantity::Host(work), host));
        }
        assert!((exec::host_s(&work, &r.machine().host) / host - 1.0).abs() < 0.01);
    }

    #[test]
    fn memory_bound_work_corrects_the_bandwidth() {
        let mut r = refined();
        let work = Work {
            routine: Routine::Gemv,
            ..Work::gemm(Dtype::D, 20_000, 20_000, 1)
        };
        let before = *r.machine();
        assert!(r.observe(&seen(on_one(DeviceQuantity::Kernel(work)), 1.0)));
        assert!(r.observe(&seen(Quantity::Host(work), 1e-6 + before.host.call_s)));
        let now = r.machine();
        assert!(now.of(ONE).memory_bandwidth < before.of(ONE).memory_bandwidth);
        assert!(now.host.memory_bandwidth > before.host.memory_bandwidth);
        assert_eq!(now.of(ONE).gemm, before.of(ONE).gemm);
        assert_eq!(now.host.gemm_flops, before.host.gemm_flops);
    }

    #[test]
    fn outliers_and_nonsense_do_little() {
        let mut r = refined();
        for s in [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e-9] {
            assert!(!r.observe(&seen(on_one(DeviceQuantity::D2h(1 << 30)), s)));
        }
        assert!(!r.observe(&seen(on_one(DeviceQuantity::D2h(1000)), 1.0)));
        assert!(!r.observe(&seen(
            on_one(DeviceQuantity::Kernel(Work::gemm(Dtype::S, 8, 8, 8))),
            1.0
        )));
        assert_eq!(r, refined());
        // A pause of a second in a transfer of 20 ms lowers the rate by at most a tenth.
        r.observe(&seen(on_one(DeviceQuantity::D2h(1 << 30)), 1.0));
        let now = r.machine().of(ONE).d2h.bytes_per_s;
        assert!(now > 0.9 * 55.4e9 && now < 55.4e9);
        for _ in 0..10_000 {
            r.observe(&seen(on_one(DeviceQuantity::D2h(1 << 30)), 1e6));
        }
        assert_eq!(r.machine().of(ONE).d2h.bytes_per_s, 55.4e9 / TRUST);
    }
}
