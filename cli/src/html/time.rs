//! Where the time went: that of each device and of each thread, in parts that add up to the whole.

use maud::{Markup, html};

use super::charts::{each, entry};
use super::given::{Given, Traced};
use super::svg::WIDTH;
use super::text::{count, percent, share};
use crate::trace::gaps::{Cause, gaps, idle};
use crate::trace::host::{Kind, host};
use crate::trace::model::{Decision, Device, Did, KERNELS, Side, Slice, Thread, Trace};
use crate::trace::shares::{covered, span};
use crate::trace::tell;
use crate::trace::threads::{Doing, doing, stretches};

/// The most threads that have a bar.
const THREADS: usize = 8;
/// The height of a bar.
const HIGH: usize = 20;

/// A part of the time of a device or thread: its colour, what it is, and its nanoseconds.
pub(super) type Share = (&'static str, &'static str, u64);

pub(super) fn section(given: &Given) -> Option<Markup> {
    each(given, |Traced { trace, .. }| {
        let devices = of_devices(trace);
        let (threads, more) = of_threads(trace);
        (!devices.is_empty() || !threads.is_empty()).then(|| {
            html! {
                @if !devices.is_empty() {
                    h4 { "Devices, from the first to the last operation of any" }
                    p.note {
                        "While no kernel runs on a device, its time is that of what the next kernel waited for; and as long as that \
                         kernel was not queued, of what the thread did that queued it."
                    }
                    @for (name, shares) in &devices { (bar(name, shares)) }
                }
                @if !threads.is_empty() {
                    h4 { "Threads, over the whole trace" }
                    @for (name, shares) in &threads { (bar(name, shares)) }
                    @if more > 0 { p.note { "Not shown: " (count(more as u64)) " more threads, with less time in calls." } }
                }
            }
        })
    })
}

/// A bar with its parts in words below it.
fn bar(name: &str, shares: &[Share]) -> Markup {
    let total: u64 = shares.iter().map(|(.., ns)| ns).sum();
    let scale = WIDTH as f64 / total.max(1) as f64;
    let mut at = 0;
    let placed = shares
        .iter()
        .filter(|(.., ns)| *ns > 0)
        .map(|(class, what, ns)| {
            let x = at as f64 * scale;
            at += ns;
            (class, what, *ns, x, *ns as f64 * scale)
        });
    let placed: Vec<_> = placed.collect();
    html! {
        figure.share-bar {
            figcaption { (name) span.total { (tell::length(total)) } }
            svg viewBox=(format!("0 0 {WIDTH} {HIGH}")) preserveAspectRatio="none" aria-hidden="true" {
                @for (class, what, _, x, width) in &placed {
                    rect.(class) x=(format!("{x:.2}")) width=(format!("{:.2}", width.min(WIDTH as f64 - x - 0.01).max(0.0))) height=(HIGH) {
                        title { (what) }
                    }
                }
            }
            p.legend {
                @for (class, what, ns, ..) in &placed {
                    (entry(class, &format!("{what} {} ({})", tell::length(*ns), percent(share(*ns, total)))))
                }
            }
        }
    }
}

fn of_devices(trace: &Trace) -> Vec<(String, Vec<Share>)> {
    let Some((from, to)) = span(trace) else {
        return Vec::new();
    };
    let of = |device: &Device| {
        (
            format!("device {} {}", device.id, device.name),
            device_shares(trace, device, to - from),
        )
    };
    trace.devices.iter().map(of).collect()
}

/// The parts of a device's time; together they are `whole`, from the first to the last operation of any device.
pub(super) fn device_shares(trace: &Trace, device: &Device, whole: u64) -> Vec<Share> {
    let gaps = gaps(device);
    let idle = idle(trace, &gaps);
    let host = host(trace, &gaps);
    let kernels = &device.lanes[KERNELS].ops;
    let mut shares = vec![(
        "kernel",
        "kernels",
        covered(kernels.iter().map(|op| (op.from, op.to))),
    )];
    let waits = Cause::ALL
        .into_iter()
        .filter_map(|cause| Some((cause, waited(cause)?)));
    shares.extend(waits.map(|(cause, (class, what))| (class, what, idle[cause as usize])));
    shares.extend(Kind::ALL.into_iter().map(|kind| {
        let (class, what) = queueing(kind);
        (class, what, host[kind as usize])
    }));
    let told: u64 = shares.iter().map(|(.., ns)| ns).sum();
    let rest = "before its first operation, or after its last kernel";
    shares.push(("outside", rest, whole.saturating_sub(told)));
    shares
}

/// What the next kernel waited for; nothing of the host, whose time has parts of its own.
fn waited(cause: Cause) -> Option<(&'static str, &'static str)> {
    match cause {
        Cause::Host => None,
        Cause::Upload => Some(("upload", "waited for uploads")),
        Cause::Download => Some(("download", "waited for write-backs")),
        Cause::Peer => Some(("peer", "waited for copies from other devices")),
        Cause::Within => Some(("within", "waited for copies within the device")),
        Cause::Kernel => Some(("other", "waited for a kernel of another device or stream")),
        Cause::Launch => Some(("launch", "began the next kernel")),
        Cause::Unknown => Some(("outside", "waited for operations without times")),
    }
}

/// What the thread did that queued the next kernel.
fn queueing(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Program => ("program", "program, in no call"),
        Kind::HostBlas => ("host-blas", "host BLAS, or the program after it"),
        Kind::Call => ("call", "deciding, planning and queueing"),
        Kind::Wait => ("wait", "thread waited for an operation"),
        Kind::PageLock => ("pin", "page-locking"),
        Kind::Fault => ("fault", "page faults"),
        Kind::Start => ("start", "bringing devices up"),
        Kind::Unknown => ("outside", "host, the thread is not known"),
    }
}

fn of_threads(trace: &Trace) -> (Vec<(String, Vec<Share>)>, usize) {
    let mut threads: Vec<(u64, String, Vec<Share>)> = Vec::new();
    for thread in &trace.threads {
        let shares = thread_shares(thread, trace);
        let outside = |class: &str| matches!(class, "program" | "host-blas");
        let inside = shares
            .iter()
            .filter(|(class, ..)| !outside(class))
            .map(|(.., ns)| ns)
            .sum();
        let name = format!("thread {} {}", thread.tid, thread.name);
        threads.push((inside, name, shares));
    }
    threads.sort_by_key(|(inside, ..)| u64::MAX - inside);
    let more = threads.len().saturating_sub(THREADS);
    threads.truncate(THREADS);
    (
        threads
            .into_iter()
            .map(|(_, name, shares)| (name, shares))
            .collect(),
        more,
    )
}

/// What a thread did, in the order of the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Deciding,
    Queueing,
    Waiting,
    PageLock,
    Faulted,
    Serving,
    Starting,
    HostBlas,
    Program,
}

/// The parts of a thread's time; together they are the whole trace.
pub(super) fn thread_shares(thread: &Thread, trace: &Trace) -> Vec<Share> {
    let calls = thread
        .slices
        .iter()
        .any(|slice| matches!(slice.did, Did::Call(..)));
    let mut shares: [Share; 9] = [
        ("decide", "deciding where calls run", 0),
        ("call", "planning and queueing", 0),
        ("wait", "waiting for devices", 0),
        ("pin", "page-locking", 0),
        ("fault", "waiting at page faults", 0),
        ("fault", "serving page faults", 0),
        ("start", "bringing devices up", 0),
        ("host-blas", "host BLAS, or the program after it", 0),
        (
            "program",
            if calls { "program, in no call" } else { "idle" },
            0,
        ),
    ];
    stretches(thread, trace.from, trace.to, |stretch| {
        let mut add = |did: Part, ns: u64| shares[did as usize].2 += ns;
        let length = stretch.to - stretch.from;
        match (doing(&stretch), stretch.inside) {
            (Doing::Call(..), Some(slice)) => {
                let decided = decided(thread, trace, slice).clamp(stretch.from, stretch.to);
                add(Part::Deciding, decided - stretch.from);
                add(in_call(trace, slice), stretch.to - decided);
            }
            (Doing::Call(..) | Doing::Program, _) => add(Part::Program, length),
            (Doing::Wait(..), _) => add(Part::Waiting, length),
            (Doing::Fault(..), _) => add(Part::Serving, length),
            (Doing::Faulted(..), _) => add(Part::Faulted, length),
            (Doing::Pin(..) | Doing::Unpin(..), _) => add(Part::PageLock, length),
            (Doing::Start(_), _) => add(Part::Starting, length),
            (Doing::HostBlas(..), _) => add(Part::HostBlas, length),
        }
    });
    shares.to_vec()
}

/// Until when a thread decides in a slice: to the end of one that covers a decision only, up to the decision of a call on devices.
fn decided(thread: &Thread, trace: &Trace, slice: &Slice) -> u64 {
    match slice.did {
        Did::Call(Side::Host(_), _) => slice.to,
        Did::Call(Side::Devices, _) => {
            let of = |d: &Decision| d.cause;
            let found = thread.decisions.binary_search_by_key(&slice.cause, of);
            let decision = found.ok().and_then(|place| thread.decisions.get(place));
            decision.map_or(slice.from, |d| d.at)
        }
        _ => trace.from,
    }
}

/// What a thread does in a slice after the decision. The slices that are no call are parts that the host BLAS computes, and
/// ranges that the program names.
fn in_call(trace: &Trace, slice: &Slice) -> Part {
    match slice.did {
        Did::Call(..) => Part::Queueing,
        _ if trace.names.text(slice.name) == "host's part" => Part::HostBlas,
        _ => Part::Program,
    }
}
