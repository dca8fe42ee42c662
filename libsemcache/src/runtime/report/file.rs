//! Writes the report to a file, which appears as a whole at the end of a process.
//!
//! This code runs while another program's process ends, so it relies on little: raw system calls only, a new temporary
//! file beside the target that is renamed over it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

use super::Report;
use crate::process::own_file::{self, is_there, write_all};

/// Whether this process is the one that writes the plain path: the one that `semcache run` started, or the
/// first one preloaded (no earlier process left its id in [`MAIN_PID`](crate::base::config::MAIN_PID)).
#[must_use]
pub fn is_main(main_pid: Option<u32>, pid: u32) -> bool {
    main_pid.is_none_or(|main| main == pid)
}

/// Where the process `pid` writes: `%p` becomes its id; without `%p` only the main process has the path
/// itself, others append `.<pid>`.
#[must_use]
pub fn destination(template: &str, pid: u32, is_main: bool) -> PathBuf {
    if is_main || template.contains("%p") {
        path_of(template, pid)
    } else {
        format!("{template}.{pid}").into()
    }
}

/// The path of the report of process `pid`: `%p` becomes its id. Without `%p` all processes of a run have one report.
#[must_use]
pub fn path_of(template: &str, pid: u32) -> PathBuf {
    template.replace("%p", &pid.to_string()).into()
}

/// Writes a report to `path`. If the report that is there is of the same run and machine, their sum; if it is of the same run
/// and another machine, to a path with this machine's name at its end.
///
/// # Errors
/// The system's, or `EEXIST` if the path is not that of a regular file.
pub fn merge(path: &Path, report: &Report) -> Result<(), Errno> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let _locked = lock(&path);
    let there = |path: &Path| read(path).filter(|old| old.run == report.run);
    match there(&path) {
        Some(old) if old.node != report.node => {
            let mut name = path.into_os_string();
            name.push(format!(".{}", report.node));
            let path = PathBuf::from(name);
            write(&path, there(&path), report)
        }
        old => write(&path, old, report),
    }
}

/// Whether a report can be written to a path; nothing is left there.
///
/// # Errors
/// As [`merge`].
pub fn try_out(path: &Path) -> Result<(), Errno> {
    let (beside, file) = new_beside(path, std::process::id())?;
    drop(file);
    rustix::fs::unlinkat(CWD, &beside, AtFlags::empty())
}

fn write(path: &Path, old: Option<Report>, report: &Report) -> Result<(), Errno> {
    let sum = old.map(|mut old| {
        old.add(report);
        old
    });
    let text = sum.as_ref().unwrap_or(report).json();
    write_file(path, text.as_bytes(), std::process::id())
}

/// The report in a regular file.
fn read(path: &Path) -> Option<Report> {
    is_there(path).ok().filter(|there| *there)?;
    Report::parse(&std::fs::read_to_string(path).ok()?).ok()
}

/// Holds the lock on the folder of a path, so that no process of the run writes the report meanwhile; for two seconds at most,
/// after which another process may lose its part.
fn lock(path: &Path) -> Option<OwnedFd> {
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, path.parent()?, how, Mode::empty()).ok()?;
    for _ in 0..2000 {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(Duration::from_millis(1)),
            _ => break,
        }
    }
    Some(folder)
}

/// Makes a new file beside `path`, which is to be that of a regular file, or of none.
fn new_beside(path: &Path, pid: u32) -> Result<(PathBuf, OwnedFd), Errno> {
    is_there(path)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{pid}.tmp"));
    let beside = PathBuf::from(beside);
    let open = || own_file::open(&beside, OFlags::CREATE | OFlags::EXCL);
    let file = match open() {
        // Left by a process of the same id that was killed while it wrote.
        Err(Errno::EXIST) => {
            rustix::fs::unlinkat(CWD, &beside, AtFlags::empty())?;
            open()?
        }
        other => other?,
    };
    Ok((beside, file))
}

/// Writes `bytes` to a new file beside `path`, readable by its owner only, and renames it to `path`. A
/// target that exists and is no regular file (a device, a link) is refused; on failure nothing is left.
///
/// # Errors
/// The system's, or `EEXIST` for such a target.
pub fn write_file(path: &Path, bytes: &[u8], pid: u32) -> Result<(), Errno> {
    let (beside, file) = new_beside(path, pid)?;
    let done = write_all(&file, bytes).and_then(|()| {
        drop(file);
        rustix::fs::renameat(CWD, &beside, CWD, path)
    });
    if done.is_err() {
        // Best effort: the error that the caller gets is the earlier one.
        let _ = rustix::fs::unlinkat(CWD, &beside, AtFlags::empty());
    }
    done
}

#[cfg(test)]
mod tests {
    use super::super::Process;
    use super::*;

    #[test]
    fn destinations() {
        for (template, main, path) in [
            ("/r.json", true, "/r.json"),
            ("/r.json", false, "/r.json.7"),
            ("/r.%p.json", true, "/r.7.json"),
            ("/%p/%p", false, "/7/7"),
        ] {
            assert_eq!(destination(template, 7, main), PathBuf::from(path));
        }
        assert!(is_main(None, 7) && is_main(Some(7), 7) && !is_main(Some(8), 7));
    }

    #[test]
    fn reports_of_a_run_are_added_up() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("r.json");
        let report = |run: &str, node: &str, pid| {
            let mut report = Report::new(run);
            report.node = node.to_owned();
            let process = Process {
                pid,
                processes: 1,
                ..Process::default()
            };
            report.add_process(process);
            report
        };
        let written = |path: &Path| read(path).map(|r| (r.run.clone(), r.counted()));
        merge(&path, &report("a", "n", 1)).expect("written");
        merge(&path, &report("a", "n", 2)).expect("written");
        assert_eq!(written(&path), Some(("a".to_owned(), 2)));
        merge(&path, &report("a", "m", 3)).expect("written");
        let other = dir.path().join("r.json.m");
        assert_eq!(written(&other), Some(("a".to_owned(), 1)));
        merge(&path, &report("b", "n", 4)).expect("written");
        assert_eq!(written(&path), Some(("b".to_owned(), 1)));
        std::fs::write(&path, "{}").expect("written");
        merge(&path, &report("b", "n", 5)).expect("replaced");
        assert_eq!(written(&path), Some(("b".to_owned(), 1)));
    }

    #[test]
    fn a_file_appears_whole_private_and_without_leftovers() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("r.json");
        std::fs::write(dir.path().join("r.json.9.tmp"), "left over").expect("written");
        write_file(&path, b"one", 9).expect("written");
        write_file(&path, b"two", 9).expect("replaced");
        assert_eq!(std::fs::read(&path).expect("read"), b"two");
        let mode = std::fs::metadata(&path).expect("stat").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 1);
    }

    #[test]
    fn links_devices_and_missing_folders_are_refused() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/etc/passwd", &link).expect("linked");
        assert_eq!(write_file(&link, b"x", 1), Err(Errno::EXIST));
        assert_eq!(
            write_file(Path::new("/dev/null"), b"x", 1),
            Err(Errno::EXIST)
        );
        assert_eq!(
            write_file(&dir.path().join("no/r"), b"x", 1),
            Err(Errno::NOENT)
        );
        let target = dir.path().join("target");
        std::os::unix::fs::symlink(&target, dir.path().join("r.1.tmp")).expect("linked");
        write_file(&dir.path().join("r"), b"x", 1).expect("the link is replaced, not followed");
        assert!(!target.exists());
    }
}
