//! The time of the program's calls, by routine and by what it is spent on ([`TimeTable`](crate::base::counters::TimeTable)).
//!
//! The library's entry times what it leaves to the host BLAS ([`HostCall`]): a call that a decision has left there from its begin to its
//! end, and of the small calls, which need no decision, a few ([`small`]).

pub mod small;

use core::cell::Cell;

use crate::base::counters::{Matrix, PAGE, RoutineTimes};
use crate::blas::plain::{self, Plain};
use crate::host;
use crate::process::spent::{self, ByKind, Span};

/// A call that went on to the host BLAS: when it left the runtime, and what it is predicted to take there, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Left {
    ended: u64,
    plain: u64,
}

/// A call that is timed. A handler of the program may leave it by a jump: then its time is lost.
#[derive(Debug)]
pub(super) struct Timed {
    index: usize,
    /// The call site, by its index among the counters.
    site: Option<usize>,
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
        Timed::since(0, index, None)
    }

    /// As [`Timed::begin`]; the call began at this moment, if it is not 0, at this site.
    pub(super) fn since(begun: u64, index: usize, site: Option<usize>) -> Timed {
        Timed {
            index,
            site,
            span: match begun {
                0 => Span::begin(),
                _ => Span::since(begun),
            },
            before: spent::begin(),
            plain: plain::take(Plain::default()),
        }
    }

    /// The call has ended, or goes on in the host BLAS, as `left` is to say.
    pub(super) fn end(self, ran: Ran, left: Option<&Cell<Left>>) {
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
        add_to_site(
            self.site,
            own + kernels + transfers + turn + page_lock + starting + host,
        );
        let plain = plain.known + plain.predicted;
        match ran {
            Ran::Devices => small::tick(ended),
            Ran::Host => learn(row, host, plain),
            Ran::Left => {
                if let Some(left) = left {
                    left.set(Left { ended, plain });
                }
            }
        }
    }
}

/// Calls at a site took this number of nanoseconds more.
fn add_to_site(site: Option<usize>, ns: u64) {
    if let Some(site) = site.and_then(|index| PAGE.sites.get(index)) {
        site.ns.add(ns);
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
    pub fn left(left: Left) -> HostCall {
        let (begun, predicted) = (left.ended, left.plain);
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

    /// The call of the routine with this index has ended, at this site. `matrix`: of a solver, as [`solver_matrix`] has said.
    pub fn end(self, index: usize, site: Option<usize>, matrix: Option<&Matrix>) {
        let ended = spent::now();
        let ns = self.span.end_at(ended);
        let row = PAGE.times.row(index);
        if self.predicted == SMALL {
            small::took(index, &row.small, ns);
        } else {
            row.host.add(ns);
            add_to_site(site, ns);
            learn(row, ns, self.predicted);
            if let Some(matrix) = matrix {
                matrix.solver_calls.add(1);
                matrix.solver_ns.add(ns);
            }
            small::tick(ended);
        }
    }
}

/// The counters of the matrix at an address that a solver of the host computes on, with this number of rows and columns; `site` calls the
/// solver.
#[must_use]
pub fn solver_matrix(
    addr: usize,
    size: (usize, usize),
    element: usize,
    site: Option<usize>,
) -> Option<&'static Matrix> {
    let block = host::find(addr).map(|block| (block.start, block.len));
    let (start, len) = block.unwrap_or((addr, size.0 * size.1 * element));
    let matrix = PAGE.matrices.find(start)?;
    matrix.tell(len, size, site);
    Some(matrix)
}
