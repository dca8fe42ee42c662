//! The annotations of one event.

use semcache::trace::LANES;
use semcache::trace::perfetto::DebugAnnotation;

use super::model::Name;

/// What an annotation says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Side,
    Size(usize),
    Why,
    Device,
    Lane,
    Seq,
    Amount,
    Queued,
    Queueing,
    Peer,
    AfterDevice(usize),
    AfterLane(usize),
    AfterSeq(usize),
    Cause,
    Tid,
    HostUs,
    DevicesUs,
    BeyondUs,
    Probe,
    Other,
}

impl Key {
    /// The key with this name.
    pub(super) fn of(name: &str) -> Key {
        match name {
            "side" => Key::Side,
            "m" => Key::Size(0),
            "n" => Key::Size(1),
            "k" => Key::Size(2),
            "why" => Key::Why,
            "device" => Key::Device,
            "lane" => Key::Lane,
            "seq" => Key::Seq,
            "bytes" | "work" => Key::Amount,
            "queued_ns" => Key::Queued,
            "queueing_ns" => Key::Queueing,
            "from" => Key::Peer,
            "after_device" => Key::AfterDevice(0),
            "after2_device" => Key::AfterDevice(1),
            "after3_device" => Key::AfterDevice(2),
            "after_lane" => Key::AfterLane(0),
            "after2_lane" => Key::AfterLane(1),
            "after3_lane" => Key::AfterLane(2),
            "after_seq" => Key::AfterSeq(0),
            "after2_seq" => Key::AfterSeq(1),
            "after3_seq" => Key::AfterSeq(2),
            "cause" => Key::Cause,
            "tid" => Key::Tid,
            "host_us" => Key::HostUs,
            "devices_us" => Key::DevicesUs,
            "beyond_us" => Key::BeyondUs,
            "probe" => Key::Probe,
            _ => Key::Other,
        }
    }
}

/// The annotations that an event has; a number that it has not is 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    pub(super) side: Option<Name>,
    pub(super) sizes: [u32; 3],
    pub(super) why: Option<Name>,
    pub(super) device: u8,
    pub(super) lane: u8,
    pub(super) seq: u64,
    /// Bytes, or a kernel's work.
    pub(super) amount: u64,
    pub(super) queued: u64,
    pub(super) queueing: u64,
    /// The device that a copy comes from.
    pub(super) peer: u8,
    /// Device, lane and position of the operations that this one waits for.
    pub(super) after: [(u8, u8, u64); 3],
    pub(super) cause: u64,
    /// The thread whose page fault was served.
    pub(super) tid: u32,
    pub(super) host_us: f64,
    pub(super) devices_us: f64,
    pub(super) beyond_us: f64,
    pub(super) probe: bool,
}

impl Fields {
    /// Takes a value; of a text its name and its characters.
    pub(super) fn set(
        &mut self,
        key: Option<Key>,
        value: &DebugAnnotation,
        text: Option<(Name, &str)>,
    ) {
        let number = value.uint_value.unwrap_or(0);
        let small = u8::try_from(number).unwrap_or(u8::MAX);
        let name = text.map(|t| t.0);
        let lane = || {
            let lane = text.and_then(|(_, t)| (0..).zip(LANES).find(|(_, l)| *l == t));
            lane.map_or(u8::MAX, |(place, _)| place)
        };
        match key.unwrap_or(Key::Other) {
            Key::Side => self.side = name,
            Key::Size(i) => self.sizes[i] = u32::try_from(number).unwrap_or(u32::MAX),
            Key::Why => self.why = name,
            Key::Device => self.device = small,
            Key::Lane => self.lane = lane(),
            Key::Seq => self.seq = number,
            Key::Amount => self.amount = number,
            Key::Queued => self.queued = number,
            Key::Queueing => self.queueing = number,
            Key::Peer => self.peer = small,
            Key::AfterDevice(i) => self.after[i].0 = small,
            Key::AfterLane(i) => self.after[i].1 = lane(),
            Key::AfterSeq(i) => self.after[i].2 = number,
            Key::Cause => self.cause = number,
            Key::Tid => self.tid = u32::try_from(number).unwrap_or(0),
            Key::HostUs => self.host_us = value.double_value.unwrap_or(0.0),
            Key::DevicesUs => self.devices_us = value.double_value.unwrap_or(0.0),
            Key::BeyondUs => self.beyond_us = value.double_value.unwrap_or(0.0),
            Key::Probe => self.probe = value.bool_value.unwrap_or(false),
            Key::Other => {}
        }
    }
}
