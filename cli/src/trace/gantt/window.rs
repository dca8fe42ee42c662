//! Which part of a trace a Gantt chart shows.

use std::collections::HashMap;

use crate::trace::model::{Did, Slice, Trace};

/// A stretch of time that is not empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    pub(crate) from: u64,
    to: u64,
}

impl Window {
    /// From one moment to another; a nanosecond if that is not later.
    pub(crate) fn new(from: u64, to: u64) -> Window {
        let from = from.min(u64::MAX - 1);
        Window {
            from,
            to: to.max(from + 1),
        }
    }

    /// How long it is.
    pub(crate) fn length(self) -> u64 {
        self.to - self.from
    }

    /// The part of a slice that lies in the window.
    pub(crate) fn within(self, from: u64, to: u64) -> (u64, u64) {
        (from.max(self.from), to.min(self.to))
    }

    /// Whether a part of a slice lies in the window; a slice without length may lie at an edge.
    pub(crate) fn meets(self, from: u64, to: u64) -> bool {
        from < self.to && to > self.from || from == to && self.from <= from && from <= self.to
    }
}

/// What is to be shown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Choice {
    /// The whole trace.
    All,
    /// The call or fault of this number.
    Call(u64),
    /// The call that takes longest until its last operation ends.
    Longest,
    /// From one moment to another, in seconds since the trace began; without one, the trace's beginning or end.
    Between(Option<f64>, Option<f64>),
}

impl Choice {
    /// What the options `--call`, `--from` and `--to` ask for.
    pub(crate) fn of(
        call: Option<&str>,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<Choice, String> {
        let seconds = |option: &str, text: Option<&str>| {
            let Some(text) = text else {
                return Ok(None);
            };
            let parsed = text.parse::<f64>().ok();
            let valid = parsed.filter(|s| s.is_finite() && *s >= 0.0);
            match valid {
                Some(seconds) => Ok(Some(seconds)),
                None => Err(format!("{option} {text}: not a number of seconds from 0")),
            }
        };
        if let Some(text) = call {
            if from.is_some() || to.is_some() {
                return Err("--call has a window of its own: leave --from and --to out".to_owned());
            }
            return match (text, text.parse()) {
                ("longest", _) => Ok(Choice::Longest),
                (_, Ok(id)) if id > 0 => Ok(Choice::Call(id)),
                _ => Err(format!(
                    "--call {text}: neither the number of a call nor `longest`"
                )),
            };
        }
        match (seconds("--from", from)?, seconds("--to", to)?) {
            (None, None) => Ok(Choice::All),
            (from, to) => Ok(Choice::Between(from, to)),
        }
    }
}

/// A window, and the number of the call or fault that it shows (0: none).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Chosen {
    pub(crate) window: Window,
    pub(crate) cause: u64,
}

/// Finds the window that a choice means in this trace.
pub(crate) fn choose(trace: &Trace, choice: Choice) -> Result<Chosen, String> {
    let between = |from, to| Chosen {
        window: Window::new(from, to),
        cause: 0,
    };
    match choice {
        Choice::All => Ok(between(trace.from, trace.to)),
        Choice::Call(id) => call(trace, id),
        Choice::Longest => {
            let longest = longest(trace).ok_or("the trace has no call with its times")?;
            call(trace, longest)
        }
        Choice::Between(from, to) => {
            let at = |seconds: f64| trace.from.saturating_add((seconds * 1e9).round() as u64);
            let (begin, end) = (from.map_or(trace.from, at), to.map_or(trace.to, at));
            match to {
                _ if begin < end => Ok(between(begin, end)),
                Some(to) => Err(format!(
                    "--to {to} is not later than the window's beginning"
                )),
                None => Err(format!(
                    "the trace ends at {} s, which is not later than --from",
                    seconds(trace, trace.to)
                )),
            }
        }
    }
}

/// A moment in seconds since the trace began.
fn seconds(trace: &Trace, at: u64) -> f64 {
    at.saturating_sub(trace.from) as f64 / 1e9
}

/// The window of a call: until it has returned and its last operation has ended. If the trace lacks the call itself, it
/// begins with its first operation.
fn call(trace: &Trace, id: u64) -> Result<Chosen, String> {
    let ops = || trace.ops().filter(|(_, _, op)| op.cause == id);
    let first = match trace.cause(id) {
        Some((_, slice)) => Some((slice.from, slice.to)),
        None => ops().map(|(_, _, op)| (op.from, op.to)).min(),
    };
    let Some((from, to)) = first else {
        return Err(missing(trace, id));
    };
    let last = ops().map(|(_, _, op)| op.to).max();
    Ok(Chosen {
        window: Window::new(from, last.unwrap_or(to).max(to)),
        cause: id,
    })
}

fn missing(trace: &Trace, id: u64) -> String {
    let calls = || calls(trace).map(|s| s.cause);
    match (calls().min(), calls().max()) {
        (Some(first), Some(last)) => {
            format!(
                "the trace has no call or fault {id}; its calls have numbers from {first} to {last}"
            )
        }
        _ => format!("the trace has no call or fault {id}, and no call with its times"),
    }
}

fn calls(trace: &Trace) -> impl Iterator<Item = &Slice> {
    let slices = trace.threads.iter().flat_map(|t| &t.slices);
    slices.filter(|s| s.cause != 0 && matches!(s.did, Did::Call(..)))
}

/// The number of the call with the longest window; the first of several.
fn longest(trace: &Trace) -> Option<u64> {
    let mut ends: HashMap<u64, u64> = HashMap::new();
    for (_, _, op) in trace.ops().filter(|(_, _, op)| op.cause != 0) {
        let end = ends.entry(op.cause).or_default();
        *end = op.to.max(*end);
    }
    let length = |s: &&Slice| {
        let end = ends.get(&s.cause).map_or(s.to, |end| s.to.max(*end));
        (end.saturating_sub(s.from), u64::MAX - s.cause)
    };
    calls(trace).max_by_key(length).map(|s| s.cause)
}
