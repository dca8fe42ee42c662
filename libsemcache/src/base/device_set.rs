//! The devices that work on one call, and the part of the work that each gets.

use super::DeviceId;
use super::ids::MAX_DEVICES;

/// Devices in the order in which they are taken for calls of a kind, the fastest first. Each gets a part of the work that is
/// proportional to its speed. At most [`MAX_DEVICES`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeviceSet {
    len: usize,
    ids: [DeviceId; MAX_DEVICES],
    speeds: [f32; MAX_DEVICES],
}

impl DeviceSet {
    /// No device.
    pub const NONE: DeviceSet = DeviceSet {
        len: 0,
        ids: [DeviceId(0); MAX_DEVICES],
        speeds: [1.0; MAX_DEVICES],
    };

    /// The devices with the lowest numbers, all equally fast.
    #[must_use]
    pub const fn equal(count: usize) -> DeviceSet {
        let mut set = DeviceSet::NONE;
        while set.len < count && set.len < MAX_DEVICES {
            set.ids[set.len] = DeviceId(set.len as u8);
            set.len += 1;
        }
        set
    }

    /// One device.
    #[must_use]
    pub const fn only(id: DeviceId) -> DeviceSet {
        let mut set = DeviceSet::NONE;
        set.len = 1;
        set.ids[0] = id;
        set
    }

    /// Devices with these speeds, in any unit; of equally fast ones those that come first are taken first. A speed that is not a
    /// positive number counts as very small.
    #[must_use]
    pub fn of(devices: impl IntoIterator<Item = (DeviceId, f64)>) -> DeviceSet {
        let sane = |speed: f64| if speed > 0.0 { speed } else { 0.0 };
        let devices = devices.into_iter().map(|(id, speed)| (id, sane(speed)));
        let mut all: Vec<_> = devices.take(MAX_DEVICES).collect();
        let fastest = all.iter().map(|d| d.1).fold(0.0, f64::max);
        all.sort_by(|x, y| y.1.total_cmp(&x.1));
        let mut set = DeviceSet::NONE;
        for (id, speed) in all {
            let relative = (speed / fastest) as f32;
            set.ids[set.len] = id;
            set.speeds[set.len] = if relative >= f32::MIN_POSITIVE {
                relative
            } else {
                f32::MIN_POSITIVE
            };
            set.len += 1;
        }
        set
    }

    /// Number of devices.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no device.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device at a position.
    #[must_use]
    pub const fn id(&self, position: usize) -> DeviceId {
        self.ids[position]
    }

    /// The devices, the fastest first.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = DeviceId> + '_ {
        self.ids[..self.len].iter().copied()
    }

    /// Where a device stands.
    #[must_use]
    pub fn position(&self, id: DeviceId) -> Option<usize> {
        self.ids().position(|known| known == id)
    }

    /// The speed of a device, in multiples of that of the first one; 1 for one that is not here.
    #[must_use]
    pub fn speed(&self, id: DeviceId) -> f64 {
        self.position(id)
            .map_or(1.0, |at| f64::from(self.speeds[at]))
    }

    /// The fastest devices of these, at most `count`.
    #[must_use]
    pub fn first(&self, count: usize) -> DeviceSet {
        DeviceSet {
            len: self.len.min(count),
            ..*self
        }
    }

    /// Whether all are equally fast.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.len == 0 || self.speeds[self.len - 1] == self.speeds[0]
    }

    /// The share of the work that the devices before a position get together.
    #[must_use]
    pub fn share_before(&self, position: usize) -> f64 {
        if self.is_equal() {
            return position as f64 / self.len.max(1) as f64;
        }
        let sum = |speeds: &[f32]| speeds.iter().copied().map(f64::from).sum::<f64>();
        sum(&self.speeds[..position.min(self.len)]) / sum(&self.speeds[..self.len])
    }

    /// The share of the work that the device at a position gets.
    #[must_use]
    pub fn share(&self, position: usize) -> f64 {
        self.share_before(position + 1) - self.share_before(position)
    }

    /// Where the part of the device at a position begins, of `len` equal elements.
    #[must_use]
    pub fn cut(&self, len: usize, position: usize) -> usize {
        match self.len {
            parts if position >= parts => len,
            // This is len * position / parts without the product, which may overflow.
            parts if self.is_equal() => len / parts * position + len % parts * position / parts,
            _ => ((len as f64 * self.share_before(position)).round() as usize).min(len),
        }
    }

    /// The most devices, the fastest ones, of which each gets at least `least` of `len` elements; one if that is less than one.
    #[must_use]
    pub fn sharers(&self, len: usize, least: usize) -> usize {
        let least = least.max(1);
        if self.is_equal() {
            return (len / least).clamp(1, self.len.max(1));
        }
        let enough = |count: &usize| {
            let slowest = self.first(*count).share(count - 1);
            len as f64 * slowest >= least as f64
        };
        (1..=self.len).rev().find(enough).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_devices_get_equal_parts() {
        let three = DeviceSet::equal(3);
        assert!(three.is_equal() && three.len() == 3 && !three.is_empty());
        assert_eq!([0, 1, 2, 3].map(|i| three.cut(10, i)), [0, 3, 6, 10]);
        assert_eq!(three.cut(usize::MAX, 3), usize::MAX);
        assert_eq!(
            [0, 5, 10, 99].map(|len| three.sharers(len, 5)),
            [1, 1, 2, 3]
        );
        assert_eq!(DeviceSet::equal(0).sharers(10, 1), 1);
        assert!(DeviceSet::NONE.is_empty() && DeviceSet::equal(1000).len() == MAX_DEVICES);
        let same = [2, 0, 1].map(|i| (DeviceId(i), 7.0));
        let ids: Vec<_> = DeviceSet::of(same).ids().collect();
        assert_eq!(ids, [2, 0, 1].map(DeviceId));
        let only = DeviceSet::only(DeviceId(5));
        assert_eq!(
            (only.len(), only.id(0), only.share(0)),
            (1, DeviceId(5), 1.0)
        );
    }

    #[test]
    fn faster_devices_come_first_and_get_more() {
        let set = DeviceSet::of([(DeviceId(0), 1.0), (DeviceId(1), 4.0), (DeviceId(2), 3.0)]);
        assert!(!set.is_equal());
        assert_eq!(set.ids().collect::<Vec<_>>(), [1, 2, 0].map(DeviceId));
        assert_eq!([0, 1, 2, 3].map(|i| set.cut(80, i)), [0, 40, 70, 80]);
        assert_eq!(set.share(2), 0.125);
        assert_eq!(
            (set.speed(DeviceId(2)), set.speed(DeviceId(9))),
            (0.75, 1.0)
        );
        assert_eq!(
            (set.position(DeviceId(0)), set.position(DeviceId(3))),
            (Some(2), None)
        );
        assert_eq!(set.first(2).cut(70, 1), 40);
        // Of 79 elements the slowest of three gets fewer than ten.
        assert_eq!(
            [80, 79, 20, 1].map(|len| set.sharers(len, 10)),
            [3, 2, 1, 1]
        );
        // Nonsense is a device that is hardly used.
        let odd = DeviceSet::of([(DeviceId(0), f64::NAN), (DeviceId(1), 1.0)]);
        assert_eq!(odd.len(), 2);
        assert!((0..2).all(|i| odd.share(i).is_finite()));
        assert_eq!(odd.cut(100, 2), 100);
    }
}
