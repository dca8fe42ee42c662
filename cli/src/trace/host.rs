//! What the host did while devices had to wait for it.

use super::gaps::{Cause, Gap, parts};
use super::model::{Thread, Trace};
use super::threads::{Doing, doing, stretches};

/// What a thread did, roughly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// It was in no call.
    Program,
    /// It was in no call, and the last call ran on the host BLAS: in that, or behind it.
    HostBlas,
    /// It was in a call, and nothing more is known.
    Call,
    /// It waited for an operation.
    Wait,
    /// It page-locked memory, or ended that.
    PageLock,
    /// It served a page fault, or waited until its own was served.
    Fault,
    /// It brought the devices up.
    Start,
    /// The thread is not known.
    Unknown,
}

impl Kind {
    /// All kinds.
    pub(crate) const ALL: [Kind; 8] = [
        Kind::Program,
        Kind::HostBlas,
        Kind::Call,
        Kind::Wait,
        Kind::PageLock,
        Kind::Fault,
        Kind::Start,
        Kind::Unknown,
    ];

    fn of(doing: Doing) -> Kind {
        match doing {
            Doing::Program => Kind::Program,
            Doing::HostBlas(..) => Kind::HostBlas,
            Doing::Call(..) => Kind::Call,
            Doing::Wait(..) => Kind::Wait,
            Doing::Pin(..) | Doing::Unpin(..) => Kind::PageLock,
            Doing::Fault(..) | Doing::Faulted(..) => Kind::Fault,
            Doing::Start(_) => Kind::Start,
        }
    }
}

/// The place of the thread that queued the kernel which ended a gap.
pub(crate) fn queued_by(trace: &Trace, gap: &Gap) -> Option<usize> {
    let kernel = trace.op(gap.kernel)?;
    match trace.cause(kernel.cause) {
        Some((thread, _)) => Some(thread),
        None => (trace.threads.len() == 1).then_some(0),
    }
}

/// For how long a device waited for the host, by what the thread that queued the next kernel did, in the order of
/// [`Kind::ALL`]. The gaps of one device, in the order of time.
pub(crate) fn host(trace: &Trace, gaps: &[Gap]) -> [u64; Kind::ALL.len()] {
    let mut sums = [0; Kind::ALL.len()];
    let mut spans = vec![Vec::new(); trace.threads.len()];
    for gap in gaps {
        let of_host = parts(trace, gap)
            .into_iter()
            .find(|part| part.cause == Cause::Host);
        let Some(part) = of_host else { continue };
        match queued_by(trace, gap).and_then(|thread| spans.get_mut(thread)) {
            Some(spans) => spans.push((part.from, part.to)),
            None => sums[Kind::Unknown as usize] += part.to - part.from,
        }
    }
    for (thread, spans) in trace.threads.iter().zip(spans) {
        add(thread, &spans, &mut sums);
    }
    sums
}

/// Adds what a thread did within spans that follow each other: in one pass over the thread, which may have millions of
/// slices.
fn add(thread: &Thread, spans: &[(u64, u64)], sums: &mut [u64; Kind::ALL.len()]) {
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
        return;
    };
    let mut left = spans;
    stretches(thread, first.0, last.1, |stretch| {
        let kind = Kind::of(doing(&stretch)) as usize;
        while let Some(((from, to), rest)) = left.split_first() {
            let (from, end) = ((*from).max(stretch.from), (*to).min(stretch.to));
            sums[kind] += end.saturating_sub(from);
            if *to > stretch.to {
                break;
            }
            left = rest;
        }
    });
}
