//! All counters of a process, in one structure of atomics that fills whole pages: another process can map it and read it at any
//! time, also after this process was killed (`runtime::counted`).

use super::calls::CallTable;
use super::devices::OnDevice;
use super::matrices::MatrixTable;
use super::objects::ObjectTable;
use super::reasons::{Degraded, DegradedSet, WhyHost};
use super::sites::{self, SiteTable};
use super::table::{Counter, Counters};
use super::text::Text;
use super::times::{Quick, TimeTable};
use crate::base::DeviceId;
use crate::base::ids::MAX_DEVICES;

/// Which process it is.
#[derive(Debug)]
#[repr(C)]
pub struct Identity {
    /// Its id; 0: no process counts here.
    pub pid: Counter,
    /// The id of its parent when it began to count.
    pub parent: Counter,
    /// When it began to count: the time since the machine started, in nanoseconds.
    pub begun_ns: Counter,
    /// When it had written its last count, likewise; 0 before.
    pub ended_ns: Counter,
    /// Its rank among those that an MPI launcher has started on this machine, plus 1; 0 for no rank.
    pub rank: Counter,
    /// Its command line, arguments separated by spaces.
    pub command: Text<32>,
}

/// What a process counts.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Page {
    /// Whether the stubs pass small calls on themselves.
    pub quick: Quick,
    /// Which process it is.
    pub identity: Identity,
    /// The features that do not work as they should.
    pub degraded: DegradedSet,
    /// The plain counters.
    pub counters: Counters,
    /// Its devices.
    pub devices: [OnDevice; MAX_DEVICES],
    /// Its calls.
    pub calls: CallTable,
    /// Where it made calls and accesses that faulted.
    pub sites: SiteTable,
    /// The matrices of its calls.
    pub matrices: MatrixTable,
    /// The files of its code.
    pub objects: ObjectTable,
    /// What its calls took, by routine.
    pub times: TimeTable,
}

/// The counters of this process.
pub static PAGE: Page = Page {
    quick: Quick::new(),
    identity: Identity {
        pid: Counter::new(),
        parent: Counter::new(),
        begun_ns: Counter::new(),
        ended_ns: Counter::new(),
        rank: Counter::new(),
        command: Text::new(),
    },
    degraded: DegradedSet::new(),
    counters: Counters::NEW,
    devices: [const { OnDevice::new() }; MAX_DEVICES],
    calls: CallTable::NEW,
    sites: SiteTable::new(),
    matrices: MatrixTable::new(),
    objects: ObjectTable::new(),
    times: TimeTable::NEW,
};

/// The plain counters of this process.
pub static COUNTERS: &Counters = &PAGE.counters;

/// Counts a call that ran on devices. An index of [`MAX_ROUTINES`](super::MAX_ROUTINES) or more is not counted.
#[inline]
pub fn offloaded(routine: usize) {
    PAGE.calls.offloaded(routine);
}

/// Counts a call that ran on the host, and why. An index of [`MAX_ROUTINES`](super::MAX_ROUTINES) or more is not counted.
#[inline]
pub fn host(routine: usize, why: WhyHost) {
    PAGE.calls.host(routine, why);
}

/// Counts bytes that were copied between a device and the host memory of a block: to the device, or to the host.
pub fn moved(device: DeviceId, block: usize, to_device: u64, to_host: u64) {
    COUNTERS.bytes.h2d.add(to_device);
    COUNTERS.bytes.d2h.add(to_host);
    let device = on_device(device);
    device.h2d.add(to_device);
    device.d2h.add(to_host);
    if let Some(matrix) = PAGE.matrices.known(block) {
        matrix.h2d.add(to_device);
        matrix.d2h.add(to_host);
    }
    if let Some(site) = sites::current().and_then(|index| PAGE.sites.get(index)) {
        site.h2d.add(to_device);
        site.d2h.add(to_host);
    }
}

/// The counters of a device.
#[must_use]
pub fn on_device(device: DeviceId) -> &'static OnDevice {
    &PAGE.devices[device.index().min(MAX_DEVICES - 1)]
}

/// Marks a feature as degraded. Returns whether this is the first time, so that the caller logs it only once.
pub fn degrade(what: Degraded) -> bool {
    PAGE.degraded.add(what)
}
