//! The tracks of a trace: rows of the picture.

/// The names of a device's lanes. Copies from peers include those within the device.
pub const LANES: [&str; 4] = ["copies in", "copies out", "kernels", "from peers"];

/// The name of the track of a device's memory in use.
pub const MEMORY: &str = "memory in use";

pub(super) fn lane_name(lane: u8) -> &'static str {
    LANES[usize::from(lane) % LANES.len()]
}

/// Where an event is shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Track {
    Process,
    Thread(u32),
    Device(u8),
    Lane(u8, u8),
    Memory(u8),
}

impl Track {
    /// A number of its own among the tracks of a process, the same in all parts of a file.
    pub(super) fn number(self) -> u64 {
        match self {
            Track::Process => 1,
            Track::Device(id) => (1 << 8) + u64::from(id),
            Track::Lane(id, lane) => (1 << 16) + (u64::from(id) << 8) + u64::from(lane),
            Track::Memory(id) => (1 << 24) + u64::from(id),
            Track::Thread(tid) => (1 << 31) + u64::from(tid),
        }
    }
}
