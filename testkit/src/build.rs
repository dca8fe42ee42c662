//! Libraries and C programs for tests.

use std::path::{Path, PathBuf};
use std::process::Command;

fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Builds the shared library of the package in `folder` as users get it, and returns its path, which is valid until the
/// next build.
///
/// # Panics
/// If it does not compile.
#[must_use]
pub fn library(folder: &str, features: &[&str]) -> PathBuf {
    let text = succeeds(
        Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--message-format=json"])
            .args(["--manifest-path", &format!("{folder}/Cargo.toml")])
            .args(["--features", &features.join(",")]),
    );
    // Of all artifacts the last is the package's own.
    text.split('"')
        .rfind(|word| word.ends_with(".so"))
        .expect("cargo names the library")
        .into()
}

/// Compiles a C source with these further arguments. A library among the arguments is found at run time at its path.
///
/// # Panics
/// If it does not compile.
pub fn c(source: &Path, to: &Path, arguments: &[&str]) {
    let folders = arguments.iter().filter(|a| a.starts_with('/'));
    let paths = folders.filter_map(|a| {
        let folder = Path::new(a).parent()?.display();
        Some(format!("-Wl,--disable-new-dtags,-rpath,{folder}"))
    });
    succeeds(
        Command::new("gcc")
            .args(["-O1", "-g", "-w", "-o"])
            .args([to, source])
            .args(arguments)
            .args(paths)
            .args(["-ldl", "-lm"]),
    );
}
