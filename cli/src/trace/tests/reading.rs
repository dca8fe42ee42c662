//! The reader, on files that the library's messages make, whole, cut off and damaged.

use prost::Message as _;
use semcache::trace::perfetto::{
    CLEARED, DebugAnnotation, Interned, InternedData, NEEDED, ProcessDescriptor, ThreadDescriptor,
    Trace as File, TracePacket, TrackDescriptor, TrackEvent, Type,
};

use semcache::trace::MEMORY;

use super::hand::{KERNEL, id};
use crate::trace::gaps::gaps;
use crate::trace::model::{Did, Side, Trace, What};
use crate::trace::page::page;
use crate::trace::read::Reader;

const NAMES: [&str; 7] = [
    "dgemm",
    "wait",
    "upload",
    "summary",
    "decision",
    "evict",
    "load fault",
];
const CATEGORIES: [&str; 7] = [
    "call", "wait", "copy", "kernel", "summary", "memory", "fault",
];
const KEYS: [&str; 14] = [
    "side",
    "m",
    "cause",
    "seq",
    "bytes",
    "queued_ns",
    "after_device",
    "after_lane",
    "after_seq",
    "device",
    "lane",
    "why",
    "host_us",
    "tid",
];
const TEXTS: [&str; 5] = ["devices", "host", "small", "copies in", "kernels"];

fn number(list: &[&str], name: &str) -> Option<u64> {
    let place = list.iter().position(|n| *n == name).expect("a name");
    Some(place as u64 + 1)
}

fn interned(list: &[&str]) -> Vec<Interned> {
    let one = |(iid, name): (u64, &&str)| Interned {
        iid: Some(iid),
        name: Some((*name).to_owned()),
    };
    (1..).zip(list).map(one).collect()
}

/// A value of an annotation: a number, or one of `TEXTS`.
enum Value {
    Number(u64),
    Text(&'static str),
}
use Value::{Number, Text};

struct Event {
    track: u64,
    category: &'static str,
    name: &'static str,
    values: Vec<(&'static str, Value)>,
}

fn packet(at: u64, event: TrackEvent) -> TracePacket {
    TracePacket {
        timestamp: Some(at),
        trusted_packet_sequence_id: Some(1),
        sequence_flags: Some(NEEDED),
        track_event: Some(event),
        ..TracePacket::default()
    }
}

impl Event {
    fn told(self, kind: Type) -> TrackEvent {
        let values = self.values.into_iter().map(|(key, value)| {
            let mut a = DebugAnnotation {
                name_iid: number(&KEYS, key),
                ..DebugAnnotation::default()
            };
            match value {
                Number(n) => a.uint_value = Some(n),
                Text(text) => a.string_value_iid = number(&TEXTS, text),
            }
            a
        });
        TrackEvent {
            category_iids: number(&CATEGORIES, self.category).into_iter().collect(),
            debug_annotations: values.collect(),
            r#type: Some(kind.into()),
            name_iid: number(&NAMES, self.name),
            track_uuid: Some(self.track),
            ..TrackEvent::default()
        }
    }

    fn begin(self, at: u64) -> TracePacket {
        packet(at, self.told(Type::Begin))
    }

    fn moment(self, at: u64) -> TracePacket {
        packet(at, self.told(Type::Instant))
    }
}

fn end(track: u64, at: u64) -> TracePacket {
    packet(
        at,
        TrackEvent {
            r#type: Some(Type::End.into()),
            track_uuid: Some(track),
            ..TrackEvent::default()
        },
    )
}

fn track(descriptor: TrackDescriptor) -> TracePacket {
    TracePacket {
        track_descriptor: Some(descriptor),
        ..TracePacket::default()
    }
}

fn named(uuid: u64, parent: u64, name: &str) -> TracePacket {
    track(TrackDescriptor {
        uuid: Some(uuid),
        parent_uuid: Some(parent),
        name: Some(name.to_owned()),
        ..TrackDescriptor::default()
    })
}

/// Process 1, thread 2, device 3 with the lanes 4 (copies in) and 5 (kernels).
fn head() -> Vec<TracePacket> {
    vec![
        TracePacket {
            sequence_flags: Some(CLEARED),
            interned_data: Some(InternedData {
                event_categories: interned(&CATEGORIES),
                event_names: interned(&NAMES),
                debug_annotation_names: interned(&KEYS),
                debug_annotation_string_values: interned(&TEXTS),
            }),
            ..TracePacket::default()
        },
        track(TrackDescriptor {
            uuid: Some(1),
            process: Some(ProcessDescriptor {
                pid: Some(9),
                process_name: Some("prog".into()),
            }),
            ..TrackDescriptor::default()
        }),
        track(TrackDescriptor {
            uuid: Some(2),
            parent_uuid: Some(1),
            thread: Some(ThreadDescriptor {
                pid: Some(9),
                tid: Some(11),
                thread_name: Some("main".into()),
            }),
            ..TrackDescriptor::default()
        }),
        named(3, 1, "device 0 Tesla Q"),
        named(4, 3, "copies in"),
        named(5, 3, "kernels"),
    ]
}

fn call(cause: u64) -> Event {
    Event {
        track: 2,
        category: "call",
        name: "dgemm",
        values: vec![
            ("side", Text("devices")),
            ("m", Number(64)),
            ("cause", Number(cause)),
        ],
    }
}

fn kernel(seq: u64, queued: u64) -> Event {
    Event {
        track: 5,
        category: "kernel",
        name: "dgemm",
        values: vec![
            ("seq", Number(seq)),
            ("queued_ns", Number(queued)),
            ("after_device", Number(0)),
            ("after_lane", Text("copies in")),
            ("after_seq", Number(1)),
            ("cause", Number(1)),
        ],
    }
}

fn summary() -> TracePacket {
    let mut told = Event {
        track: 1,
        category: "summary",
        name: "summary",
        values: Vec::new(),
    }
    .told(Type::Instant);
    told.debug_annotations = vec![DebugAnnotation {
        name: Some("dropped.upload".into()),
        uint_value: Some(3),
        ..DebugAnnotation::default()
    }];
    packet(900, told)
}

fn body() -> Vec<TracePacket> {
    let wait = Event {
        track: 2,
        category: "wait",
        name: "wait",
        values: vec![
            ("device", Number(0)),
            ("lane", Text("kernels")),
            ("seq", Number(2)),
            ("cause", Number(1)),
        ],
    };
    let upload = Event {
        track: 4,
        category: "copy",
        name: "upload",
        values: vec![
            ("seq", Number(1)),
            ("bytes", Number(4096)),
            ("queued_ns", Number(110)),
        ],
    };
    vec![
        // The second kernel comes before the first, and the first ends where the second begins.
        kernel(2, 130).begin(300),
        end(5, 400),
        kernel(1, 120).begin(200),
        end(5, 300),
        // A slice inside another comes first.
        wait.begin(150),
        end(2, 390),
        call(1).begin(100),
        end(2, 390),
        upload.begin(115),
        end(4, 190),
        kernel(3, 350).moment(350),
        summary(),
    ]
}

fn bytes(packets: Vec<TracePacket>) -> Vec<u8> {
    File { packet: packets }.encode_to_vec()
}

fn whole() -> Vec<u8> {
    bytes(head().into_iter().chain(body()).collect())
}

fn read(bytes: &[u8], piece: usize) -> Result<Trace, &'static str> {
    let mut reader = Reader::new();
    for piece in bytes.chunks(piece) {
        if !reader.feed(piece) {
            break;
        }
    }
    reader.finish()
}

fn check(trace: &Trace) {
    assert_eq!(
        (trace.from, trace.to, trace.program.as_str()),
        (100, 400, "prog")
    );
    let device = &trace.devices[0];
    assert_eq!((device.id, device.name.as_str()), (0, "Tesla Q"));
    let kernels: Vec<_> = device.lanes[2]
        .ops
        .iter()
        .map(|op| (op.seq, op.from, op.to, op.queued))
        .collect();
    assert_eq!(kernels, [(1, 200, 300, 120), (2, 300, 400, 130)]);
    assert_eq!(device.lanes[2].ops[0].after[0], id(0, 0, 1));
    assert_eq!(device.lanes[2].untimed, [(What::Kernel, 0)]);
    let upload = trace.op(id(0, 0, 1)).expect("the upload");
    assert_eq!((upload.what, upload.amount), (What::Upload, 4096));
    let thread = &trace.threads[0];
    assert_eq!((thread.tid, thread.name.as_str()), (11, "main"));
    let slices: Vec<_> = thread
        .slices
        .iter()
        .map(|s| (s.from, s.to, s.did))
        .collect();
    assert_eq!(
        slices,
        [
            (100, 390, Did::Call(Side::Devices, [64, 0, 0])),
            (150, 390, Did::Wait(id(0, KERNEL, 2))),
        ]
    );
    assert_eq!(trace.summary, [("dropped.upload".to_owned(), 3)]);
    assert!(!trace.cut_off && trace.damaged == 0 && trace.unfinished == 0);
}

#[test]
fn pieces_of_any_size_give_the_same_trace() {
    let bytes = whole();
    for piece in [1, 2, 3, 7, 64, bytes.len()] {
        check(&read(&bytes, piece).expect("a trace"));
    }
}

#[test]
fn beginnings_and_ends_apart_are_matched_by_time() {
    let packets = vec![
        call(2).begin(20),
        call(1).begin(10),
        end(2, 90),
        end(2, 60),
        call(3).begin(95),
        summary(),
    ];
    let trace = read(&bytes(head().into_iter().chain(packets).collect()), 99).expect("a trace");
    let slices: Vec<_> = trace.threads[0]
        .slices
        .iter()
        .map(|s| (s.cause, s.from, s.to))
        .collect();
    // The end at 90 follows the beginning of call 1 and is taken for its own.
    assert_eq!(slices, [(1, 10, 90), (2, 20, 60)]);
    assert_eq!(trace.unfinished, 1);
}

#[test]
fn faults_and_evictions_are_where_they_are_waited_for() {
    let service = track(TrackDescriptor {
        uuid: Some(6),
        parent_uuid: Some(1),
        thread: Some(ThreadDescriptor {
            pid: Some(9),
            tid: Some(12),
            thread_name: None,
        }),
        ..TrackDescriptor::default()
    });
    let fault = |tid| Event {
        track: 6,
        category: "fault",
        name: "load fault",
        values: vec![("cause", Number(7)), ("tid", Number(tid))],
    };
    let evict = |at, bytes| {
        let values = vec![("bytes", Number(bytes))];
        let (category, name) = ("memory", "evict");
        let event = Event {
            track: 3,
            category,
            name,
            values,
        };
        event.moment(at)
    };
    let packets = vec![
        service,
        fault(11).begin(500),
        end(6, 600),
        fault(99).begin(700),
        end(6, 800),
        evict(30, 2),
        evict(20, 1),
    ];
    let all = head().into_iter().chain(packets).collect();
    let trace = read(&bytes(all), 99).expect("a trace");
    let did = |thread: usize| {
        let slices = trace.threads[thread].slices.iter();
        slices.map(|s| (s.from, s.did)).collect::<Vec<_>>()
    };
    assert_eq!(did(0), [(500, Did::Faulted)]);
    assert_eq!(did(1), [(500, Did::Fault), (700, Did::Fault)]);
    assert_eq!(trace.cause(7).map(|(thread, _)| thread), Some(1));
    assert_eq!(trace.devices[0].evictions, [(20, 1), (30, 2)]);
}

#[test]
fn the_memory_in_use_is_that_of_its_device() {
    let value = |at, bytes| {
        let event = TrackEvent {
            r#type: Some(Type::Counter.into()),
            track_uuid: Some(8),
            counter_value: Some(bytes),
            ..TrackEvent::default()
        };
        packet(at, event)
    };
    let packets = vec![
        named(8, 3, MEMORY),
        value(30, 4096),
        value(20, 512),
        value(40, -1),
    ];
    let all = head().into_iter().chain(packets).collect();
    let trace = read(&bytes(all), 99).expect("a trace");
    assert_eq!(trace.devices[0].memory, [(20, 512), (30, 4096), (40, 0)]);
    assert_eq!(trace.damaged, 0);
}

#[test]
fn the_same_names_may_be_told_again() {
    let twice: Vec<TracePacket> = head().into_iter().chain(head()).chain(body()).collect();
    check(&read(&bytes(twice), 1 << 20).expect("a trace"));
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_read_until_there() {
    let bytes = whole();
    for len in 0..bytes.len() {
        match read(&bytes[..len], 100) {
            Ok(trace) => {
                assert!(trace.cut_off, "{len} of {} bytes", bytes.len());
                assert_eq!(trace.damaged, 0);
                assert!(page(&trace).contains("cut off"));
            }
            Err(error) => assert!(!error.is_empty()),
        }
    }
    let cut = read(&bytes[..bytes.len() - 1], 100).expect("a trace");
    assert_eq!(cut.devices[0].lanes[2].ops.len(), 2);
}

#[test]
fn what_is_no_trace_is_said_so() {
    let error = |bytes: &[u8]| read(bytes, 10).map(|_| ()).expect_err("no trace");
    assert_eq!(error(b""), "the file is empty");
    assert_eq!(error(b"hello, world"), "this is not a trace");
    assert_eq!(error(b"\n\n\n"), "this is not a trace");
    assert_eq!(error(&[0; 100]), "this is not a trace");
    assert_eq!(error(b"\n\0"), "this is not a trace that semcache wrote");
    // Small calls only: there is a process, and nothing else.
    let without = bytes(head().into_iter().take(2).collect());
    assert!(read(&without[..], 10).is_ok());
}

/// Numbers that look random: xorshift.
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state as usize
}

#[test]
fn damaged_files_are_read_without_a_panic() {
    let good = whole();
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut traces = 0;
    for _ in 0..4000 {
        let mut bytes = good.clone();
        for _ in 0..1 + next(&mut state) % 8 {
            let at = next(&mut state) % bytes.len();
            match next(&mut state) % 4 {
                0 => bytes[at] = next(&mut state) as u8,
                1 => bytes[at] ^= 1 << (next(&mut state) % 8),
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, next(&mut state) as u8),
            }
        }
        bytes.truncate(1 + next(&mut state) % (2 * bytes.len()));
        if let Ok(trace) = read(&bytes, 1 + next(&mut state) % 300) {
            traces += 1;
            assert!(!page(&trace).is_empty());
            trace.devices.iter().for_each(|d| drop(gaps(d)));
        }
    }
    assert!(traces > 1000, "{traces} could be read at all");
}
