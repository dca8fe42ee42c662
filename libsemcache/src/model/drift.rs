//! Drift: whether devices keep the pace, compared with each other, by which work is divided among them.
//!
//! Two things tell: sampled kernels, one in 256 of each device, of which large products in double precision count, and calls that
//! are issued in a window, which time all of their tasks. The newer one counts.

use crate::base::{DeviceId, DeviceSet};

/// By more than this share devices differ in pace, and not only in the measurement of it.
const SHARE: f64 = 0.1;
/// Nanoseconds of sampled kernels of each device that are enough for a comparison.
const ENOUGH_NS: u64 = 2_000_000;

/// By which share the slowest of these paces, seconds for the same work, is longer than the fastest; zero if there are fewer than two.
pub(super) fn apart(paces: impl Iterator<Item = f64>) -> f64 {
    let (least, most) = paces.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), pace| {
        (least.min(pace), most.max(pace))
    });
    if most > least {
        most / least - 1.0
    } else {
        0.0
    }
}

/// What is known of the devices' paces.
#[derive(Clone, Debug, Default)]
pub struct Drift {
    /// By which share the paces of devices lay apart.
    apart: f64,
    /// Of each device, the work and the nanoseconds of the samples that were compared.
    compared: Vec<(u64, u64)>,
}

impl Drift {
    /// Whether these devices drift apart. `sampled` tells the work and the nanoseconds of all sampled kernels of a device so far.
    pub fn is_seen(
        &mut self,
        devices: &DeviceSet,
        sampled: &dyn Fn(DeviceId) -> (u64, u64),
    ) -> bool {
        let new = |id: DeviceId| {
            let (work, ns) = sampled(id);
            let before = self.compared.get(id.index()).copied().unwrap_or_default();
            (work.saturating_sub(before.0), ns.saturating_sub(before.1))
        };
        if devices.ids().all(|id| new(id).1 >= ENOUGH_NS) {
            // How much longer than planned each takes for its work, in any unit.
            let pace = |id| new(id).1 as f64 * devices.speed(id) / new(id).0.max(1) as f64;
            self.apart = apart(devices.ids().map(pace));
            for id in devices.ids() {
                let count = self.compared.len().max(id.index() + 1);
                self.compared.resize(count, (0, 0));
                self.compared[id.index()] = sampled(id);
            }
        }
        self.apart > SHARE
    }

    /// A call that was issued in a window found the paces of its devices to lie apart by this share.
    pub fn found(&mut self, apart: f64) {
        self.apart = apart;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The work and the nanoseconds of the samples of two devices.
    fn of_each(samples: [(u64, u64); 2]) -> impl Fn(DeviceId) -> (u64, u64) {
        move |id| samples[id.index()]
    }

    #[test]
    fn the_newer_measurement_counts() {
        let two = DeviceSet::equal(2);
        let mut drift = Drift::default();
        assert!(!drift.is_seen(&two, &|_| (0, 0)));
        // Too little is known of the second device.
        let first = of_each([(100, 3_000_000), (50, 1_000_000)]);
        assert!(!drift.is_seen(&two, &first));
        let second = of_each([(100, 3_000_000), (100, 3_600_000)]);
        assert!(drift.is_seen(&two, &second));
        // Nothing new.
        assert!(drift.is_seen(&two, &second));
        drift.found(0.02);
        assert!(!drift.is_seen(&two, &second));
        let third = of_each([(200, 6_000_000), (200, 6_600_000)]);
        assert!(!drift.is_seen(&two, &third));
        drift.found(0.5);
        assert!(drift.is_seen(&two, &third));
    }

    #[test]
    fn planned_differences_are_no_drift() {
        let set = DeviceSet::of([(DeviceId(0), 4.0), (DeviceId(1), 1.0)]);
        let mut drift = Drift::default();
        let as_planned = of_each([(400, 3_000_000), (100, 3_000_000)]);
        assert!(!drift.is_seen(&set, &as_planned));
        let equal = |_| (1000, 9_000_000);
        assert!(drift.is_seen(&set, &equal));
    }
}
