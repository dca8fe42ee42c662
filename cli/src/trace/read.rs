//! Reads a trace from the bytes of its file, which come in pieces of any size.
//!
//! A slice of a track is a packet that begins it and a packet that ends it. The library writes the two one after the
//! other, and so they are matched first; what is left is matched in the order of time, as Perfetto does.

use std::collections::HashMap;

use prost::Message as _;
use semcache::base::DeviceId;
use semcache::trace::perfetto::{
    CLEARED, Interned, InternedData, TracePacket, TrackDescriptor, TrackEvent, Type,
};
use semcache::trace::{LANES, MEMORY, OpId};

use super::fields::{Fields, Key};
use super::model::{Decision, Device, Did, Lane, Name, Op, Side, Slice, Thread, Trace, What};

/// The first byte of each packet: field 1, with a length.
const PACKET: u8 = 0x0a;
/// A packet that says that it is longer than this is damaged: the library's have a few hundred bytes.
const LONGEST: u64 = 1 << 26;
/// The largest number of an interned name that is believed.
const MOST_NAMES: u64 = 1 << 20;

/// Names by the numbers that packets give them.
#[derive(Debug)]
struct Table<T>(Vec<Option<T>>);

impl<T: Copy> Table<T> {
    fn add(&mut self, told: &[Interned], mut of: impl FnMut(&str) -> T) {
        for Interned { iid, name } in told {
            let (Some(iid), Some(name)) = (iid, name) else {
                continue;
            };
            if *iid < MOST_NAMES {
                let place = *iid as usize;
                if self.0.len() <= place {
                    self.0.resize(place + 1, None);
                }
                self.0[place] = Some(of(name));
            }
        }
    }

    fn get(&self, iid: u64) -> Option<T> {
        let place = usize::try_from(iid).ok()?;
        self.0.get(place).copied().flatten()
    }
}

/// What a category of events is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Category {
    Call,
    Wait,
    Fault,
    Memory,
    Start,
    Copy,
    Kernel,
    Summary,
    Other,
}

impl Category {
    fn of(name: &str) -> Category {
        match name {
            "call" => Category::Call,
            "wait" => Category::Wait,
            "fault" => Category::Fault,
            "memory" => Category::Memory,
            "start" => Category::Start,
            "copy" => Category::Copy,
            "kernel" => Category::Kernel,
            "summary" => Category::Summary,
            _ => Category::Other,
        }
    }
}

/// Where an event is shown: places in the trace's threads and devices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Track {
    Process,
    Thread(usize),
    Device(usize),
    Lane(usize, usize),
    Memory(usize),
}

/// The beginning of a slice, or a moment.
#[derive(Clone, Debug)]
struct Event {
    at: u64,
    category: Category,
    name: Name,
    fields: Fields,
}

/// Reads a trace.
#[derive(Debug)]
pub(super) struct Reader {
    trace: Trace,
    /// Bytes of a packet whose rest has not come yet.
    rest: Vec<u8>,
    packets: u64,
    /// Nothing more can be read: what follows is not a packet.
    lost: bool,
    event_names: Table<Name>,
    categories: Table<Category>,
    keys: Table<Key>,
    texts: Table<Name>,
    tracks: HashMap<u64, Track>,
    /// The slice that the last packet began.
    begun: Option<(Track, Event)>,
    /// Beginnings and ends (`None`) that did not come one after the other.
    loose: HashMap<Track, Vec<(u64, Option<Event>)>>,
    /// Page faults as slices of the threads that waited for them, by the numbers of these.
    faults: Vec<(u32, Slice)>,
    summed: bool,
}

impl Reader {
    pub(super) fn new() -> Reader {
        Reader {
            trace: Trace::default(),
            rest: Vec::new(),
            packets: 0,
            lost: false,
            event_names: Table(Vec::new()),
            categories: Table(Vec::new()),
            keys: Table(Vec::new()),
            texts: Table(Vec::new()),
            tracks: HashMap::new(),
            begun: None,
            loose: HashMap::new(),
            faults: Vec::new(),
            summed: false,
        }
    }

    /// Reads the next bytes of the file. Says whether more bytes can be of use.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> bool {
        let mut held = std::mem::take(&mut self.rest);
        held.extend_from_slice(bytes);
        let mut at = 0;
        while !self.lost {
            match frame(&held[at..]) {
                Frame::Packet(start, end) => {
                    self.packet(&held[at + start..at + end]);
                    at += end;
                }
                Frame::Incomplete => break,
                Frame::Not => {
                    self.lost = true;
                    self.trace.damaged += 1;
                }
            }
        }
        held.drain(..at);
        self.rest = held;
        !self.lost
    }

    /// The trace, when all bytes have been read; an error if they are none.
    pub(super) fn finish(mut self) -> Result<Trace, &'static str> {
        if self.packets == 0 && self.rest.is_empty() {
            return Err("the file is empty");
        }
        let nothing = self.trace.threads.is_empty() && self.trace.devices.is_empty();
        if nothing && self.packets == 0 {
            return Err("this is not a trace");
        }
        // A trace of small calls only has the process and a summary.
        if nothing && self.trace.program.is_empty() {
            return Err("this is not a trace that semcache wrote");
        }
        self.part();
        for (track, events) in std::mem::take(&mut self.loose) {
            self.match_by_time(track, events);
        }
        for (tid, slice) in std::mem::take(&mut self.faults) {
            let mut threads = self.trace.threads.iter_mut();
            if let Some(thread) = threads.find(|t| t.tid == tid) {
                thread.slices.push(slice);
            }
        }
        self.trace.cut_off = !self.rest.is_empty() && !self.lost || !self.summed;
        self.trace.sort();
        Ok(self.trace)
    }

    fn packet(&mut self, bytes: &[u8]) {
        let Ok(packet) = TracePacket::decode(bytes) else {
            self.trace.damaged += 1;
            return;
        };
        self.packets += 1;
        if packet.sequence_flags.unwrap_or(0) & CLEARED != 0 {
            self.event_names.0.clear();
            self.categories.0.clear();
            self.keys.0.clear();
            self.texts.0.clear();
        }
        if let Some(told) = &packet.interned_data {
            self.interned(told);
        }
        if let Some(track) = &packet.track_descriptor {
            self.track(track);
        }
        if let Some(event) = &packet.track_event {
            self.event(packet.timestamp.unwrap_or(0), event);
        }
    }

    fn interned(&mut self, told: &InternedData) {
        let names = &mut self.trace.names;
        self.event_names.add(&told.event_names, |n| names.add(n));
        self.texts
            .add(&told.debug_annotation_string_values, |n| names.add(n));
        self.categories.add(&told.event_categories, Category::of);
        self.keys.add(&told.debug_annotation_names, Key::of);
    }

    fn track(&mut self, told: &TrackDescriptor) {
        let name = told.name.as_deref().unwrap_or_default();
        let parent = told.parent_uuid.and_then(|u| self.tracks.get(&u).copied());
        let track = if let Some(process) = &told.process {
            self.trace.program = process.process_name.clone().unwrap_or_default();
            Track::Process
        } else if let Some(thread) = &told.thread {
            Track::Thread(self.thread(
                thread.tid.map_or(0, i32::unsigned_abs),
                thread.thread_name.as_deref(),
            ))
        } else if let Some(Track::Device(device)) = parent
            && let Some(lane) = LANES.iter().position(|l| *l == name)
        {
            Track::Lane(device, lane)
        } else if let Some(Track::Device(device)) = parent
            && name == MEMORY
        {
            Track::Memory(device)
        } else if let Some((id, name)) = device_name(name) {
            Track::Device(self.device(id, name))
        } else {
            return;
        };
        self.tracks.insert(told.uuid.unwrap_or(0), track);
    }

    fn thread(&mut self, tid: u32, name: Option<&str>) -> usize {
        let threads = &mut self.trace.threads;
        let place = threads.iter().position(|t| t.tid == tid);
        let place = place.unwrap_or_else(|| {
            threads.push(Thread {
                tid,
                ..Thread::default()
            });
            threads.len() - 1
        });
        if let Some(name) = name {
            threads[place].name = name.to_owned();
        }
        place
    }

    fn device(&mut self, id: u8, name: &str) -> usize {
        let devices = &mut self.trace.devices;
        let place = devices.iter().position(|d| d.id == id);
        place.unwrap_or_else(|| {
            devices.push(Device {
                id,
                name: name.to_owned(),
                ..Device::default()
            });
            devices.len() - 1
        })
    }

    fn event(&mut self, at: u64, told: &TrackEvent) {
        let Some(&track) = self.tracks.get(&told.track_uuid.unwrap_or(0)) else {
            self.trace.damaged += 1;
            return;
        };
        let kind = told.r#type.and_then(|t| Type::try_from(t).ok());
        if kind == Some(Type::End) {
            match self.begun.take() {
                Some((of, event)) if of == track && event.at <= at => self.slice(track, &event, at),
                other => {
                    self.begun = other;
                    self.part();
                    self.loose.entry(track).or_default().push((at, None));
                }
            }
            return;
        }
        self.part();
        if kind == Some(Type::Counter) {
            if let Track::Memory(device) = track {
                let bytes = told.counter_value.unwrap_or(0);
                let memory = &mut self.trace.devices[device].memory;
                memory.push((at, u64::try_from(bytes).unwrap_or(0)));
            }
            return;
        }
        let iid = told.category_iids.first();
        let category = iid.and_then(|iid| self.categories.get(*iid));
        let event = Event {
            at,
            category: category.unwrap_or(Category::Other),
            name: self
                .event_names
                .get(told.name_iid.unwrap_or(0))
                .unwrap_or_else(|| self.trace.names.add("?")),
            fields: Fields::default(),
        };
        if event.category == Category::Summary {
            self.summed = true;
            for value in &told.debug_annotations {
                if let (Some(name), Some(n)) = (&value.name, value.uint_value) {
                    self.trace.summary.push((name.clone(), n));
                }
            }
            return;
        }
        let mut event = event;
        for value in &told.debug_annotations {
            let key = self.keys.get(value.name_iid.unwrap_or(0));
            let text = value.string_value_iid.and_then(|iid| self.texts.get(iid));
            let text = text.map(|name| (name, self.trace.names.text(name)));
            event.fields.set(key, value, text);
        }
        match kind {
            Some(Type::Begin) => self.begun = Some((track, event)),
            Some(Type::Instant) => self.moment(track, &event),
            _ => {}
        }
    }

    /// The last packet's slice did not end in this one.
    fn part(&mut self) {
        if let Some((track, event)) = self.begun.take() {
            let at = event.at;
            self.loose.entry(track).or_default().push((at, Some(event)));
        }
    }

    /// Matches beginnings and ends of a track: an end is that of the slice that began last.
    fn match_by_time(&mut self, track: Track, mut events: Vec<(u64, Option<Event>)>) {
        events.sort_by_key(|e| e.0);
        let mut open = Vec::new();
        for (at, event) in events {
            match event {
                Some(event) => open.push(event),
                None => {
                    if let Some(event) = open.pop() {
                        self.slice(track, &event, at);
                    }
                }
            }
        }
        for event in open {
            match track {
                Track::Lane(device, lane) => self.untimed(device, lane, &event),
                _ => self.trace.unfinished += 1,
            }
        }
    }

    fn lane(&mut self, device: usize, lane: usize) -> &mut Lane {
        &mut self.trace.devices[device].lanes[lane]
    }

    fn untimed(&mut self, device: usize, lane: usize, event: &Event) {
        let untimed = (self.what(event), event.fields.amount);
        self.lane(device, lane).untimed.push(untimed);
    }

    /// What an operation does.
    fn what(&self, event: &Event) -> What {
        match (event.category, self.trace.names.text(event.name)) {
            (Category::Kernel, _) => What::Kernel,
            (_, "upload") => What::Upload,
            (_, "download") => What::Download,
            (_, "peer") => What::Peer(event.fields.peer),
            (_, _) => What::Within,
        }
    }

    fn slice(&mut self, track: Track, event: &Event, to: u64) {
        let Event {
            at: from,
            name,
            ref fields,
            ..
        } = *event;
        match track {
            Track::Thread(thread) => {
                let did = self.did(event);
                let slice = Slice {
                    from,
                    to,
                    cause: fields.cause,
                    name,
                    did,
                };
                self.trace.threads[thread].slices.push(slice);
                if did == Did::Fault {
                    let did = Did::Faulted;
                    self.faults.push((fields.tid, Slice { did, ..slice }));
                }
            }
            Track::Lane(device, lane) => {
                let op = Op {
                    from,
                    to,
                    queued: fields.queued,
                    queueing: fields.queueing,
                    seq: fields.seq,
                    amount: fields.amount,
                    cause: fields.cause,
                    name,
                    what: self.what(event),
                    after: fields
                        .after
                        .map(|(device, lane, seq)| OpId::new(DeviceId(device), lane, seq)),
                };
                self.lane(device, lane).ops.push(op);
            }
            Track::Process | Track::Device(_) | Track::Memory(_) => {}
        }
    }

    fn did(&mut self, event: &Event) -> Did {
        let fields = &event.fields;
        match event.category {
            Category::Call => {
                let text = |name| self.trace.names.text(name);
                let side = match fields.side.map(text) {
                    Some("devices") => Side::Devices,
                    Some("replayed") => Side::Replayed,
                    _ => Side::Host(fields.why.unwrap_or_else(|| self.trace.names.add("?"))),
                };
                Did::Call(side, fields.sizes)
            }
            Category::Wait => {
                Did::Wait(OpId::new(DeviceId(fields.device), fields.lane, fields.seq))
            }
            Category::Fault => Did::Fault,
            Category::Memory => match self.trace.names.text(event.name) {
                "pin" => Did::Pin(fields.amount),
                "unpin" => Did::Unpin(fields.amount),
                _ => Did::Other,
            },
            Category::Start => Did::Start,
            _ => Did::Other,
        }
    }

    fn moment(&mut self, track: Track, event: &Event) {
        let fields = &event.fields;
        match track {
            Track::Thread(thread) if self.trace.names.text(event.name) == "decision" => {
                self.trace.threads[thread].decisions.push(Decision {
                    at: event.at,
                    cause: fields.cause,
                    host_us: fields.host_us,
                    devices_us: fields.devices_us,
                    beyond_us: fields.beyond_us,
                    probe: fields.probe,
                });
            }
            Track::Device(device) => {
                let eviction = (event.at, fields.amount);
                self.trace.devices[device].evictions.push(eviction);
            }
            Track::Lane(device, lane) => self.untimed(device, lane, event),
            Track::Process | Track::Thread(_) | Track::Memory(_) => {}
        }
    }
}

/// What the bytes at some place of the file begin with.
enum Frame {
    /// A packet, whose contents lie between these two places.
    Packet(usize, usize),
    /// A part of a packet.
    Incomplete,
    /// No packet.
    Not,
}

fn frame(bytes: &[u8]) -> Frame {
    let Some((first, after)) = bytes.split_first() else {
        return Frame::Incomplete;
    };
    if *first != PACKET {
        return Frame::Not;
    }
    let mut left = after;
    let Ok(length) = prost::encoding::decode_varint(&mut left) else {
        let all = after.len() < 10 && after.iter().all(|b| b & 0x80 != 0);
        return if all { Frame::Incomplete } else { Frame::Not };
    };
    if length > LONGEST {
        return Frame::Not;
    }
    let start = bytes.len() - left.len();
    let end = start + length as usize;
    if end > bytes.len() {
        Frame::Incomplete
    } else {
        Frame::Packet(start, end)
    }
}

/// The number and the name in `device N NAME`.
fn device_name(text: &str) -> Option<(u8, &str)> {
    let rest = text.strip_prefix("device ")?;
    let (id, name) = rest.split_once(' ').unwrap_or((rest, ""));
    Some((id.parse().ok()?, name))
}
