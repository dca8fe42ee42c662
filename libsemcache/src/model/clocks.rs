//! The clocks of a machine: when the lanes of its devices, and the ports that devices share, are free.
//!
//! Each device has four lanes: uploads, copies from other devices, kernels, write-backs. A lane runs one operation at a time, in the
//! order in which they are queued. Copies from and to the host also pass through the port that the device shares with others;
//! copies from other devices slow no other copies down. The timeline of a call (`super::timeline`) and simulated devices in
//! virtual time advance the same clocks.

use super::ports::Port;
use super::rates::{DeviceRates, LinkRate};

/// A device's links.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeviceLinks {
    /// Host to device.
    pub h2d: LinkRate,
    /// Device to host.
    pub d2h: LinkRate,
    /// From another device.
    pub p2p: LinkRate,
    /// Index into the machine's ports, if it shares its connection to the host.
    pub port: Option<usize>,
}

impl DeviceLinks {
    /// The links of a device with these rates, behind this port.
    #[must_use]
    pub fn new(rates: &DeviceRates, port: Option<usize>) -> DeviceLinks {
        DeviceLinks {
            h2d: rates.h2d,
            d2h: rates.d2h,
            p2p: rates.p2p,
            port,
        }
    }
}

/// When the lanes of one device are free.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Lanes {
    /// Uploads.
    pub uploads: f64,
    /// Copies from other devices.
    pub peers: f64,
    /// Kernels.
    pub kernels: f64,
    /// Write-backs.
    pub write_backs: f64,
}

/// When an operation runs, in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Span {
    /// When it begins.
    pub start: f64,
    /// When it ends.
    pub end: f64,
}

/// A copy between host and device that is not queued yet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Copying {
    /// When it would run.
    pub span: Span,
    /// When the port would have carried it.
    carried: f64,
}

/// The direction of a copy between host and device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    ToDevice,
    ToHost,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Clocks {
    devices: Vec<DeviceLinks>,
    ports: Vec<Port>,
    lanes: Vec<Lanes>,
    /// For each port, when it will have carried all that was given to it: to devices, and to the host.
    carried: Vec<[f64; 2]>,
    /// The time of the thread that queues: what it queues now begins no sooner.
    now: f64,
}

impl Clocks {
    /// Devices of which nothing is queued, at time zero.
    #[must_use]
    pub fn new(devices: Vec<DeviceLinks>, ports: Vec<Port>) -> Clocks {
        Clocks {
            lanes: vec![Lanes::default(); devices.len()],
            carried: vec![[0.0; 2]; ports.len()],
            devices,
            ports,
            now: 0.0,
        }
    }

    /// The time of the thread that queues.
    #[must_use]
    pub fn now(&self) -> f64 {
        self.now
    }

    /// The thread that queues is at this time, and queues operations of this device next.
    pub fn queue_at(&mut self, now: f64, device: usize) {
        self.now = now;
        let lanes = &mut self.lanes[device];
        lanes.uploads = lanes.uploads.max(now);
        lanes.peers = lanes.peers.max(now);
        lanes.write_backs = lanes.write_backs.max(now);
    }

    /// The thread that queues has waited until this time.
    pub fn wait_until(&mut self, at: f64) {
        self.now = self.now.max(at);
    }

    /// When the lanes of a device are free.
    #[must_use]
    pub fn lanes(&self, device: usize) -> Lanes {
        self.lanes[device]
    }

    /// The links of a device.
    #[must_use]
    pub fn links(&self, device: usize) -> &DeviceLinks {
        &self.devices[device]
    }

    /// When an upload of `bytes`, which take as long as `cost` bytes at the link's full rate, would run, behind `ready`.
    #[must_use]
    pub fn uploading(&self, device: usize, ready: f64, bytes: f64, cost: f64) -> Copying {
        let (lanes, links) = (self.lanes[device], &self.devices[device]);
        let start = lanes.uploads.max(ready);
        // While the link carries write-backs, both directions are slower.
        let seconds = if lanes.write_backs > start {
            links.h2d.time_bid(cost)
        } else {
            links.h2d.time(cost)
        };
        let carried = self.through_port(device, Direction::ToDevice, bytes);
        let end = (start + seconds).max(carried);
        Copying {
            span: Span { start, end },
            carried,
        }
    }

    /// Queues an upload.
    pub fn upload(&mut self, device: usize, copying: Copying) {
        self.lanes[device].uploads = copying.span.end;
        if let Some(port) = self.devices[device].port {
            self.carried[port][Direction::ToDevice as usize] = copying.carried;
        }
    }

    /// When a copy of `bytes` from another device would run, behind `ready`.
    #[must_use]
    pub fn copying(&self, device: usize, ready: f64, bytes: f64) -> Span {
        let start = self.lanes[device].peers.max(ready);
        let end = start + self.devices[device].p2p.time(bytes);
        Span { start, end }
    }

    /// Queues a copy from another device.
    pub fn copy(&mut self, device: usize, span: Span) {
        self.lanes[device].peers = span.end;
    }

    /// Queues a kernel behind `ready`.
    pub fn kernel(&mut self, device: usize, ready: f64, seconds: f64) -> Span {
        let start = self.lanes[device].kernels.max(ready);
        let end = start + seconds;
        self.lanes[device].kernels = end;
        Span { start, end }
    }

    /// Queues a write-back of `bytes`, which take as long as `cost` bytes at the link's full rate, behind `ready`.
    pub fn write_back(&mut self, device: usize, ready: f64, bytes: f64, cost: f64) -> Span {
        let carried = self.through_port(device, Direction::ToHost, bytes);
        let (lanes, links) = (&mut self.lanes[device], &self.devices[device]);
        let start = lanes.write_backs.max(ready);
        let seconds = if lanes.uploads > start {
            links.d2h.time_bid(cost)
        } else {
            links.d2h.time(cost)
        };
        let end = (start + seconds).max(carried);
        lanes.write_backs = end;
        if let Some(port) = links.port {
            self.carried[port][Direction::ToHost as usize] = carried;
        }
        Span { start, end }
    }

    /// When the port of a device, if it has one, will have carried another copy of this many bytes, besides all that was given to
    /// it. It carries one byte after the other, whichever device they are for. Time in which it had nothing to carry is lost once
    /// every device behind it is past that time.
    fn through_port(&self, device: usize, direction: Direction, bytes: f64) -> f64 {
        let Some(port) = self.devices[device].port else {
            return 0.0;
        };
        let Port { h2d, d2h } = self.ports[port];
        let (rate, lane): (f64, fn(&Lanes) -> f64) = match direction {
            Direction::ToDevice => (h2d, |lanes| lanes.uploads),
            Direction::ToHost => (d2h, |lanes| lanes.write_backs.max(lanes.kernels)),
        };
        let behind = self.devices.iter().zip(&self.lanes);
        let behind = behind.filter(|(d, _)| d.port == Some(port));
        let next = behind.fold(f64::INFINITY, |next, (_, lanes)| next.min(lane(lanes)));
        let carried = self.carried[port][direction as usize];
        carried.max(next).max(self.now) + bytes / rate
    }
}
