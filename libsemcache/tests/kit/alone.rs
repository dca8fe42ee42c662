//! Tests of what is a fact of the whole process.

use std::process::Command;

/// Whether this process runs the test of this name alone. Otherwise one that does is run, and must end well.
pub fn alone(name: &str) -> bool {
    if std::env::var_os("CHILD").is_some_and(|v| v == name) {
        return true;
    }
    let out = Command::new(std::env::current_exe().expect("exe"))
        .args(["--exact", name, "--nocapture"])
        .env("CHILD", name)
        .output()
        .expect("runs");
    let (said, text) = (
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr),
    );
    assert!(out.status.success(), "{:?}\n{said}\n{text}", out.status);
    assert!(
        said.contains("1 passed"),
        "no test is called {name}: {said}"
    );
    print!("{text}");
    false
}
