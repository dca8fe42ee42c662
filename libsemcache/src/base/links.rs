//! Between which devices of a machine bytes are copied directly, and which of these links are faster than the one to the
//! host. From it the directory and the timeline choose where a replica gets the bytes that it lacks: the nearest copy, as in the
//! topology-aware heuristic of XKBlas (Gautier and Lima, PAW-ATM 2021, section III-B), also if it is still on its way there (the
//! optimistic heuristic, section III-C).

use std::sync::Arc;

use super::config::Peers;
use super::{DeviceId, DeviceSet};

/// How a device reads the memory of another device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Link {
    /// Directly, and faster than host memory. The links of one device with the smallest number are its fastest ones.
    Faster(u8),
    /// Directly, but no faster than host memory.
    Slower,
    /// Not directly: bytes pass through host memory.
    None,
}

/// The links between all devices of a machine; by default every device reads every other one directly, no faster than host
/// memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Links {
    /// For each device, how it reads each device.
    rows: Option<Arc<[Vec<Link>]>>,
    /// Whether bytes that are still on their way to a device are copied on from there.
    joins: bool,
}

impl Default for Links {
    fn default() -> Links {
        Links::DIRECT
    }
}

impl Links {
    /// Every device reads every other one directly, no faster than host memory.
    pub const DIRECT: Links = Links {
        rows: None,
        joins: true,
    };

    /// For each device, how it reads each device.
    #[must_use]
    pub fn new(links: impl IntoIterator<Item = Vec<Link>>) -> Links {
        Links {
            rows: Some(links.into_iter().collect()),
            ..Links::DIRECT
        }
    }

    /// Every device reads every other one directly, and faster than host memory.
    #[must_use]
    pub fn fast(devices: usize) -> Links {
        Links::new(vec![vec![Link::Faster(0); devices]; devices])
    }

    /// Whether a device waits for bytes that are on their way to another device, and gets them from there, although the host
    /// has them.
    #[must_use]
    pub fn joins(&self) -> bool {
        self.joins
    }

    /// The links as `SEMCACHE_PEERS` and `SEMCACHE_JOINS` want them to be used.
    #[must_use]
    pub fn used(self, peers: Peers, joins: bool) -> Links {
        let link = |link: &Link| match (peers, link) {
            (Peers::Unranked, Link::Faster(_) | Link::Slower) => Link::Faster(u8::MAX),
            (Peers::Any, Link::Slower) => Link::Faster(u8::MAX),
            (Peers::Off, Link::Faster(_)) => Link::Slower,
            _ => *link,
        };
        let rows = self.rows.as_deref().unwrap_or_default();
        Links {
            joins,
            ..Links::new(rows.iter().map(|row| row.iter().map(link).collect()))
        }
    }

    /// The links between some of the devices, which are numbered by their positions.
    #[must_use]
    pub fn between(&self, devices: &DeviceSet) -> Links {
        let in_order = devices.ids().enumerate().all(|(i, id)| id.index() == i);
        if self.rows.is_none() || in_order {
            return self.clone();
        }
        let row = |to| devices.ids().map(|from| self.of(to, from)).collect();
        Links {
            joins: self.joins,
            ..Links::new(devices.ids().map(row))
        }
    }

    /// How `to` reads the memory of `from`.
    #[must_use]
    pub fn of(&self, to: DeviceId, from: DeviceId) -> Link {
        let link = self.row(to).get(from.index());
        link.copied().unwrap_or(Link::Slower)
    }

    /// How `to` reads each device; empty if it reads all of them directly, no faster than host memory.
    #[must_use]
    pub fn row(&self, to: DeviceId) -> &[Link] {
        let rows = self.rows.as_deref().unwrap_or_default();
        rows.get(to.index()).map_or(&[], Vec::as_slice)
    }

    /// The classes of links faster than host memory that a device has, the fastest first.
    pub fn faster(&self, to: DeviceId) -> impl Iterator<Item = Link> + '_ {
        let row = self.row(to);
        let mut next = Some(Link::Faster(0));
        std::iter::from_fn(move || {
            let least = row.iter().filter(|l| Some(**l) >= next).min().copied();
            let found = least.filter(|l| matches!(l, Link::Faster(_)))?;
            next = match found {
                Link::Faster(n) => Some(n.checked_add(1).map_or(Link::Slower, Link::Faster)),
                other => Some(other),
            };
            Some(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        use Link::{Faster, None, Slower};
        let links = Links::new([
            vec![None, Faster(3), Slower, Faster(0), Faster(3)],
            vec![Slower; 5],
            vec![Faster(255); 5],
        ]);
        let faster = |device| links.faster(DeviceId(device)).collect::<Vec<_>>();
        assert_eq!(faster(0), [Faster(0), Faster(3)]);
        assert_eq!(faster(1), []);
        assert_eq!(faster(2), [Faster(255)]);
        assert_eq!(faster(9), []);
        assert_eq!(links.of(DeviceId(0), DeviceId(2)), Slower);
        assert_eq!(links.of(DeviceId(0), DeviceId(0)), None);
        assert_eq!(links.of(DeviceId(7), DeviceId(0)), Slower);
        let used = |peers| links.clone().used(peers, true).row(DeviceId(0)).to_vec();
        assert_eq!(used(Peers::Auto), links.row(DeviceId(0)));
        let any = [None, Faster(3), Faster(255), Faster(0), Faster(3)];
        assert_eq!(used(Peers::Any), any);
        let unranked = [None, Faster(255), Faster(255), Faster(255), Faster(255)];
        assert_eq!(used(Peers::Unranked), unranked);
        assert_eq!(used(Peers::Off), [None, Slower, Slower, Slower, Slower]);
        assert_eq!(Links::fast(2).of(DeviceId(0), DeviceId(1)), Faster(0));
        let some = DeviceSet::of([(DeviceId(0), 1.0), (DeviceId(3), 2.0)]);
        let some = links.between(&some);
        assert_eq!(some.of(DeviceId(1), DeviceId(0)), Faster(0));
        assert_eq!(links.between(&DeviceSet::equal(5)), links);
        assert!(links.joins());
        let alone = links.used(Peers::Auto, false);
        let reversed = DeviceSet::of([(DeviceId(3), 1.0), (DeviceId(0), 2.0)]);
        assert!(!alone.joins() && !alone.between(&reversed).joins());
    }
}
