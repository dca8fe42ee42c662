//! What is read, and what is told about a file that cannot be used.

use std::io::Write as _;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::atomic::Ordering;

use super::super::secluded::SECLUDED;
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
    let over = || given(config, &[]).expect("a file is named").over(*table);
    let (first, again) = (over(), over());
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
        assert_eq!(given(config, &[]), None);
    });
    assert_eq!(told, "");
}

#[test]
fn without_the_setting_there_is_none() {
    let gpus = devices("cuda", &[GPU]);
    assert_eq!(given(&Config::default(), &gpus), None);
}

const GPU: &str = "NVIDIA H100 80GB HBM3";
/// The name of the file of that GPU.
const NAME: &str = "h100-80gb-hbm3.toml";

/// Devices with these names.
fn devices(kind: &'static str, names: &[&str]) -> Vec<Caps> {
    let caps = names.iter().map(|name| Caps {
        name: (*name).to_owned(),
        kind,
        memory: 1 << 30,
        links: Vec::new(),
    });
    caps.collect()
}

/// The text of a file of this machine with a GPU, and these lines behind its figures.
fn of_this_machine(lines: &str) -> String {
    let cpu = processor();
    assert!(!cpu.is_empty());
    format!(
        "version = 1\ntask_s = 7e-6\nhost.call_s = 3.0\n{lines}\n[machine]\ngpu = \"{GPU}\"\ncpu = \"{cpu}\"\nthreads = 2\n"
    )
}

/// A folder in which the file of the GPU has this text.
fn folder(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(NAME), text).expect("written");
    folder
}

/// What a process takes from the files in a folder.
fn taken(folder: &std::path::Path, gpus: &[Caps]) -> Option<Given> {
    let config = Config {
        cache_folder: Some(folder.to_str().expect("a name in UTF-8").to_owned()),
        ..Config::default()
    };
    given(&config, gpus).map(Cow::into_owned)
}

#[test]
fn a_measured_file_is_used_for_its_machine() {
    let folder = folder(&of_this_machine(""));
    let gpus = devices("cuda", &[GPU, GPU]);
    let rates = taken(folder.path(), &gpus).expect("the machine's file");
    let rates = rates.over(table());
    // The program may bring another host BLAS than the one that was measured.
    assert_eq!((rates.task_s, rates.host), (7e-6, table().host));
    for (kind, names) in [("sim", &[GPU][..]), ("cuda", &["NVIDIA A2"]), ("cuda", &[])] {
        let gpus = devices(kind, names);
        assert_eq!(taken(folder.path(), &gpus), None, "{kind} {names:?}");
    }
    let config = Config {
        rates: RatesFile::Off,
        cache_folder: Some(folder.path().to_str().expect("UTF-8").to_owned()),
        ..Config::default()
    };
    assert_eq!(given(&config, &gpus), None);
}

#[test]
fn a_measured_file_is_not_opened_after_system_calls_are_restricted() {
    testkit::alone(|| {
        let folder = folder(&of_this_machine(""));
        let gpus = devices("cuda", &[GPU]);
        assert!(taken(folder.path(), &gpus).is_some());
        SECLUDED.store(true, Ordering::Relaxed);
        assert_eq!(taken(folder.path(), &gpus), None);
    });
}

/// What is said of a file with this text.
fn refused(text: &str) -> String {
    let folder = folder(text);
    let path = folder.path().join(NAME);
    measured(path.to_str().expect("UTF-8"), (GPU, 1)).expect_err(text)
}

#[test]
fn measured_files_that_are_not_used() {
    let good = of_this_machine("");
    let with = |old: &str, new: &str| {
        assert!(good.contains(old));
        refused(&good.replace(old, new))
    };
    for (said, why) in [
        (with("version = 1", "version = 0"), "has another version"),
        (with("version = 1\n", ""), "does not say \"version = 1\""),
        (with(GPU, "NVIDIA A2"), "was measured with the GPU"),
        (
            with(&processor(), "another"),
            "was measured with the processor",
        ),
        (with("gpu = ", "card = "), "does not say with which GPU"),
        (with("7e-6", ""), "is not TOML: line 2"),
        (with("7e-6", "0"), "has a task_s that is not within"),
        (with("7e-6", "nan"), "has a task_s that is not within"),
        (with("7e-6", "-7e-6"), "has a task_s that is not within"),
        (
            refused(&of_this_machine(&"# a line\n".repeat(10_000))),
            "is longer than",
        ),
        (refused(""), "does not say \"version = 1\""),
    ] {
        assert!(said.starts_with(why), "{said}");
        assert!(!said.contains('\n'), "{said}");
    }
}

#[test]
fn what_lies_in_the_place_of_a_measured_file() {
    let place = || {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(NAME);
        (folder, path)
    };
    let said = |path: &std::path::Path| measured(path.to_str().expect("UTF-8"), (GPU, 1));
    let (_folder, path) = place();
    assert_eq!(said(&path), Ok(None));
    assert_eq!(said(&path.join("below")), Ok(None));
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    said(&path).expect_err("a pipe");
    let (_folder, path) = place();
    std::fs::create_dir(&path).expect("a folder");
    said(&path).expect_err("a folder");
    let (folder, path) = place();
    let elsewhere = folder.path().join("elsewhere");
    std::fs::write(&elsewhere, of_this_machine("")).expect("written");
    assert!(said(&elsewhere).is_ok_and(|given| given.is_some()));
    std::os::unix::fs::symlink(&elsewhere, &path).expect("a link");
    said(&path).expect_err("a link");
}

/// Runs a test's body in a process of its own, for which the folder named has a file with this text. Returns the library's lines.
fn lines_about<F: FnOnce()>(text: &str, level: &str, body: F) -> Vec<String> {
    let folder = folder(text);
    let path = folder.path().to_str().expect("UTF-8");
    let variables = [("SEMCACHE_LOG", level), ("XDG_CACHE_HOME", path)];
    std::fs::create_dir(folder.path().join("semcache")).expect("a folder");
    let (from, to) = (folder.path().join(NAME), folder.path().join("semcache"));
    std::fs::rename(from, to.join(NAME)).expect("moved");
    let output = testkit::apart_under(&variables, body);
    assert!(output.status.success());
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = err.lines().filter(|line| line.starts_with("semcache"));
    lines.map(str::to_owned).collect()
}

/// What the environment's file makes of the built-in rates.
fn found() -> Option<Cow<'static, Given>> {
    let config = super::super::init::config();
    given(config, &devices("cuda", &[GPU]))
}

const BAD: &str = "version = 1\ntask_s = -1";

#[test]
fn a_measured_file_that_is_not_used_costs_one_line_at_info() {
    let said = lines_about(BAD, "info", || assert_eq!(found(), None));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("semcache: info: /"), "{said:?}");
    assert!(said[0].ends_with("; using the built-in rates"), "{said:?}");
}

#[test]
fn a_measured_file_that_is_not_used_costs_no_line_otherwise() {
    let said = lines_about(BAD, "warn", || assert_eq!(found(), None));
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn a_measured_file_that_is_used_costs_no_line() {
    let said = lines_about(&of_this_machine(""), "info", || assert!(found().is_some()));
    assert!(said.is_empty(), "{said:?}");
}
