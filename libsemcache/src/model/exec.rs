//! Execution time of one kernel: launch, then arithmetic or memory traffic, whichever takes longer.
//!
//! The arithmetic rate of a matrix product is the peak rate times `d / (d + half_size)` for each dimension `d`. With
//! the launch this reproduces the rates measured on an H200 within 5 % (dgemm, 512 to 8192).

use super::rates::{DeviceRates, HostRates, Rates};
use crate::base::{DeviceId, DeviceSet, Routine, Work};

/// The share of the peak rate that products of this shape reach.
fn efficiency(work: &Work, half_size: f64) -> f64 {
    [work.m, work.n, work.k]
        .iter()
        .map(|&d| d as f64 / (d as f64 + half_size))
        .product()
}

/// The seconds of the kernel's arithmetic, and of its memory traffic.
pub(super) fn parts(work: &Work, rates: &DeviceRates) -> (f64, f64) {
    let gemm = rates.gemm(work.dtype);
    let rate = if work.is_level3() {
        gemm.peak_flops * efficiency(work, gemm.half_size)
    } else {
        gemm.peak_flops
    };
    (
        divide(work.flops(), rate),
        work.traffic() / rates.memory_bandwidth,
    )
}

/// Seconds that a kernel takes on the device beside arithmetic and traffic: for level 3 from launch to end, for levels
/// 1 and 2 as one of many small kernels in a row.
pub(super) fn launch_s(work: &Work, rates: &DeviceRates) -> f64 {
    if work.is_level3() {
        rates.launch_s
    } else {
        rates.exec_s
    }
}

/// Seconds of a kernel on a device whose memory holds the operands.
#[must_use]
pub fn device_s(work: &Work, rates: &DeviceRates) -> f64 {
    let (arithmetic, memory) = parts(work, rates);
    let alone = launch_s(work, rates) + arithmetic.max(memory) + chain_s(work);
    if work.is_level3() {
        alone
    } else {
        // While the kernel runs, the host queues the next ones, and each of these takes the host `stream_s`.
        alone.max(rates.stream_s)
    }
}

/// The first devices, `usable` of them, by their speed for this work on operands that they hold.
#[must_use]
pub fn by_speed(work: &Work, rates: &Rates, usable: usize) -> DeviceSet {
    if rates.kinds.is_one() {
        return DeviceSet::equal(usable);
    }
    let ids = (0..usable).map(DeviceId::at);
    DeviceSet::of(ids.map(|id| (id, 1.0 / device_s(work, rates.of(id)))))
}

/// Seconds that each row of a triangle adds to a kernel that uses the rows one after the other, in blocks. Of level 3 on an
/// H200, in place: dtrmm of order 512, 2048 and 8192 took 0.19, 0.28 and 0.36 us a row beyond its arithmetic; on an H100 dtrmm
/// of 2752 and 5504 0.27 us, dtrsm of 2048 0.32 us (see also `entry_s`). That of trsv is an estimate.
#[must_use]
pub fn row_s(routine: Routine) -> f64 {
    match routine {
        Routine::Trsv => 50e-9,
        Routine::Trmm => 0.27e-6,
        Routine::Trsm => 0.2e-6,
        _ => 0.0,
    }
}

/// Seconds that each entry of the solution adds besides: in the blocks on the diagonal trsm does not reach the rate of products. Of
/// order 8192 on an H200, in place, dtrsm took 0.87 us a row beyond its arithmetic. The figure is between what that says and what
/// calls from the host take on an H100, which are predicted within 13 % by it (bench/results/predictions.md).
fn entry_s(routine: Routine) -> f64 {
    match routine {
        Routine::Trsm => 50e-12,
        _ => 0.0,
    }
}

/// Seconds that all rows of a kernel's triangle add.
pub(super) fn chain_s(work: &Work) -> f64 {
    let rows = match work.routine {
        Routine::Trsv => work.n,
        _ => work.k,
    };
    let entries = work.m as f64 * work.n as f64;
    rows as f64 * row_s(work.routine) + entries * entry_s(work.routine)
}

/// As [`parts`], for the host BLAS.
pub(super) fn host_parts(work: &Work, rates: &HostRates) -> (f64, f64) {
    let peak = rates.gemm_flops[work.dtype as usize];
    let rate = if work.is_level3() {
        peak * efficiency(work, rates.half_size)
    } else {
        peak
    };
    let traffic = work.traffic();
    let mut bandwidth = if traffic <= rates.cache_bytes {
        rates.cache_bandwidth
    } else {
        rates.memory_bandwidth
    };
    if work.routine.reduces() {
        bandwidth = bandwidth.min(rates.reduction_bandwidth);
    }
    (divide(work.flops(), rate), traffic / bandwidth)
}

/// Seconds of a call of the host BLAS whose operands are in main memory.
#[must_use]
pub fn host_s(work: &Work, rates: &HostRates) -> f64 {
    let (arithmetic, memory) = host_parts(work, rates);
    rates.call_s + arithmetic.max(memory)
}

/// No work takes no time, even if the rate is zero.
fn divide(amount: f64, rate: f64) -> f64 {
    if amount == 0.0 { 0.0 } else { amount / rate }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Dtype;
    use crate::model::Rates;

    fn h200() -> Rates {
        Rates::h200(HostRates::of_cores(128))
    }

    #[test]
    fn dgemm_on_the_h200_as_measured() {
        for (n, tflops, off) in [
            (512, 28.6, 0.05),
            (1024, 51.5, 0.05),
            (2048, 60.3, 0.05),
            (4096, 61.9, 0.05),
            (8192, 59.0, 0.06),
        ] {
            let w = Work::gemm(Dtype::D, n, n, n);
            let found = w.flops() / device_s(&w, h200().of(DeviceId(0))) / 1e12;
            assert!((found / tflops - 1.0).abs() < off, "{n}: {found}");
        }
    }

    #[test]
    fn gemv_is_memory_bound() {
        let v = |n| Work {
            routine: Routine::Gemv,
            ..Work::gemm(Dtype::D, n, n, 1)
        };
        let t = device_s(&v(32768), h200().of(DeviceId(0)));
        assert!((t / 1.90e-3 - 1.0).abs() < 0.02, "{t}");
        let t = device_s(&v(8192), h200().of(DeviceId(0)));
        assert!((t / 0.128e-3 - 1.0).abs() < 0.06, "{t}");
    }

    #[test]
    fn host_as_measured() {
        let w = Work::gemm(Dtype::D, 8192, 8192, 8192);
        let t = 2.0 * host_s(&w, &HostRates::of_cores(128));
        assert!((t / 1.01 - 1.0).abs() < 0.1, "{t}");
    }

    #[test]
    fn more_work_takes_longer() {
        let rates = h200();
        let mut last = (0.0, 0.0);
        for n in [1, 2, 10, 100, 1000, 1001, 10_000] {
            let w = Work::gemm(Dtype::C, n, 77, n);
            let t = (device_s(&w, rates.of(DeviceId(0))), host_s(&w, &rates.host));
            assert!(t.0 > last.0 && t.1 > last.1);
            last = t;
        }
        let empty = Work::gemm(Dtype::S, 0, 5, 5);
        assert_eq!(
            device_s(&empty, rates.of(DeviceId(0))),
            rates.of(DeviceId(0)).launch_s + 5.0 * 5.0 * 4.0 / 4.52e12
        );
    }

    /// The TITAN X of Makalu have a seventh of the K40's rate in double precision, and more in single precision.
    #[test]
    fn the_fastest_devices_come_first() {
        let model = crate::topology::preset("makalu").expect("a preset");
        let rates = Rates::modelled(&model, HostRates::of_cores(8));
        let order = |dtype, usable| {
            let set = by_speed(&Work::gemm(dtype, 8192, 8192, 8192), &rates, usable);
            (set.ids().map(|id| id.0).collect::<Vec<_>>(), set)
        };
        let (double, set) = order(Dtype::D, 4);
        assert_eq!(double, [0, 1, 2, 3]);
        assert_eq!(order(Dtype::S, 4).0, [2, 3, 0, 1]);
        assert_eq!(order(Dtype::S, 3).0, [2, 0, 1]);
        let peak = |d| rates.of(DeviceId(d)).gemm(Dtype::D).peak_flops;
        let sum: f64 = (0..4).map(peak).sum();
        assert!((set.share(2) / (peak(2) / sum) - 1.0).abs() < 0.02);
        assert_eq!(
            by_speed(&Work::gemm(Dtype::D, 9, 9, 9), &h200(), 3),
            DeviceSet::equal(3)
        );
    }
}
