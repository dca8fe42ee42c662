//! `semcache run`: runs a program with the library preloaded, and prints one line that sums its report up.
//!
//! The command starts itself once more ([`BECOME`]). That child process knows its own id, puts the id into the
//! environment as that of the run's main process, and executes the program. So no code runs between fork and exec, and
//! the program is a direct child that inherits everything.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use semcache::base::config;

use crate::library;
use crate::signals::{self, End};
use crate::summary::{Files, Summary};

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

/// Where the report of a run is written.
enum Wanted {
    /// To this path, which the user gave.
    Path(String),
    /// To a temporary file, of which the closing line is made.
    Line(tempfile::TempDir),
    /// To a temporary file, of which the closing line and the table are made.
    Table(tempfile::TempDir),
}

impl Wanted {
    fn new(asked: Option<String>) -> Result<Self, String> {
        let own = || {
            tempfile::Builder::new()
                .prefix("semcache-run-")
                .tempdir()
                .map_err(|e| format!("cannot make a temporary directory: {e}"))
        };
        match asked.as_deref().map(str::trim) {
            None | Some("") => own().map(Wanted::Line),
            Some("-") => own().map(Wanted::Table),
            Some(path) => absolute(path).map(Wanted::Path),
        }
    }

    fn template(&self) -> String {
        match self {
            Wanted::Path(path) => path.clone(),
            Wanted::Line(dir) | Wanted::Table(dir) => {
                dir.path().join("report").display().to_string()
            }
        }
    }
}

/// Makes a path absolute: the program may change its working directory before the report is written.
fn absolute(path: &str) -> Result<String, String> {
    let path = std::path::absolute(path).map_err(|e| format!("{path}: {e}"))?;
    path.into_os_string()
        .into_string()
        .map_err(|p| format!("{}: not valid UTF-8", Path::new(&p).display()))
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, String> {
    if options.off {
        let held = signals::hold()?;
        let mut child = second_half(None, &held, &options.command)?;
        child.env_remove(config::MAIN_PID);
        let (end, _) = spawn_and_wait(child)?;
        eprintln!("semcache: off");
        return Ok(finish(end));
    }
    let library = library::find()?;
    let existing = std::env::var("LD_PRELOAD").ok();
    let preload = library::preload(&library, existing.as_deref())?;
    let asked = options
        .report
        .clone()
        .or_else(|| std::env::var(config::REPORT).ok());
    let wanted = Wanted::new(asked)?;
    let files = Files::before(&wanted.template());

    let held = signals::hold()?;
    let mut child = second_half(Some(preload), &held, &options.command)?;
    child.env(config::REPORT, wanted.template());
    if let Some(devices) = &options.devices {
        child.env(config::DEVICES, devices);
    }
    if let Some(trace) = &options.trace {
        child.env(config::TRACE, absolute(trace)?);
    }
    let (end, pid) = spawn_and_wait(child)?;

    if end == End::Exited(NOT_FOUND) || end == End::Exited(NOT_EXECUTABLE) {
        // The child process, or the shell that is the program, has reported the error already.
        if files.new_reports(pid).is_empty() {
            return Ok(finish(end));
        }
    }
    eprintln!(
        "{}",
        closing_line(&files, pid, end, matches!(wanted, Wanted::Table(_)))
    );
    drop(wanted);
    Ok(finish(end))
}

fn closing_line(files: &Files, pid: u32, end: End, table: bool) -> String {
    let mut total = Summary::default();
    let mut bad = None;
    for path in files.new_reports(pid) {
        if let Err(error) = total.add(&path) {
            bad = Some(error);
        }
    }
    if table && total.processes > 0 {
        eprint!("{}", total.table());
    }
    match (bad, end) {
        (Some(error), _) => format!("semcache: {error}"),
        (None, _) if total.processes > 0 => total.line(),
        (None, End::Signaled(signal)) => {
            format!(
                "semcache: no report: the program was killed by {}",
                signal.as_str()
            )
        }
        (None, End::Exited(_)) => {
            "semcache: no report: the program ended without its exit handlers \
             (_exit), or does not load shared libraries"
                .to_owned()
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

fn spawn_and_wait(mut child: Command) -> Result<(End, u32), String> {
    let child = child
        .spawn()
        .map_err(|e| format!("cannot start a process: {e}"))?;
    let pid = child.id();
    let raw = i32::try_from(pid).map_err(|_| format!("unexpected process id {pid}"))?;
    Ok((signals::wait(Pid::from_raw(raw))?, pid))
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
