//! A Gantt chart without its looks: the rows with their bars, and what is said around them.

use super::bars::{Bars, Kind, Part};
use super::window::{Choice, Chosen, Window, choose};
use crate::trace::model::{Did, Side, Slice, Thread, Trace};
use crate::trace::tell;

/// How many rows there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    pub(crate) devices: usize,
    pub(crate) threads: usize,
}

/// A row.
#[derive(Debug)]
pub(crate) struct Row {
    /// The device or the thread; empty if the row above has the same.
    pub(crate) owner: String,
    /// The lane of a device; empty for a thread.
    pub(crate) lane: &'static str,
    /// The parts of each column.
    pub(crate) columns: Vec<Vec<Part>>,
    /// The names of the operations of a device with their beginnings and ends: the first ones of those that take at least
    /// a fiftieth of the window.
    pub(crate) names: Vec<(String, u64, u64)>,
    /// The share of the window in which the lane ran operations.
    pub(crate) busy: Option<f64>,
}

/// A chart.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    /// The moment from which the axis counts, and what that moment is.
    pub(crate) origin: u64,
    pub(crate) since: &'static str,
    pub(crate) window: Window,
    pub(crate) rows: Vec<Row>,
    /// What has no row, if anything.
    pub(crate) omitted: Option<String>,
    /// Whether the chart is of one call or fault, so that what belongs to it is told from the rest.
    pub(crate) of_call: bool,
}

/// An operation has its name in the chart if it takes this part of the window.
const NAMED: u64 = 50;
/// The most names in a row: operations of a lane do not overlap, and so more have no room.
const NAMES: usize = 50;

impl Chart {
    /// The chart of a part of a trace.
    pub(crate) fn new(
        trace: &Trace,
        choice: Choice,
        columns: usize,
        most: Most,
    ) -> Result<Chart, String> {
        let chosen = choose(trace, choice)?;
        let mut rows = Vec::new();
        let left_devices = devices(trace, chosen, columns, most.devices, &mut rows);
        let left_threads = threads(trace, chosen, columns, most.threads, &mut rows);
        let of_call = chosen.cause != 0;
        Ok(Chart {
            title: title(trace, choice, chosen),
            origin: if of_call {
                chosen.window.from
            } else {
                trace.from
            },
            since: match (of_call, trace.cause(chosen.cause)) {
                _ if trace.predicted => "the call began",
                (true, Some((_, s))) if s.did == Did::Fault => "the fault began",
                (true, _) => "the call began",
                (false, _) => "the trace began",
            },
            window: chosen.window,
            rows,
            omitted: omitted(left_devices, left_threads),
            of_call,
        })
    }

    /// The kinds that the chart has, in the order of [`Kind::ALL`], each once for what is strong and once for the rest.
    pub(crate) fn kinds(&self) -> Vec<(Kind, bool)> {
        let mut met = [false; 2 * Kind::ALL.len()];
        for part in self.rows.iter().flat_map(|r| &r.columns).flatten() {
            met[2 * (part.kind as usize) + usize::from(!part.strong)] = true;
        }
        let all = Kind::ALL.into_iter().flat_map(|k| [(k, true), (k, false)]);
        let with = all.zip(met).filter(|(_, met)| *met);
        with.map(|(kind, _)| kind).collect()
    }
}

fn omitted(devices: usize, threads: usize) -> Option<String> {
    let counted = |number, one: &str| match number {
        0 => None,
        1 => Some(format!("1 {one}")),
        _ => Some(format!("{number} {one}s")),
    };
    let all = [
        counted(devices, "more device"),
        counted(threads, "more thread"),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| format!("Not shown: {}, less busy in this time.", all.join(" and ")))
}

fn title(trace: &Trace, choice: Choice, chosen: Chosen) -> String {
    let window = chosen.window;
    let length = tell::length(window.length());
    let program = match trace.program.as_str() {
        "" => "the program",
        name => name,
    };
    let begin = tell::moment(trace, window.from);
    match trace.cause(chosen.cause) {
        _ if trace.predicted => format!("{program}: predicted timeline, {length}"),
        _ if choice == Choice::All => format!("{program}: the whole trace, {length}"),
        _ if chosen.cause == 0 => format!("{program}: {length} from {begin}"),
        Some((thread, slice)) => {
            let what = match slice.did {
                Did::Call(side, [m, n, k]) => {
                    let side = match side {
                        Side::Devices => "on devices".to_owned(),
                        Side::Replayed => "replayed on devices".to_owned(),
                        Side::Host(why) => format!("on the host BLAS: {}", trace.names.text(why)),
                    };
                    format!(", {m} x {n} x {k}, {side}")
                }
                _ => String::new(),
            };
            let tid = trace.threads.get(thread).map_or(0, |t| t.tid);
            format!(
                "{program}: {}{what}, of thread {tid}: {length} from {begin}",
                tell::cause(trace, chosen.cause)
            )
        }
        None => format!("{program}: call {}: {length} from {begin}", chosen.cause),
    }
}

/// Adds the rows of the devices with an operation in the window, the busiest if they are too many. Says how many are left
/// out.
fn devices(
    trace: &Trace,
    chosen: Chosen,
    columns: usize,
    most: usize,
    rows: &mut Vec<Row>,
) -> usize {
    let Chosen { window, cause } = chosen;
    let least = (window.length() / NAMED).max(1);
    let mut all = Vec::new();
    for (place, device) in trace.devices.iter().enumerate() {
        let (mut lanes, mut met, mut time) = (Vec::new(), false, 0.0);
        for (lane, name) in device.shown() {
            let mut bars = Bars::new(window, columns);
            let mut names = Vec::new();
            for op in &lane.ops {
                let strong = cause == 0 || op.cause == cause;
                if !bars.add(Kind::of_op(op.what), strong, op.from, op.to) {
                    continue;
                }
                met = true;
                let (from, to) = window.within(op.from, op.to);
                if to.saturating_sub(from) >= least && names.len() < NAMES {
                    names.push((tell::short(trace, op), from, to));
                }
            }
            let columns = bars.columns();
            let shares = columns.iter().flatten().map(|p| p.share);
            let busy = shares.fold(0.0, |sum, share| sum + share) / columns.len() as f64;
            time += busy;
            lanes.push(Row {
                owner: match lanes.len() {
                    0 => format!("device {} {}", device.id, device.name)
                        .trim_end()
                        .to_owned(),
                    _ => String::new(),
                },
                lane: name,
                columns,
                names,
                busy: Some(busy),
            });
        }
        if met {
            all.push((time, place, lanes));
        }
    }
    let left = keep_busiest(&mut all, most);
    rows.extend(all.into_iter().flat_map(|(_, _, lanes)| lanes));
    left
}

/// Keeps the busiest, in the order of their places. Says how many go.
fn keep_busiest<T>(all: &mut Vec<(f64, usize, T)>, most: usize) -> usize {
    let left = all.len().saturating_sub(most);
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.truncate(most);
    all.sort_by_key(|(_, place, _)| *place);
    left
}

/// Adds the rows of threads: for a call, those of its thread and of threads that served faults in its time; else all that did
/// something, the busiest if they are too many. Says how many are left out.
fn threads(
    trace: &Trace,
    chosen: Chosen,
    columns: usize,
    most: usize,
    rows: &mut Vec<Row>,
) -> usize {
    let own = trace.cause(chosen.cause);
    let mut all = Vec::new();
    for (place, thread) in trace.threads.iter().enumerate() {
        let owner = own.filter(|(of, _)| *of == place).map(|(_, slice)| slice);
        let mut bars = Bars::new(chosen.window, columns);
        let (mut met, mut faults) = (false, false);
        for slice in &thread.slices {
            let strong = belongs(slice, chosen.cause, owner);
            if bars.add(Kind::of_slice(slice.did), strong, slice.from, slice.to) {
                met = true;
                faults |= slice.did == Did::Fault;
            }
        }
        if !met || chosen.cause != 0 && owner.is_none() && !faults {
            continue;
        }
        let columns = bars.columns();
        let shares = columns.iter().flatten().map(|p| p.share);
        // The thread that made the call is shown in any case.
        let time = shares.fold(0.0, |sum, share| sum + share)
            + if owner.is_some() { f64::MAX } else { 0.0 };
        all.push((time, place, row(thread, columns)));
    }
    let left = keep_busiest(&mut all, most);
    rows.extend(all.into_iter().map(|(_, _, row)| row));
    left
}

fn row(thread: &Thread, columns: Vec<Vec<Part>>) -> Row {
    Row {
        owner: format!("thread {} {}", thread.tid, thread.name),
        lane: "",
        columns,
        names: Vec::new(),
        busy: None,
    }
}

/// Whether a slice belongs to the call or fault that is shown. Page locks do not say whose they are: it is that of the call
/// inside which they lie.
fn belongs(slice: &Slice, cause: u64, own: Option<&Slice>) -> bool {
    let inside = |own: &Slice| own.from <= slice.from && slice.to <= own.to;
    cause == 0 || slice.cause == cause || slice.cause == 0 && own.is_some_and(inside)
}
