//! The stand-in through the bindings that the CUDA backend uses, loaded as that does: each case has a process with the
//! stand-in where the loader looks.

#![expect(unsafe_code, reason = "calls C functions")]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::undocumented_unsafe_blocks,
    reason = "a test program, not the library in a user's process; each call is as the C interface says"
)]

mod cases;
mod gpu;

use cases::life::chain;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Output;

use testkit::runner::{self, Case};

/// How a case has to end.
#[derive(Clone, Copy)]
enum End {
    Fine,
    /// Without an error, with this text on stderr.
    Reported(&'static str),
    /// Killed by this signal, with this text on stderr.
    Signal(i32, &'static str),
}

impl End {
    fn judge(self, output: &Output) -> Result<(), String> {
        let text = String::from_utf8_lossy(&output.stderr);
        let right = match self {
            End::Fine => output.status.success() && text.is_empty(),
            End::Reported(line) => output.status.success() && text.contains(line),
            End::Signal(signal, line) => {
                output.status.signal() == Some(signal) && text.contains(line)
            }
        };
        right.then_some(()).ok_or("another end".into())
    }
}

/// Injected failures, and the statuses and the result of the case `chain` with them. A call that fails has no effect, and the
/// next one is fine, unless the failure is sticky.
const FAILURES: [(&str, &str); 7] = [
    ("", "0 0 0 0 0 0 0 0 0 result 2\n"),
    ("cuMemAlloc_v2:1", "0 0 2 0 0 0 0 0 0 result 2\n"),
    ("cuMemAlloc_v2:2", "0 0 0 2 0 0 0 0 0 result 2\n"),
    ("cublasDscal_v2:1", "0 0 0 0 0 0 13 0 0 result 1\n"),
    (
        "cuMemcpyHtoDAsync_v2:1:sticky",
        "0 0 0 0 0 999 13 999 999 result 0\n",
    ),
    ("any:1", "999 3 3 3 1 3 1 3 3 result 0\n"),
    ("any:5", "0 0 0 0 13 0 1 0 0 result 1\n"),
];

/// The case `chain` with an injected failure. Without one the numbers of calls are looked at, too.
fn failure(dir: &Path, (fail, statuses): (&'static str, &'static str)) -> Case {
    let counts = dir.join(format!("counts {fail}"));
    // SAFETY: this process sees the stand-in only.
    Case::new(format!("failures {fail}"), || unsafe { chain() })
        .set("SEMCACHE_STANDIN_FAIL", fail)
        .set("SEMCACHE_STANDIN_COUNTS", counts.to_str().unwrap())
        .judged(move |output| {
            if !output.status.success() || output.stdout != statuses.as_bytes() {
                return Err(format!("not {statuses}"));
            }
            let text = std::fs::read_to_string(&counts).unwrap();
            for line in ["cuMemAlloc_v2 2", "cublasDscal_v2 1", "cuMemsetD8Async 0"] {
                if fail.is_empty() && !text.lines().any(|l| l == line) {
                    return Err(format!("{line} in {text}"));
                }
            }
            Ok(())
        })
}

fn main() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("standin");
    let mut all: Vec<Case> = FAILURES.map(|f| failure(&dir, f)).into();
    for &(name, body, modes, end) in cases::CASES {
        for mode in modes {
            // SAFETY: as above.
            let case = Case::new(format!("{name} '{mode}'"), move || unsafe { body() });
            all.push(
                case.set("SEMCACHE_STANDIN", *mode)
                    .judged(move |output| end.judge(output)),
            );
        }
    }
    if !runner::in_a_case() {
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).unwrap();
        let library = dir.join("libcuda.so.1");
        testkit::build::library(env!("CARGO_MANIFEST_DIR"), &[], &library);
        // The loader takes all names for one library, since they are one file.
        for name in ["libcublas.so.13", "libcusparse.so.12", "libcusolver.so.12"] {
            std::os::unix::fs::symlink(&library, dir.join(name)).unwrap();
        }
    }
    let path = dir.to_str().unwrap();
    let all = all
        .into_iter()
        .map(|case| case.set("LD_LIBRARY_PATH", path));
    runner::main(all.collect(), |_| ());
}
