//! The report: JSON version 1 in a file at exit, or a table on stderr.
//!
//! Runs while a foreign process ends, so it takes nothing for granted: raw system calls only, a fresh file
//! of its own beside the target that is renamed over it, and one line on stderr when that fails.

use core::fmt::Write as _;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::base::counters::Snapshot;
use crate::device::api::Caps;

/// The version of the JSON layout. Keys are added, never renamed.
pub const VERSION: u32 = 1;

/// What a report is made of.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The devices that the process drove.
    pub devices: &'a [Caps],
    /// What it counted.
    pub counts: &'a Snapshot,
}

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

/// Delivers the report to `template` (`-`: stderr). Only the main process reports that nothing happened;
/// a helper process that never came near a matrix leaves no file behind. Failures are one line on stderr.
pub fn publish(template: &str, report: &Report<'_>, pid: u32, is_main: bool) {
    if !is_main && report.counts.is_empty() {
        return;
    }
    if template == "-" {
        say(&report.table(pid));
        return;
    }
    let path = destination(template, pid, is_main);
    if let Err(error) = write_file(&path, report.json(pid).as_bytes(), pid) {
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
    match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {}
        Ok(_) => return Err(Errno::EXIST),
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error),
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{pid}.tmp"));
    let beside = PathBuf::from(beside);
    let open = || {
        rustix::fs::openat(
            CWD,
            &beside,
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::RUSR | Mode::WUSR,
        )
    };
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
        // Best effort: the failure that matters is already known.
        let _ = rustix::fs::unlinkat(CWD, &beside, AtFlags::empty());
    }
    done
}

fn write_all(file: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(&file, bytes) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes to stderr, past whatever buffers the program has. There is nowhere to report a failure.
fn say(text: &str) {
    let _ = write_all(std::io::stderr(), text.as_bytes());
}

impl Report<'_> {
    /// The JSON text.
    #[must_use]
    pub fn json(&self, pid: u32) -> String {
        let mut out = String::with_capacity(2048);
        self.write_json(pid, &mut out)
            .unwrap_or_else(|_: core::fmt::Error| out.push('}'));
        out
    }

    fn write_json(&self, pid: u32, out: &mut String) -> core::fmt::Result {
        let c = self.counts;
        write!(
            out,
            "{{\n  \"version\": {VERSION},\n  \"pid\": {pid},\n  \"devices\": ["
        )?;
        for (i, device) in self.devices.iter().enumerate() {
            out.push_str(separator(i));
            write!(
                out,
                "    {{\"name\": {}, \"kind\": {}, \"memory\": {}}}",
                quoted(&device.name),
                quoted(device.kind),
                device.memory
            )?;
        }
        out.push_str("],\n  \"calls\": {");
        for (i, call) in c.calls.iter().enumerate() {
            out.push_str(separator(i));
            write!(
                out,
                "    {}: {{\"offloaded\": {}, \"host\": {}, \"why_host\": {{",
                quoted(&call.name),
                call.offloaded,
                call.host()
            )?;
            for (i, (why, n)) in call.why_host.iter().enumerate() {
                let comma = if i == 0 { "" } else { ", " };
                write!(out, "{comma}\"{}\": {n}", why.name())?;
            }
            out.push_str("}}");
        }
        writeln!(
            out,
            "}},\n  \"bytes\": {{\"h2d\": {}, \"d2h\": {}, \"p2p\": {}, \"saved\": {}}},",
            c.h2d,
            c.d2h,
            c.p2p,
            c.saved()
        )?;
        writeln!(
            out,
            "  \"faults\": {{\"read\": {}, \"write\": {}, \"false_sharing\": {}, \"p50_us\": {:.3}, \
             \"p99_us\": {:.3}}},",
            c.fault_reads, c.fault_writes, c.false_sharing, c.fault_p50_us, c.fault_p99_us
        )?;
        writeln!(
            out,
            "  \"cache\": {{\"hits\": {}, \"misses\": {}, \"evictions\": {}, \"closes\": {}, \"coarse\": {}, \"remembered\": {}}},",
            c.hits, c.misses, c.evictions, c.closes, c.coarse, c.remembered
        )?;
        writeln!(
            out,
            "  \"gate\": {{\"scans\": {}, \"written\": {}, \"kept\": {}}},",
            c.scans, c.scan_dirty, c.scan_kept
        )?;
        writeln!(
            out,
            "  \"host\": {{\"pinned\": {}, \"pin_us\": {}, \"pin_refused\": {}}},",
            c.pinned, c.pin_us, c.pin_refused
        )?;
        write!(out, "  \"fallbacks\": {},\n  \"degraded\": [", c.fallbacks)?;
        for (i, what) in c.degraded.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(out, "{comma}\"{}\"", what.name())?;
        }
        out.push_str("]\n}\n");
        Ok(())
    }

    /// The table that `SEMCACHE_REPORT=-` prints.
    #[must_use]
    pub fn table(&self, pid: u32) -> String {
        let mut out = String::with_capacity(2048);
        // Writing to a String does not fail.
        let _ = self.write_table(pid, &mut out);
        out
    }

    fn write_table(&self, pid: u32, out: &mut String) -> core::fmt::Result {
        let c = self.counts;
        writeln!(out, "semcache: report of process {pid}")?;
        for device in self.devices {
            let memory = human(device.memory as u64);
            writeln!(
                out,
                "  device   {} ({}, {memory})",
                device.name, device.kind
            )?;
        }
        for call in &c.calls {
            write!(
                out,
                "  {:<8} {:>12} offloaded {:>12} host",
                call.name,
                call.offloaded,
                call.host()
            )?;
            for (i, (why, n)) in call.why_host.iter().enumerate() {
                let lead = if i == 0 { "  (" } else { ", " };
                write!(out, "{lead}{} {n}", why.name())?;
            }
            out.push_str(if call.why_host.is_empty() {
                "\n"
            } else {
                ")\n"
            });
        }
        writeln!(
            out,
            "  bytes    {} in, {} out, {} between devices; {}",
            human(c.h2d),
            human(c.d2h),
            human(c.p2p),
            saved(c.saved())
        )?;
        writeln!(
            out,
            "  faults   {} read, {} write, {} false sharing; p50 {:.1} us, p99 {:.1} us",
            c.fault_reads, c.fault_writes, c.false_sharing, c.fault_p50_us, c.fault_p99_us
        )?;
        writeln!(
            out,
            "  cache    {} hits, {} misses, {} evictions, {} closes",
            c.hits, c.misses, c.evictions, c.closes
        )?;
        if c.scans > 0 {
            writeln!(
                out,
                "  gate     {} scans, {} found written, {} beside that not sent again",
                c.scans,
                human(c.scan_dirty),
                human(c.scan_kept)
            )?;
        }
        if c.fallbacks > 0 {
            writeln!(out, "  fallback {} finished on the host", c.fallbacks)?;
        }
        for what in &c.degraded {
            writeln!(out, "  degraded {}", what.name())?;
        }
        Ok(())
    }
}

/// Bytes for people: three digits and a decimal unit.
#[must_use]
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// `bytes.saved` in words.
#[must_use]
pub fn saved(bytes: i64) -> String {
    let amount = human(bytes.unsigned_abs());
    if bytes < 0 {
        format!("{amount} more than copying at every call")
    } else {
        format!("{amount} not moved")
    }
}

fn separator(i: usize) -> &'static str {
    if i == 0 { "\n" } else { ",\n" }
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if u32::from(c) < 0x20 => {
                // Writing to a String does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::counters::{Degraded, RoutineCalls, WhyHost};

    fn sample() -> (Vec<Caps>, Snapshot) {
        let devices = vec![
            Caps {
                name: "sim0".into(),
                kind: "sim",
                memory: 1 << 30,
                peers: vec![],
            },
            Caps {
                name: "a \"b\"\\\n".into(),
                kind: "cuda",
                memory: 7,
                peers: vec![],
            },
        ];
        let counts = Snapshot {
            calls: vec![
                RoutineCalls {
                    name: "dgemm".into(),
                    offloaded: 2,
                    why_host: vec![(WhyHost::Small, 3), (WhyHost::PredictedSlower, 4)],
                },
                RoutineCalls {
                    name: "sdot".into(),
                    offloaded: 1,
                    why_host: vec![],
                },
            ],
            h2d: 134_217_728,
            d2h: 1,
            per_call: 13_421_772_800,
            fault_reads: 2,
            fault_p50_us: 1.25,
            degraded: vec![Degraded::NoDriver, Degraded::MapLimit],
            ..Snapshot::default()
        };
        (devices, counts)
    }

    #[test]
    fn json_has_every_key_of_the_contract() {
        let (devices, counts) = sample();
        let json = Report {
            devices: &devices,
            counts: &counts,
        }
        .json(42);
        let value: serde_json::Value = serde_json::from_str(&json).expect(&json);
        assert_eq!(value["version"], 1);
        assert_eq!(value["devices"][0]["memory"], 1 << 30);
        assert_eq!(value["devices"][1]["name"], "a \"b\"\\\n");
        assert_eq!(value["calls"]["dgemm"]["host"], 7);
        assert_eq!(value["calls"]["dgemm"]["why_host"]["predicted_slower"], 4);
        assert_eq!(value["calls"]["sdot"]["offloaded"], 1);
        assert_eq!(value["calls"]["sdot"]["why_host"], serde_json::json!({}));
        assert_eq!(value["bytes"]["saved"], 13_421_772_800_u64 - 134_217_729);
        for key in ["h2d", "d2h", "p2p", "saved"] {
            assert!(value["bytes"][key].is_number(), "{key}");
        }
        for key in ["read", "write", "false_sharing", "p50_us", "p99_us"] {
            assert!(value["faults"][key].is_number(), "{key}");
        }
        for key in [
            "hits",
            "misses",
            "evictions",
            "closes",
            "coarse",
            "remembered",
        ] {
            assert!(value["cache"][key].is_number(), "{key}");
        }
        for key in ["scans", "written", "kept"] {
            assert!(value["gate"][key].is_number(), "{key}");
        }
        for key in ["pinned", "pin_us", "pin_refused"] {
            assert!(value["host"][key].is_number(), "{key}");
        }
        assert_eq!(value["fallbacks"], 0);
        assert_eq!(
            value["degraded"],
            serde_json::json!(["no_driver", "map_limit"])
        );
    }

    #[test]
    fn an_empty_report_is_valid_too() {
        let counts = Snapshot::default();
        let json = Report {
            devices: &[],
            counts: &counts,
        }
        .json(1);
        let value: serde_json::Value = serde_json::from_str(&json).expect(&json);
        assert_eq!(value["devices"], serde_json::json!([]));
        assert_eq!(value["calls"], serde_json::json!({}));
    }

    #[test]
    fn the_table_names_what_matters() {
        let (devices, counts) = sample();
        let table = Report {
            devices: &devices,
            counts: &counts,
        }
        .table(42);
        for text in [
            "process 42",
            "dgemm",
            "small 3, predicted_slower 4",
            "13.3 GB not moved",
            "degraded map_limit",
        ] {
            assert!(table.contains(text), "{text} in {table}");
        }
    }

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
        std::os::unix::fs::symlink("/tmp/x", dir.path().join("r.1.tmp")).expect("linked");
        write_file(&dir.path().join("r"), b"x", 1).expect("the link is replaced, not followed");
        assert!(!Path::new("/tmp/x").exists());
    }

    #[test]
    fn amounts_for_people() {
        for (n, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (9_996, "10.0 kB"),
            (99_960, "100 kB"),
            (999_600, "1.00 MB"),
            (134_217_728, "134 MB"),
            (13_421_772_800, "13.4 GB"),
            (u64::MAX, "18447 PB"),
        ] {
            assert_eq!(human(n), text);
        }
        assert_eq!(saved(-1500), "1.50 kB more than copying at every call");
    }
}
