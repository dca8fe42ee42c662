//! The kit's processes: a test that ran nothing must not pass, and one that hangs must end.
#![expect(unsafe_code, reason = "forks")]
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]

use std::panic::catch_unwind;
use std::process::{Command, abort, id};
use std::time::Duration;

use std::os::unix::process::ExitStatusExt;

use testkit::{alone, apart, apart_under, forked, run};

#[test]
fn a_body_runs_in_another_process() {
    let here = id().to_string();
    let output = apart(|| eprint!("{}", id()));
    let there = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success());
    assert!(there.parse::<u32>().is_ok() && there != here, "{there}");
}

#[test]
fn a_body_finds_its_variables() {
    let output = apart_under(&[("OF_THIS_TEST", "a value")], || {
        assert_eq!(std::env::var("OF_THIS_TEST").as_deref(), Ok("a value"));
    });
    assert!(output.status.success());
    assert!(std::env::var("OF_THIS_TEST").is_err());
}

#[test]
fn a_failure_there_is_one_here() {
    assert!(catch_unwind(|| alone(|| panic!("on purpose"))).is_err());
}

#[test]
fn a_signal_is_seen() {
    assert_eq!(apart(|| abort()).status.signal(), Some(6));
}

/// Not the body of a `#[test]`, so no process finds it by name.
fn not_a_test() {
    alone(|| ());
}

#[test]
fn a_body_that_no_process_runs_fails() {
    assert!(catch_unwind(not_a_test).is_err());
}

#[test]
fn a_process_that_hangs_is_ended() {
    let state = run(
        Command::new("sleep").arg("600"),
        b"",
        Duration::from_millis(50),
    );
    assert!(state.unwrap_err().contains("comm sleep"));
}

#[test]
fn a_childs_end_is_known() {
    alone(|| {
        // SAFETY: these bodies need no other thread.
        let [well, badly] = unsafe { [forked(|| ()), forked(|| panic!("on purpose"))] };
        assert!(well.wait().success());
        assert_eq!(badly.wait().code(), Some(101));
    });
}
