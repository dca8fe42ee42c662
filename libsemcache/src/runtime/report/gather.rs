//! Reports from the counters of processes.

use semcache_fault::latency::Histogram;

use super::{Device, Did, Process, Report, VirtualTime};
use crate::base::counters::{Identity, OnDevice, Page};
use crate::blas::names;

/// What a process did, by its counters. They may be those of another process, and go on counting.
pub(in crate::runtime) fn process(page: &Page, faults: &Histogram, now_ns: u64) -> Process {
    let Identity {
        pid,
        parent,
        begun_ns,
        ended_ns,
        rank,
        command,
    } = &page.identity;
    let id = |n: u64| u32::try_from(n).unwrap_or(0);
    let ended = ended_ns.get();
    let end = if ended == 0 { now_ns } else { ended };
    let seconds = |ns: u64| ns as f64 / 1e9;
    Process {
        pid: id(pid.get()),
        parent: id(parent.get()),
        rank: rank.get().checked_sub(1).map(id),
        command: command.get(),
        processes: 1,
        begun_s: seconds(begun_ns.get()),
        seconds: seconds(end.saturating_sub(begun_ns.get())),
        ended: ended != 0,
        did: did(page, faults),
    }
}

fn did(page: &Page, faults: &Histogram) -> Did {
    let devices = page.devices.iter().map(device);
    let mut did = Did {
        devices: devices.take_while(|d| !d.name.is_empty()).collect(),
        calls: page.calls.calls(&names::all()),
        counts: page.counters.values(),
        degraded: page
            .degraded
            .all()
            .iter()
            .map(|d| d.name().to_owned())
            .collect(),
    };
    let bytes = &mut did.counts.bytes;
    let moved = [bytes.h2d, bytes.d2h, bytes.mapped];
    let moved: i128 = moved.into_iter().map(i128::from).sum();
    let saved = i128::from(bytes.per_call) - moved;
    bytes.saved = i64::try_from(saved).unwrap_or(if saved < 0 { i64::MIN } else { i64::MAX });
    let latency = |percent| faults.percentile(percent).map_or(0.0, |ns| ns as f64 / 1e3);
    let of = &mut did.counts.faults;
    (of.p50_us, of.p99_us) = (latency(50.0), latency(99.0));
    did
}

fn device(did: &OnDevice) -> Device {
    let [kernels_ns, uploads_ns, write_backs_ns, peers_ns, end_ns] =
        did.in_virtual_time.all().map(|n| n.get());
    Device {
        name: did.name.get(),
        kind: did.kind.get(),
        memory: usize::try_from(did.memory.get()).unwrap_or(usize::MAX),
        calls: did.calls.get(),
        tasks: did.tasks.get(),
        h2d: did.h2d.get(),
        d2h: did.d2h.get(),
        p2p: did.p2p.get(),
        virtual_time: VirtualTime {
            kernels_ns,
            uploads_ns,
            write_backs_ns,
            peers_ns,
            end_ns,
        },
        left_out: did.reasons(),
    }
}

impl Report {
    /// Adds a process, if it counted anything.
    pub(in crate::runtime) fn add_counted(&mut self, process: Process) {
        if !process.did.is_empty() {
            self.add_process(process);
        }
    }
}
