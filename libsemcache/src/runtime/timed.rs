//! The time of the program's calls, by routine and by what it is spent on ([`TimeTable`](crate::base::counters::TimeTable)).
//!
//! The library's entry times what it leaves to the host BLAS ([`HostCall`]): a call that a decision has left there from its begin to its
//! end, and of the small calls, which need no decision, a few ([`small`]).

pub mod small;

use core::cell::Cell;

use crate::base::counters::{PAGE, RoutineTimes};
use crate::blas::plain::{self, Plain};
use crate::process::spent::{self, ByKind, Span};

std::thread_local! {
    /// When the last call of this thread that went on to the host BLAS left the runtime, and what it is predicted to take there.
    static LEFT: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// A call that is timed. A handler of the program may leave it by a jump: then its time is lost.
#[derive(Debug)]
pub(super) struct Timed {
    index: usize,
    span: Span,
    before: ByKind,
    plain: Plain,
}

/// Where a call ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ran {
    /// On devices.
    Devices,
    /// In the host BLAS, which the runtime called.
    Host,
    /// The host BLAS runs it now.
    Left,
}

impl Timed {
    /// A call begins of the routine, or row, with this index.
    pub(super) fn begin(index: usize) -> Timed {
        Timed::since(0, index)
    }

    /// As [`Timed::begin`]; the call began at this moment, if it is not 0.
    pub(super) fn since(begun: u64, index: usize) -> Timed {
        Timed {
            index,
            span: match begun {
                0 => Span::begin(),
                _ => Span::since(begun),
            },
            before: spent::begin(),
            plain: plain::take(Plain::default()),
        }
    }

    /// The call has ended, or goes on in the host BLAS.
    pub(super) fn end(self, ran: Ran) {
        let row = PAGE.times.row(self.index);
        let plain = plain::take(self.plain);
        let [kernels, transfers, turn, page_lock, starting, host] = spent::take(&self.before);
        let all = [
            (&row.kernels, kernels),
            (&row.transfers, transfers),
            (&row.turn, turn),
            (&row.page_lock, page_lock),
            (&row.starting, starting),
            (&row.host, host),
        ];
        for (counter, ns) in all {
            if ns > 0 {
                counter.add(ns);
            }
        }
        if ran == Ran::Devices {
            for (counter, ns) in [
                (&row.plain, plain.known),
                (&row.plain_predicted, plain.predicted),
            ] {
                if ns > 0 {
                    // What the host BLAS computed of the call counts as it was.
                    counter.add(ns.saturating_sub(host));
                }
            }
        }
        let (own, ended) = self.span.end();
        row.deciding.add(own);
        let plain = plain.known + plain.predicted;
        match ran {
            Ran::Devices => small::tick(ended),
            Ran::Host => learn(row, host, plain),
            Ran::Left => LEFT.set((ended, plain)),
        }
    }
}

/// The host BLAS took `ns` for a call that was predicted to take `predicted`; 0: there was no prediction.
fn learn(row: &RoutineTimes, ns: u64, predicted: u64) {
    if ns > 0 && predicted > 0 {
        row.host_measured.add(ns);
        row.host_predicted.add(predicted);
    }
}

/// A call that the library's entry leaves to the host BLAS and is told the end of. Plain numbers, which the entry keeps on its stack: a
/// handler of the program may leave the host BLAS by a jump.
#[derive(Clone, Copy, Debug)]
pub struct HostCall {
    span: Span,
    /// The nanoseconds that it is predicted to take; 0: there is no prediction; [`SMALL`] for a small call.
    predicted: u64,
}

/// A small call is not predicted.
const SMALL: u64 = u64::MAX;

impl HostCall {
    /// A call begins that the runtime has just left to the host BLAS.
    #[must_use]
    pub fn left() -> HostCall {
        let (begun, predicted) = LEFT.replace((0, 0));
        HostCall {
            span: match begun {
                0 => Span::begin(),
                _ => Span::since(begun),
            },
            predicted,
        }
    }

    /// A small call will begin ([`HostCall::begins`]).
    #[must_use]
    pub fn small() -> HostCall {
        HostCall {
            span: Span::since(0),
            predicted: SMALL,
        }
    }

    /// The next instructions call the host BLAS's function. Only for a small call does it matter how many there are before.
    pub fn begins(&mut self) {
        if self.predicted == SMALL {
            self.span = Span::begin();
        }
    }

    /// The call of the routine with this index has ended.
    pub fn end(self, index: usize) {
        let ended = spent::now();
        let ns = self.span.end_at(ended);
        let row = PAGE.times.row(index);
        if self.predicted == SMALL {
            small::took(index, &row.small, ns);
        } else {
            row.host.add(ns);
            learn(row, ns, self.predicted);
            small::tick(ended);
        }
    }
}
