//! What the page is made of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use semcache::base::counters::Calls;
use semcache::runtime::report::Report;

use crate::trace::load;
use crate::trace::model::{Did, Side, Trace};

/// The most traces that have charts.
const CHARTED: usize = 8;

/// A trace and the name of its file.
#[derive(Debug)]
pub(super) struct Traced {
    pub(super) file: String,
    pub(super) trace: Trace,
}

/// Reports, which are added up, and traces.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// The names of the files and folders of the reports.
    pub(super) reports: Vec<String>,
    /// The sum of the reports, if there are any.
    pub(super) report: Option<Report>,
    pub(super) traces: Vec<Traced>,
}

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

impl Given {
    /// Reads the traces. `reports` are the files and folders that the report is the sum of.
    pub(super) fn read(
        report: Option<Report>,
        reports: &[PathBuf],
        traces: &[PathBuf],
    ) -> Result<Given, String> {
        let mut given = Given {
            reports: reports.iter().map(|path| name(path)).collect(),
            report,
            traces: Vec::new(),
        };
        for path in traces {
            let (file, trace) = (name(path), load(path)?);
            given.traces.push(Traced { file, trace });
        }
        Ok(given)
    }

    /// The title of the page: the programs of the traces.
    pub(super) fn title(&self) -> String {
        let mut programs: Vec<&str> = self
            .traces
            .iter()
            .map(|t| t.trace.program.as_str())
            .collect();
        programs.retain(|name| !name.is_empty());
        programs.dedup();
        match programs.as_slice() {
            [] => "A run with semcache".to_owned(),
            [one] => format!("{one} with semcache"),
            [first, rest @ ..] => format!("{first} and {} more with semcache", rest.len()),
        }
    }

    /// The traces that have charts, and the number of those that have none.
    pub(super) fn charted(&self) -> (&[Traced], usize) {
        let most = self.traces.len().min(CHARTED);
        (&self.traces[..most], self.traces.len() - most)
    }

    /// The calls of each routine: those of the reports, or without reports what the traces have.
    pub(super) fn calls(&self) -> BTreeMap<String, Calls> {
        if let Some(report) = &self.report {
            return report.sum.calls.clone();
        }
        let mut calls = BTreeMap::new();
        self.traces.iter().for_each(|t| add(&t.trace, &mut calls));
        calls
    }
}

/// Adds the calls of a trace: its slices, and the numbers of its summary for the calls that have none.
fn add(trace: &Trace, calls: &mut BTreeMap<String, Calls>) {
    for slice in trace.threads.iter().flat_map(|t| &t.slices) {
        if let Did::Call(side, _) = slice.did {
            let of = calls
                .entry(trace.names.text(slice.name).to_owned())
                .or_default();
            match side {
                Side::Devices | Side::Replayed => of.offloaded += 1,
                Side::Host(why) => of.add_host(trace.names.text(why), 1),
            }
        }
    }
    for (name, number) in &trace.summary {
        let parts = name
            .strip_prefix("host.")
            .and_then(|rest| rest.rsplit_once('.'));
        if let Some((routine, why)) = parts {
            calls
                .entry(routine.to_owned())
                .or_default()
                .add_host(why, *number);
        }
    }
}
