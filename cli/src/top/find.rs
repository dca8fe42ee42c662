//! Finds runs by their processes: each has the description of its run's counters in its environment, and the process that made
//! the counters' memory has it open.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use procfs::process::{FDTarget, Process, all_processes};
use semcache::base::config;
use semcache::process::lives::{begun, lives};
use semcache::runtime::counted::Run;
use semcache::runtime::report::Process as Counted;

use super::words::{fit, plain};

/// The clock ticks of a second in `/proc`.
const TICKS: f64 = 100.0;
/// The longest command line of a list.
const LONGEST: usize = 80;

/// A run whose counters are open.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) run: Run,
    /// The process that made the memory: the command that started the run, or the first process that was preloaded.
    pub(super) maker: u32,
    /// When that process began, in clock ticks since the machine started.
    begun: u64,
    /// Its command line.
    pub(super) command: String,
}

impl Found {
    /// Opens the counters that [`config::COUNTERS`] describes.
    fn open(described: &str) -> Result<Found, String> {
        let maker = maker(described).ok_or_else(|| format!("{described}: no counters"))?;
        // Before the memory is opened: afterwards another process may have the id.
        let ended = || format!("process {maker}, which started the run, has ended");
        let begun = begun(maker).ok_or_else(ended)?;
        let run = Run::open(described).map_err(|error| {
            format!("the counters of the run of process {maker} cannot be opened (another version of semcache made them?): {error}")
        })?;
        let process = process(maker)?;
        Ok(Found {
            run,
            maker,
            begun,
            command: command(&process),
        })
    }

    /// When the run began, in seconds since the machine started.
    pub(super) fn began(&self) -> f64 {
        self.begun as f64 / TICKS
    }

    /// What the processes counted until now. Those that no longer run are marked as ended, however they ended.
    pub(super) fn processes(&self) -> Vec<Counted> {
        let mut all = self.run.processes();
        for process in &mut all {
            process.ended |= !lives(process.pid, (process.begun_s * 1e9) as u64);
        }
        all
    }

    /// Whether the process that started the run has ended, and all that count.
    pub(super) fn has_ended(&self, processes: &[Counted]) -> bool {
        begun(self.maker) != Some(self.begun) && processes.iter().all(|process| process.ended)
    }
}

/// The process that made the memory.
fn maker(described: &str) -> Option<u32> {
    described.split(':').next()?.parse().ok()
}

fn process(pid: u32) -> Result<Process, String> {
    let id = i32::try_from(pid).map_err(|_| format!("there is no process {pid}"))?;
    Process::new(id).map_err(|error| match error {
        procfs::ProcError::NotFound(_) => format!("there is no process {pid}"),
        error => format!("process {pid} cannot be examined: {error}"),
    })
}

fn command(process: &Process) -> String {
    process.cmdline().unwrap_or_default().join(" ")
}

/// A variable that the process was started with.
fn variable(process: &Process, name: &str) -> Option<String> {
    let all = process.environ().ok()?;
    all.get(OsStr::new(name))?.to_str().map(str::to_owned)
}

/// The processes of this user, but for this one, with the description of their run.
fn members() -> Vec<(Process, Option<String>)> {
    let Ok(own) = Process::myself().and_then(|own| Ok((own.pid, own.uid()?))) else {
        return Vec::new();
    };
    let all = all_processes().into_iter().flatten().flatten();
    let ours = all.filter(|process| process.pid != own.0 && process.uid().ok() == Some(own.1));
    ours.map(|process| {
        let described = variable(&process, config::COUNTERS);
        (process, described)
    })
    .collect()
}

/// The description of the counters whose memory a process has made: the first that was preloaded does not find it in what it was
/// started with.
fn made(process: &Process) -> Option<String> {
    let files = process.fd().ok()?.flatten();
    let mut files = files.filter(
        |file| matches!(&file.target, FDTarget::MemFD(name) if name.starts_with("semcache")),
    );
    let (file, pid) = (files.next()?.fd, process.pid);
    Some(format!("{pid}:{file}:process {pid}"))
}

/// The run of a process, or of the command that started it.
pub(super) fn of(pid: u32) -> Result<Found, String> {
    let asked = process(pid)?;
    // The command may itself belong to another run.
    let members = members();
    let mut described = members.into_iter().filter_map(|(_, described)| described);
    if let Some(described) = described.find(|described| maker(described) == Some(pid)) {
        return Found::open(&described);
    }
    let environment = asked.environ();
    if let Err(error) = &environment {
        return Err(format!(
            "the environment of process {pid} cannot be read: {error}"
        ));
    }
    match variable(&asked, config::COUNTERS).or_else(|| made(&asked)) {
        Some(described) => Found::open(&described),
        None => Err(format!(
            "process {pid} belongs to no run of semcache that counts ({} is not in its environment)",
            config::COUNTERS
        )),
    }
}

/// The runs of this user.
pub(super) enum Runs {
    One(Box<Found>),
    /// A line for each.
    Several(Vec<String>),
    /// Why there is none.
    None(String),
}

/// The only run of this user's processes, or the list of them.
pub(super) fn only() -> Runs {
    let mut all: BTreeMap<String, Vec<Process>> = BTreeMap::new();
    let mut makers = Vec::new();
    for (process, described) in members() {
        match described {
            Some(described) => all.entry(described).or_default().push(process),
            None if variable(&process, config::REPORT).is_some() => makers.push(process),
            None => {}
        }
    }
    for process in makers {
        let id = u32::try_from(process.pid).ok();
        if !all.keys().any(|described| maker(described) == id)
            && let Some(described) = made(&process)
        {
            all.entry(described).or_default().push(process);
        }
    }
    let mut why = "no process of this user belongs to a run of semcache".to_owned();
    let mut found = Vec::new();
    for (described, members) in all {
        match Found::open(&described) {
            Ok(run) => found.push((run, members)),
            Err(error) => why = error,
        }
    }
    if found.len() > 1 {
        let line = |(found, members): &(Found, Vec<Process>)| listed(found, members);
        return Runs::Several(found.iter().map(line).collect());
    }
    match found.pop() {
        Some((found, _)) => Runs::One(Box::new(found)),
        None => Runs::None(why),
    }
}

/// A line of the list: of the folder that the command's program lies in nothing, so that its options and the program fit.
fn listed(found: &Found, members: &[Process]) -> String {
    let words = &found.command;
    let program = words.find(' ').unwrap_or(words.len());
    let name = words[..program].rfind('/').map_or(0, |slash| slash + 1);
    let command = fit(&plain(&words[name..]), LONGEST);
    format!(
        "{:>8}  {}  {} processes  {command}",
        found.maker,
        plain(found.run.name()),
        members.len()
    )
}
