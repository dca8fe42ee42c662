//! Writes the report to a file, which appears as a whole at the end of the process, or to stderr.
//!
//! This code runs while another program's process ends, so it relies on little: raw system calls only, a new temporary
//! file beside the target that is renamed over it, and one line on stderr when that fails.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags};
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
    if template.contains("%p") {
        template.replace("%p", &pid.to_string()).into()
    } else if is_main {
        template.into()
    } else {
        format!("{template}.{pid}").into()
    }
}

/// Delivers the report to `template` (`-`: stderr). If nothing was counted, only the main process reports that: a helper
/// process that made no BLAS call leaves no file behind. Failures are one line on stderr.
pub fn publish(template: &str, report: &Report, is_main: bool) {
    if !is_main && report.is_empty() {
        return;
    }
    if template == "-" {
        say(&format!(
            "semcache: report of process {}\n{}",
            report.pid,
            report.table()
        ));
        return;
    }
    let path = destination(template, report.pid, is_main);
    if let Err(error) = write_file(&path, report.json().as_bytes(), report.pid) {
        say(&format!(
            "semcache: cannot write the report {}: {error}\n",
            path.display()
        ));
    }
}

/// Writes `bytes` to a new file beside `path`, readable by its owner only, and renames it to `path`. A
/// target that exists and is no regular file (a device, a link) is refused; on failure nothing is left.
///
/// # Errors
/// The system's, or `EEXIST` for such a target.
pub fn write_file(path: &Path, bytes: &[u8], pid: u32) -> Result<(), Errno> {
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

/// Writes to stderr past the program's stdio buffers. A failure cannot be reported anywhere.
fn say(text: &str) {
    let _ = write_all(std::io::stderr(), text.as_bytes());
}

#[cfg(test)]
mod tests {
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
