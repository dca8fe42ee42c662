//! The link graph of a machine (its interconnect), as data: which device reaches the host and which peer, at what rate,
//! and how fast its kernels run. The simulated machine and the time model read it; nothing here measures.
//!
//! A rate is what one large page-locked copy reaches in one direction, in GB/s (10^9 bytes per second).

mod named;
mod presets;

use std::borrow::Cow;

use crate::base;

pub use named::check_devices;
pub use presets::{NAMES, preset};

/// One direction of a connection between two memories.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Time of an empty copy in nanoseconds.
    pub latency_ns: u32,
    /// Rate of a large copy in GB/s.
    pub gbs: f64,
    /// The factor on `gbs` while the opposite direction is as busy: 1 for full duplex, 0.5 for half duplex.
    pub duplex_factor: f64,
}

impl Link {
    /// A full-duplex link.
    #[must_use]
    pub const fn new(latency_ns: u32, gbs: f64) -> Self {
        Link {
            latency_ns,
            gbs,
            duplex_factor: 1.0,
        }
    }

    /// Nanoseconds that a copy of `bytes` takes when no other copy uses the link.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a prediction, not a count")]
    pub fn time_ns(self, bytes: usize) -> f64 {
        // Bytes over GB/s are nanoseconds.
        f64::from(self.latency_ns) + bytes as f64 / self.gbs
    }
}

/// The rates and the memory of one device.
#[derive(Clone, PartialEq, Debug)]
pub struct Engine {
    /// Product name.
    pub name: Cow<'static, str>,
    /// Bytes of device memory.
    pub memory: usize,
    /// Rate of device memory in GB/s, as a large copy or gemv sees it.
    pub memory_gbs: f64,
    /// GFLOP/s of a large gemm in s, d, c, z; one multiply-add is 2 real or 8 complex operations.
    pub gemm_gflops: [f64; 4],
    /// Nanoseconds from launch to start of a kernel.
    pub launch_ns: u32,
}

/// Devices whose host links share an upstream connection (a PCIe switch, a root port, the host's memory).
#[derive(Clone, PartialEq, Debug)]
pub struct Uplink {
    /// The devices behind this connection.
    pub devices: Vec<usize>,
    /// Their rate together from host to devices, in GB/s.
    pub to_device_gbs: f64,
    /// Their rate together from devices to host, in GB/s.
    pub to_host_gbs: f64,
}

/// The connections of a machine with `n` devices.
#[derive(Clone, PartialEq, Debug)]
pub struct Topology {
    to_device: Vec<Link>,
    to_host: Vec<Link>,
    /// Row-major by (from, to). `None`: the pair has no direct connection.
    peers: Vec<Option<Link>>,
    uplinks: Vec<Uplink>,
}

impl Topology {
    /// `n` equal devices, all pairs connected.
    #[must_use]
    pub fn uniform(n: usize, host: Link, peer: Link) -> Self {
        let mut topology = Topology {
            to_device: vec![host; n],
            to_host: vec![host; n],
            peers: vec![None; n * n],
            uplinks: Vec::new(),
        };
        for from in 0..n {
            for to in 0..n {
                topology.set_peer(from, to, Some(peer));
            }
        }
        topology
    }

    /// Number of devices.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.to_device.len()
    }

    /// The link from host memory to a device.
    ///
    /// # Panics
    /// There is no such device.
    #[must_use]
    pub fn to_device(&self, device: usize) -> Link {
        self.to_device[device]
    }

    /// The link from a device to host memory.
    ///
    /// # Panics
    /// There is no such device.
    #[must_use]
    pub fn to_host(&self, device: usize) -> Link {
        self.to_host[device]
    }

    /// The link from one device to another, if they are connected directly; `None` also from a device to itself.
    #[must_use]
    pub fn peer(&self, from: usize, to: usize) -> Option<Link> {
        let n = self.devices();
        if from < n && to < n {
            self.peers[from * n + to]
        } else {
            None
        }
    }

    /// The devices that `device` reaches directly, fastest first, then by number.
    #[must_use]
    pub fn neighbours(&self, device: usize) -> Vec<usize> {
        let rate = |to: usize| self.peer(device, to).map_or(0.0, |link| link.gbs);
        let mut near: Vec<usize> = (0..self.devices())
            .filter(|to| self.peer(device, *to).is_some())
            .collect();
        near.sort_by(|a, b| rate(*b).total_cmp(&rate(*a)));
        near
    }

    /// How a device reads the memory of each device: over links faster than the one from the host, in classes by their rates, over
    /// slower ones, or not directly.
    #[must_use]
    pub fn classes(&self, device: usize) -> Vec<base::Link> {
        let from_host = self.to_device(device).gbs;
        let rates = (0..self.devices()).map(|from| self.peer(from, device).map(|link| link.gbs));
        let rates: Vec<Option<f64>> = rates.collect();
        let faster = rates.iter().copied().flatten().filter(|r| *r > from_host);
        let mut faster: Vec<f64> = faster.collect();
        faster.sort_by(|a, b| b.total_cmp(a));
        faster.dedup();
        let class = |rate: f64| faster.iter().position(|r| *r == rate);
        let link = |rate: &Option<f64>| match rate {
            Some(rate) => class(*rate).map_or(base::Link::Slower, |n| {
                base::Link::Faster(u8::try_from(n).unwrap_or(u8::MAX))
            }),
            None => base::Link::None,
        };
        rates.iter().map(link).collect()
    }

    /// Connections that several host links share.
    #[must_use]
    pub fn uplinks(&self) -> &[Uplink] {
        &self.uplinks
    }

    /// Sets both directions between a device and the host.
    fn set_host(&mut self, device: usize, to_device: Link, to_host: Link) {
        self.to_device[device] = to_device;
        self.to_host[device] = to_host;
    }

    /// Sets one direction between two devices; a device has no link to itself.
    fn set_peer(&mut self, from: usize, to: usize, link: Option<Link>) {
        if from != to {
            let n = self.devices();
            self.peers[from * n + to] = link;
        }
    }
}

/// A machine: its devices and their connections.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// Short name, as written after `sim:` in `SEMCACHE_DEVICES`.
    pub name: Cow<'static, str>,
    /// A title of one line, for people.
    pub title: Cow<'static, str>,
    /// The devices.
    pub engines: Vec<Engine>,
    /// The connections of the devices.
    pub topology: Topology,
}

impl Machine {
    /// The same machine with its first `devices` devices alone.
    #[must_use]
    fn first(mut self, devices: usize) -> Machine {
        self.engines.truncate(devices);
        let all = self.topology.devices();
        let Topology {
            to_device,
            to_host,
            peers,
            uplinks,
        } = &mut self.topology;
        to_device.truncate(devices);
        to_host.truncate(devices);
        let of = |i: usize| peers[i / devices * all + i % devices];
        *peers = (0..devices * devices).map(of).collect();
        for uplink in uplinks.iter_mut() {
            uplink.devices.retain(|device| *device < devices);
        }
        uplinks.retain(|uplink| !uplink.devices.is_empty());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_connects_all_but_self() {
        let t = Topology::uniform(3, Link::new(10, 12.0), Link::new(5, 50.0));
        assert_eq!(t.devices(), 3);
        assert_eq!(t.peer(1, 1), None);
        assert_eq!(t.peer(1, 2), Some(Link::new(5, 50.0)));
        assert_eq!(t.peer(1, 3), None);
        assert_eq!(t.neighbours(1), [0, 2]);
        assert!((t.to_host(0).time_ns(12_000) - 1010.0).abs() < 1e-9);
        assert_eq!(
            Topology::uniform(0, Link::new(0, 1.0), Link::new(0, 1.0)).devices(),
            0
        );
    }

    #[test]
    fn every_preset_is_whole() {
        for name in NAMES {
            let machine = preset(name).expect(name);
            assert_eq!(machine.name, name);
            let n = machine.topology.devices();
            assert_eq!(machine.engines.len(), n);
            assert!(n > 0);
            for a in 0..n {
                assert!(machine.topology.to_device(a).gbs > 1.0);
                assert!(machine.engines[a].memory >= 1 << 30);
                for b in 0..n {
                    let there = machine.topology.peer(a, b);
                    assert_eq!(there.is_some(), machine.topology.peer(b, a).is_some());
                }
            }
            for uplink in machine.topology.uplinks() {
                assert!(uplink.devices.iter().all(|d| *d < n));
            }
        }
        assert_eq!(preset("nonsense"), None);
    }

    #[test]
    fn dgx1_is_the_hybrid_cube_mesh() {
        let t = preset("dgx1").expect("dgx1").topology;
        assert_eq!(t.neighbours(0)[..4], [3, 4, 1, 2], "two links, then one");
        assert_eq!(t.neighbours(7)[..4], [4, 6, 3, 5]);
        let double: usize = (0..8)
            .map(|a| {
                (0..8)
                    .filter(|b| t.peer(a, *b).is_some_and(|l| l.gbs > 40.0))
                    .count()
            })
            .sum();
        assert_eq!(double, 16, "each device has two double links");
    }

    #[test]
    fn the_first_devices_keep_their_links() {
        let (all, some) = (
            preset("dgx1").expect("all"),
            preset("dgx1:3").expect("three"),
        );
        assert_eq!((some.engines.len(), some.topology.devices()), (3, 3));
        for (a, b) in (0..3).flat_map(|a| (0..3).map(move |b| (a, b))) {
            assert_eq!(some.topology.peer(a, b), all.topology.peer(a, b));
        }
        let behind: Vec<_> = some
            .topology
            .uplinks()
            .iter()
            .map(|u| &*u.devices)
            .collect();
        assert_eq!(behind, [&[0, 1][..], &[2]]);
        assert_eq!(preset("dgx1:8"), Some(all));
        for none in ["dgx1:0", "dgx1:9", "dgx1:", "dgx1:1:1", "nonsense:1"] {
            assert_eq!(preset(none), None);
        }
    }

    #[test]
    fn everest_connects_one_pair() {
        let t = preset("everest").expect("everest").topology;
        assert_eq!(t.neighbours(0), [0usize; 0]);
        assert_eq!(t.neighbours(1), [2]);
    }
}
