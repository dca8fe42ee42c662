//! What a thread did at each moment: the innermost of its slices.

use std::collections::HashMap;

use super::model::{Did, Name, Side, Slice, Thread};
use semcache::trace::OpId;

/// A stretch of a thread's time in which the same slices are open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch<'a> {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The innermost slice.
    pub(crate) inside: Option<&'a Slice>,
    /// The innermost call or fault.
    pub(crate) call: Option<&'a Slice>,
    /// The last call that ended before.
    pub(crate) before: Option<&'a Slice>,
}

/// The slices that are open at a moment, and what is known of the time before it.
#[derive(Default)]
struct Open<'a> {
    at: u64,
    slices: Vec<&'a Slice>,
    before: Option<&'a Slice>,
}

impl<'a> Open<'a> {
    fn advance(&mut self, to: u64, emit: &mut impl FnMut(Stretch<'a>)) {
        if to <= self.at {
            return;
        }
        let call = |s: &&&Slice| matches!(s.did, Did::Call(..) | Did::Fault);
        emit(Stretch {
            from: self.at,
            to,
            inside: self.slices.last().copied(),
            call: self.slices.iter().rev().find(call).copied(),
            before: self.before,
        });
        self.at = to;
    }

    fn ended(&mut self, slice: &'a Slice) {
        if matches!(slice.did, Did::Call(..)) {
            self.before = Some(slice);
        }
    }

    /// Goes on to a moment, and ends the slices that end until then.
    fn until(&mut self, moment: u64, emit: &mut impl FnMut(Stretch<'a>)) {
        while let Some(last) = self.slices.last().copied().filter(|s| s.to <= moment) {
            self.advance(last.to, emit);
            self.slices.pop();
            self.ended(last);
        }
        self.advance(moment, emit);
    }
}

/// The stretches of a thread between two moments, in the order of time; they cover all of it.
pub(crate) fn stretches<'a>(
    thread: &'a Thread,
    from: u64,
    to: u64,
    mut emit: impl FnMut(Stretch<'a>),
) {
    let mut open = Open {
        at: from,
        ..Open::default()
    };
    let begun = thread.slices.partition_point(|s| s.from < to);
    for slice in &thread.slices[..begun] {
        if slice.to <= from {
            open.ended(slice);
            continue;
        }
        open.until(slice.from.max(from), &mut emit);
        open.slices.push(slice);
    }
    open.until(to, &mut emit);
}

/// What a thread was doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Doing {
    /// It was inside the call of this number and name, and nothing more is known.
    Call(u64, Name),
    /// It waited for an operation, in the call or fault of this number.
    Wait(OpId, u64),
    /// It served the page fault of this number.
    Fault(u64, Name),
    /// It waited until its page fault of this number and name was served.
    Faulted(u64, Name),
    /// It page-locked this many bytes, in the call or fault of this number (0: in none).
    Pin(u64, u64),
    /// It ended the page lock of this many bytes.
    Unpin(u64, u64),
    /// It brought the devices up: this step.
    Start(Name),
    /// It was in no call; the last call before ran on the host BLAS, for this reason.
    HostBlas(Name, Name),
    /// It was in no call.
    Program,
}

/// What the thread did in a stretch of its time.
pub(crate) fn doing(stretch: &Stretch<'_>) -> Doing {
    let id = stretch.call.map_or(0, |call| call.cause);
    match (stretch.inside.map(|i| (i.did, i)), stretch.before) {
        (Some((Did::Wait(op), i)), _) => Doing::Wait(op, i.cause.max(id)),
        (Some((Did::Pin(bytes), _)), _) => Doing::Pin(bytes, id),
        (Some((Did::Unpin(bytes), _)), _) => Doing::Unpin(bytes, id),
        (Some((Did::Start, i)), _) => Doing::Start(i.name),
        (Some((Did::Fault, i)), _) => Doing::Fault(i.cause, i.name),
        (Some((Did::Faulted, i)), _) => Doing::Faulted(i.cause, i.name),
        (Some((_, i)), _) => Doing::Call(i.cause, i.name),
        (None, Some(before)) => match before.did {
            Did::Call(Side::Host(why), _) => Doing::HostBlas(before.name, why),
            _ => Doing::Program,
        },
        (None, None) => Doing::Program,
    }
}

/// What a thread did between two moments and for how long, the longest first.
pub(crate) fn doings(thread: &Thread, from: u64, to: u64) -> Vec<(Doing, u64)> {
    let mut sums: HashMap<Doing, u64> = HashMap::new();
    stretches(thread, from, to, |s| {
        *sums.entry(doing(&s)).or_insert(0) += s.to - s.from;
    });
    let mut all: Vec<_> = sums.into_iter().collect();
    all.sort_by_key(|(_, length)| u64::MAX - length);
    all
}
