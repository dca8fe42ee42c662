//! Libraries and C programs for tests.

use std::path::{Path, PathBuf};
use std::process::Command;

fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Builds the shared library of the package in `folder` in the profile of the tests, and returns its path, which is valid until
/// the next build. Cargo gives a dependency the features that all selected packages ask for, those of their tests included if a test
/// is selected. So the selection is that of `cargo test --workspace`, but for most of the tests: then what that compiled is used
/// again, instead of compiled once more with fewer features.
///
/// # Panics
/// If it does not compile.
#[must_use]
pub fn library(folder: &str, features: &[&str]) -> PathBuf {
    let text = succeeds(
        Command::new(env!("CARGO"))
            .current_dir(folder)
            .args(["build", "--quiet", "--message-format=json"])
            .args(["--workspace", "--lib", "--test", "oracle"])
            .args(["--features", &features.join(",")]),
    );
    let package = format!("{folder}/Cargo.toml");
    let built = text.lines().find(|line| {
        line.contains("\"reason\":\"compiler-artifact\"")
            && line.contains(&package)
            && line.contains("\"cdylib\"")
    });
    let mut words = built.expect("cargo names the library").split('"');
    words.rfind(|word| word.ends_with(".so")).unwrap().into()
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
