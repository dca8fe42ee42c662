//! The time that a thread takes to queue the tasks of a call, and how much of it is the runtime's own.
//!
//! From the time of a call on devices are taken: the machine's functions (the driver, and the packing of copies that pass through
//! staging memory), waits for operations, and page-locking. What is left is the runtime's own: the plan, the directory of the
//! matrices, page protection. Tasks are counted by their kernels.

use std::collections::HashMap;

use super::model::{Did, KERNELS, Side, Slice, Thread, Trace};

/// A call on devices; times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Issued {
    pub(super) id: u64,
    pub(super) sizes: [u32; 3],
    pub(super) kernels: u64,
    pub(super) copies: u64,
    /// The operations of the call that were not complete when its last one was queued.
    pub(super) in_flight: u64,
    /// The time in the machine's functions.
    pub(super) machine: u64,
    /// The rest of the call's time, without waits and page-locking.
    pub(super) own: u64,
}

/// What was queued for a call.
#[derive(Clone, Default)]
struct Work {
    kernels: u64,
    copies: u64,
    machine: u64,
    last: u64,
    ends: Vec<u64>,
}

/// The calls on devices that queued at least `least` kernels, in the order of their numbers.
pub(super) fn calls(trace: &Trace, least: u64) -> Vec<Issued> {
    let mut works: HashMap<u64, Work> = HashMap::new();
    for (_, lane, op) in trace.ops().filter(|(_, _, op)| op.cause != 0) {
        // What another thread or a later fault asked for is not in the call's time.
        let queued_inside = |call: &Slice| (call.from..=call.to).contains(&op.queued);
        if !trace
            .cause(op.cause)
            .is_some_and(|(_, call)| queued_inside(call))
        {
            continue;
        }
        let work = works.entry(op.cause).or_default();
        match lane {
            KERNELS => work.kernels += 1,
            _ => work.copies += 1,
        }
        work.machine += op.queueing;
        work.last = work.last.max(op.queued);
        work.ends.push(op.to);
    }
    let mut all: Vec<Issued> = Vec::new();
    for thread in &trace.threads {
        of_thread(thread, &works, &mut all);
    }
    all.retain(|call| call.kernels >= least);
    all.sort_by_key(|call| call.id);
    all
}

fn of_thread(thread: &Thread, works: &HashMap<u64, Work>, all: &mut Vec<Issued>) {
    let mut inside: Option<(usize, u64)> = None;
    for slice in &thread.slices {
        match slice.did {
            Did::Call(Side::Devices, sizes) => {
                inside = works.get(&slice.cause).map(|work| {
                    all.push(Issued {
                        id: slice.cause,
                        sizes,
                        kernels: work.kernels,
                        copies: work.copies,
                        in_flight: work.ends.iter().filter(|end| **end > work.last).count() as u64,
                        machine: work.machine,
                        own: (slice.to - slice.from).saturating_sub(work.machine),
                    });
                    (all.len() - 1, slice.to)
                });
            }
            Did::Wait(_) | Did::Pin(_) | Did::Unpin(_) => {
                if let Some((at, _)) = inside.filter(|(_, end)| slice.to <= *end) {
                    all[at].own = all[at].own.saturating_sub(slice.to - slice.from);
                }
            }
            _ => {}
        }
    }
}
