//! The predicted time of calls on devices, and what they took.
//!
//! What is predicted is the time from the first thing that is done for the call's data, page-locking or a copy, to the end of
//! its last kernel and of the write-back of results that the CPU is expected to read. So the measured time is that from the
//! call's first page lock or operation to the end of its last operation, by the devices' clocks. Copies that page faults ask
//! for after the call are not in it, nor is the time in which the call was planned.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::model::{Did, Name, Side, Thread, Trace};

/// A call with a prediction, and what it took; times in nanoseconds.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Call {
    pub(crate) id: u64,
    pub(crate) name: Name,
    pub(crate) sizes: [u32; 3],
    /// How many devices did something for it.
    pub(crate) devices: u32,
    pub(crate) predicted: u64,
    /// When it was decided that devices run it.
    decided: u64,
    from: u64,
    to: u64,
}

impl Call {
    pub(crate) fn measured(&self) -> u64 {
        self.to - self.from
    }

    /// By which share of the measured time the prediction is too long.
    pub(crate) fn error(&self) -> f64 {
        self.predicted as f64 / self.measured().max(1) as f64 - 1.0
    }
}

/// How far off predictions are, whichever way, as shares of the measured times.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Errors {
    pub(crate) median: f64,
    pub(crate) nine_tenths: f64,
}

impl Errors {
    /// `None` without calls.
    pub(crate) fn of(calls: &[Call]) -> Option<Errors> {
        let mut errors: Vec<f64> = calls.iter().map(|call| call.error().abs()).collect();
        errors.sort_by(f64::total_cmp);
        let rank = |share: f64| {
            let place = (share * errors.len() as f64).ceil() as usize;
            errors.get(place.max(1) - 1).copied()
        };
        Some(Errors {
            median: rank(0.5)?,
            nine_tenths: rank(0.9)?,
        })
    }
}

/// What the devices did for a call.
#[derive(Clone, Copy)]
struct Work {
    from: u64,
    to: u64,
    devices: u64,
}

/// The calls that a decision sent to devices, in the order of their numbers. Replays have no prediction of their own.
pub(crate) fn calls(trace: &Trace) -> Vec<Call> {
    let mut works: HashMap<u64, Work> = HashMap::new();
    for (device, _, op) in trace.ops().filter(|(_, _, op)| op.cause != 0) {
        let work = works.entry(op.cause).or_insert(Work {
            from: op.from,
            to: op.to,
            devices: 0,
        });
        work.from = work.from.min(op.from);
        work.to = work.to.max(op.to);
        work.devices |= 1 << (device % 64);
    }
    let mut all: Vec<Call> = Vec::new();
    for thread in &trace.threads {
        of_thread(thread, &works, &mut all);
    }
    all.sort_by_key(|call| call.id);
    all
}

fn of_thread(thread: &Thread, works: &HashMap<u64, Work>, all: &mut Vec<Call>) {
    let mut inside: Option<(usize, u64)> = None;
    for slice in &thread.slices {
        match slice.did {
            Did::Call(Side::Devices, sizes) => {
                let decided = thread
                    .decisions
                    .binary_search_by_key(&slice.cause, |d| d.cause);
                let decision = decided.ok().and_then(|at| thread.decisions.get(at));
                inside = None;
                if let (Some(decision), Some(work)) = (decision, works.get(&slice.cause)) {
                    inside = Some((all.len(), slice.to));
                    all.push(Call {
                        id: slice.cause,
                        name: slice.name,
                        sizes,
                        devices: work.devices.count_ones(),
                        predicted: ((decision.devices_us - decision.beyond_us).max(0.0) * 1e3)
                            as u64,
                        decided: decision.at,
                        from: work.from,
                        to: work.to,
                    });
                }
            }
            Did::Pin(_) => {
                if let Some((at, _)) = inside.filter(|(_, end)| slice.to <= *end) {
                    all[at].from = all[at].from.min(slice.from);
                }
            }
            _ => {}
        }
    }
}

/// A line for each call, with its fields separated by tabs, behind a line with their names. `planned_s` are the seconds from
/// the decision to the first page lock or operation.
pub(crate) fn list(trace: &Trace) -> String {
    let mut text =
        "call\troutine\tm\tn\tk\tdevices\tpredicted_s\tmeasured_s\tplanned_s\n".to_owned();
    for call in calls(trace) {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let [m, n, k] = call.sizes;
        // Writing to a text does not fail.
        let _ = writeln!(
            text,
            "{}\t{}\t{m}\t{n}\t{k}\t{}\t{:.9}\t{:.9}\t{:.9}",
            call.id,
            trace.names.text(call.name),
            call.devices,
            seconds(call.predicted),
            seconds(call.measured()),
            seconds(call.from.saturating_sub(call.decided)),
        );
    }
    text
}
