//! The messages of Perfetto's trace format that semcache writes and reads: a subset of `perfetto_trace.proto` of the
//! Perfetto project, with its field numbers. A file is one [`Trace`], which may be cut off after any packet.

use prost::{Enumeration, Message};

/// A trace: two traces one after the other in a file are one.
#[derive(Clone, PartialEq, Message)]
pub struct Trace {
    /// The packets, in any order of time.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

/// One packet.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    /// Readings of several clocks at one moment.
    #[prost(message, optional, tag = "6")]
    pub clock_snapshot: Option<ClockSnapshot>,
    /// When, by the clock that the sequence names.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// The sequence of packets that share interned names.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// An event of a track.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    /// Names that this packet and later ones use by number.
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    /// [`CLEARED`] and [`NEEDED`].
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// What holds for all later packets of the sequence.
    #[prost(message, optional, tag = "59")]
    pub trace_packet_defaults: Option<TracePacketDefaults>,
    /// A new track.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
}

/// Sequence flag: the names of earlier packets are forgotten.
pub const CLEARED: u32 = 1;
/// Sequence flag: the packet uses names of earlier packets.
pub const NEEDED: u32 = 2;
/// Clock of the host that does not jump.
pub const MONOTONIC: u32 = 3;
/// As [`MONOTONIC`], and counts the time in which the machine sleeps. Perfetto shows this clock.
pub const BOOTTIME: u32 = 6;

/// See [`TracePacket::trace_packet_defaults`].
#[derive(Clone, PartialEq, Message)]
pub struct TracePacketDefaults {
    /// The clock of the timestamps.
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
}

/// See [`TracePacket::clock_snapshot`].
#[derive(Clone, PartialEq, Message)]
pub struct ClockSnapshot {
    /// The readings.
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<Clock>,
}

/// The reading of one clock.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Clock {
    /// Which clock.
    #[prost(uint32, optional, tag = "1")]
    pub clock_id: Option<u32>,
    /// Its reading in nanoseconds.
    #[prost(uint64, optional, tag = "2")]
    pub timestamp: Option<u64>,
}

/// Names by number.
#[derive(Clone, PartialEq, Message)]
pub struct InternedData {
    /// Names of categories.
    #[prost(message, repeated, tag = "1")]
    pub event_categories: Vec<Interned>,
    /// Names of events.
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<Interned>,
    /// Names of annotations.
    #[prost(message, repeated, tag = "3")]
    pub debug_annotation_names: Vec<Interned>,
    /// Values of annotations.
    #[prost(message, repeated, tag = "29")]
    pub debug_annotation_string_values: Vec<Interned>,
}

/// A name and its number.
#[derive(Clone, PartialEq, Message)]
pub struct Interned {
    /// The number, from 1.
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    /// The name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}

/// What an event is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Enumeration)]
#[repr(i32)]
pub enum Type {
    /// None of the others.
    Unspecified = 0,
    /// A slice of time begins.
    Begin = 1,
    /// The slice of the track that began last ends.
    End = 2,
    /// A moment.
    Instant = 3,
    /// The value of a counter's track from now on.
    Counter = 4,
}

/// An event of a track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    /// Numbers of its categories.
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub category_iids: Vec<u64>,
    /// Named values.
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    /// What it is.
    #[prost(enumeration = "Type", optional, tag = "9")]
    pub r#type: Option<i32>,
    /// Number of its name.
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    /// The track.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    /// The value of a counter.
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
    /// Events with a common number are connected by arrows.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
}

/// A named value.
#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    /// Number of its name.
    #[prost(uint64, optional, tag = "1")]
    pub name_iid: Option<u64>,
    /// A truth value.
    #[prost(bool, optional, tag = "2")]
    pub bool_value: Option<bool>,
    /// A whole number.
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    /// A number.
    #[prost(double, optional, tag = "5")]
    pub double_value: Option<f64>,
    /// An address.
    #[prost(uint64, optional, tag = "7")]
    pub pointer_value: Option<u64>,
    /// Its name, where it is not interned.
    #[prost(string, optional, tag = "10")]
    pub name: Option<String>,
    /// Number of a text.
    #[prost(uint64, optional, tag = "17")]
    pub string_value_iid: Option<u64>,
}

/// A track: a row of the picture.
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    /// Its number.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// Its name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// The process, if the track is a process's.
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    /// The thread, if the track is a thread's.
    #[prost(message, optional, tag = "4")]
    pub thread: Option<ThreadDescriptor>,
    /// The track under which it is shown.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    /// The counter, if the track is the curve of one.
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
}

/// A counter.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct CounterDescriptor {
    /// What it counts: [`BYTES`].
    #[prost(int32, optional, tag = "3")]
    pub unit: Option<i32>,
}

/// The unit of a counter of bytes.
pub const BYTES: i32 = 3;

/// A process.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessDescriptor {
    /// Its id.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Its name.
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
}

/// A thread.
#[derive(Clone, PartialEq, Message)]
pub struct ThreadDescriptor {
    /// Id of its process.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Its id.
    #[prost(int32, optional, tag = "2")]
    pub tid: Option<i32>,
    /// Its name.
    #[prost(string, optional, tag = "5")]
    pub thread_name: Option<String>,
}
