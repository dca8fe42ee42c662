//! `semcache report --html` on the report and the trace of a real run: `abac 1024` on two simulated devices of 8 MiB each
//! (`examples/legacy`, `SEMCACHE_OFFLOAD=always SEMCACHE_MEMORY=8MiB`), which evict what they have no room for.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a panic is how a test fails"
)]

#[path = "../src/html/tests/check.rs"]
mod check;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/html")
        .join(name)
}

fn report(arguments: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_semcache"))
        .arg("report")
        .args(arguments)
        .output()
        .unwrap()
}

/// The page of these arguments.
fn page(arguments: &[&Path]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("page.html");
    let html = [Path::new("--html"), &path];
    let output = report(&[arguments, &html].concat());
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
    fs::read_to_string(path).unwrap()
}

const TRACE: &str = "--trace";

#[test]
fn a_run_has_its_numbers_on_the_page() {
    let page = page(&[&file("abac.json"), Path::new(TRACE), &file("abac.pftrace")]);
    // Bars of two devices and two threads, two timelines, the memory of two devices, and the bytes that they moved.
    assert_eq!(check::check(&page), 10);
    // The trace and the report agree on the bytes: 8 MiB down from each device, 36 MiB and 12 MiB up, 24 MiB between them.
    for text in [
        "<h1>abac with semcache</h1>",
        "<b>2</b><span>of 2 calls on devices</span>",
        "<b>8.4 MB</b><span>more than copying at every call</span>",
        "uploaded 37.7 MB",
        "uploaded 12.6 MB",
        "copied from other devices 25.2 MB",
        "written back 8.4 MB",
        "in use, at most 8.4 MB",
        "16 evictions.",
        "<td>host → device 0</td><td class=\"n\">18</td><td class=\"n\">37.7 MB</td>",
        "<td>device 0 → device 1</td><td class=\"n\">12</td><td class=\"n\">25.2 MB</td>",
        "kernels 118 ms (67 %)",
        "waiting at page faults 43.9 ms (21 %)",
        "abac: call 1 (dgemm), 1024 x 1024 x 1024, on devices",
        "<code>abac 1024</code>",
        "<code>cache.evictions</code></td><td class=\"n\">32</td>",
    ] {
        assert!(page.contains(text), "{text} in {page}");
    }
}

#[test]
fn a_report_or_a_trace_suffices() {
    let without_trace = page(&[&file("abac.json")]);
    assert_eq!(check::check(&without_trace), 0);
    assert!(without_trace.contains("There is no trace"));
    let without_report = page(&[Path::new(TRACE), &file("abac.pftrace")]);
    assert_eq!(check::check(&without_report), 10);
    assert!(without_report.contains("There is no report"));
}

#[test]
fn a_trace_that_is_cut_off_has_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.pftrace");
    let whole = fs::read(file("abac.pftrace")).unwrap();
    for part in 1..8 {
        fs::write(&path, &whole[..whole.len() * part / 8]).unwrap();
        let page = page(&[Path::new(TRACE), &path]);
        check::check(&page);
        assert!(page.contains("cut off: the file ends before its summary"));
    }
}

#[test]
fn what_cannot_be_read_is_named_and_no_page_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (path, empty) = (dir.path().join("page.html"), dir.path().join("empty"));
    fs::write(&empty, "").unwrap();
    let none = dir.path().join("none");
    for (arguments, told) in [
        (
            vec![TRACE.as_ref(), empty.as_path()],
            "empty: the file is empty",
        ),
        (vec![TRACE.as_ref(), none.as_path()], "none: No such file"),
        (vec![empty.as_path()], "empty: not a report"),
    ] {
        let output = report(&[arguments, vec!["--html".as_ref(), &path]].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(told), "{error}");
        assert!(!path.exists());
    }
    for arguments in [
        vec!["--html".as_ref(), path.as_path()],
        vec![TRACE.as_ref(), &empty],
    ] {
        assert!(!report(&arguments).status.success());
    }
}
