//! How the time of a trace is shared: what lanes and threads did, in sums.

use std::collections::BTreeMap;

use super::model::{Did, Side, Thread, Trace, What};

/// What a lane of a device did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LaneShare {
    pub(crate) device: u8,
    pub(crate) lane: &'static str,
    /// Operations whose times are in the trace.
    pub(crate) operations: u64,
    /// Operations whose times are not.
    pub(crate) untimed: u64,
    /// The time in which at least one operation ran.
    pub(crate) busy: u64,
    /// The bytes of copies, those without times included; `None` if there are no copies.
    pub(crate) bytes: Option<u64>,
    /// The bytes of copies whose times are in the trace, and how long at least one of them ran.
    pub(crate) copied: (u64, u64),
}

/// What a thread did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ThreadShare {
    pub(crate) tid: u32,
    pub(crate) name: String,
    pub(crate) calls: u64,
    pub(crate) in_calls: u64,
    /// The time of `in_calls` in which it waited for operations.
    pub(crate) waiting: u64,
    pub(crate) faults: u64,
    pub(crate) in_faults: u64,
}

/// The sums over a whole trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) on_devices: u64,
    pub(crate) replayed: u64,
    pub(crate) on_host: u64,
    /// Calls that ran on the host BLAS, counted in the summary only.
    pub(crate) counted: u64,
    pub(crate) up: u64,
    pub(crate) down: u64,
    pub(crate) peer: u64,
    pub(crate) faults: u64,
    pub(crate) evictions: u64,
    /// What had no room in the trace: kind, number, bytes.
    pub(crate) dropped: Vec<(String, u64, u64)>,
    /// Operations whose times are not in the trace.
    pub(crate) untimed: u64,
    /// Slices of threads whose end is not in the trace.
    pub(crate) unfinished: u64,
}

/// The beginning of the first and the end of the last operation of any device.
pub(crate) fn span(trace: &Trace) -> Option<(u64, u64)> {
    let first = trace.ops().map(|(_, _, op)| op.from).min()?;
    let last = trace.ops().map(|(_, _, op)| op.to).max()?;
    Some((first, last))
}

/// What each lane did.
pub(crate) fn lanes(trace: &Trace) -> Vec<LaneShare> {
    let mut shares = Vec::new();
    for device in &trace.devices {
        for (lane, name) in device.shown() {
            let copies = || lane.ops.iter().filter(|op| op.what != What::Kernel);
            let untimed = lane
                .untimed
                .iter()
                .filter(|(what, _)| *what != What::Kernel);
            let untimed: Vec<u64> = untimed.map(|(_, bytes)| *bytes).collect();
            let copied = bytes(copies().map(|op| op.amount));
            let any = copies().next().is_some() || !untimed.is_empty();
            shares.push(LaneShare {
                device: device.id,
                lane: name,
                operations: lane.ops.len() as u64,
                untimed: lane.untimed.len() as u64,
                busy: covered(lane.ops.iter().map(|op| (op.from, op.to))),
                bytes: any.then(|| copied.saturating_add(bytes(untimed.into_iter()))),
                copied: (copied, covered(copies().map(|op| (op.from, op.to)))),
            });
        }
    }
    shares
}

fn bytes(amounts: impl Iterator<Item = u64>) -> u64 {
    amounts.fold(0, u64::saturating_add)
}

/// The length of what spans cover together; they come in the order of their beginnings.
/// The length of what spans cover together; they come in the order of their beginnings.
pub(crate) fn covered(spans: impl Iterator<Item = (u64, u64)>) -> u64 {
    let (mut sum, mut end) = (0, 0);
    for (from, to) in spans {
        sum += to.saturating_sub(from.max(end));
        end = end.max(to);
    }
    sum
}

/// What each thread did.
pub(crate) fn threads(trace: &Trace) -> Vec<ThreadShare> {
    trace.threads.iter().map(thread).collect()
}

fn thread(thread: &Thread) -> ThreadShare {
    let slices = |of: fn(Did) -> bool| thread.slices.iter().filter(move |s| of(s.did));
    let calls = || slices(|did| matches!(did, Did::Call(..)));
    let faults = || slices(|did| did == Did::Fault);
    let (mut waiting, mut call_end) = (0, 0);
    for slice in &thread.slices {
        match slice.did {
            Did::Call(..) => call_end = slice.to.max(call_end),
            // A wait begins after the call in which it is, and so comes behind it.
            Did::Wait(_) => waiting += slice.to.min(call_end).saturating_sub(slice.from),
            _ => {}
        }
    }
    ThreadShare {
        tid: thread.tid,
        name: thread.name.clone(),
        calls: calls().count() as u64,
        in_calls: covered(calls().map(|s| (s.from, s.to))),
        waiting,
        faults: faults().count() as u64,
        in_faults: covered(faults().map(|s| (s.from, s.to))),
    }
}

/// The sums over the whole trace.
pub(crate) fn totals(trace: &Trace) -> Totals {
    let mut totals = Totals {
        unfinished: trace.unfinished,
        ..Totals::default()
    };
    for slice in trace.threads.iter().flat_map(|t| &t.slices) {
        match slice.did {
            Did::Call(Side::Devices, _) => totals.on_devices += 1,
            Did::Call(Side::Replayed, _) => totals.replayed += 1,
            Did::Call(Side::Host(_), _) => totals.on_host += 1,
            Did::Fault => totals.faults += 1,
            _ => {}
        }
    }
    let lanes = || trace.devices.iter().flat_map(|d| &d.lanes);
    let timed = trace.ops().map(|(_, _, op)| (op.what, op.amount));
    let untimed = lanes().flat_map(|lane| lane.untimed.iter().copied());
    for (what, amount) in timed.chain(untimed) {
        let sum = match what {
            What::Upload => &mut totals.up,
            What::Download => &mut totals.down,
            What::Peer(_) => &mut totals.peer,
            What::Within | What::Kernel => continue,
        };
        *sum = sum.saturating_add(amount);
    }
    totals.evictions = trace.devices.iter().map(|d| d.evictions.len() as u64).sum();
    totals.untimed = lanes().map(|lane| lane.untimed.len() as u64).sum();
    let mut dropped: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (name, number) in &trace.summary {
        if name.starts_with("host.") {
            totals.counted = totals.counted.saturating_add(*number);
        } else if let Some(kind) = name.strip_prefix("dropped.") {
            dropped.entry(kind).or_default().0 = *number;
        } else if let Some(kind) = name.strip_prefix("dropped_bytes.") {
            dropped.entry(kind).or_default().1 = *number;
        }
    }
    let dropped = dropped.into_iter().filter(|(_, (number, _))| *number > 0);
    totals.dropped = dropped.map(|(k, (n, b))| (k.to_owned(), n, b)).collect();
    totals
}
