//! `semcache run`: runs a program with the library preloaded, and prints one line that sums its report up. The program's processes
//! count in memory that this command makes; it writes the report, however they end.
//!
//! The command starts itself once more ([`BECOME`]). That child process knows its own id, puts the id into the
//! environment as that of the run's main process, and executes the program. So no code runs between fork and exec, and
//! the program is a direct child that inherits everything.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use semcache::base::config;
use semcache::runtime::counted::Run;
use semcache::runtime::ranks;
use semcache::runtime::report::{Report, file};

use crate::progress::Progress;
use crate::signals::{self, End};
use crate::strict::{self, Demands, UNMET};
use crate::ticks::Ticks;
use crate::{library, summary};

/// How often the command looks for places of ended processes, and how long it waits for the program at most where no call is timed.
const A_WHILE: Duration = Duration::from_secs(1);

/// The exit status of env(1) and timeout(1) when they themselves fail.
pub(crate) const OWN_FAILURE: u8 = 125;

/// The hidden verb of the child process that executes the program.
pub(crate) const BECOME: &str = "become-program";

#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Which devices (SEMCACHE_DEVICES): auto, none, cuda, cuda:0,2, sim:N, sim:PRESET, sim:PRESET:N
    #[arg(long, value_name = "WHICH")]
    devices: Option<String>,
    /// Where the JSON report goes (SEMCACHE_REPORT); - prints a table on stderr
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
    report: Option<String>,
    /// Where the Perfetto trace goes (SEMCACHE_TRACE); semcache trace PATH reads it
    #[arg(long, value_name = "PATH")]
    trace: Option<String>,
    /// Say on stderr what was done until now: each second on a terminal, else every ten
    #[arg(long)]
    progress: bool,
    #[command(flatten)]
    demands: Demands,
    /// Run the program plainly, without semcache
    #[arg(long)]
    off: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Become {
    /// Signals to unblock, by number.
    #[arg(long, value_delimiter = ',')]
    unblock: Vec<i32>,
    /// The value of LD_PRELOAD.
    #[arg(long)]
    preload: Option<OsString>,
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Makes a path absolute: the program may change its working directory before the report is written.
fn absolute(path: &str) -> Result<String, String> {
    let path = std::path::absolute(path).map_err(|e| format!("{path}: {e}"))?;
    path.into_os_string()
        .into_string()
        .map_err(|p| format!("{}: not valid UTF-8", Path::new(&p).display()))
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, String> {
    check(&options.command)?;
    if options.off {
        let held = signals::hold()?;
        let mut child = second_half(None, &held, &options.command)?;
        child.env_remove(config::MAIN_PID);
        child.env_remove(config::COUNTERS);
        let end = spawn_and_wait(child, &mut || A_WHILE)?;
        eprintln!("semcache: off");
        return Ok(finish(end));
    }
    let devices = strict::devices(options.devices.as_deref())?;
    if let Err((told, unmet)) = options.demands.before(&devices) {
        eprintln!("semcache: {told}");
        return Ok(ExitCode::from(if unmet { UNMET } else { OWN_FAILURE }));
    }
    let library = library::find()?;
    let existing = std::env::var("LD_PRELOAD").ok();
    let preload = library::preload(&library, existing.as_deref())?;
    let asked = options.report.clone();
    let asked = asked.or_else(|| std::env::var(config::REPORT).ok());
    let to = To::of(asked)?;
    let counted = match Run::new() {
        Ok(run) => Some(run),
        Err(error) => {
            eprintln!("semcache: no closing line, as the run's counters have no memory ({error})");
            None
        }
    };

    let held = signals::hold()?;
    let mut child = second_half(Some(preload), &held, &options.command)?;
    match &counted {
        Some(run) => child.env(config::COUNTERS, run.described()),
        None => child.env_remove(config::COUNTERS),
    };
    // For processes whose counters this command cannot read.
    match &to {
        To::Line => child.env_remove(config::REPORT),
        To::Table => child.env(config::REPORT, "-"),
        To::Files(path) => child.env(config::REPORT, path),
    };
    if let Some(devices) = &options.devices {
        child.env(config::DEVICES, devices);
    }
    if ranks::has_launcher(&|name| std::env::var(name).ok()) {
        let unset = |name: &&(&str, &str)| std::env::var_os(name.0).is_none();
        child.envs(
            ranks::WITHOUT_KEPT_REGISTRATIONS
                .iter()
                .filter(unset)
                .copied(),
        );
    }
    if let Some(trace) = &options.trace {
        child.env(config::TRACE, absolute(trace)?);
    }
    let Some(counted) = counted else {
        let end = spawn_and_wait(child, &mut || A_WHILE)?;
        return Ok(finish(end));
    };
    let mut report = Report::new(counted.name());
    let mut progress = options.progress.then(Progress::new);
    let mut ticks = Ticks::new(&counted);
    let mut freed = Instant::now();
    let end = spawn_and_wait(child, &mut || {
        if let Some(progress) = &mut progress {
            progress.tell(&counted);
        }
        // Each place that was ever taken is looked at for that.
        if counted.is_filling() && freed.elapsed() >= A_WHILE {
            counted.add_ended(&mut report);
            freed = Instant::now();
        }
        ticks.next()
    });
    if let Some(progress) = &mut progress {
        progress.end();
    }
    let end = end?;
    counted.add_all(&mut report);

    let not_run = matches!(end, End::Exited(NOT_FOUND | NOT_EXECUTABLE));
    if not_run && report.processes.is_empty() {
        // The child process, or the shell that is the program, has reported the error already.
        return Ok(finish(end));
    }
    to.deliver(&report);
    eprintln!("{}", summary::line(&report));
    if let Some(unmet) = options.demands.after(&report) {
        eprintln!("semcache: {unmet}");
        if end == End::Exited(0) {
            return Ok(ExitCode::from(UNMET));
        }
    }
    Ok(finish(end))
}

/// Refuses what looks like an option of this command that it does not have.
fn check(command: &[OsString]) -> Result<(), String> {
    let first = command.first().and_then(|word| word.to_str());
    match first.filter(|word| word.starts_with('-')) {
        None => Ok(()),
        Some(word) => Err(format!(
            "run has no option {word} (semcache run --help lists them); a program of this name is ./{word}"
        )),
    }
}

/// Where the report goes.
enum To {
    /// Nowhere: the closing line is made of it.
    Line,
    /// To stderr, as a table.
    Table,
    /// To files; `%p` in the path is the id of the process, which then has a report of its own.
    Files(String),
}

impl To {
    fn of(asked: Option<String>) -> Result<To, String> {
        match asked.as_deref().map(str::trim) {
            None | Some("") => Ok(To::Line),
            Some("-") => Ok(To::Table),
            Some(path) => {
                let path = absolute(path)?;
                file::try_out(&file::path_of(&path, std::process::id()))
                    .map_err(|e| format!("cannot write the report {}: {e}", path.escape_debug()))?;
                Ok(To::Files(path))
            }
        }
    }

    fn deliver(&self, report: &Report) {
        let mut reports = BTreeMap::new();
        match self {
            To::Line => {}
            To::Table => eprint!("{}", summary::table(report)),
            To::Files(template) if template.contains("%p") => {
                for process in &report.processes {
                    let path = file::path_of(template, process.pid);
                    let one = reports
                        .entry(path)
                        .or_insert_with(|| Report::new(&report.run));
                    one.add_process(process.clone());
                }
            }
            To::Files(path) => {
                reports.insert(PathBuf::from(path), report.clone());
            }
        }
        for (path, report) in reports {
            if let Err(error) = file::merge(&path, &report) {
                eprintln!(
                    "semcache: cannot write the report {}: {error}",
                    path.display()
                );
            }
        }
    }
}

const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

fn second_half(
    preload: Option<String>,
    held: &[Signal],
    command: &[OsString],
) -> Result<Command, String> {
    let exe = std::env::current_exe().map_err(|e| format!("cannot find my own path: {e}"))?;
    let mut child = Command::new(exe);
    child.arg(BECOME);
    if !held.is_empty() {
        let numbers: Vec<String> = held.iter().map(|s| (*s as i32).to_string()).collect();
        child.arg(format!("--unblock={}", numbers.join(",")));
    }
    if let Some(preload) = preload {
        child.arg(format!("--preload={preload}"));
    }
    child.arg("--").args(command);
    Ok(child)
}

fn spawn_and_wait(mut child: Command, each: &mut dyn FnMut() -> Duration) -> Result<End, String> {
    let child = child
        .spawn()
        .map_err(|e| format!("cannot start a process: {e}"))?;
    let pid = child.id();
    let raw = i32::try_from(pid).map_err(|_| format!("unexpected process id {pid}"))?;
    signals::wait(Pid::from_raw(raw), each)
}

fn finish(end: End) -> ExitCode {
    match end {
        End::Exited(code) => ExitCode::from(code),
        End::Signaled(signal) => {
            signals::die_of(signal);
            ExitCode::from(u8::try_from(128 + signal as i32).unwrap_or(u8::MAX))
        }
    }
}

/// Executes the program in place of this process. Returns only if that fails.
pub(crate) fn become_program(this: &Become) -> ExitCode {
    let held: Vec<Signal> = this
        .unblock
        .iter()
        .filter_map(|n| Signal::try_from(*n).ok())
        .collect();
    if let Err(error) = signals::release(&held) {
        eprintln!("semcache: {error}");
        return ExitCode::from(OWN_FAILURE);
    }
    let Some((program, arguments)) = this.command.split_first() else {
        return ExitCode::from(OWN_FAILURE);
    };
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(preload) = &this.preload {
        command.env("LD_PRELOAD", preload);
        command.env(config::MAIN_PID, std::process::id().to_string());
    }
    let error = command.exec();
    eprintln!(
        "semcache: cannot run {}: {error}",
        PathBuf::from(program).display()
    );
    ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound {
        NOT_FOUND
    } else {
        NOT_EXECUTABLE
    })
}
