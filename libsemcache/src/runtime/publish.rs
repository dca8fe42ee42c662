//! Reports of a run, from the counters of its processes: of a process that ends where a report was asked for, and of the command
//! that started the run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use semcache_fault::latency::FAULTS;

use super::counted::{self, Run, Visit, boot_time};
use super::init::say;
use super::report::file::{merge, path_of};
use super::report::gather::process;
use super::report::{Process, Report};
use crate::base::counters::{Identity, PAGE};
use crate::process::lives::lives;

/// At the end of a process: writes what it counted, and what those counted that have ended without a word, to the report; `-`:
/// what it counted as a table to stderr. A process that counted nothing leaves no file behind, unless it is the first one, whose id is
/// `first`.
pub(super) fn publish(template: &str, first: u32) {
    let is_main = first == std::process::id();
    if template == "-" {
        let process = process(&PAGE, &FAULTS, boot_time());
        if is_main || !process.did.is_empty() {
            let (pid, table) = (std::process::id(), process.did.table());
            say(format!("semcache: report of process {pid}\n{table}").trim_end());
        }
        return;
    }
    let name = counted::run_name().unwrap_or_else(|| format!("run of process {first}"));
    let own = process(&PAGE, &FAULTS, boot_time());
    // From here on another process may have the place of this one.
    counted::leave();
    let run = counted::run();
    let mut ended = run.map(|run| gather(&run, ended)).unwrap_or_default();
    if !ended.iter().any(|p| p.pid == own.pid) {
        // It had no place, or the process that made the memory has gone.
        ended.push(own);
    }
    let mut reports: BTreeMap<PathBuf, Report> = BTreeMap::new();
    if is_main {
        // The first process says so if nothing was counted.
        let path = path_of(template, std::process::id());
        reports.insert(path, Report::new(&name));
    }
    for process in ended {
        let report = reports.entry(path_of(template, process.pid));
        let report = report.or_insert_with(|| Report::new(&name));
        report.add_counted(process);
    }
    for (path, report) in reports {
        let wanted = is_main || !report.processes.is_empty();
        if wanted && let Err(error) = merge(&path, &report) {
            say(&told(&path, error));
        }
    }
}

fn told(path: &Path, error: rustix::io::Errno) -> String {
    format!(
        "semcache: cannot write the report {}: {error}",
        path.display()
    )
}

/// Processes that have ended.
fn ended(pid: u32, identity: &Identity) -> Visit {
    match identity.ended_ns.get() != 0 || !lives(pid, identity.begun_ns.get()) {
        true => Visit::Ended,
        false => Visit::No,
    }
}

/// What processes of a run counted.
fn gather(run: &Run, which: fn(u32, &Identity) -> Visit) -> Vec<Process> {
    let mut found = Vec::new();
    let now = boot_time();
    run.visit(which, |page, faults| found.push(process(page, faults, now)));
    found
}

impl Run {
    /// Adds to a report what the processes counted that have ended, and frees their places.
    pub fn add_ended(&self, report: &mut Report) {
        for process in gather(self, ended) {
            report.add_counted(process);
        }
    }

    /// Adds to a report what all processes counted until now.
    pub fn add_all(&self, report: &mut Report) {
        report.refused = self.refused();
        for process in gather(self, |_, _| Visit::Yes) {
            report.add_counted(process);
        }
    }

    /// What each process counted until now, in the order of their places. None shares an entry with others, and no place is freed.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        let mut all = gather(self, |_, _| Visit::Yes);
        all.retain(|process| !process.did.is_empty());
        all
    }
}
