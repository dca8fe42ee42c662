//! When a device ran no kernel, and what was waited for.

use semcache::base::DeviceId;
use semcache::trace::OpId;

use super::model::{Device, KERNELS, Op, Trace, What};

/// What a device waited for while no kernel ran on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// The host had not queued the next kernel yet.
    Host,
    /// An upload.
    Upload,
    /// A download.
    Download,
    /// A copy between devices.
    Peer,
    /// A copy within a device.
    Within,
    /// A kernel of another device, or of another stream.
    Kernel,
    /// All that the kernel waits for had completed, and the device had not begun it yet.
    Launch,
    /// An operation whose times are not in the trace.
    Unknown,
}

impl Cause {
    /// All causes.
    pub(crate) const ALL: [Cause; 8] = [
        Cause::Host,
        Cause::Upload,
        Cause::Download,
        Cause::Peer,
        Cause::Within,
        Cause::Kernel,
        Cause::Launch,
        Cause::Unknown,
    ];

    fn of(what: What) -> Cause {
        match what {
            What::Upload => Cause::Upload,
            What::Download => Cause::Download,
            What::Peer(_) => Cause::Peer,
            What::Within => Cause::Within,
            What::Kernel => Cause::Kernel,
        }
    }
}

/// A time in which no kernel ran on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gap {
    pub(crate) device: u8,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The kernel that ended it.
    pub(crate) kernel: OpId,
}

/// A part of a gap with one cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) cause: Cause,
    /// The operation that was waited for.
    pub(crate) op: Option<OpId>,
}

/// The gaps of a device, in the order of time: from its first operation to its first kernel, and between kernels.
pub(crate) fn gaps(device: &Device) -> Vec<Gap> {
    let first = device.lanes.iter().filter_map(|lane| lane.ops.first());
    let mut end = first.map(|op| op.from).min().unwrap_or(0);
    let mut all = Vec::new();
    for op in &device.lanes[KERNELS].ops {
        if op.from > end {
            all.push(Gap {
                device: device.id,
                from: end,
                to: op.from,
                kernel: OpId::new(DeviceId(device.id), KERNELS as u8, op.seq),
            });
        }
        end = end.max(op.to);
    }
    all
}

/// The operations that one had to wait for: those of other lanes that it names, and the one before it in its lane.
fn earlier<'a>(
    trace: &'a Trace,
    id: OpId,
    op: &Op,
) -> impl Iterator<Item = (OpId, Option<&'a Op>)> {
    let named = op.after.into_iter().filter(|after| after.seq() != 0);
    let all = named.chain(trace.before(id));
    all.map(|after| (after, trace.op(after)))
}

/// Of the operations that one had to wait for, the one that completed last.
fn last<'a>(trace: &'a Trace, id: OpId, op: &Op) -> Option<(OpId, &'a Op)> {
    let known = earlier(trace, id, op).filter_map(|(id, op)| Some((id, op?)));
    known.max_by_key(|(_, op)| op.to)
}

/// The parts of a gap, in the order of time. Until the kernel is queued, the cause is the host. Then it is the
/// operation which the kernel waits for and which completed last, until that has completed.
pub(crate) fn parts(trace: &Trace, gap: &Gap) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut at = gap.from;
    let mut part = |to: u64, cause, op| {
        let to = to.clamp(at, gap.to);
        if to > at {
            parts.push(Part {
                from: at,
                to,
                cause,
                op,
            });
            at = to;
        }
    };
    let Some(kernel) = trace.op(gap.kernel) else {
        part(gap.to, Cause::Unknown, None);
        return parts;
    };
    part(kernel.queued, Cause::Host, None);
    let queued = kernel.queued.max(gap.from);
    match last(trace, gap.kernel, kernel).filter(|(_, op)| op.to > queued) {
        Some((id, op)) => part(op.to, Cause::of(op.what), Some(id)),
        None => {
            let named = |after: &OpId| after.seq() != 0 && trace.op(*after).is_none();
            if let Some(absent) = kernel.after.into_iter().find(named) {
                part(gap.to, Cause::Unknown, Some(absent));
            }
        }
    }
    part(gap.to, Cause::Launch, None);
    parts
}

/// How far a chain of operations, each of which waited for the next, is followed.
const STEPS: usize = 3;

/// An operation and up to three that were waited for in turn: each is the last to complete of those that the one before
/// it had to wait for, and completed after both `since` and the moment at which the one before it was queued.
pub(crate) fn chain(trace: &Trace, id: OpId, since: u64) -> Vec<OpId> {
    let mut chain = vec![id];
    let mut at = trace.op(id);
    while let Some(op) = at.take()
        && chain.len() <= STEPS
        && let Some(&id) = chain.last()
    {
        let found = last(trace, id, op);
        if let Some((id, earlier)) = found
            && earlier.to > op.queued.max(since)
            && earlier.from < op.from
        {
            chain.push(id);
            at = Some(earlier);
        }
    }
    chain
}

/// For how long a device ran no kernel, by cause in the order of [`Cause::ALL`].
pub(crate) fn idle(trace: &Trace, gaps: &[Gap]) -> [u64; Cause::ALL.len()] {
    let mut sums = [0; Cause::ALL.len()];
    for gap in gaps {
        for part in parts(trace, gap) {
            sums[part.cause as usize] += part.to - part.from;
        }
    }
    sums
}

/// The longest gaps, the longest first.
pub(crate) fn longest(mut gaps: Vec<Gap>, number: usize) -> Vec<Gap> {
    gaps.sort_by_key(|gap| (u64::MAX - (gap.to - gap.from), gap.from));
    gaps.truncate(number);
    gaps
}
