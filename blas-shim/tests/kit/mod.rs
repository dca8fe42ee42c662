//! Builds the library in its two versions, compiles C client programs, and runs them under the preload.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "shared by several test programs, none of which uses all; tests may panic"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{LazyLock, OnceLock};

use testkit::build;

/// Reference BLAS and OpenBLAS with 32-bit and 64-bit integers, where Debian has them.
pub(crate) const REFERENCE: &str = "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3";
pub(crate) const OPENBLAS: &str = "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0";
pub(crate) const REFERENCE_64: &str = "/usr/lib/x86_64-linux-gnu/blas64/libblas64.so.3";
pub(crate) const OPENBLAS_64: &str =
    "/usr/lib/x86_64-linux-gnu/openblas64-pthread/libopenblas64.so.0";

/// The path of a build of the library. The build starts at the first use: two builds with other features compile the crate
/// twice, and not every test program needs both.
pub(crate) type Library = LazyLock<PathBuf, Box<dyn FnOnce() -> PathBuf + Send>>;

fn library(features: &'static [&'static str], folder: PathBuf) -> Library {
    LazyLock::new(Box::new(move || {
        fs::create_dir(&folder).unwrap();
        let to = folder.join("libsemcache_blas.so");
        build::library(env!("CARGO_MANIFEST_DIR"), features, &to);
        to
    }))
}

/// A directory of the test program's own, with the two builds of the library.
pub(crate) struct Kit {
    pub(crate) dir: PathBuf,
    /// The library with its runtime, unoptimised.
    pub(crate) library: Library,
    /// The library with the built-in BLAS in place of the runtime (feature `builtin-blas`).
    pub(crate) builtin: Library,
}

/// The test program's kit; made once.
pub(crate) fn kit() -> &'static Kit {
    static KIT: OnceLock<(tempfile::TempDir, Kit)> = OnceLock::new();
    &KIT.get_or_init(|| {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().to_path_buf();
        let kit = Kit {
            library: library(&[], dir.join("library")),
            builtin: library(&["semcache-blas/builtin-blas"], dir.join("builtin")),
            dir,
        };
        (temp, kit)
    })
    .1
}

impl Kit {
    /// Compiles `clients/<source>` with further arguments of gcc.
    pub(crate) fn compile(&self, source: &str, name: &str, args: &[&str]) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/clients")
            .join(source);
        self.compile_file(&source, name, args)
    }

    pub(crate) fn compile_file(&self, source: &Path, name: &str, args: &[&str]) -> PathBuf {
        let to = self.dir.join(name);
        build::c(source, &to, args);
        to
    }

    /// Runs a client with the library preloaded.
    pub(crate) fn run(
        &self,
        library: &Path,
        client: &Path,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Output {
        Command::new(client)
            .args(args)
            .env("LD_PRELOAD", library)
            .env_remove("SEMCACHE_HOST_BLAS")
            .env("OPENBLAS_NUM_THREADS", "1")
            .envs(env.iter().copied())
            .output()
            .unwrap()
    }

    /// Runs a client, which must succeed, and returns what it printed on stdout.
    pub(crate) fn passes(
        &self,
        library: &Path,
        client: &Path,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> String {
        let output = self.run(library, client, args, env);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{}: {:?}\n{text}\n{}",
            client.display(),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        text
    }
}

/// The setting with which every call that can be offloaded is.
pub(crate) const ALWAYS: (&str, &str) = ("SEMCACHE_OFFLOAD", "always");

/// One exported symbol, as `symbols.txt` lists it: name, whether it can be offloaded, whether its name may also be that
/// of a program's own function.
pub(crate) fn symbols() -> Vec<(String, bool, bool)> {
    let mut all = Vec::new();
    for line in include_str!("../../symbols.txt").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [routine, class, _, spellings] = words[..] else {
            continue;
        };
        if routine.starts_with('#') {
            continue;
        }
        let offloadable = class != "jump";
        let mut add = |before: &str, after: &str, any| {
            all.push((format!("{before}{routine}{after}"), offloadable, any));
        };
        if spellings.contains('f') {
            add("", "_", false);
            add("", "_64_", false);
            add("scipy_", "_", false);
            add("scipy_", "_64_", false);
        }
        if spellings.contains('p') {
            add("", "", true);
            add("", "_64", true);
        }
        if spellings.contains('c') {
            add("cblas_", "", false);
            add("cblas_", "64_", false);
            add("cblas_", "_64", false);
            add("scipy_cblas_", "", false);
            add("scipy_cblas_", "64_", false);
        }
    }
    all
}
