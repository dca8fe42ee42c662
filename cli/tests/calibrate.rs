//! `semcache calibrate` on simulated devices, and `semcache machine` on the file that it writes.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a panic is how a test fails"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use semcache::model::rates::{HostRates, Rates};
use semcache::model::rates_file::{Given, listed};

/// The command without the user's settings.
fn semcache() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semcache"));
    for name in [
        "LD_PRELOAD",
        "SEMCACHE_RATES",
        "SEMCACHE_DEVICES",
        "SEMCACHE_HOST_BLAS",
    ] {
        command.env_remove(name);
    }
    command.env("OPENBLAS_NUM_THREADS", "1");
    command
}

fn calibrate(devices: &str, output: &Path) -> Command {
    let mut command = semcache();
    command.args(["calibrate", "--quick", "--devices", devices, "--output"]);
    command.arg(output);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// All figures that a file may have: their paths.
fn paths() -> Vec<&'static str> {
    let rates = Rates::generic(HostRates::of_cores(1));
    let all = listed(&rates, 0).into_iter();
    all.map(|(path, _)| path).collect()
}

/// What is not measured.
const ALWAYS_BUILT_IN: [&str; 5] = [
    "call_s",
    "task_s",
    "fault_s",
    "landing_s",
    "host.cache_bytes",
];

/// Simulated copies may be so fast that the line through their times has no positive latency.
fn may_be_missing(path: &str) -> bool {
    path.ends_with(".latency_s")
}

fn said(output: &Output) -> String {
    text(&output.stderr) + &text(&output.stdout)
}

#[test]
fn every_figure_is_measured_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    for (devices, peers) in [("sim:1", false), ("sim:2", true)] {
        let file = folder.path().join("a folder").join(devices);
        let output = calibrate(devices, &file).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(text(&output.stdout).trim_end(), file.to_str().unwrap());
        let written = fs::read_to_string(&file).unwrap();
        let given = Given::parse(&written).unwrap();
        for path in paths() {
            let measured =
                !ALWAYS_BUILT_IN.contains(&path) && (peers || !path.starts_with("device.p2p"));
            if !may_be_missing(path) {
                assert_eq!(
                    given.has(path),
                    measured,
                    "{path}:\n{written}{}",
                    said(&output)
                );
            }
        }
        assert!(given.said().measured.is_some() && given.said().threads == Some(1));
        let totals = if peers { 2 } else { 1 };
        let list = written.lines().find(|line| line.starts_with("h2d_all"));
        assert_eq!(list.unwrap().split(',').count(), totals, "{written}");
        let shown = semcache().arg("machine").arg(&file).output().unwrap();
        assert!(shown.status.success(), "{}", said(&shown));
        let shown = text(&shown.stdout);
        for path in paths() {
            let mut lines = shown.lines();
            let line = lines.find(|line| line.split(' ').next() == Some(path));
            let line = line.unwrap_or_else(|| panic!("no {path}:\n{shown}"));
            let measured = line.contains(" by semcache calibrate (");
            assert_eq!(measured, given.has(path), "{line}");
            assert!(measured || line.contains("table of the library"), "{line}");
        }
    }
}

/// Ctrl-C ends the measurements, and the file has what was measured until then. The pipe on stderr holds less than all lines of a
/// calibration, so that it cannot be complete before the signal.
#[test]
fn what_was_measured_before_ctrl_c_is_kept() {
    const PIPE: usize = 4096;
    /// Lines before the signal: page-locking with one and with two devices.
    const READ: usize = 2;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rates.toml");
    let whole = calibrate("sim:2", &file).output().unwrap();
    let first = text(&whole.stderr).lines().next().unwrap().len() + 1;
    assert!(
        whole.stderr.len() > PIPE + first,
        "the pipe holds all lines"
    );
    fs::remove_file(&file).unwrap();

    let (reader, writer) = std::io::pipe().unwrap();
    assert_eq!(fcntl(&reader, FcntlArg::F_SETPIPE_SZ(4096)), Ok(4096));
    let mut command = calibrate("sim:2", &file);
    command.stderr(writer);
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    // The command holds the other end.
    drop(command);
    let mut lines = BufReader::with_capacity(1, reader);
    for number in 1..=READ {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(
            line.starts_with(&format!("semcache: {number} of ")),
            "{line}"
        );
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
    assert!(rest.contains("semcache: ended after "), "{rest}");
    let written = fs::read_to_string(&file).unwrap();
    let given = Given::parse(&written).unwrap();
    assert!(given.has("pin"), "{written}");
    // The host BLAS is measured last.
    assert!(!given.has("host.gemm_flops"), "{written}");
}

#[test]
fn a_place_that_cannot_be_written_costs_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for path in [Path::new("/proc/none/rates.toml"), folder.path()] {
        let output = calibrate("sim:1", path).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{}", said(&output));
        let said = text(&output.stderr);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.starts_with("semcache: "), "{said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn simulated_devices_have_no_file_in_the_users_folder() {
    let folder = tempfile::tempdir().unwrap();
    let output = semcache()
        .args(["calibrate", "--quick", "--devices", "sim:1"])
        .env("XDG_CACHE_HOME", folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(text(&output.stderr).contains("--output FILE"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_host_blas_that_is_not_there_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rates.toml");
    let output = calibrate("sim:1", &file)
        .env("SEMCACHE_HOST_BLAS", "/nowhere/libblas.so")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(text(&output.stderr).contains("the host BLAS is not measured: /nowhere/libblas.so"));
    let given = Given::parse(&fs::read_to_string(&file).unwrap()).unwrap();
    assert!(given.has("pin") && !given.has("host.call_s"));
}

#[test]
fn without_gpus_and_a_file_the_tables_are_shown() {
    let output = semcache()
        .args(["machine", "--devices", "none"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(text(&output.stdout).lines().count(), 1 + paths().len());
    let output = semcache().args(["machine", "/nowhere"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(text(&output.stderr).starts_with("semcache: /nowhere cannot be read"));
}
