//! Processes of their own for tests, and an end for tests that hang.

use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// Time limit of a test that names none. No test takes a tenth of it, and the machine may be busy.
pub const LIMIT: Duration = Duration::from_secs(600);

/// Set for the process of one test, to the test's name.
const TEST: &str = "TESTKIT_TEST";

/// The test that this process was started for, if there is one.
pub(crate) fn wanted() -> Option<String> {
    env::var(TEST).ok()
}

/// This binary once more, for one test, on the main thread.
pub(crate) fn again(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(TEST, test);
    command
}

/// Runs a test in the process that was started for it, and ends that process: with status 0, or 101 if the test
/// panicked, whether or not the caller catches panics. Exit handlers run; the harness reports nothing.
#[expect(clippy::exit, reason = "the process was started for this test")]
pub(crate) fn here(body: impl FnOnce()) -> ! {
    let ended = catch_unwind(AssertUnwindSafe(body));
    std::process::exit(if ended.is_ok() { 0 } else { 101 })
}

/// Runs a `#[test]`'s body in a process of its own: the body is a closure of the test function, whose type has the test's
/// name. Returns how the process ended; in that process it does not return.
///
/// # Panics
/// If the process does not end, or found no test of the name.
#[must_use = "an assertion that fails in the process shows in its status only"]
pub fn apart<F: FnOnce()>(body: F) -> Output {
    apart_under(&[], body)
}

/// As [`apart`], with these variables in the environment of the process.
///
/// # Panics
/// As [`apart`].
#[must_use = "an assertion that fails in the process shows in its status only"]
pub fn apart_under<F: FnOnce()>(variables: &[(&str, &str)], body: F) -> Output {
    let closure = std::any::type_name::<F>();
    let path = closure.split_once("::").unwrap().1;
    let name = path.split("::{{closure}}").next().unwrap();
    if wanted().is_some_and(|test| test == name) {
        here(body);
    }
    let mut command = again(name);
    command.envs(variables.iter().copied());
    let output = run(&mut command, b"", LIMIT).unwrap_or_else(|state| panic!("hangs\n{state}"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("running 1 test"), "no test {name}: {said}");
    output
}

/// As [`apart`], but the process must succeed; its stderr is passed on.
///
/// # Panics
/// If it does not succeed.
#[expect(clippy::print_stderr, reason = "the harness shows it on demand")]
pub fn alone<F: FnOnce()>(body: F) {
    let output = apart(body);
    let text = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}\n{said}\n{text}", output.status);
    eprint!("{text}");
}

/// Runs a process to its end. A process that runs longer than `limit` is killed, and the error says what its threads
/// were doing.
///
/// # Errors
/// If it does not end.
///
/// # Panics
/// If it cannot be started.
pub fn run(command: &mut Command, input: &[u8], limit: Duration) -> Result<Output, String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        // A process that ends early does not read the rest of its input.
        scope.spawn(|| stdin.unwrap().write_all(input));
        let stdout = scope.spawn(|| whole(stdout.unwrap()));
        let stderr = scope.spawn(|| whole(stderr.unwrap()));
        let (end, mut pause) = (Instant::now() + limit, Duration::from_millis(1));
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Ok(status);
            }
            if Instant::now() > end {
                let state = state(child.id());
                child.kill().and_then(|()| child.wait()).unwrap();
                break Err(state);
            }
            thread::sleep(pause);
            pause = (pause * 5 / 4).min(Duration::from_millis(20));
        };
        let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
        let told = |state| format!("{state}\n{}", String::from_utf8_lossy(&stderr));
        let status = status.map_err(told)?;
        Ok(Output {
            status,
            stdout,
            stderr,
        })
    })
}

fn whole(mut pipe: impl Read) -> Vec<u8> {
    let mut text = Vec::new();
    pipe.read_to_end(&mut text).unwrap();
    text
}

/// What the threads of a process are doing.
fn state(pid: u32) -> String {
    let mut text = String::new();
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        text += &format!("{:?}", task.file_name());
        for file in ["comm", "wchan", "syscall"] {
            let says = fs::read_to_string(task.path().join(file)).unwrap_or_default();
            text += &format!(" {file} {}", says.trim());
        }
        text += "\n";
    }
    let gdb = Command::new("timeout")
        .args(["60", "gdb", "-p", &pid.to_string(), "-batch"])
        .args(["-ex", "thread apply all bt 14"])
        .output();
    text + &gdb.map_or("(no gdb)\n".into(), |out| {
        String::from_utf8_lossy(&out.stdout).into_owned()
    })
}
