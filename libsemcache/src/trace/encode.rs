//! Events as packets of Perfetto's format. A call, a wait and a page lock are slices of the thread that made them, a
//! fault is one of the thread that served it; an operation of a device is a slice of the device's lane, made of two events, [`Event::Queued`] and
//! [`Event::Ran`], which come in either order.

use std::collections::{BTreeMap, HashMap, HashSet};

use prost::Message as _;
use rustix::time::ClockId;

use super::clock::read;
use super::event::{Event, OpId, Side, What};
use super::perfetto::{
    BOOTTIME, BYTES, CLEARED, Clock, ClockSnapshot, CounterDescriptor, DebugAnnotation, Interned,
    InternedData, MONOTONIC, NEEDED, ProcessDescriptor, ThreadDescriptor, Trace, TracePacket,
    TracePacketDefaults, TrackDescriptor, TrackEvent, Type,
};
use super::tally::Tally;
use super::tracks::{MEMORY, Track, lane_name};

/// The number of the one sequence of packets of a file.
const SEQUENCE: u32 = 1;

/// The most operations of which one half waits for the other.
const MOST: usize = 1 << 20;

/// Names by number, and those that no packet has told yet.
#[derive(Debug, Default)]
struct Names {
    known: HashMap<&'static str, u64>,
    new: Vec<Interned>,
}

impl Names {
    fn of(&mut self, name: &'static str) -> u64 {
        let next = self.known.len() as u64 + 1;
        *self.known.entry(name).or_insert_with(|| {
            self.new.push(Interned {
                iid: Some(next),
                name: Some(name.into()),
            });
            next
        })
    }
}

/// A value of an annotation.
#[derive(Clone, Copy, Debug)]
enum Value {
    Number(u64),
    Real(f64),
    Text(&'static str),
    Truth(bool),
    Address(u64),
}

/// A slice or a moment, before it is encoded.
#[derive(Debug)]
struct Shown<'a> {
    track: Track,
    category: &'static str,
    name: &'static str,
    from: u64,
    /// The end of a slice; `None` for a moment.
    to: Option<u64>,
    /// The call or fault to which it belongs.
    cause: u64,
    values: &'a [(&'static str, Value)],
}

/// An operation that was queued.
#[derive(Clone, Copy, Debug)]
struct Queued {
    at: u64,
    took: u32,
    cause: u64,
    what: What,
    amount: u64,
    after: [OpId; 3],
}

/// Makes packets of events.
#[derive(Debug)]
pub(super) struct Encoder {
    pid: u32,
    process: String,
    devices: BTreeMap<u8, String>,
    threads: HashMap<u32, String>,
    names: Names,
    categories: Names,
    keys: Names,
    texts: Names,
    /// The tracks that a packet of the current part has described.
    described: HashSet<Track>,
    packets: Vec<TracePacket>,
    /// What the packets that were not taken yet show.
    shown: Tally,
    queued: HashMap<OpId, Queued>,
    ran: HashMap<OpId, (u64, u64)>,
}

impl Encoder {
    pub(super) fn new(pid: u32, process: String) -> Encoder {
        let mut encoder = Encoder {
            pid,
            process,
            devices: BTreeMap::new(),
            threads: HashMap::new(),
            names: Names::default(),
            categories: Names::default(),
            keys: Names::default(),
            texts: Names::default(),
            described: HashSet::new(),
            packets: Vec::new(),
            shown: Tally::default(),
            queued: HashMap::new(),
            ran: HashMap::new(),
        };
        encoder.begin();
        encoder
    }

    /// The packets that come first: they reset the names and set the clock.
    fn begin(&mut self) {
        self.packets.push(TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(CLEARED),
            trace_packet_defaults: Some(TracePacketDefaults {
                timestamp_clock_id: Some(MONOTONIC),
            }),
            ..TracePacket::default()
        });
        let clock = |id, of| Clock {
            clock_id: Some(id),
            timestamp: Some(read(of)),
        };
        self.packets.push(TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            clock_snapshot: Some(ClockSnapshot {
                clocks: vec![
                    clock(MONOTONIC, ClockId::Monotonic),
                    clock(BOOTTIME, ClockId::Boottime),
                ],
            }),
            ..TracePacket::default()
        });
    }

    /// Names a device.
    pub(super) fn device(&mut self, id: u8, name: String) {
        self.devices.insert(id, name);
    }

    /// The number of packets that were not taken yet.
    pub(super) fn waiting(&self) -> usize {
        self.packets.len()
    }

    /// The bytes of the packets since the last time, and what they show.
    pub(super) fn take(&mut self) -> (Vec<u8>, Tally) {
        let trace = Trace {
            packet: std::mem::take(&mut self.packets),
        };
        (trace.encode_to_vec(), std::mem::take(&mut self.shown))
    }

    /// The bytes that were taken last did not reach the file, so all names and tracks are told again.
    pub(super) fn again(&mut self) {
        for names in [
            &mut self.names,
            &mut self.categories,
            &mut self.keys,
            &mut self.texts,
        ] {
            *names = Names::default();
        }
        self.described.clear();
        let later = std::mem::take(&mut self.packets);
        debug_assert!(later.is_empty(), "told again between two batches");
        self.begin();
    }

    /// Adds an event that thread `tid` recorded.
    pub(super) fn add(&mut self, tid: u32, event: &Event) {
        use Value::{Address, Number, Real, Text, Truth};
        let thread = Track::Thread(tid);
        match *event {
            Event::Thread { tid, name } => {
                let name = name.split(|b| *b == 0).next().unwrap_or_default();
                let name = String::from_utf8_lossy(name).into_owned();
                self.threads.insert(tid, name);
            }
            Event::Queued {
                at,
                took,
                op,
                cause,
                what,
                amount,
                after,
            } => {
                let queued = Queued {
                    at,
                    took,
                    cause,
                    what,
                    amount,
                    after,
                };
                match self.ran.remove(&op) {
                    Some(span) => self.operation(op, &queued, Some(span)),
                    None => drop(self.queued.insert(op, queued)),
                }
            }
            Event::Ran { op, span } => match self.queued.remove(&op) {
                Some(queued) => self.operation(op, &queued, Some(span)),
                None => drop(self.ran.insert(op, span)),
            },
            Event::Call {
                id,
                span,
                name,
                sizes: [m, n, k],
                side,
            } => {
                let (ran, why) = match side {
                    Side::Devices => ("devices", ""),
                    Side::Replayed => ("replayed", ""),
                    Side::Host(why) => ("host", why.name()),
                };
                let values = [
                    ("side", Text(ran)),
                    ("m", Number(m.into())),
                    ("n", Number(n.into())),
                    ("k", Number(k.into())),
                    ("why", Text(why)),
                ];
                let values = &values[..if why.is_empty() { 4 } else { 5 }];
                self.slice(thread, "call", name, span, id, values);
            }
            Event::Decision {
                at,
                cause,
                seconds: (host, device),
                beyond,
                devices,
                probe,
            } => {
                let values = [
                    ("host_us", Real(f64::from(host) * 1e6)),
                    ("devices_us", Real(f64::from(device) * 1e6)),
                    ("beyond_us", Real(f64::from(beyond) * 1e6)),
                    ("devices", Truth(devices)),
                    ("probe", Truth(probe)),
                ];
                self.moment(thread, "call", "decision", at, cause, &values);
            }
            Event::Wait { span, op, cause } => {
                let values = [
                    ("device", Number(op.device().into())),
                    ("lane", Text(lane_name(op.lane()))),
                    ("seq", Number(op.seq())),
                ];
                self.slice(thread, "wait", "wait", span, cause, &values);
            }
            Event::HostPart { span, cause } => {
                self.slice(thread, "host", "host's part", span, cause, &[]);
            }
            Event::Fault {
                id,
                span,
                addr,
                write,
                tid,
            } => {
                let name = if write { "store fault" } else { "load fault" };
                let values = [("addr", Address(addr)), ("tid", Number(tid.into()))];
                self.slice(thread, "fault", name, span, id, &values);
            }
            Event::Evict {
                at,
                device,
                bytes,
                cause,
            } => {
                let track = Track::Device(device.0);
                let values = [("bytes", Number(bytes))];
                self.moment(track, "memory", "evict", at, cause, &values);
            }
            Event::Memory { at, device, bytes } => self.counter(Track::Memory(device.0), at, bytes),
            Event::Pin { span, bytes, done } => {
                let values = [("bytes", Number(bytes)), ("done", Truth(done))];
                self.slice(thread, "memory", "pin", span, 0, &values);
            }
            Event::Unpin { span, bytes } => {
                let values = [("bytes", Number(bytes))];
                self.slice(thread, "memory", "unpin", span, 0, &values);
            }
            Event::Range { span, name } => self.slice(thread, "program", name, span, 0, &[]),
            Event::Named {
                at,
                name,
                addr,
                bytes,
            } => {
                let values = [("addr", Address(addr)), ("bytes", Number(bytes))];
                self.moment(thread, "program", name, at, 0, &values);
            }
            Event::Start { span, step } => self.slice(thread, "start", step, span, 0, &[]),
        }
        if self.queued.len() > MOST || self.ran.len() > MOST {
            // Other halves that have not come by now never will: they were dropped, or the operations were not timed.
            self.unfinished();
            self.ran.clear();
        }
        if !matches!(event, Event::Queued { .. } | Event::Thread { .. }) {
            self.shown.add(event.kind());
        }
    }

    /// An operation of a device. Without times (it never ran, or was not timed) it is shown as the moment at which it was
    /// queued.
    fn operation(&mut self, op: OpId, queued: &Queued, ran: Option<(u64, u64)>) {
        use Value::{Number, Text};
        let Queued {
            at,
            took,
            cause,
            what,
            amount,
            after,
        } = *queued;
        let (category, name) = match what {
            What::Upload => ("copy", "upload"),
            What::Download => ("copy", "download"),
            What::Peer(_) => ("copy", "peer"),
            What::Within => ("copy", "within"),
            What::Kernel(name) => ("kernel", name),
        };
        let amount = match what {
            What::Kernel(_) => ("work", Number(amount)),
            _ => ("bytes", Number(amount)),
        };
        let mut values = vec![("seq", Number(op.seq())), amount];
        if ran.is_some() {
            values.extend([
                ("queued_ns", Number(at)),
                ("queueing_ns", Number(took.into())),
            ]);
        }
        if let What::Peer(from) = what {
            values.push(("from", Number(from.0.into())));
        }
        const AFTER: [[&str; 3]; 3] = [
            ["after_device", "after_lane", "after_seq"],
            ["after2_device", "after2_lane", "after2_seq"],
            ["after3_device", "after3_lane", "after3_seq"],
        ];
        for (earlier, [device, lane, seq]) in after.into_iter().zip(AFTER) {
            if earlier != OpId::default() {
                values.extend([
                    (device, Number(earlier.device().into())),
                    (lane, Text(lane_name(earlier.lane()))),
                    (seq, Number(earlier.seq())),
                ]);
            }
        }
        let track = Track::Lane(op.device(), op.lane());
        match ran {
            Some((from, to)) => {
                // An operation may begin at the moment at which the one before it ends. The last nanosecond is left
                // out, so that the order of the two in the file does not matter.
                let span = (from, to.saturating_sub(1).max(from));
                self.slice(track, category, name, span, cause, &values);
            }
            None => self.moment(track, category, name, at, cause, &values),
        }
        let event = Event::Queued {
            at,
            took,
            op,
            cause,
            what,
            amount: queued.amount,
            after,
        };
        self.shown.add(event.kind());
    }

    /// Shows the operations whose times never came.
    pub(super) fn unfinished(&mut self) {
        let rest: BTreeMap<OpId, Queued> = self.queued.drain().collect();
        for (op, queued) in rest {
            self.operation(op, &queued, None);
        }
    }

    /// Adds the summary: named numbers.
    pub(super) fn summary(&mut self, at: u64, numbers: &[(String, u64)]) {
        self.moment(Track::Process, "summary", "summary", at, 0, &[]);
        let last = self.packets.last_mut();
        if let Some(event) = last.and_then(|p| p.track_event.as_mut()) {
            let number = |(name, n): &(String, u64)| DebugAnnotation {
                name: Some(name.clone()),
                uint_value: Some(*n),
                ..DebugAnnotation::default()
            };
            event.debug_annotations = numbers.iter().map(number).collect();
        }
    }

    fn slice(
        &mut self,
        track: Track,
        category: &'static str,
        name: &'static str,
        (from, to): (u64, u64),
        cause: u64,
        values: &[(&'static str, Value)],
    ) {
        self.packet(Shown {
            track,
            category,
            name,
            from,
            to: Some(to.max(from)),
            cause,
            values,
        });
    }

    fn moment(
        &mut self,
        track: Track,
        category: &'static str,
        name: &'static str,
        at: u64,
        cause: u64,
        values: &[(&'static str, Value)],
    ) {
        self.packet(Shown {
            track,
            category,
            name,
            from: at,
            to: None,
            cause,
            values,
        });
    }

    fn packet(&mut self, shown: Shown<'_>) {
        let track_uuid = Some(self.track(shown.track));
        let cause = (shown.cause != 0).then_some(("cause", Value::Number(shown.cause)));
        let values = shown.values.iter().copied().chain(cause);
        let debug_annotations = values.map(|(key, value)| self.annotation(key, value));
        let debug_annotations = debug_annotations.collect();
        let event = TrackEvent {
            category_iids: vec![self.categories.of(shown.category)],
            debug_annotations,
            r#type: Some(match shown.to {
                Some(_) => Type::Begin.into(),
                None => Type::Instant.into(),
            }),
            name_iid: Some(self.names.of(shown.name)),
            track_uuid,
            counter_value: None,
            flow_ids: (shown.cause != 0 && shown.to.is_some())
                .then_some(shown.cause)
                .into_iter()
                .collect(),
        };
        let interned = InternedData {
            event_categories: std::mem::take(&mut self.categories.new),
            event_names: std::mem::take(&mut self.names.new),
            debug_annotation_names: std::mem::take(&mut self.keys.new),
            debug_annotation_string_values: std::mem::take(&mut self.texts.new),
        };
        self.event(
            shown.from,
            event,
            (interned != InternedData::default()).then_some(interned),
        );
        if let Some(to) = shown.to {
            let end = TrackEvent {
                r#type: Some(Type::End.into()),
                track_uuid,
                ..TrackEvent::default()
            };
            self.event(to, end, None);
        }
    }

    /// The value that a counter has from this moment.
    fn counter(&mut self, track: Track, at: u64, value: u64) {
        let event = TrackEvent {
            r#type: Some(Type::Counter.into()),
            track_uuid: Some(self.track(track)),
            counter_value: i64::try_from(value).ok(),
            ..TrackEvent::default()
        };
        self.event(at, event, None);
    }

    fn event(&mut self, at: u64, event: TrackEvent, interned_data: Option<InternedData>) {
        self.packets.push(TracePacket {
            timestamp: Some(at),
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(NEEDED),
            track_event: Some(event),
            interned_data,
            ..TracePacket::default()
        });
    }

    fn annotation(&mut self, key: &'static str, value: Value) -> DebugAnnotation {
        let mut a = DebugAnnotation {
            name_iid: Some(self.keys.of(key)),
            ..DebugAnnotation::default()
        };
        match value {
            Value::Number(n) => a.uint_value = Some(n),
            Value::Real(x) => a.double_value = Some(x),
            Value::Text(text) => a.string_value_iid = Some(self.texts.of(text)),
            Value::Truth(yes) => a.bool_value = Some(yes),
            Value::Address(addr) => a.pointer_value = Some(addr),
        }
        a
    }

    /// The number of a track; told in a packet of its own the first time.
    fn track(&mut self, track: Track) -> u64 {
        let uuid = (u64::from(self.pid) << 32) + track.number();
        if !self.described.insert(track) {
            return uuid;
        }
        let parent = match track {
            Track::Process => None,
            Track::Thread(_) | Track::Device(_) => Some(self.track(Track::Process)),
            Track::Lane(device, _) | Track::Memory(device) => {
                Some(self.track(Track::Device(device)))
            }
        };
        let pid = i32::try_from(self.pid).ok();
        let mut descriptor = TrackDescriptor {
            uuid: Some(uuid),
            parent_uuid: parent,
            ..TrackDescriptor::default()
        };
        match track {
            Track::Process => {
                descriptor.process = Some(ProcessDescriptor {
                    pid,
                    process_name: Some(self.process.clone()),
                });
            }
            Track::Thread(tid) => {
                descriptor.thread = Some(ThreadDescriptor {
                    pid,
                    tid: i32::try_from(tid).ok(),
                    thread_name: self.threads.get(&tid).cloned(),
                });
            }
            Track::Device(id) => {
                let name = self.devices.get(&id).cloned().unwrap_or_default();
                descriptor.name = Some(format!("device {id} {name}").trim_end().to_owned());
            }
            Track::Lane(_, lane) => {
                descriptor.name = Some(lane_name(lane).into());
            }
            Track::Memory(_) => {
                descriptor.name = Some(MEMORY.into());
                descriptor.counter = Some(CounterDescriptor { unit: Some(BYTES) });
            }
        }
        self.packets.push(TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_descriptor: Some(descriptor),
            ..TracePacket::default()
        });
        uuid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::DeviceId;
    use crate::base::counters::WhyHost;

    fn op(seq: u64) -> OpId {
        OpId::new(DeviceId(1), 2, seq)
    }

    fn queued(seq: u64, at: u64) -> Event {
        Event::Queued {
            at,
            took: 7,
            op: op(seq),
            cause: 9,
            what: What::Kernel("dgemm"),
            amount: 64,
            after: [
                OpId::new(DeviceId(1), 0, 3),
                OpId::default(),
                OpId::default(),
            ],
        }
    }

    fn ran(seq: u64, span: (u64, u64)) -> Event {
        Event::Ran { op: op(seq), span }
    }

    fn call(span: (u64, u64)) -> Event {
        Event::Call {
            id: 9,
            span,
            name: "dgemm",
            sizes: [4, 5, 6],
            side: Side::Host(WhyHost::Small),
        }
    }

    /// The packets since the last time, and their track events with times.
    fn taken(encoder: &mut Encoder) -> (Vec<TracePacket>, Vec<(u64, i32, u64)>, Tally) {
        let (bytes, shown) = encoder.take();
        let packets = Trace::decode(bytes.as_slice()).expect("a trace").packet;
        let event = |p: &TracePacket| {
            let e = p.track_event.as_ref()?;
            Some((p.timestamp?, e.r#type?, e.track_uuid?))
        };
        let events = packets.iter().filter_map(event).collect();
        (packets, events, shown)
    }

    #[test]
    fn an_operation_is_shown_once_both_of_its_events_are_there() {
        for turned in [false, true] {
            let mut encoder = Encoder::new(7, "program".into());
            let mut both = [queued(1, 100), ran(1, (110, 120))];
            if turned {
                both.reverse();
            }
            encoder.add(5, &both[0]);
            assert!(taken(&mut encoder).1.is_empty());
            encoder.add(5, &both[1]);
            let (_, events, _) = taken(&mut encoder);
            let (begin, end) = (Type::Begin.into(), Type::End.into());
            let times: Vec<_> = events.iter().map(|(at, what, _)| (*at, *what)).collect();
            assert_eq!(times, [(110, begin), (119, end)]);
            encoder.unfinished();
            assert!(taken(&mut encoder).1.is_empty());
        }
    }

    #[test]
    fn the_memory_in_use_is_a_counter_of_its_device() {
        let mut encoder = Encoder::new(7, "program".into());
        let device = DeviceId(3);
        for (at, bytes) in [(10, 4096), (20, 0)] {
            encoder.add(5, &Event::Memory { at, device, bytes });
        }
        let (packets, events, _) = taken(&mut encoder);
        let tracks: Vec<_> = packets
            .iter()
            .filter_map(|p| p.track_descriptor.as_ref())
            .collect();
        let track = *tracks
            .iter()
            .find(|t| t.counter.is_some())
            .expect("a counter");
        let parent = tracks
            .iter()
            .find(|t| t.uuid == track.parent_uuid)
            .expect("a device");
        assert_eq!(
            (track.name.as_deref(), parent.name.as_deref()),
            (Some(MEMORY), Some("device 3"))
        );
        let (counter, uuid) = (Type::Counter.into(), track.uuid.expect("a number"));
        assert_eq!(events, [(10, counter, uuid), (20, counter, uuid)]);
        let values = packets
            .iter()
            .filter_map(|p| p.track_event.as_ref()?.counter_value);
        assert_eq!(values.collect::<Vec<_>>(), [4096, 0]);
    }

    #[test]
    fn an_operation_without_times_is_a_moment() {
        let mut encoder = Encoder::new(7, "program".into());
        encoder.add(5, &queued(1, 100));
        encoder.unfinished();
        let (_, events, shown) = taken(&mut encoder);
        assert_eq!(events.len(), 1);
        assert_eq!((events[0].0, events[0].1), (100, Type::Instant.into()));
        let kernels = shown.iter().find(|(name, _)| *name == "kernel");
        assert_eq!(kernels, Some(("kernel", (1, 0))));
    }

    /// Names and tracks of one batch of packets.
    fn told(packets: &[TracePacket]) -> (Vec<String>, Vec<u64>) {
        let names = packets.iter().filter_map(|p| p.interned_data.as_ref());
        let names = names.flat_map(|d| d.event_names.iter().filter_map(|n| n.name.clone()));
        let tracks = packets
            .iter()
            .filter_map(|p| p.track_descriptor.as_ref()?.uuid);
        (names.collect(), tracks.collect())
    }

    #[test]
    fn names_and_tracks_are_told_once_and_again_after_a_loss() {
        let mut encoder = Encoder::new(7, "program".into());
        encoder.add(5, &call((1, 2)));
        let first = told(&taken(&mut encoder).0);
        assert_eq!((first.0.len(), first.1.len()), (1, 2));
        encoder.add(5, &call((3, 4)));
        assert_eq!(told(&taken(&mut encoder).0), (vec![], vec![]));
        encoder.again();
        encoder.add(5, &call((5, 6)));
        let (packets, ..) = taken(&mut encoder);
        assert_eq!(told(&packets), first);
        assert_eq!(packets[0].sequence_flags, Some(CLEARED));
    }
}
