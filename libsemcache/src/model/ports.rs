//! Ports: connections to the host that several devices share (a PCIe switch, a root port), by the machine's topology.

use crate::base::DeviceId;
use crate::base::ids::MAX_DEVICES;
use crate::topology::Topology;

/// A connection to the host, by what all devices behind it reach together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Port {
    /// Bytes per second from the host.
    pub h2d: f64,
    /// Bytes per second to the host.
    pub d2h: f64,
}

/// The most ports that are told apart; devices behind a further one have links of their own.
const MOST: usize = 8;

/// Which devices share which port. A device behind none has the host to itself.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ports {
    ports: [Port; MOST],
    count: usize,
    /// For each device the number of its port, from 1; 0: none.
    of: [u8; MAX_DEVICES],
}

impl Ports {
    /// A machine of which no ports are known.
    pub const NONE: Ports = Ports {
        ports: [Port { h2d: 0.0, d2h: 0.0 }; MOST],
        count: 0,
        of: [0; MAX_DEVICES],
    };

    /// The ports of a topology.
    #[must_use]
    pub fn new(topology: &Topology) -> Ports {
        let mut ports = Ports::NONE;
        for (uplink, number) in topology.uplinks().iter().take(MOST).zip(1..) {
            ports.ports[ports.count] = Port {
                h2d: uplink.to_device_gbs * 1e9,
                d2h: uplink.to_host_gbs * 1e9,
            };
            ports.count += 1;
            let behind = uplink.devices.iter().filter(|d| **d < MAX_DEVICES);
            behind.for_each(|d| ports.of[*d] = number);
        }
        ports
    }

    /// The ports.
    #[must_use]
    pub fn each(&self) -> &[Port] {
        &self.ports[..self.count]
    }

    /// Which of the ports a device is behind.
    #[must_use]
    pub fn of(&self, device: DeviceId) -> Option<usize> {
        let number = self.of.get(device.index()).copied().unwrap_or(0);
        usize::from(number).checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{NAMES, preset};

    #[test]
    fn devices_find_their_ports() {
        let of = |name| Ports::new(&preset(name).expect(name).topology);
        let dgx1 = of("dgx1");
        assert_eq!(dgx1.each().len(), 4);
        let numbers: Vec<_> = (0..9).map(|d| dgx1.of(DeviceId(d))).collect();
        let expected = [0, 0, 1, 1, 2, 2, 3, 3].map(Some);
        assert_eq!(numbers[..8], expected);
        assert_eq!(numbers[8], None);
        let everest = of("everest");
        assert_eq!(
            [0, 1, 2].map(|d| everest.of(DeviceId(d))),
            [None, Some(0), Some(0)]
        );
        assert_eq!(
            everest.each(),
            [Port {
                h2d: 10e9,
                d2h: 10e9
            }]
        );
        assert_eq!(of("kepler"), Ports::NONE);
        for name in NAMES {
            assert!(
                preset(name).expect(name).topology.uplinks().len() <= MOST,
                "{name}"
            );
        }
    }
}
