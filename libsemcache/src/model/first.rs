//! The rates of GPUs before anything has run on them: what its hardware could reach, times the share of that which large kernels do.

use super::rates::{DeviceRates, HostRates, Kinds, Rates};
use crate::base::{DeviceId, Dtype, Hardware};

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

/// The rate in double precision of GPUs that are sold with few such units, though their compute capability says otherwise: H800, H20.
fn restricted(name: &str) -> Option<f64> {
    let word = |wanted: &str| {
        name.split([' ', '-'])
            .any(|word| word.eq_ignore_ascii_case(wanted))
    };
    (word("H800") || word("H20")).then_some(1e12)
}

/// A GPU as the driver describes it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gpu<'a> {
    /// The product's name.
    pub name: &'a str,
    /// What else is known of it.
    pub hardware: Option<Hardware>,
}

/// The rates of a machine with these GPUs and this host: by the GPUs' hardware, and by their names what that does not tell. Totals
/// of several links are those of the first GPU's machine. GPUs of one name are alike: their links have the rate of the one that was
/// timed fastest.
#[must_use]
pub fn machine(gpus: &[Gpu<'_>], host: HostRates) -> Rates {
    let fastest = |name: &str, link: &dyn Fn(&Hardware) -> f64| {
        let alike = gpus.iter().filter(|gpu| gpu.name == name);
        let rates = alike.filter_map(|gpu| gpu.hardware.as_ref().map(link));
        rates.fold(0.0, f64::max)
    };
    let of = |gpu: &Gpu<'_>| {
        let table = *Rates::by_name(gpu.name, host).of(DeviceId(0));
        gpu.hardware.map_or(table, |known| {
            let alike = Hardware {
                h2d_bytes_per_s: fastest(gpu.name, &|h| h.h2d_bytes_per_s),
                d2h_bytes_per_s: fastest(gpu.name, &|h| h.d2h_bytes_per_s),
                ..known
            };
            let mut rates = rates(&alike, &table);
            if let Some(double) = restricted(gpu.name) {
                for dtype in [Dtype::D, Dtype::Z] {
                    rates.gemm[dtype as usize].peak_flops = double;
                }
            }
            rates
        })
    };
    let mut all = Rates::by_name(gpus.first().map_or("", |gpu| gpu.name), host);
    let table = *all.of(DeviceId(0));
    all.kinds = Kinds::new(gpus.iter().map(of)).unwrap_or(all.kinds);
    let first = *all.of(DeviceId(0));
    all.h2d_all
        .scale(first.h2d.bytes_per_s / table.h2d.bytes_per_s);
    all.d2h_all
        .scale(first.d2h.bytes_per_s / table.d2h.bytes_per_s);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn each_gpu_has_the_rates_of_its_name() {
        let host = HostRates::of_cores(8);
        let gpu = |name| Gpu {
            name,
            hardware: None,
        };
        let named = [
            "NVIDIA H100 80GB HBM3",
            "NVIDIA A2",
            "NVIDIA H100 80GB HBM3",
        ];
        let found = machine(&named.map(gpu), host);
        let (h100, generic) = (Rates::h100(host), Rates::generic(host));
        let of = |i| *found.of(DeviceId(i));
        assert_eq!(
            [0, 1, 2].map(of),
            [&h100, &generic, &h100].map(|r| *r.of(DeviceId(0)))
        );
        assert_eq!(found.h2d_all, h100.h2d_all);
        assert_eq!(machine(&[], host), generic);
    }

    #[test]
    fn gpus_with_few_units_for_doubles() {
        for (name, known) in [
            ("NVIDIA H20", true),
            ("NVIDIA H800 PCIe", true),
            ("NVIDIA H200", false),
            ("NVIDIA H100 80GB HBM3", false),
        ] {
            assert_eq!(restricted(name).is_some(), known, "{name}");
        }
    }

    #[test]
    fn gpus_of_one_name_are_alike_whatever_their_links_were_timed_at() {
        let gpu = |(name, rate)| Gpu {
            name,
            hardware: Some(Hardware {
                h2d_bytes_per_s: rate,
                ..Hardware::default()
            }),
        };
        let host = HostRates::of_cores(8);
        let found = machine(&[("X", 10e9), ("X", 11e9), ("Y", 5e9)].map(gpu), host);
        let link = |d| found.of(DeviceId(d)).h2d.bytes_per_s;
        assert_eq!([0, 1, 2].map(link), [11e9, 11e9, 5e9]);
        assert!(found.kinds.kind(DeviceId(0)) == found.kinds.kind(DeviceId(1)));
        // Two such links carry twice the bytes of one, as the generic table says.
        assert!((found.h2d_all.of(2) / 22e9 - 1.0).abs() < 1e-9);
        assert_eq!(found.d2h_all, Rates::generic(host).d2h_all);
    }
}
