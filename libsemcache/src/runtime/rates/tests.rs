//! What is read, and what is told about a file that cannot be used.

use std::io::Write as _;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::atomic::Ordering;

use super::super::mode::SECLUDED;
use super::*;
use crate::model::rates::{HostRates, Rates};

/// Runs a test's body in a process of its own, for which the variable names this path. Returns the library's lines on stderr.
fn told<F: FnOnce()>(path: &str, body: F) -> String {
    let output = testkit::apart_under(&[("SEMCACHE_RATES", path)], body);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{err}");
    let lines = err.lines().filter(|line| line.starts_with("semcache"));
    lines.fold(String::new(), |all, line| all + line + "\n")
}

/// A file with these bytes.
fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("written");
    file
}

fn path(file: &tempfile::NamedTempFile) -> &str {
    file.path().to_str().expect("a name in UTF-8")
}

/// The rates that the file which the environment names makes of these, twice asked for.
fn made(table: &Rates) -> Rates {
    let config = super::super::init::config();
    let first = given(config).expect("a file is named").over(*table);
    let again = given(config).expect("a file is named").over(*table);
    assert_eq!(first, again);
    first
}

fn table() -> Rates {
    Rates::h100(HostRates::of_cores(4))
}

#[test]
fn a_good_file_is_used_without_a_word() {
    let file = file(b"version = 1\ntask_s = 7e-6\n");
    let told = told(path(&file), || {
        assert_eq!(made(&table()).task_s, 7e-6);
    });
    assert_eq!(told, "");
}

#[test]
fn each_bad_file_costs_one_line() {
    let long = [b"version = 1\n#".as_slice(), &[b'x'; LARGEST]].concat();
    for (bytes, why) in [
        (b"".as_slice(), "does not say \"version = 1\""),
        (
            b"version = 1\ntask_s = -1",
            "has a task_s that is not within",
        ),
        (b"version = 1\n# \xff", "is not text"),
        (&long, "is longer than 65536 bytes"),
    ] {
        let file = file(bytes);
        let told = told(path(&file), || assert_eq!(made(&table()), table()));
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(
            told.starts_with("semcache: warn: SEMCACHE_RATES="),
            "{told}"
        );
        assert!(told.contains(why), "{told}");
        assert!(told.ends_with("; using the built-in rates\n"), "{told}");
    }
}

#[test]
fn a_path_that_is_no_file_costs_one_line() {
    for path in ["/nowhere/rates\n.toml", "/", "/dev/zero"] {
        let told = told(path, || assert_eq!(made(&table()), table()));
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

#[test]
fn a_pipe_makes_nobody_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let path = pipe.to_str().expect("a name in UTF-8");
    let told = told(path, || assert_eq!(made(&table()), table()));
    assert_eq!(told.lines().count(), 1, "{told}");
}

/// A terminal that nobody uses, and its path.
#[expect(unsafe_code, reason = "libc makes terminals")]
fn terminal() -> (OwnedFd, String) {
    let mut name = [0; 64];
    // SAFETY: a new descriptor, which nothing else owns; the array has the length that is given.
    let master = unsafe {
        let raw = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        assert!(raw >= 0);
        let master = OwnedFd::from_raw_fd(raw);
        assert_eq!((libc::grantpt(raw), libc::unlockpt(raw)), (0, 0));
        assert_eq!(libc::ptsname_r(raw, name.as_mut_ptr(), name.len()), 0);
        master
    };
    let name = name.iter().take_while(|c| **c != 0);
    let name = name.map(|c| char::from(c.cast_unsigned()));
    (master, name.collect())
}

#[test]
fn a_terminal_does_not_become_the_processs_own() {
    let (_master, path) = terminal();
    let told = told(&path, || {
        nix::unistd::setsid().expect("a session without a terminal");
        assert_eq!(made(&table()), table());
        let own = std::fs::File::open("/dev/tty");
        let error = own.expect_err("no controlling terminal");
        assert_eq!(error.raw_os_error(), Some(libc::ENXIO));
    });
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn no_file_is_opened_after_system_calls_are_restricted() {
    let told = told("/nowhere/rates.toml", || {
        let config = super::super::init::config();
        SECLUDED.store(true, Ordering::Relaxed);
        assert_eq!(given(config), None);
    });
    assert_eq!(told, "");
}

#[test]
fn without_the_setting_there_is_none() {
    assert_eq!(given(&Config::default()), None);
}
