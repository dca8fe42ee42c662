//! Reports from the counters of processes.

use std::collections::BTreeMap;

use semcache_fault::latency::Histogram;

use super::places::{self, Matrix, Place, Site};
use super::time::{Parts, RoutineTime, Time};
use super::{Device, Did, Process, Report, VirtualTime};
use crate::base::counters::{
    self, Identity, Kind, MAX_ROUTINES, OnDevice, PASSED, Page, RoutineTimes, SPARSE, WhyHost,
};
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
    let lasted = seconds(end.saturating_sub(begun_ns.get()));
    let mut did = did(page, faults);
    if !did.time.is_empty() {
        did.time.wall_s = lasted;
    }
    Process {
        pid: id(pid.get()),
        parent: id(parent.get()),
        rank: rank.get().checked_sub(1).map(id),
        command: command.get(),
        processes: 1,
        begun_s: seconds(begun_ns.get()),
        seconds: lasted,
        ended: ended != 0,
        did,
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The least time of calls that the host BLAS ran by which predictions for others are corrected: nanoseconds, and the share of these
/// predictions.
const LEAST: (u64, u64) = (1_000_000, 100);

/// What the host BLAS would have taken for the calls of a routine that ran on devices; `None` if nothing is known of it.
fn plain(row: &RoutineTimes) -> Option<f64> {
    let (known, predicted) = (row.plain.get(), row.plain_predicted.get());
    let (measured, expected) = (row.host_measured.get(), row.host_predicted.get());
    if predicted == 0 {
        return Some(seconds(known));
    }
    let least = LEAST.0.min(predicted / LEAST.1);
    let times = (expected > 0 && measured >= least).then(|| measured as f64 / expected as f64)?;
    Some(seconds(known) + seconds(predicted) * times)
}

/// The times of a routine; `passed` is how many of its calls were passed to the host BLAS without a decision, by reason: first small
/// ones.
fn routine(row: &RoutineTimes, passed: &[u64; PASSED.len()]) -> RoutineTime {
    let small = passed[0];
    let sampled = row.small.of(small);
    // Calls of LAPACK are timed.
    let untimed = PASSED
        .iter()
        .zip(passed)
        .skip(1)
        .filter(|(why, _)| **why != WhyHost::Solver);
    let others: u64 = untimed.map(|(_, calls)| calls).sum();
    let parts = Parts {
        deciding_s: seconds(row.deciding.get()),
        kernels_s: seconds(row.kernels.get()),
        transfers_s: seconds(row.transfers.get()),
        page_lock_s: seconds(row.page_lock.get()),
        turn_s: seconds(row.turn.get()),
        starting_s: seconds(row.starting.get()),
        host_s: seconds(row.host.get()),
        host_sampled_s: seconds(sampled.unwrap_or(0)),
    };
    let on_host = parts.host_s + parts.host_sampled_s;
    RoutineTime {
        plain_estimate_s: plain(row).map(|on_devices| on_devices + on_host),
        untimed_calls: others + if sampled.is_none() { small } else { 0 },
        parts,
    }
}

fn time(page: &Page, faults: &Histogram) -> Time {
    let mut time = Time::default();
    let passed = page.calls.all_passed(&page.sites);
    for ((name, row), passed) in names::all().iter().zip(page.times.rows()).zip(&passed) {
        time.add_routine(name, routine(row, passed));
    }
    debug_assert!(names::all().len() <= MAX_ROUTINES, "rows beyond the names");
    time.add_routine(
        "sparse",
        routine(page.times.row(SPARSE), &[0; PASSED.len()]),
    );
    time.faults_s = seconds(faults.sum());
    time.faults_kernels_s = seconds(page.times.fault_kernels.get());
    time.faults_transfers_s = seconds(page.times.fault_transfers.get());
    time.blas_s += time.faults_s;
    time
}

fn did(page: &Page, faults: &Histogram) -> Did {
    let devices = page.devices.iter().map(device);
    let mut did = Did {
        devices: devices.take_while(|d| !d.name.is_empty()).collect(),
        calls: page.calls.calls(&names::all(), &page.sites),
        time: time(page, faults),
        counts: page.counters.values(),
        degraded: page
            .degraded
            .all()
            .iter()
            .map(|d| d.name().to_owned())
            .collect(),
        sites: Vec::new(),
        matrices: Vec::new(),
    };
    let sites: Vec<Site> = page
        .sites
        .all()
        .map(|(i, s, kind)| site(page, i, s, kind))
        .collect();
    places::add_sites(&mut did.sites, &sites);
    did.sites.retain(|s| s.weight() > 0.0 || s.faults > 0);
    let matrices: Vec<Matrix> = page.matrices.all().map(|(_, m)| matrix(page, m)).collect();
    places::add_matrices(&mut did.matrices, &matrices);
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

fn site(page: &Page, index: usize, site: &counters::Site, kind: Kind) -> Site {
    let mut why_host = BTreeMap::new();
    for (why, n) in site.hosts() {
        why_host.insert(why.name().to_owned(), n);
    }
    let small = page.calls.small_at(index);
    if small > 0 {
        *why_host
            .entry(WhyHost::Small.name().to_owned())
            .or_default() += small;
    }
    Site {
        place: place(page, site),
        does: does(site, kind),
        offloaded: site.offloaded.get(),
        why_host,
        h2d: site.h2d.get(),
        d2h: site.d2h.get(),
        faults: site.faults.get(),
        false_sharing: site.false_sharing.get(),
        buffers: site.buffers.get(),
        seconds: seconds(site.ns.get()),
    }
}

fn does(site: &counters::Site, kind: Kind) -> String {
    let name = match kind {
        Kind::Call(routine) => names::all().get(routine).copied().unwrap_or_default(),
        Kind::Load => "load",
        Kind::Store => "store",
        Kind::Message => {
            let label = site.label.get();
            return label.split(' ').next().unwrap_or_default().to_owned();
        }
    };
    name.to_owned()
}

/// Where a site is: if its code is in the library of C, where that was called.
fn place(page: &Page, site: &counters::Site) -> Place {
    let (address, caller) = (site.address.get(), site.caller.get());
    let own = page.objects.find(address);
    let (found, through) = match page.objects.find(caller) {
        Some(called) if caller != 0 => (Some(called), own.map(|(object, _)| object)),
        _ => (own, None),
    };
    let (object, offset) = found.unwrap_or((String::new(), address));
    let mut line = site.label.get();
    if site.kind() == Some(Kind::Message) {
        line = line
            .split_once(' ')
            .map_or_else(String::new, |(_, line)| line.to_owned());
    }
    Place {
        object,
        offset,
        through: through.unwrap_or_default(),
        line,
    }
}

fn matrix(page: &Page, of: &counters::Matrix) -> Matrix {
    let site = |index: u64| page.sites.get(usize::try_from(index).ok()?.checked_sub(1)?);
    let at = |index: u64| site(index).map(|site| place(page, site));
    let first = site(of.site.get());
    Matrix {
        name: of.name.get(),
        bytes: of.bytes.get(),
        rows: of.rows.get(),
        cols: of.cols.get(),
        first: first.map(|site| place(page, site)).unwrap_or_default(),
        first_does: first
            .and_then(|site| Some(does(site, site.kind()?)))
            .unwrap_or_default(),
        calls: of.calls.get(),
        h2d: of.h2d.get(),
        d2h: of.d2h.get(),
        edges: of.edges.get(),
        loads: of.loads.get(),
        stores: of.stores.get(),
        false_sharing: of.false_sharing.get(),
        seconds: seconds(of.ns.get()),
        solver_calls: of.solver_calls.get(),
        solver_seconds: seconds(of.solver_ns.get()),
        load: at(of.load_site.get()),
        store: at(of.store_site.get()),
    }
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
