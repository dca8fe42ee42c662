//! Counters of each device: what it did, and why calls left it out.

use std::collections::BTreeMap;

use super::reasons::LeftOut;
use super::table::Counter;
use super::text::Text;

/// When the operations of a device run on the machine that is modelled (`SEMCACHE_SIM=virtual`), in nanoseconds.
#[derive(Debug)]
pub struct InVirtualTime {
    /// The times of its kernels together.
    pub kernels_ns: Counter,
    /// Of copies from the host.
    pub uploads_ns: Counter,
    /// Of copies to the host.
    pub write_backs_ns: Counter,
    /// Of copies from other devices.
    pub peers_ns: Counter,
    /// When the last of its operations is complete.
    pub end_ns: Counter,
}

impl InVirtualTime {
    const fn new() -> InVirtualTime {
        InVirtualTime {
            kernels_ns: Counter::new(),
            uploads_ns: Counter::new(),
            write_backs_ns: Counter::new(),
            peers_ns: Counter::new(),
            end_ns: Counter::new(),
        }
    }

    /// The numbers, in the order of the fields.
    #[must_use]
    pub fn all(&self) -> [&Counter; 5] {
        let InVirtualTime {
            kernels_ns,
            uploads_ns,
            write_backs_ns,
            peers_ns,
            end_ns,
        } = self;
        [kernels_ns, uploads_ns, write_backs_ns, peers_ns, end_ns]
    }
}

/// What one device is, and what it did.
#[derive(Debug)]
pub struct OnDevice {
    /// The GPU's product name, or `simN` for simulated device N; empty if the process has no such device.
    pub name: Text<12>,
    /// `sim` or `cuda`.
    pub kind: Text<1>,
    /// Bytes of its memory that the process may use.
    pub memory: Counter,
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
    /// Multiply-adds of the timed kernels that tell the device's pace.
    pub sampled_work: Counter,
    /// Nanoseconds that these kernels took.
    pub sampled_ns: Counter,
    /// What that took in virtual time.
    pub in_virtual_time: InVirtualTime,
    left_out: [Counter; LeftOut::ALL.len()],
}

impl OnDevice {
    pub(super) const fn new() -> OnDevice {
        OnDevice {
            name: Text::new(),
            kind: Text::new(),
            memory: Counter::new(),
            calls: Counter::new(),
            tasks: Counter::new(),
            h2d: Counter::new(),
            d2h: Counter::new(),
            p2p: Counter::new(),
            sampled_work: Counter::new(),
            sampled_ns: Counter::new(),
            in_virtual_time: InVirtualTime::new(),
            left_out: [const { Counter::new() }; LeftOut::ALL.len()],
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_by_name() {
        let device = OnDevice::new();
        device.left_out(LeftOut::Slower);
        device.left_out(LeftOut::Slower);
        device.left_out(LeftOut::NoPart);
        let reasons: Vec<_> = device.reasons().into_iter().collect();
        assert_eq!(
            reasons,
            [("no_part".to_owned(), 1), ("slower".to_owned(), 2)]
        );
        let names: Vec<_> = LeftOut::ALL.iter().map(|why| why.name()).collect();
        assert_eq!(names, ["starting", "slower", "no_part"]);
    }
}
