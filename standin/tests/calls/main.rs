//! Tests of the stand-in through the bindings that the CUDA backend uses. The program runs itself once per case and
//! setting; `NAME` as an argument runs the cases of that name only.

#![expect(unsafe_code, reason = "calls C functions")]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::exit,
    clippy::undocumented_unsafe_blocks,
    reason = "a test program, not the library in somebody's process; each call is as the C interface says"
)]

mod cases;
mod gpu;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// How the process of a case must end.
enum End {
    Fine,
    /// Killed by this signal, with this text on stderr.
    Signal(i32, &'static str),
}

/// Builds the stand-in and links it under both libraries' names into an empty folder.
fn library(dir: &Path) {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--message-format=json"])
        .args([
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let built = text
        .lines()
        .filter(|line| line.contains("\"name\":\"semcache_standin\""))
        .flat_map(|line| line.split('"'))
        .find(|word| word.ends_with("/libsemcache_standin.so"))
        .expect("cargo names the library");
    for name in ["libcuda.so.1", "libcublas.so.13"] {
        std::os::unix::fs::symlink(built, dir.join(name)).unwrap();
    }
}

fn run(dir: &Path, case: &str, settings: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .env("LD_LIBRARY_PATH", dir)
        .env("STANDIN_CASE", case)
        .envs(settings.iter().copied())
        .output()
        .unwrap()
}

fn main() {
    if let Some(case) = std::env::var_os("STANDIN_CASE") {
        let case = case.to_str().unwrap();
        let (_, body, ..) = cases::CASES.iter().find(|c| c.0 == case).unwrap();
        // SAFETY: this process loads the stand-in, and no real driver.
        unsafe { body() };
        return;
    }
    // Options of Cargo's test runner have no meaning here and are ignored.
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let dir = tempfile::tempdir().unwrap();
    library(dir.path());
    let mut failed = 0;
    for (name, _, modes, end) in cases::CASES {
        if !wanted.is_empty() && !wanted.iter().any(|w| name.contains(w.as_str())) {
            continue;
        }
        for mode in *modes {
            let output = run(dir.path(), name, &[("SEMCACHE_STANDIN", mode)]);
            failed += judge(&format!("{name} {mode}"), &output, end);
        }
    }
    if wanted.is_empty() {
        failures(dir.path());
    }
    assert_eq!(failed, 0, "cases failed");
}

fn judge(what: &str, output: &Output, end: &End) -> usize {
    use std::os::unix::process::ExitStatusExt;
    let text = String::from_utf8_lossy(&output.stderr);
    let fine = match end {
        End::Fine => output.status.success() && text.is_empty(),
        End::Signal(signal, line) => output.status.signal() == Some(*signal) && text.contains(line),
    };
    println!("{what}: {}", if fine { "ok" } else { "FAILED" });
    if !fine {
        println!("{}, {text}", output.status);
    }
    usize::from(!fine)
}

/// Tests injected failures and the counts of calls, by the statuses that the case `chain` prints.
fn failures(dir: &Path) {
    let counts: PathBuf = dir.join("counts");
    let chain = |fail: &str| {
        let settings = [
            ("SEMCACHE_STANDIN_FAIL", fail),
            ("SEMCACHE_STANDIN_COUNTS", counts.to_str().unwrap()),
        ];
        let output = run(dir, "chain", &settings);
        assert!(output.status.success(), "{fail}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let plain = chain("");
    assert_eq!(plain, "0 0 0 0 0 0 0 0 0 result 2\n");
    let text = std::fs::read_to_string(&counts).unwrap();
    for line in ["cuMemAlloc_v2 2", "cublasDscal_v2 1", "cuMemsetD8Async 0"] {
        assert!(text.lines().any(|l| l == line), "{line} in {text}");
    }
    // The failed call has no effect, and the next call succeeds.
    assert_eq!(chain("cuMemAlloc_v2:1"), "0 0 2 0 0 0 0 0 0 result 2\n");
    assert_eq!(chain("cuMemAlloc_v2:2"), "0 0 0 2 0 0 0 0 0 result 2\n");
    assert_eq!(chain("cublasDscal_v2:1"), "0 0 0 0 0 0 13 0 0 result 1\n");
    assert_eq!(
        chain("cuMemcpyHtoDAsync_v2:1:sticky"),
        "0 0 0 0 0 999 13 999 999 result 0\n"
    );
    assert_eq!(chain("any:1"), "999 3 3 3 1 3 1 3 3 result 0\n");
    assert_eq!(chain("any:5"), "0 0 0 0 13 0 1 0 0 result 1\n");
    println!("failures: ok");
}
