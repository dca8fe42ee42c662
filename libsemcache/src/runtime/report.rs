//! The report of a process, or the sum of several: one structure that the library writes as JSON when the process exits,
//! and that `semcache report` and the tests read.

pub mod file;
pub(super) mod gather;
pub mod places;
pub mod table;
pub mod time;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::base::counters::{Calls, Values};
use places::{Matrix, Site};
use time::Time;

/// The version of the JSON layout. It rises when a key is renamed, goes or changes its meaning; a new key does not change
/// it, since readers ignore keys that they do not know.
pub const VERSION: u32 = 3;

/// A device of the process.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// The GPU's product name, or `simN (...)` for simulated device N, with the cores that it shares and the machine that it stands for.
    pub name: String,
    /// `sim` or `cuda`.
    pub kind: String,
    /// Bytes of device memory that the process may use.
    pub memory: usize,
    /// Calls of which the device ran a task.
    pub calls: u64,
    /// Tasks that the device ran.
    pub tasks: u64,
    /// Bytes copied to the device from the host.
    pub h2d: u64,
    /// Bytes copied from the device to the host.
    pub d2h: u64,
    /// Bytes copied to the device from other devices.
    pub p2p: u64,
    /// What its operations took on the modelled machine, in virtual time.
    #[serde(skip_serializing_if = "VirtualTime::is_zero")]
    pub virtual_time: VirtualTime,
    /// Calls on other devices only, by the name of the reason ([`LeftOut::name`](crate::base::counters::LeftOut::name)). A call
    /// that repeats an earlier one is not counted here.
    pub left_out: BTreeMap<String, u64>,
}

/// Nanoseconds of a device's operations on the modelled machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VirtualTime {
    /// Its kernels together.
    pub kernels_ns: u64,
    /// Its copies from the host together.
    pub uploads_ns: u64,
    /// Its copies to the host together.
    pub write_backs_ns: u64,
    /// Its copies from other devices together.
    pub peers_ns: u64,
    /// When the last operation is complete.
    pub end_ns: u64,
}

impl VirtualTime {
    fn is_zero(&self) -> bool {
        *self == VirtualTime::default()
    }

    /// Adds what another process took; each has a time of its own.
    fn add(&mut self, other: &VirtualTime) {
        self.kernels_ns += other.kernels_ns;
        self.uploads_ns += other.uploads_ns;
        self.write_backs_ns += other.write_backs_ns;
        self.peers_ns += other.peers_ns;
        self.end_ns = self.end_ns.max(other.end_ns);
    }
}

impl Device {
    /// Adds what another process did on its device of the same number.
    fn add(&mut self, other: &Device) {
        self.calls += other.calls;
        self.tasks += other.tasks;
        self.h2d += other.h2d;
        self.d2h += other.d2h;
        self.p2p += other.p2p;
        self.virtual_time.add(&other.virtual_time);
        for (why, n) in &other.left_out {
            *self.left_out.entry(why.clone()).or_default() += n;
        }
    }
}

/// What a process did, or several together.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Did {
    /// The devices that the process used; of several processes, those of the first that used any.
    pub devices: Vec<Device>,
    /// The calls of each routine, by its name without prefix and underscores (`dgemm`).
    pub calls: BTreeMap<String, Calls>,
    /// What they took, on the threads that made them.
    pub time: Time,
    /// All other counters.
    #[serde(flatten)]
    pub counts: Values,
    /// The features that were unavailable, or were given up while the program ran ([`Degraded`](crate::base::counters::Degraded)).
    pub degraded: BTreeSet<String>,
    /// Where the calls and the accesses that faulted were made, those that matter most first.
    pub sites: Vec<Site>,
    /// The blocks of host memory with operands of calls on devices, those that matter most first.
    pub matrices: Vec<Matrix>,
}

/// A process of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Its id; 0 for several processes together that have no entries of their own.
    pub pid: u32,
    /// The id of its parent.
    pub parent: u32,
    /// Its rank among those that an MPI launcher has started on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Its command line, the first 255 bytes of it.
    pub command: String,
    /// How many processes are in this entry.
    pub processes: u64,
    /// When its counting began: seconds since the machine started.
    pub begun_s: f64,
    /// Seconds from its first call until its end, or until the report was made.
    pub seconds: f64,
    /// Whether it has told its end: not if it was killed, ended by `_exit`, executed another program, or still runs.
    pub ended: bool,
    /// What it did.
    #[serde(flatten)]
    pub did: Did,
}

/// What the processes of a run did on one machine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// [`VERSION`]; 0 in a sum to which no report has been added.
    pub version: u32,
    /// The name of the run.
    pub run: String,
    /// The machine's name.
    pub node: String,
    /// The sum of its processes.
    #[serde(flatten)]
    pub sum: Did,
    /// Processes that could not be counted, because too many were counted at the same time.
    pub refused: u32,
    /// The processes that made BLAS calls, in the order of their beginning.
    pub processes: Vec<Process>,
}

/// How many processes of a report have entries of their own: the others are added up in one.
const ENTRIES: usize = 256;

impl Did {
    /// Adds the counts of another process. Percentiles cannot be added: of two the larger one stays.
    pub fn add(&mut self, other: &Did) {
        // Ranks of one job may have different devices: then those of the first that used any are shown.
        let same = |a: &Device, b: &Device| (&a.name, &a.kind) == (&b.name, &b.kind);
        let mut both = self.devices.iter().zip(&other.devices);
        if both.all(|(a, b)| same(a, b)) {
            for (mine, theirs) in self.devices.iter_mut().zip(&other.devices) {
                mine.add(theirs);
            }
            let more = other.devices.iter().skip(self.devices.len());
            self.devices.extend(more.cloned());
        }
        for (name, calls) in &other.calls {
            self.calls.entry(name.clone()).or_default().add(calls);
        }
        self.time.add(&other.time);
        self.counts += &other.counts;
        // Values that are computed from counters are not in the sum of the table.
        self.counts.bytes.saved += other.counts.bytes.saved;
        let (mine, theirs) = (&mut self.counts.faults, &other.counts.faults);
        mine.p50_us = mine.p50_us.max(theirs.p50_us);
        mine.p99_us = mine.p99_us.max(theirs.p99_us);
        self.degraded.extend(other.degraded.iter().cloned());
        places::add_sites(&mut self.sites, &other.sites);
        places::add_matrices(&mut self.matrices, &other.matrices);
    }

    /// Whether there are no calls, no counts and no degraded features.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.degraded.is_empty() && self.counts == Values::default()
    }

    /// How many calls ran on devices.
    #[must_use]
    pub fn offloaded(&self) -> u64 {
        self.calls.values().map(|c| c.offloaded).sum()
    }
}

impl Report {
    /// A report of no process yet.
    #[must_use]
    pub fn new(run: &str) -> Report {
        let node = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        Report {
            version: VERSION,
            run: run.to_owned(),
            node,
            ..Report::default()
        }
    }

    /// A report from its text.
    ///
    /// # Errors
    /// Text that is no report, or one of another version.
    pub fn parse(text: &str) -> Result<Self, String> {
        let report: Report =
            serde_json::from_str(text).map_err(|e| format!("not a report: {e}"))?;
        match report.version {
            VERSION => Ok(report),
            0 => Err("not a report: it has no version".to_owned()),
            other => Err(format!(
                "a report of version {other}; {VERSION} is read here"
            )),
        }
    }

    /// The JSON text.
    #[must_use]
    pub fn json(&self) -> String {
        // No map has keys other than strings, so this does not fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Adds a process.
    pub fn add_process(&mut self, process: Process) {
        self.sum.add(&process.did);
        match self.processes.get_mut(ENTRIES - 1) {
            Some(rest) => rest.absorb(&process),
            None => {
                let before = |p: &Process| p.pid != 0 && p.begun_s <= process.begun_s;
                let at = self.processes.partition_point(before);
                self.processes.insert(at, process);
            }
        }
    }

    /// Adds the processes of another report: of the same run, or of another one.
    pub fn add(&mut self, other: &Report) {
        if self.version == 0 {
            self.version = other.version;
            (self.run, self.node) = (other.run.clone(), other.node.clone());
        }
        self.refused += other.refused;
        for process in &other.processes {
            self.add_process(process.clone());
        }
    }

    /// How many processes made BLAS calls.
    #[must_use]
    pub fn counted(&self) -> u64 {
        self.processes.iter().map(|p| p.processes).sum()
    }
}

impl Process {
    /// Adds another process to this entry, which is then that of several.
    fn absorb(&mut self, other: &Process) {
        self.did.add(&other.did);
        self.processes += other.processes;
        self.seconds = self.seconds.max(other.seconds);
        self.ended &= other.ended;
        (self.pid, self.parent, self.rank) = (0, 0, None);
        self.command = format!("{} processes", self.processes);
    }
}

#[cfg(test)]
mod tests;
