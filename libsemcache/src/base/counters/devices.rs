//! Counters of each device: what it did, and why calls left it out.

use std::collections::BTreeMap;

use super::table::Counter;
use crate::base::DeviceId;
use crate::base::ids::MAX_DEVICES;

/// Why a call on devices did not use a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeftOut {
    /// It could not be used yet.
    Starting,
    /// Fewer devices, or others, were predicted to be as fast.
    Slower,
    /// The call was too small to have a part for it, or is never divided.
    NoPart,
}

impl LeftOut {
    /// All reasons.
    pub const ALL: [LeftOut; 3] = [LeftOut::Starting, LeftOut::Slower, LeftOut::NoPart];

    /// What the reason means.
    #[must_use]
    pub const fn doc(self) -> &'static str {
        match self {
            LeftOut::Starting => "The device could not be used yet.",
            LeftOut::Slower => "Fewer devices, or others, were predicted to be as fast.",
            LeftOut::NoPart => {
                "The call was too small to have a part for the device, or is never divided."
            }
        }
    }

    /// The reason's key in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            LeftOut::Starting => "starting",
            LeftOut::Slower => "slower",
            LeftOut::NoPart => "no_part",
        }
    }
}

/// What one device did.
#[derive(Debug)]
pub struct OnDevice {
    /// Calls of which it ran a task.
    pub calls: Counter,
    /// Tasks.
    pub tasks: Counter,
    /// Bytes copied to it from the host.
    pub h2d: Counter,
    /// Bytes copied from it to the host.
    pub d2h: Counter,
    /// Bytes copied to it from other devices.
    pub p2p: Counter,
    left_out: [Counter; LeftOut::ALL.len()],
}

static DEVICES: [OnDevice; MAX_DEVICES] = [const {
    OnDevice {
        calls: Counter::new(),
        tasks: Counter::new(),
        h2d: Counter::new(),
        d2h: Counter::new(),
        p2p: Counter::new(),
        left_out: [const { Counter::new() }; LeftOut::ALL.len()],
    }
}; MAX_DEVICES];

/// The counters of a device.
#[must_use]
pub fn on(device: DeviceId) -> &'static OnDevice {
    &DEVICES[device.index().min(MAX_DEVICES - 1)]
}

impl OnDevice {
    /// Counts a call on other devices.
    pub fn left_out(&self, why: LeftOut) {
        self.left_out[why as usize].add(1);
    }

    /// The calls on other devices, by the name of the reason ([`LeftOut::name`]).
    #[must_use]
    pub fn reasons(&self) -> BTreeMap<String, u64> {
        let all = LeftOut::ALL.iter().zip(&self.left_out);
        let counted = all.filter(|(_, n)| n.get() > 0);
        counted
            .map(|(why, n)| (why.name().to_owned(), n.get()))
            .collect()
    }
}

pub(super) fn reset() {
    for d in &DEVICES {
        let OnDevice {
            calls,
            tasks,
            h2d,
            d2h,
            p2p,
            left_out,
        } = d;
        for n in [calls, tasks, h2d, d2h, p2p].into_iter().chain(left_out) {
            n.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_by_name() {
        // No test uses that many devices.
        let device = on(DeviceId(60));
        device.left_out(LeftOut::Slower);
        device.left_out(LeftOut::Slower);
        device.left_out(LeftOut::NoPart);
        let reasons: Vec<_> = device.reasons().into_iter().collect();
        assert_eq!(
            reasons,
            [("no_part".to_owned(), 1), ("slower".to_owned(), 2)]
        );
        let names = LeftOut::ALL.map(LeftOut::name);
        assert_eq!(names, ["starting", "slower", "no_part"]);
    }
}
