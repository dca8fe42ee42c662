//! The clocks of a machine: when the lanes of its devices, and the ports that devices share, are free.
//!
//! Each device has four lanes: uploads, copies from other devices, kernels, write-backs. A lane runs one operation at a time, in the
//! order in which they are queued. Copies from and to the host also pass through the port that the device shares with others, and so
//! do copies between devices over links that are slower than the host's: those pass through the ports of both. Other copies between
//! devices slow no other copies down. The timeline of a call (`super::timeline`) and simulated devices in
//! virtual time advance the same clocks.

use super::classes::ClassRates;
use super::ports::Port;
use super::rates::{DeviceRates, LinkRate};
use crate::base::Link;

/// A device's links.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeviceLinks {
    /// Host to device.
    pub h2d: LinkRate,
    /// Device to host.
    pub d2h: LinkRate,
    /// From another device: the mean of the links that are used.
    pub p2p: LinkRate,
    /// The same by the class of the link, where that is known.
    pub classes: ClassRates,
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
            classes: rates.classes,
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

/// A copy from another device that is not queued yet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Crossing {
    /// When it would run.
    pub span: Span,
    /// The ports that it passes through, from the other device and to this one, and when each would have carried it.
    carried: [Option<(usize, f64)>; 2],
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

    /// When a copy of `bytes` from another device, over a link of this class, would run, behind `ready`.
    #[must_use]
    pub fn copying(
        &self,
        device: usize,
        (from, link): (usize, Link),
        ready: f64,
        bytes: f64,
    ) -> Crossing {
        let start = self.lanes[device].peers.max(ready);
        let links = &self.devices[device];
        let bytes_per_s = links.classes.of(link).unwrap_or(links.p2p.bytes_per_s);
        let rate = LinkRate {
            bytes_per_s,
            ..links.p2p
        };
        let through = |device: usize, direction| {
            let port = self.devices[device].port.filter(|_| link == Link::Slower)?;
            Some((port, self.through_port(device, direction, bytes)))
        };
        let carried = [
            through(from, Direction::ToHost),
            through(device, Direction::ToDevice),
        ];
        let last = carried.iter().flatten().map(|(_, at)| *at);
        let end = last.fold(start + rate.time(bytes), f64::max);
        Crossing {
            span: Span { start, end },
            carried,
        }
    }

    /// Queues a copy from another device.
    pub fn copy(&mut self, device: usize, crossing: Crossing) {
        self.lanes[device].peers = crossing.span.end;
        let directions = [Direction::ToHost, Direction::ToDevice];
        for (carried, direction) in crossing.carried.iter().zip(directions) {
            if let Some((port, at)) = *carried {
                self.carried[port][direction as usize] = at;
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two devices behind one port of two bytes a second. Each copies one byte a second from and to the host; between them two,
    /// over a link of the first class four, and over a slower one half a byte.
    fn clocks() -> Clocks {
        let link = |bytes_per_s| LinkRate {
            latency_s: 0.0,
            bytes_per_s,
            bid_slowdown: 1.0,
        };
        let device = DeviceLinks {
            h2d: link(1.0),
            d2h: link(1.0),
            p2p: link(2.0),
            classes: ClassRates::new([(Link::Faster(0), 4.0), (Link::Slower, 0.5)]),
            port: Some(0),
        };
        let port = Port { h2d: 2.0, d2h: 2.0 };
        Clocks::new(vec![device; 2], vec![port])
    }

    #[test]
    fn copies_between_devices_take_the_rate_of_their_link() {
        let over = |link| clocks().copying(0, (1, link), 1.0, 8.0).span;
        let span = |end| Span { start: 1.0, end };
        assert_eq!(over(Link::Faster(0)), span(3.0));
        assert_eq!(over(Link::Faster(7)), span(5.0), "the mean");
        assert_eq!(over(Link::Slower), span(17.0));
    }

    #[test]
    fn slower_links_pass_through_the_ports_of_both_devices() {
        let full = |link| {
            let mut clocks = clocks();
            for _ in 0..8 {
                let crossing = clocks.copying(0, (1, link), 0.0, 8.0);
                clocks.copy(0, crossing);
            }
            // The port's turn comes behind the copies between the devices.
            clocks.uploading(1, 0.0, 2.0, 2.0).span.end
        };
        assert_eq!(full(Link::Faster(0)), 2.0);
        assert_eq!(full(Link::Slower), 33.0);
    }
}
