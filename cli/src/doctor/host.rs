//! Finds the host BLAS and judges whether its results are right. Its routines are called in a separate process
//! ([`super::check()`]), since a library that does not suit the processor may crash, or never return.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::signal::Signal;
use semcache::base::config::HOST_BLAS;

use super::finding::{Finding, find_library, ok, warn};

/// The hidden verb of the command that starts the process which calls the routines.
pub(crate) const CHECK: &str = "check-host-blas";

const WHAT: &str = "host BLAS";
/// The environment variable that makes OpenBLAS use other kernels than it would choose for the processor.
const CORETYPE: &str = "OPENBLAS_CORETYPE";
/// The time limit for all calls of one routine: thousands of times what they take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The libraries that may be the host BLAS, by name. The first serves programs that bring no BLAS; most programs are linked with
/// the second.
const NAMES: [&str; 2] = ["libopenblas.so.0", "libblas.so.3"];

/// The library that serves as the host BLAS of programs that bring none.
pub(crate) fn library() -> Option<PathBuf> {
    match std::env::var_os(HOST_BLAS) {
        Some(path) => Some(path.into()),
        None => NAMES.into_iter().find_map(find_library),
    }
}

/// One finding for each library that programs on this machine use as their BLAS.
pub(super) fn blas() -> Vec<Finding> {
    if let Some(path) = std::env::var_os(HOST_BLAS).map(PathBuf::from) {
        return vec![if path.is_file() {
            let name = format!("{} ({HOST_BLAS})", path.display());
            judge(&path, &name, &look(&path, None))
        } else {
            warn(
                WHAT,
                format!("{} does not exist", path.display()),
                "correct SEMCACHE_HOST_BLAS",
            )
        }];
    }
    let mut found: Vec<(Finding, Verdict)> = Vec::new();
    for path in NAMES.into_iter().filter_map(find_library) {
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        let name = if real == path {
            path.display().to_string()
        } else {
            format!("{} -> {}", path.display(), real.display())
        };
        let verdict = look(&path, None);
        // Debian's libblas.so.3 may forward to the same OpenBLAS: then its findings are the same and are not reported
        // again.
        if found
            .iter()
            .any(|(_, other)| verdict.config.is_some() && *other == verdict)
        {
            continue;
        }
        let mut finding = judge(&path, &name, &verdict);
        // The reference BLAS is a hundred times slower than an optimised one.
        if finding.ok
            && found.is_empty()
            && verdict.config.is_none()
            && path.ends_with("libblas.so.3")
        {
            finding = warn(
                WHAT,
                finding.found,
                "if this is the reference BLAS: apt install libopenblas0-pthread",
            );
        }
        found.push((finding, verdict));
    }
    if found.is_empty() {
        return vec![warn(
            WHAT,
            "neither libopenblas.so.0 nor libblas.so.3",
            "apt install libopenblas0-pthread (programs that bring their own, like NumPy, need none)",
        )];
    }
    found.into_iter().map(|(finding, _)| finding).collect()
}

/// Where solvers run.
pub(super) fn solvers() -> Finding {
    let found = find_library("liblapack.so.3").map_or_else(
        || "programs bring their LAPACK".to_owned(),
        |path| path.canonicalize().unwrap_or(path).display().to_string(),
    );
    ok(
        "solvers",
        format!(
            "{found}: LU, Cholesky, QR and LQ, and solutions, least squares, inverses and condition numbers by them run on devices where that is sooner, other drivers on the host, timed in reports as `solver`"
        ),
    )
}

/// What the child process, which called a library's routines, reported.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Verdict {
    /// The text of `openblas_get_config`, and the name of OpenBLAS's kernels, if the library is OpenBLAS.
    config: Option<String>,
    core: Option<String>,
    /// How many routines were called; zero if the child process ended before the last one.
    checked: usize,
    absent: Vec<String>,
    /// Routines of the BLAS with a wrong result, each with a message about it.
    wrong: Vec<(String, String)>,
    /// Extensions of the BLAS with a wrong result.
    extensions: Vec<String>,
    /// Why not all routines were called.
    failed: Option<String>,
}

impl Verdict {
    fn is_right(&self) -> bool {
        self.wrong.is_empty() && self.failed.is_none()
    }

    /// Adds a line that the child process has printed to the verdict. Returns the routine that the child calls next, if
    /// the line names it.
    fn hear(&mut self, line: &str) -> Option<String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim().to_owned();
        match word {
            "try" => return Some(rest),
            "core" => self.core = Some(rest),
            "config" => self.config = Some(rest),
            "absent" => self.absent.push(rest),
            "error" => self.failed = Some(rest),
            "wrong" => {
                let (name, what) = rest.split_once(' ').unwrap_or((&rest, ""));
                self.wrong.push((name.to_owned(), what.to_owned()));
            }
            "extension" => self
                .extensions
                .push(rest.split(' ').next().unwrap_or_default().to_owned()),
            "done" => self.checked = rest.parse().unwrap_or(0),
            // The library itself may print lines, too, which are ignored.
            _ => {}
        }
        None
    }
}

/// Calls all routines of a library in a child process; if `kernels` is given, OpenBLAS uses the kernels of this name
/// there.
fn look(path: &Path, kernels: Option<&str>) -> Verdict {
    let mut verdict = Verdict::default();
    let child = std::env::current_exe().and_then(|exe| {
        let mut command = Command::new(exe);
        command.arg(CHECK).arg(path);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if let Some(kernels) = kernels {
            command.env(CORETYPE, kernels);
        }
        command.spawn()
    });
    match child {
        Ok(child) => listen(child, &mut verdict),
        Err(error) => verdict.failed = Some(format!("cannot be tried: {error}")),
    }
    verdict
}

fn listen(mut child: Child, verdict: &mut Verdict) {
    let (lines, heard) = channel();
    let output = child.stdout.take();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output.into_iter().next()?).lines() {
            lines.send(line.ok()?).ok()?;
        }
        Some(())
    });
    let mut now = String::from("loading");
    let silent = loop {
        match heard.recv_timeout(PATIENCE) {
            Ok(line) => now = verdict.hear(&line).unwrap_or(now),
            Err(RecvTimeoutError::Timeout) => break true,
            Err(RecvTimeoutError::Disconnected) => break false,
        }
    };
    if silent {
        // Fails only if the child has ended in the meantime.
        let _ = child.kill();
    }
    let status = child.wait();
    let _ = reader.join();
    if silent {
        verdict.failed = Some(format!(
            "{now} did not return within {} s",
            PATIENCE.as_secs()
        ));
    } else if verdict.failed.is_none() && verdict.checked == 0 {
        verdict.failed = Some(format!("{now} ended the process: {}", ending(status.ok())));
    }
}

/// The text that says how the child process ended.
fn ending(status: Option<ExitStatus>) -> String {
    let signal = status.and_then(|s| Signal::try_from(s.signal()?).ok());
    match (signal, status) {
        (Some(signal), _) => signal.as_str().to_owned(),
        (None, Some(status)) => status.to_string(),
        (None, None) => "unknown".to_owned(),
    }
}

/// The finding about a library.
fn judge(path: &Path, name: &str, verdict: &Verdict) -> Finding {
    let version: Vec<&str> = verdict
        .config
        .iter()
        .flat_map(|c| c.split(' ').take(2))
        .collect();
    let about = match (version.is_empty(), &verdict.core) {
        (true, _) => String::new(),
        (false, None) => format!(" ({})", version.join(" ")),
        (false, Some(core)) => format!(" ({}, kernels for {core})", version.join(" ")),
    };
    let checked = verdict.checked;
    let mut right = format!("{name}{about}: {checked} routines tried, all right");
    if !verdict.absent.is_empty() {
        right += &format!("; it has no {}", verdict.absent.join(", "));
    }
    if !verdict.extensions.is_empty() {
        right += &format!(", but for its extensions {}", verdict.extensions.join(", "));
    }
    if verdict.is_right() {
        return ok(WHAT, right);
    }
    let mut faults: Vec<String> = verdict
        .wrong
        .iter()
        .map(|(routine, what)| format!("{routine} is wrong: {what}"))
        .collect();
    let more = faults.len().saturating_sub(3);
    if more > 0 {
        faults.truncate(3);
        faults.push(format!("{more} more are wrong"));
    }
    faults.extend(verdict.failed.clone());
    warn(
        WHAT,
        format!("{name}{about}: {}", faults.join("; ")),
        advice(path, verdict),
    )
}

/// What the user can do about a library with wrong results. Other kernels of OpenBLAS are advised only if their results
/// are right on this machine.
fn advice(path: &Path, verdict: &Verdict) -> String {
    let another = format!(
        "another BLAS: {HOST_BLAS}=/path/to/it, for programs linked with libblas: update-alternatives"
    );
    // A library that crashes while it is loaded has not reported its name, so the file's name decides.
    let may_choose = match &verdict.config {
        Some(config) => config.contains("DYNAMIC_ARCH"),
        None => path.to_string_lossy().contains("openblas"),
    };
    if !may_choose {
        return another;
    }
    let here = verdict.core.as_deref().unwrap_or_default();
    let right = KERNELS
        .iter()
        .filter(|(kernels, runs)| !kernels.eq_ignore_ascii_case(here) && runs())
        .find(|(kernels, _)| look(path, Some(kernels)).is_right());
    match right {
        Some((kernels, _)) => format!(
            "{CORETYPE}={kernels}, whose kernels were tried and are right; or a newer OpenBLAS"
        ),
        None => format!("a newer OpenBLAS; or {another}"),
    }
}

/// The names of OpenBLAS's kernels, the most common first; the function says whether this processor can run them.
type Kernels = (&'static str, fn() -> bool);
const KERNELS: [Kernels; 4] = [
    ("Haswell", || {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }),
    ("SkylakeX", || {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
    }),
    ("Sandybridge", || is_x86_feature_detected!("avx")),
    ("Nehalem", || is_x86_feature_detected!("sse4.2")),
];
