//! Rates of a machine: bandwidths, arithmetic rates and latencies of devices, links and the host, with built-in tables.
//!
//! Each table is a starting point, measured once on one machine of its kind; [`super::observe`] corrects it. Simulated
//! devices are predicted with the table of the machine that they model, not with the speed that a simulation on this
//! CPU reaches.

use crate::base::ids::MAX_DEVICES;
use crate::base::work::RunShares;
use crate::base::{DeviceId, DeviceSet, Dtype};
use crate::topology;

use super::classes::ClassRates;
use super::ports::Ports;

/// One direction of a link, in the latency and bandwidth model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkRate {
    /// Seconds before the first byte.
    pub latency_s: f64,
    /// Bytes per second after the latency.
    pub bytes_per_s: f64,
    /// Factor on the time while the opposite direction is in use, at least 1 (CoCoPeLia's `sl`).
    pub bid_slowdown: f64,
}

/// The rate of matrix products of one element type on one device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GemmRate {
    /// Real floating point operations per second of large products.
    pub peak_flops: f64,
    /// Size of a dimension that halves the rate: each of m, n and k contributes the factor `d / (d + half_size)`.
    pub half_size: f64,
}

/// The rates of one device and its links.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeviceRates {
    /// Host to device, while only this device transfers.
    pub h2d: LinkRate,
    /// Device to host, while only this device transfers.
    pub d2h: LinkRate,
    /// From another device to this one: the mean of the links that are used.
    pub p2p: LinkRate,
    /// The same by the class of the link, where the topology is known.
    pub classes: ClassRates,
    /// What copies of tiles between host and device reach of the link's rate.
    pub runs: RunShares,
    /// Matrix products by element type, in the order of [`Dtype::ALL`].
    pub gemm: [GemmRate; 4],
    /// Bytes per second of the device's own memory.
    pub memory_bandwidth: f64,
    /// Seconds to launch a kernel.
    pub launch_s: f64,
    /// The least seconds of a small kernel that is one of many in a row.
    pub stream_s: f64,
    /// Seconds that such a kernel takes on the device besides arithmetic and traffic.
    pub exec_s: f64,
}

impl DeviceRates {
    /// The rate of matrix products of one type.
    #[must_use]
    pub fn gemm(&self, dtype: Dtype) -> GemmRate {
        self.gemm[dtype as usize]
    }

    /// The same device behind a link of `bytes_per_s` bytes per second each way.
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

/// The rates of the host BLAS.
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
    /// Bytes that the last-level cache holds.
    pub cache_bytes: f64,
    /// Bytes per second of a reduction (dot, nrm2, asum, iamax), which threaded libraries hardly distribute over
    /// threads.
    pub reduction_bandwidth: f64,
    /// Seconds that any call takes.
    pub call_s: f64,
}

/// The constants of [`HostRates::of`], for OpenBLAS on a server. No other code depends on the speed of that library.
mod openblas {
    /// Flops per second, in double precision, of one logical core while few cores are busy, by the width of its
    /// vectors: SSE, AVX2, AVX-512.
    pub(super) const CORE_FLOPS: [f64; 3] = [8e9, 25e9, 36e9];
    /// Number of busy logical cores at which each has half of that rate: they share power, memory and arithmetic units.
    /// 128 cores with AVX-512 were measured at 2.2 TFLOP/s (n = 8192).
    pub(super) const FLOPS_SHARED_BY: f64 = 128.0;
    /// Bytes per second that one core reads from main memory while few cores are busy.
    pub(super) const CORE_BANDWIDTH: f64 = 12e9;
    /// Number of busy cores at which each has half of that rate.
    pub(super) const BANDWIDTH_SHARED_BY: f64 = 24.0;
    /// Bytes per second that one core reads from caches.
    pub(super) const CORE_CACHE_BANDWIDTH: f64 = 20e9;
    /// The most cores that share a reduction: 131,072 pairs of doubles were measured at 26 us on 16 cores.
    pub(super) const REDUCTION_CORES: f64 = 4.0;
    /// Bytes of last-level cache that each core adds, and the most that all cores have.
    pub(super) const CORE_CACHE: f64 = 2e6;
    pub(super) const CACHE: f64 = 64e6;
    /// Size of a dimension that halves the rate: on one core, and what the square root of the number of further cores
    /// adds (each core gets a smaller piece).
    pub(super) const HALF_SIZE: f64 = 4.0;
    pub(super) const HALF_SIZE_SHARED: f64 = 4.0;
    /// Seconds of a call on one core, of waking the other cores, and for each of these.
    pub(super) const CALL_S: f64 = 0.2e-6;
    pub(super) const WAKE_S: f64 = 2e-6;
    pub(super) const WAKE_EACH_S: f64 = 0.1e-6;
}

impl HostRates {
    /// The rates of a threaded BLAS on `cores` logical cores of a server with AVX-512.
    #[must_use]
    pub fn of_cores(cores: usize) -> HostRates {
        HostRates::of(cores, Vectors::Avx512)
    }

    /// The rates of a threaded BLAS on `cores` logical cores.
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

/// A rate that devices share: the total for 1, 2, 4 and 8 devices at the same time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Total(pub [f64; 4]);

impl Total {
    /// The total for `devices` devices, interpolated between the known ones; above eight it stays the same.
    #[must_use]
    pub fn of(&self, devices: usize) -> f64 {
        let octave = (devices.max(1) as f64).log2().min(3.0);
        let low = octave.floor();
        let at = low as usize;
        let (a, b) = (self.0[at], self.0[(at + 1).min(3)]);
        a + (b - a) * (octave - low)
    }

    /// Multiplies the total for each number of devices by a factor.
    pub fn scale(&mut self, factor: f64) {
        self.0.iter_mut().for_each(|total| *total *= factor);
    }
}

/// The most kinds of devices that are told apart. A device of a further kind has the rates of the last one.
const MOST_KINDS: usize = 4;

/// The rates of the devices, by kind: devices of one kind are equal, and so are their links to the host.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Kinds {
    rates: [DeviceRates; MOST_KINDS],
    /// How many of them there are.
    count: usize,
    /// The kind of each device.
    of: [u8; MAX_DEVICES],
}

impl Kinds {
    /// Devices that are all alike.
    #[must_use]
    pub const fn alike(rates: DeviceRates) -> Kinds {
        Kinds {
            rates: [rates; MOST_KINDS],
            count: 1,
            of: [0; MAX_DEVICES],
        }
    }

    /// The kinds of these devices, which are numbered from zero.
    #[must_use]
    pub fn new(devices: impl IntoIterator<Item = DeviceRates>) -> Option<Kinds> {
        let mut devices = devices.into_iter().peekable();
        let mut kinds = Kinds::alike(*devices.peek()?);
        for (device, rates) in devices.take(MAX_DEVICES).enumerate() {
            let mut known = kinds.rates[..kinds.count].iter();
            let kind = known.position(|k| *k == rates).unwrap_or_else(|| {
                if kinds.count < MOST_KINDS {
                    kinds.rates[kinds.count] = rates;
                    kinds.count += 1;
                }
                kinds.count - 1
            });
            kinds.of[device] = u8::try_from(kind).unwrap_or(0);
        }
        Some(kinds)
    }

    /// The number of a device's kind.
    #[must_use]
    pub fn kind(&self, device: DeviceId) -> usize {
        self.of
            .get(device.index())
            .map_or(0, |&kind| usize::from(kind))
    }

    /// The rates of the devices of a kind.
    #[must_use]
    pub fn of_kind(&self, kind: usize) -> &DeviceRates {
        &self.rates[kind.min(self.count - 1)]
    }

    /// Whether all devices are of one kind.
    #[must_use]
    pub fn is_one(&self) -> bool {
        self.count == 1
    }

    /// The rates of each kind.
    #[must_use]
    pub fn each(&self) -> &[DeviceRates] {
        &self.rates[..self.count]
    }

    /// The rates of each kind.
    pub fn each_mut(&mut self) -> &mut [DeviceRates] {
        &mut self.rates[..self.count]
    }
}

/// The rates of devices and their host, and the total rates of several links at once.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// The rates of the devices.
    pub kinds: Kinds,
    /// Bytes per second from the host to several devices at once.
    pub h2d_all: Total,
    /// Bytes per second from several devices at once to the host.
    pub d2h_all: Total,
    /// Which devices share a connection to the host, where the topology is known. The totals above say the same of all
    /// devices at once.
    pub ports: Ports,
    /// Bytes per second of page-locking host memory at its first use, by the number of live contexts.
    pub pin: Total,
    /// The rates of the host BLAS.
    pub host: HostRates,
    /// Seconds that the runtime itself takes for a call on devices: planning, protection, queueing.
    pub call_s: f64,
    /// Seconds that the runtime takes for each task: finding replicas, queueing copies, launching.
    pub task_s: f64,
    /// Seconds that one CPU access to an inaccessible panel costs before the first byte moves.
    pub fault_s: f64,
    /// Seconds that a call takes to wait for a result that the CPU reads next, besides its computation and its copy.
    pub landing_s: f64,
}

impl Rates {
    /// NVIDIA H200 behind PCIe 5.0, NVLink between devices; measured. Complex products were not measured: they have the
    /// rates of the real types.
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
            kinds: Kinds::alike(DeviceRates {
                h2d: pcie,
                d2h: pcie,
                p2p: LinkRate {
                    latency_s: 8e-6,
                    bytes_per_s: 396e9,
                    bid_slowdown: 1.0,
                },
                classes: ClassRates::default(),
                // Beside products; without them 0.6, 0.88, 0.88, 1, 1.
                runs: RunShares([0.35, 0.58, 0.57, 0.84, 1.0]),
                gemm: [single, double, single, double],
                memory_bandwidth: 4.52e12,
                launch_s: 4.6e-6,
                stream_s: 2.8e-6,
                exec_s: 2.2e-6,
            }),
            h2d_all: Total([55.4e9, 105e9, 105e9, 163e9]),
            d2h_all: Total([55.4e9, 69e9, 69e9, 85e9]),
            ports: Ports::NONE,
            // 57 GB/s with 2 MiB pages and one context; half of that with small pages.
            pin: Total([45e9, 28e9, 16e9, 8e9]),
            host,
            call_s: 1e-6,
            task_s: 4e-6,
            fault_s: 30e-6,
            // A loop of small results that are read after each call took 26 to 30 us per call in all.
            landing_s: 15e-6,
        }
    }

    /// NVIDIA H100 (SXM) behind PCIe 5.0, NVLink between devices. The memory has the same share of the vendor's
    /// figure (3.35 TB/s) as the H200's; the rest is the H200's, and `runs` were measured on both.
    #[must_use]
    pub fn h100(host: HostRates) -> Rates {
        let mut rates = Rates::h200(host);
        for device in rates.kinds.each_mut() {
            device.memory_bandwidth = 3.15e12;
        }
        rates
    }

    /// A GPU with an unknown name: PCIe 4.0, the double precision of a data centre card of 2020, no fast links between
    /// devices.
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
            kinds: Kinds::alike(DeviceRates {
                h2d: pcie,
                d2h: pcie,
                p2p: LinkRate {
                    latency_s: 12e-6,
                    bytes_per_s: 18e9,
                    bid_slowdown: 1.2,
                },
                classes: ClassRates::default(),
                runs: RunShares([0.6, 0.8, 0.9, 1.0, 1.0]),
                gemm: [single, double, single, double],
                memory_bandwidth: 1.3e12,
                launch_s: 5e-6,
                stream_s: 3e-6,
                exec_s: 2.5e-6,
            }),
            h2d_all: Total([22e9, 44e9, 44e9, 44e9]),
            d2h_all: Total([22e9, 44e9, 44e9, 44e9]),
            ports: Ports::NONE,
            pin: Total([15e9, 12e9, 8e9, 4e9]),
            host,
            // Calls, tasks, faults and waits cost time of the CPU, whichever GPU computes: as measured for the H200.
            call_s: 1e-6,
            task_s: 4e-6,
            fault_s: 30e-6,
            landing_s: 15e-6,
        }
    }

    /// The table whose name (H200, H100) the device's name contains; the generic table if there is none. Cards for PCIe
    /// slots, which are slower, have the generic one.
    #[must_use]
    pub fn by_name(name: &str, host: HostRates) -> Rates {
        match Rates::table_of(name) {
            "H200" => Rates::h200(host),
            "H100" => Rates::h100(host),
            _ => Rates::generic(host),
        }
    }

    /// The name of the table that [`Rates::by_name`] takes.
    #[must_use]
    pub fn table_of(name: &str) -> &'static str {
        let name = name.to_ascii_lowercase();
        if name.contains("h200") {
            "H200"
        } else if name.contains("h100") && name.contains("hbm3") {
            "H100"
        } else {
            "other GPUs"
        }
    }

    /// The rates of the machine that simulated devices model. Copies between devices without a direct link pass through the
    /// host.
    #[must_use]
    pub fn modelled(model: &topology::Machine, host: HostRates) -> Rates {
        let table = Rates::h200(host);
        let (n, links) = (model.engines.len(), &model.topology);
        if n == 0 || links.devices() != n {
            return table;
        }
        let rate = |link: topology::Link, gbs: f64| LinkRate {
            latency_s: f64::from(link.latency_ns) * 1e-9,
            bytes_per_s: gbs * 1e9,
            bid_slowdown: 1.0 / link.duplex_factor,
        };
        let (known, usual) = (&model.engines, table.kinds.rates[0]);
        let device = |to: usize| {
            let (from_host, to_host) = (links.to_device(to), links.to_host(to));
            let others = (0..n).filter(|&from| from != to);
            let mut peers: Vec<_> = others.filter_map(|from| links.peer(from, to)).collect();
            if peers.iter().any(|link| link.gbs > from_host.gbs) {
                // Slower links carry only bytes that the host does not have.
                peers.retain(|link| link.gbs > from_host.gbs);
            }
            let through_host = 1.0 / (1.0 / from_host.gbs + 1.0 / to_host.gbs);
            let p2p = match peers.first() {
                Some(&link) => {
                    let sum: f64 = peers.iter().map(|link| link.gbs).sum();
                    rate(link, sum / peers.len() as f64)
                }
                None => rate(to_host, through_host),
            };
            let over = |from: usize| links.peer(from, to).map_or(0.0, |link| link.gbs * 1e9);
            let classes = links.classes(to).into_iter().zip((0..n).map(over));
            let engine = &known[to];
            DeviceRates {
                h2d: rate(from_host, from_host.gbs),
                d2h: rate(to_host, to_host.gbs),
                p2p,
                classes: ClassRates::new(classes),
                runs: RunShares::ALL,
                gemm: [0, 1, 2, 3].map(|i| GemmRate {
                    peak_flops: engine.gemm_gflops[i] * 1e9,
                    half_size: usual.gemm[i].half_size,
                }),
                memory_bandwidth: engine.memory_gbs * 1e9,
                stream_s: usual.stream_s,
                exec_s: usual.exec_s,
                launch_s: f64::from(engine.launch_ns) * 1e-9,
            }
        };
        // Devices behind a shared uplink have at most its rate together, the others have the sum of their own rates.
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
        Rates {
            kinds: Kinds::new((0..n).map(device)).unwrap_or(table.kinds),
            h2d_all: together(&|d| links.to_device(d).gbs, &|u| u.to_device_gbs),
            d2h_all: together(&|d| links.to_host(d).gbs, &|u| u.to_host_gbs),
            ports: Ports::new(links),
            ..table
        }
    }

    /// The rates of a device while no other one transfers.
    #[must_use]
    pub fn of(&self, device: DeviceId) -> &DeviceRates {
        self.kinds.of_kind(self.kinds.kind(device))
    }

    /// The rates of each device of a set while all of them transfer at once.
    #[must_use]
    pub fn each(&self, set: &DeviceSet) -> Vec<DeviceRates> {
        set.ids().map(|id| self.shared(id, set.len())).collect()
    }

    /// The rates of a device that has the mean speed of a set while all of them transfer at once: work that is
    /// distributed by speed takes each of them as long as an equal share takes this one. Its links are the slowest.
    #[must_use]
    pub fn among(&self, set: &DeviceSet) -> DeviceRates {
        let mut ids = set.ids();
        let Some(first) = ids.next() else {
            return *self.kinds.of_kind(0);
        };
        let mut mean = self.shared(first, set.len());
        let all_alike = ids.all(|id| self.kinds.kind(id) == self.kinds.kind(first));
        if all_alike {
            return mean;
        }
        let each = self.each(set);
        let of = |rate: &dyn Fn(&DeviceRates) -> f64| {
            each.iter().map(rate).sum::<f64>() / each.len() as f64
        };
        for i in 0..mean.gemm.len() {
            mean.gemm[i].peak_flops = of(&|r| r.gemm[i].peak_flops);
        }
        mean.memory_bandwidth = of(&|r| r.memory_bandwidth);
        let slowest = |link: &dyn Fn(&DeviceRates) -> LinkRate| {
            let links = each.iter().map(link);
            links.min_by(|x, y| x.bytes_per_s.total_cmp(&y.bytes_per_s))
        };
        mean.h2d = slowest(&|r| r.h2d).unwrap_or(mean.h2d);
        mean.d2h = slowest(&|r| r.d2h).unwrap_or(mean.d2h);
        mean.p2p = slowest(&|r| r.p2p).unwrap_or(mean.p2p);
        mean
    }

    /// A device's rates while `devices` devices transfer at once.
    fn shared(&self, device: DeviceId, devices: usize) -> DeviceRates {
        let share = devices.max(1) as f64;
        let mut rates = *self.of(device);
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
            let d = m.of(DeviceId(0));
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
        assert_eq!(
            of("h200").d2h_all.of(1),
            of("h200").of(DeviceId(0)).d2h.bytes_per_s
        );
        // The first of Everest's devices reads the others through the host.
        let p2p = |d| of("everest").of(DeviceId(d)).p2p.bytes_per_s;
        assert!(p2p(0) < 6e9 && p2p(1) == 7.8e9 && p2p(2) == 7.8e9);
    }

    /// The TITAN X of Makalu have a seventh of the K40's rate in double precision, and more in single precision.
    #[test]
    fn unequal_devices() {
        let model = topology::preset("makalu").expect("a preset");
        let rates = Rates::modelled(&model, HostRates::of_cores(8));
        let peak = |d, dtype| rates.of(DeviceId(d)).gemm(dtype).peak_flops;
        let set = DeviceSet::of((0..4).map(|d| (DeviceId(d), peak(d, Dtype::D))));
        let sum: f64 = (0..4).map(|d| peak(d, Dtype::D)).sum();
        let mean = rates.among(&set).gemm(Dtype::D).peak_flops;
        assert!((mean * 4.0 / sum - 1.0).abs() < 1e-9);
        assert_eq!(
            rates.each(&set)[3].gemm(Dtype::D).peak_flops,
            peak(3, Dtype::D)
        );
        let five = (0..5).map(|i| DeviceRates {
            launch_s: f64::from(i),
            ..*rates.of(DeviceId(0))
        });
        let kinds = Kinds::new(five).expect("devices");
        assert_eq!(
            [0, 1, 3, 4, 9].map(|d| kinds.kind(DeviceId(d))),
            [0, 1, 3, 3, 0]
        );
        assert_eq!(Kinds::new([]), None);
    }

    #[test]
    fn tables() {
        let host = HostRates::of_cores(128);
        assert!((2.1e12..2.4e12).contains(&host.gemm_flops[Dtype::D as usize]));
        assert!(HostRates::of_cores(2).gemm_flops[1] < HostRates::of_cores(4).gemm_flops[1]);
        let m = Rates::by_name("NVIDIA H200", host);
        assert_eq!(m, Rates::h200(host));
        let h100 = Rates::by_name("NVIDIA H100 80GB HBM3", host);
        assert_eq!(h100, Rates::h100(host));
        assert_eq!(
            Rates::by_name("NVIDIA H100 PCIe", host),
            Rates::generic(host)
        );
        assert_eq!(Rates::by_name("sim0", host), Rates::generic(host));
        let among = |n| m.among(&DeviceSet::equal(n));
        assert_eq!(among(1), *m.of(DeviceId(0)));
        assert_eq!(among(8).d2h.bytes_per_s, 85e9 / 8.0);
        assert_eq!(among(2).d2h.bytes_per_s, 69e9 / 2.0);
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
        assert_eq!(m.of(DeviceId(0)).with_link(1e9).h2d.bytes_per_s, 1e9);
    }
}
