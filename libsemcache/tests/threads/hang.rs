//! A child that does not end.

use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(120);

/// What the threads of a process that hangs are doing.
fn state(pid: u32) -> String {
    let mut text = String::new();
    let read = |path: std::path::PathBuf| {
        std::fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let at = task.path();
        text += &format!(
            "{:?} {} wchan {} syscall {}\n",
            task.file_name(),
            read(at.join("comm")),
            read(at.join("wchan")),
            read(at.join("syscall"))
        );
    }
    match Command::new("gdb")
        .args([
            "-p",
            &pid.to_string(),
            "-batch",
            "-ex",
            "thread apply all bt 14",
        ])
        .output()
    {
        Ok(out) => text += &String::from_utf8_lossy(&out.stdout),
        Err(_) => text += "(no gdb)\n",
    }
    text
}

/// Waits; what the threads of one that hangs are doing.
pub(crate) fn finish(child: &mut Child) -> Result<ExitStatus, String> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Ok(status);
        }
        if start.elapsed() > TIMEOUT {
            let text = state(child.id());
            let _ = child.kill();
            let _ = child.wait();
            return Err(text);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
