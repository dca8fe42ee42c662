//! Builds shared libraries and C programs for tests.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Builds the shared library of the package in `folder` with these features, unoptimised as tests are, and copies it to `to`:
/// the next build overwrites cargo's own file.
///
/// Cargo compiles a dependency with the features that all selected packages ask for, and their tests if one of them is
/// selected. All libraries but the API's and one test are selected, so that the features are those of
/// `cargo test --workspace --exclude semcache-api`, and what it compiled is not compiled again: the tests of the API need
/// more of the parser that the library uses.
///
/// # Panics
/// If it does not compile.
pub fn library(folder: &str, features: &[&str], to: &Path) {
    // Builds of several test programs at once would copy one another's file.
    let programs = std::env::current_exe().unwrap();
    let lock = File::create(programs.with_file_name("library.lock")).unwrap();
    lock.lock().unwrap();
    let text = succeeds(
        Command::new(env!("CARGO"))
            .current_dir(folder)
            .args(["build", "--quiet", "--message-format=json"])
            .args(["--workspace", "--exclude=semcache-api"])
            .args(["--lib", "--test=oracle"])
            .args(["--features", &features.join(",")]),
    );
    let package = format!("{folder}/Cargo.toml");
    let built = text.lines().find(|line| {
        line.contains("\"reason\":\"compiler-artifact\"")
            && line.contains(&package)
            && line.contains("\"cdylib\"")
    });
    let mut words = built.expect("cargo names the library").split('"');
    fs::copy(words.rfind(|word| word.ends_with(".so")).unwrap(), to).unwrap();
}

/// Compiles a C source; `arguments` are appended to gcc's command line. The program finds those that are absolute paths of
/// libraries at these paths at run time, whatever LD_LIBRARY_PATH says (DT_RPATH).
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
