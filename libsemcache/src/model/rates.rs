//! What a machine can do: figures of devices, links and the host, and the built-in tables of them.
//!
//! Tables are starting points, measured once on one machine of their kind; [`super::observe`] corrects
//! them. Simulated devices are predicted with the table of the machine that they model, not with what a
//! simulation on this CPU achieves.

use crate::base::Dtype;
use crate::topology;

/// One direction of a link, in the latency and bandwidth model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkRate {
    /// Seconds before the first byte.
    pub latency_s: f64,
    /// Bytes per second after that.
    pub bytes_per_s: f64,
    /// Factor on the time while the opposite direction is in use, at least 1 (CoCoPeLia's `sl`).
    pub bid_slowdown: f64,
}

/// Matrix products of one element type on one device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GemmRate {
    /// Real floating point operations per second of large products.
    pub peak_flops: f64,
    /// Size of a dimension at which it halves the rate: each of m, n and k contributes the factor
    /// `d / (d + half_size)`.
    pub half_size: f64,
}

/// One device and its links.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeviceRates {
    /// Host to device, this device alone.
    pub h2d: LinkRate,
    /// Device to host, this device alone.
    pub d2h: LinkRate,
    /// From another device.
    pub p2p: LinkRate,
    /// Matrix products by element type, in the order of [`Dtype::ALL`].
    pub gemm: [GemmRate; 4],
    /// Bytes per second of the device's own memory.
    pub memory_bandwidth: f64,
    /// Seconds to launch a kernel.
    pub launch_s: f64,
    /// Seconds that a small kernel takes at least, one of many in a row.
    pub stream_s: f64,
    /// What such a kernel takes on the device besides arithmetic and traffic.
    pub exec_s: f64,
}

impl DeviceRates {
    /// Matrix products of one type.
    #[must_use]
    pub fn gemm(&self, dtype: Dtype) -> GemmRate {
        self.gemm[dtype as usize]
    }

    /// The same device behind a link of that many bytes per second each way.
    #[must_use]
    pub fn with_link(mut self, bytes_per_s: f64) -> DeviceRates {
        self.h2d.bytes_per_s = bytes_per_s;
        self.d2h.bytes_per_s = bytes_per_s;
        self
    }
}

/// The widest vectors of the host's cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vectors {
    /// 128 bits.
    Sse,
    /// 256 bits with fused multiply-add.
    Avx2,
    /// 512 bits.
    Avx512,
}

/// The host's own BLAS.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HostRates {
    /// Real floating point operations per second of large products, by element type.
    pub gemm_flops: [f64; 4],
    /// As [`GemmRate::half_size`].
    pub half_size: f64,
    /// Bytes per second of main memory.
    pub memory_bandwidth: f64,
    /// Bytes per second while the operands fit into [`HostRates::cache_bytes`].
    pub cache_bandwidth: f64,
    /// What the last-level cache holds.
    pub cache_bytes: f64,
    /// Bytes per second of a reduction (dot, nrm2, asum, iamax), which threaded libraries hardly share out.
    pub reduction_bandwidth: f64,
    /// Seconds that any call takes.
    pub call_s: f64,
}

/// The constants of [`HostRates::of`]: OpenBLAS on a server. All that is known of it is here.
mod openblas {
    /// Double precision of one logical core among few, by width of its vectors: SSE, AVX2, AVX-512.
    pub(super) const CORE_FLOPS: [f64; 3] = [8e9, 25e9, 36e9];
    /// Logical cores that together lose half of that: they share power, memory and arithmetic units. 128 with
    /// AVX-512 were measured at 2.2 TFLOP/s (n = 8192).
    pub(super) const FLOPS_SHARED_BY: f64 = 128.0;
    /// Bytes per second that one core draws from main memory.
    pub(super) const CORE_BANDWIDTH: f64 = 12e9;
    /// Cores that together lose half of that.
    pub(super) const BANDWIDTH_SHARED_BY: f64 = 24.0;
    /// Bytes per second of one core from caches, and what each brings of the last level.
    pub(super) const CORE_CACHE_BANDWIDTH: f64 = 20e9;
    /// Cores that share a reduction, at most: 131,072 pairs of doubles were measured at 26 us on 16 cores.
    pub(super) const REDUCTION_CORES: f64 = 4.0;
    pub(super) const CORE_CACHE: f64 = 2e6;
    pub(super) const CACHE: f64 = 64e6;
    /// Size of a dimension at which the rate halves: of one core, and for each doubling of their number
    /// squared (the pieces that the cores get are that much smaller).
    pub(super) const HALF_SIZE: f64 = 4.0;
    pub(super) const HALF_SIZE_SHARED: f64 = 4.0;
    /// Seconds of a call on one core, of waking others, and for each of them.
    pub(super) const CALL_S: f64 = 0.2e-6;
    pub(super) const WAKE_S: f64 = 2e-6;
    pub(super) const WAKE_EACH_S: f64 = 0.1e-6;
}

impl HostRates {
    /// A threaded BLAS on that many logical cores of a server with AVX-512.
    #[must_use]
    pub fn of_cores(cores: usize) -> HostRates {
        HostRates::of(cores, Vectors::Avx512)
    }

    /// A threaded BLAS on that many logical cores.
    #[must_use]
    pub fn of(cores: usize, vectors: Vectors) -> HostRates {
        use openblas::*;
        let cores = cores.max(1) as f64;
        let shared = |each: f64, by: f64| each * cores / (1.0 + cores / by);
        let double = shared(CORE_FLOPS[vectors as usize], FLOPS_SHARED_BY);
        let memory_bandwidth = shared(CORE_BANDWIDTH, BANDWIDTH_SHARED_BY);
        HostRates {
            gemm_flops: [2.0 * double, double, 2.0 * double, double],
            half_size: HALF_SIZE + HALF_SIZE_SHARED * (cores - 1.0).sqrt(),
            memory_bandwidth,
            cache_bandwidth: (CORE_CACHE_BANDWIDTH * cores).max(memory_bandwidth),
            cache_bytes: (CORE_CACHE * cores).min(CACHE),
            reduction_bandwidth: CORE_CACHE_BANDWIDTH * cores.min(REDUCTION_CORES),
            call_s: if cores > 1.0 {
                WAKE_S + WAKE_EACH_S * cores
            } else {
                CALL_S
            },
        }
    }
}

/// A rate that is shared by what is in use at the same time: the total of 1, 2, 4 and 8 devices.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Total(pub [f64; 4]);

impl Total {
    /// The total of `devices`, between the known ones by their number; beyond eight it stays.
    #[must_use]
    pub fn of(&self, devices: usize) -> f64 {
        let octave = (devices.max(1) as f64).log2().min(3.0);
        let low = octave.floor();
        let at = low as usize;
        let (a, b) = (self.0[at], self.0[(at + 1).min(3)]);
        a + (b - a) * (octave - low)
    }
}

/// Devices of one kind, their host, and what the links do together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// Each device.
    pub device: DeviceRates,
    /// Host to device, several devices at once, bytes per second.
    pub h2d_all: Total,
    /// Device to host, several devices at once.
    pub d2h_all: Total,
    /// Page-locking host memory at its first use, bytes per second with that many contexts alive.
    pub pin: Total,
    /// The host.
    pub host: HostRates,
    /// What the runtime itself takes for a call that it offloads: planning, protection, queueing.
    pub call_s: f64,
    /// The same for each task: finding replicas, queueing copies, launching.
    pub task_s: f64,
    /// What one access of the host to a closed panel costs before the first byte moves.
    pub fault_s: f64,
    /// What waiting for a result that the CPU reads next costs besides its computation and its copy.
    pub landing_s: f64,
}

impl Rates {
    /// NVIDIA H200 behind PCIe 5.0, NVLink between devices; measured. Complex products were not: they are
    /// given the real types' rates.
    #[must_use]
    pub fn h200(host: HostRates) -> Rates {
        // 55.4 GB/s one way, 101.7 both ways at once: 50.85 each.
        let pcie = LinkRate {
            latency_s: 7e-6,
            bytes_per_s: 55.4e9,
            bid_slowdown: 1.09,
        };
        let single = GemmRate {
            peak_flops: 53e12,
            half_size: 48.0,
        };
        let double = GemmRate {
            peak_flops: 62.5e12,
            half_size: 16.0,
        };
        Rates {
            device: DeviceRates {
                h2d: pcie,
                d2h: pcie,
                p2p: LinkRate {
                    latency_s: 8e-6,
                    bytes_per_s: 396e9,
                    bid_slowdown: 1.0,
                },
                gemm: [single, double, single, double],
                memory_bandwidth: 4.52e12,
                launch_s: 4.6e-6,
                stream_s: 2.8e-6,
                exec_s: 2.2e-6,
            },
            h2d_all: Total([55.4e9, 105e9, 105e9, 163e9]),
            d2h_all: Total([55.4e9, 69e9, 69e9, 85e9]),
            // 57 GB/s on huge pages and one context; half of it on small ones.
            pin: Total([45e9, 28e9, 16e9, 8e9]),
            host,
            call_s: 1e-6,
            task_s: 4e-6,
            fault_s: 30e-6,
            // Small results that are read after each call: 26 to 30 us in all.
            landing_s: 15e-6,
        }
    }

    /// A GPU of which nothing is known: PCIe 4.0, the double precision of a data centre card of 2020, no
    /// fast links between devices.
    #[must_use]
    pub fn generic(host: HostRates) -> Rates {
        let pcie = LinkRate {
            latency_s: 10e-6,
            bytes_per_s: 22e9,
            bid_slowdown: 1.2,
        };
        let single = GemmRate {
            peak_flops: 15e12,
            half_size: 48.0,
        };
        let double = GemmRate {
            peak_flops: 7e12,
            half_size: 24.0,
        };
        Rates {
            device: DeviceRates {
                h2d: pcie,
                d2h: pcie,
                p2p: LinkRate {
                    latency_s: 12e-6,
                    bytes_per_s: 18e9,
                    bid_slowdown: 1.2,
                },
                gemm: [single, double, single, double],
                memory_bandwidth: 1.3e12,
                launch_s: 6e-6,
                stream_s: 4e-6,
                exec_s: 3e-6,
            },
            h2d_all: Total([22e9, 44e9, 44e9, 44e9]),
            d2h_all: Total([22e9, 44e9, 44e9, 44e9]),
            pin: Total([15e9, 12e9, 8e9, 4e9]),
            host,
            call_s: 20e-6,
            task_s: 6e-6,
            fault_s: 40e-6,
            landing_s: 20e-6,
        }
    }

    /// The table of a device by its name: the one whose name it contains, else the generic one.
    #[must_use]
    pub fn by_name(name: &str, host: HostRates) -> Rates {
        if name.to_ascii_lowercase().contains("h200") {
            Rates::h200(host)
        } else {
            Rates::generic(host)
        }
    }

    /// The machine that simulated devices model. Of unequal devices the slowest counts, for each gets the
    /// same share of the work; pairs without a link of their own go through the host.
    #[must_use]
    pub fn modelled(model: &topology::Machine, host: HostRates) -> Rates {
        let table = Rates::h200(host);
        let (n, links) = (model.engines.len(), &model.topology);
        if n == 0 || links.devices() != n {
            return table;
        }
        let slowest = |of: &dyn Fn(usize) -> f64| (0..n).map(of).fold(f64::INFINITY, f64::min);
        let rate = |link: topology::Link, gbs: f64| LinkRate {
            latency_s: f64::from(link.latency_ns) * 1e-9,
            bytes_per_s: gbs * 1e9,
            bid_slowdown: 1.0 / link.duplex_factor,
        };
        let to_device = slowest(&|d| links.to_device(d).gbs);
        let to_host = slowest(&|d| links.to_host(d).gbs);
        let through_host = 1.0 / (1.0 / to_device + 1.0 / to_host);
        let (mut pairs, mut sum) = (0.0, 0.0);
        for (from, to) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            if from != to {
                pairs += 1.0;
                sum += links.peer(from, to).map_or(through_host, |link| link.gbs);
            }
        }
        let peer = (0..n).find_map(|to| links.peer(0, to));
        // Devices behind a shared connection reach what that allows, the others what they can.
        let first =
            |k: usize, own: &dyn Fn(usize) -> f64, shared: &dyn Fn(&topology::Uplink) -> f64| {
                let uplinks = links.uplinks();
                let free = (0..n.min(k)).filter(|d| !uplinks.iter().any(|u| u.devices.contains(d)));
                let behind = |u: &topology::Uplink| {
                    let mine = u.devices.iter().filter(|&&d| d < k);
                    shared(u).min(mine.map(|&d| own(d)).sum())
                };
                1e9 * (free.map(own).sum::<f64>() + uplinks.iter().map(behind).sum::<f64>())
            };
        let together = |own: &dyn Fn(usize) -> f64, shared: &dyn Fn(&topology::Uplink) -> f64| {
            Total([1, 2, 4, 8].map(|k| first(if k == 8 { n } else { k }, own, shared)))
        };
        let engines = &model.engines;
        let gemm = |i: usize| GemmRate {
            peak_flops: slowest(&|d| engines[d].gemm_gflops[i]) * 1e9,
            half_size: table.device.gemm[i].half_size,
        };
        Rates {
            device: DeviceRates {
                h2d: rate(links.to_device(0), to_device),
                d2h: rate(links.to_host(0), to_host),
                p2p: rate(
                    peer.unwrap_or(links.to_host(0)),
                    if pairs > 0.0 {
                        sum / pairs
                    } else {
                        through_host
                    },
                ),
                gemm: [gemm(0), gemm(1), gemm(2), gemm(3)],
                memory_bandwidth: slowest(&|d| engines[d].memory_gbs) * 1e9,
                stream_s: table.device.stream_s,
                exec_s: table.device.exec_s,
                launch_s: engines
                    .iter()
                    .map(|e| f64::from(e.launch_ns) * 1e-9)
                    .fold(0.0, f64::max),
            },
            h2d_all: together(&|d| links.to_device(d).gbs, &|u| u.to_device_gbs),
            d2h_all: together(&|d| links.to_host(d).gbs, &|u| u.to_host_gbs),
            ..table
        }
    }

    /// One device's rates while `devices` of them transfer at once.
    #[must_use]
    pub fn among(&self, devices: usize) -> DeviceRates {
        let share = devices.max(1) as f64;
        let mut rates = self.device;
        rates.h2d.bytes_per_s = rates.h2d.bytes_per_s.min(self.h2d_all.of(devices) / share);
        rates.d2h.bytes_per_s = rates.d2h.bytes_per_s.min(self.d2h_all.of(devices) / share);
        rates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets() {
        let host = HostRates::of_cores(8);
        for name in topology::NAMES {
            let model = topology::preset(name).expect(name);
            let m = Rates::modelled(&model, host);
            let d = m.device;
            for link in [d.h2d, d.d2h, d.p2p] {
                assert!(link.bytes_per_s > 1e9 && link.bid_slowdown >= 1.0, "{name}");
            }
            assert!(
                m.h2d_all.of(8) >= d.h2d.bytes_per_s && m.d2h_all.of(8) >= d.d2h.bytes_per_s,
                "{name}"
            );
            assert!(d.gemm.iter().all(|g| g.peak_flops > 1e11) && d.launch_s > 0.0);
        }
        let of = |name| Rates::modelled(&topology::preset(name).expect(name), host);
        assert_eq!(of("h200x8").d2h_all.of(8), 85e9);
        assert_eq!(of("h200").d2h_all.of(1), of("h200").device.d2h.bytes_per_s);
        // The two TITAN X hold everybody back in double precision.
        assert_eq!(of("makalu").device.gemm(Dtype::D).peak_flops, 190e9);
        assert!(of("everest").device.p2p.bytes_per_s < 7.8e9);
    }

    #[test]
    fn tables() {
        let host = HostRates::of_cores(128);
        assert!((2.1e12..2.4e12).contains(&host.gemm_flops[Dtype::D as usize]));
        assert!(HostRates::of_cores(2).gemm_flops[1] < HostRates::of_cores(4).gemm_flops[1]);
        let m = Rates::by_name("NVIDIA H200", host);
        assert_eq!(m, Rates::h200(host));
        assert_eq!(Rates::by_name("sim0", host), Rates::generic(host));
        assert_eq!(m.among(1), m.device);
        assert_eq!(m.among(8).d2h.bytes_per_s, 85e9 / 8.0);
        assert_eq!(m.among(2).d2h.bytes_per_s, 69e9 / 2.0);
        let t = Total([1.0, 2.0, 4.0, 4.0]);
        assert_eq!(
            [0, 1, 2, 4, 8, 64].map(|n| t.of(n)),
            [1.0, 1.0, 2.0, 4.0, 4.0, 4.0]
        );
        assert!(t.of(3) > 2.0 && t.of(3) < 4.0);
        let (sse, avx) = (
            HostRates::of(8, Vectors::Sse),
            HostRates::of(8, Vectors::Avx2),
        );
        assert!(
            sse.gemm_flops[1] < avx.gemm_flops[1]
                && avx.gemm_flops < HostRates::of_cores(8).gemm_flops
        );
        assert_eq!(m.device.with_link(1e9).h2d.bytes_per_s, 1e9);
    }
}
