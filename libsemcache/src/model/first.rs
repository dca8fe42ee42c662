//! The rates of a GPU before anything has run on it: what its hardware could reach, times the share of that which large kernels do.

use super::rates::DeviceRates;
use crate::base::{Dtype, Hardware};

/// Fused multiply-adds of one multiprocessor per cycle in single and in double precision, tensor units that compute in double
/// precision included, by the least compute capability: the tables of NVIDIA's CUDA C++ Programming Guide (arithmetic
/// instructions) and of the data sheets of the A100, H100, B200 and B300.
const UNITS: [((usize, usize), [f64; 2]); 13] = [
    ((3, 0), [192.0, 64.0]),
    ((5, 0), [128.0, 4.0]),
    ((6, 0), [64.0, 32.0]),
    ((6, 1), [128.0, 4.0]),
    ((7, 0), [64.0, 32.0]),
    ((7, 5), [64.0, 2.0]),
    ((8, 0), [64.0, 64.0]),
    ((8, 6), [128.0, 2.0]),
    ((9, 0), [128.0, 128.0]),
    ((10, 0), [128.0, 64.0]),
    ((10, 3), [128.0, 2.0]),
    ((11, 0), [128.0, 2.0]),
    ((12, 0), [128.0, 2.0]),
];

/// The share of that rate which large products reach in single and in double precision: on an H100 and an H200 53 and 62.5 of
/// 66.9 TFLOP/s.
const PRODUCTS: [f64; 2] = [0.79, 0.93];
/// The share of the memory's rate which level 1 and 2 reach: 3.15 of 3.35 TB/s on an H100, 4.52 of 4.9 on an H200.
const MEMORY: f64 = 0.93;

/// The rates of a device of this hardware. What it does not tell is as in `table`.
#[must_use]
pub fn rates(hardware: &Hardware, table: &DeviceRates) -> DeviceRates {
    let mut rates = *table;
    let known = UNITS.iter().rev();
    let units = known
        .clone()
        .find(|(least, _)| hardware.capability >= *least);
    let cycles = hardware.multiprocessors as f64 * hardware.clock_hz;
    if let Some((_, units)) = units
        && cycles > 0.0
    {
        for dtype in Dtype::ALL {
            let double = usize::from(matches!(dtype, Dtype::D | Dtype::Z));
            // Two operations for each multiply-add.
            let peak = 2.0 * units[double] * cycles * PRODUCTS[double];
            rates.gemm[dtype as usize].peak_flops = peak;
        }
    }
    let set = |rate: &mut f64, known: f64| {
        if known > 0.0 {
            *rate = known;
        }
    };
    set(
        &mut rates.memory_bandwidth,
        hardware.memory_bytes_per_s * MEMORY,
    );
    set(&mut rates.h2d.bytes_per_s, hardware.h2d_bytes_per_s);
    set(&mut rates.d2h.bytes_per_s, hardware.d2h_bytes_per_s);
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::DeviceId;
    use crate::model::rates::{HostRates, Rates};

    fn table() -> DeviceRates {
        *Rates::generic(HostRates::of_cores(8)).of(DeviceId(0))
    }

    /// Data sheets and attributes of the GPUs: multiprocessors, clock, memory; and what was measured or is published of them.
    #[test]
    fn known_gpus() {
        let of = |capability, multiprocessors, clock_hz, memory_bytes_per_s| {
            let hardware = Hardware {
                capability,
                multiprocessors,
                clock_hz,
                memory_bytes_per_s,
                ..Hardware::default()
            };
            rates(&hardware, &table())
        };
        let near = |found: f64, known: f64| assert!((found / known - 1.0).abs() < 0.1, "{found:e}");
        let h100 = of((9, 0), 132, 1.98e9, 3.35e12);
        let known = Rates::h100(HostRates::of_cores(8));
        for dtype in Dtype::ALL {
            let known = known.of(DeviceId(0)).gemm(dtype).peak_flops;
            near(h100.gemm(dtype).peak_flops, known);
        }
        near(h100.memory_bandwidth, 3.15e12);
        // A100: 19.5 TFLOP/s in both, of which cuBLAS reaches 18 to 19 in double precision.
        near(
            of((8, 0), 108, 1.41e9, 1.55e12).gemm(Dtype::D).peak_flops,
            18.5e12,
        );
        // L40S: 91.6 TFLOP/s in single precision, 1.4 in double.
        let l40s = of((8, 9), 142, 2.52e9, 0.864e12);
        near(l40s.gemm(Dtype::D).peak_flops, 1.35e12);
        near(l40s.gemm(Dtype::S).peak_flops, 72e12);
        // The figures that the hardware does not tell are the table's.
        assert_eq!(h100.launch_s, table().launch_s);
        assert_eq!(h100.h2d, table().h2d);
        assert_eq!(rates(&Hardware::default(), &table()), table());
    }

    #[test]
    fn the_link_is_as_timed() {
        let hardware = Hardware {
            h2d_bytes_per_s: 12e9,
            ..Hardware::default()
        };
        let found = rates(&hardware, &table());
        assert_eq!(found.h2d.bytes_per_s, 12e9);
        assert_eq!(found.d2h, table().d2h);
    }
}
