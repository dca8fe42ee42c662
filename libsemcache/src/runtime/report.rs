//! The report of a process, or the sum of several: one structure that the library writes as JSON when the process exits,
//! and that `semcache report` and the tests read.

pub mod file;

use core::fmt::{self, Write as _};
use std::collections::{BTreeMap, BTreeSet};

use humansize::{DECIMAL, FormatSizeOptions, format_size};
use serde::{Deserialize, Serialize};

use crate::base::counters::{Calls, Values};

/// The version of the JSON layout. It rises when a key is renamed, goes or changes its meaning; a new key does not change
/// it, since readers ignore keys that they do not know.
pub const VERSION: u32 = 2;

/// A device of the process.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// The GPU's product name, or `simN` for simulated device N.
    pub name: String,
    /// `sim` or `cuda`.
    pub kind: String,
    /// Bytes of device memory that the process may use.
    pub memory: usize,
    /// Calls of which the device ran a task.
    pub calls: u64,
    /// Tasks that the device ran.
    pub tasks: u64,
    /// Bytes copied to the device from the host.
    pub h2d: u64,
    /// Bytes copied from the device to the host.
    pub d2h: u64,
    /// Bytes copied to the device from other devices.
    pub p2p: u64,
    /// What its operations took on the modelled machine, in virtual time.
    #[serde(skip_serializing_if = "VirtualTime::is_zero")]
    pub virtual_time: VirtualTime,
    /// Calls on other devices only, by the name of the reason ([`LeftOut::name`](crate::base::counters::LeftOut::name)). A call
    /// that repeats an earlier one is not counted here.
    pub left_out: BTreeMap<String, u64>,
}

/// Nanoseconds of a device's operations on the modelled machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VirtualTime {
    /// Its kernels together.
    pub kernels_ns: u64,
    /// Its copies from the host together.
    pub uploads_ns: u64,
    /// Its copies to the host together.
    pub write_backs_ns: u64,
    /// Its copies from other devices together.
    pub peers_ns: u64,
    /// When the last operation is complete.
    pub end_ns: u64,
}

impl VirtualTime {
    fn is_zero(&self) -> bool {
        *self == VirtualTime::default()
    }

    /// Adds what another process took; each has a time of its own.
    fn add(&mut self, other: &VirtualTime) {
        self.kernels_ns += other.kernels_ns;
        self.uploads_ns += other.uploads_ns;
        self.write_backs_ns += other.write_backs_ns;
        self.peers_ns += other.peers_ns;
        self.end_ns = self.end_ns.max(other.end_ns);
    }
}

impl Device {
    /// Adds what another process did on its device of the same number.
    fn add(&mut self, other: &Device) {
        self.calls += other.calls;
        self.tasks += other.tasks;
        self.h2d += other.h2d;
        self.d2h += other.d2h;
        self.p2p += other.p2p;
        self.virtual_time.add(&other.virtual_time);
        for (why, n) in &other.left_out {
            *self.left_out.entry(why.clone()).or_default() += n;
        }
    }

    /// What it did, as text for people.
    fn did(&self) -> String {
        let mut text = format!(
            "{} calls, {} tasks; {} from the host, {} to it, {} from other devices",
            self.calls,
            self.tasks,
            human(self.h2d),
            human(self.d2h),
            human(self.p2p)
        );
        let why: Vec<String> = self
            .left_out
            .iter()
            .map(|(w, n)| format!("{w} {n}"))
            .collect();
        if !why.is_empty() {
            text += &format!("; left out: {}", why.join(", "));
        }
        text
    }
}

/// What a process did, or several together.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// [`VERSION`]; 0 in a sum to which no report has been added.
    pub version: u32,
    /// The process id; in a sum, that of the first report added.
    pub pid: u32,
    /// The devices that the process used; of several processes, those of the first that used any.
    pub devices: Vec<Device>,
    /// The calls of each routine, by its name without prefix and underscores (`dgemm`).
    pub calls: BTreeMap<String, Calls>,
    /// All other counters.
    #[serde(flatten)]
    pub counts: Values,
    /// The features that were unavailable, or were given up while the program ran ([`Degraded`](crate::base::counters::Degraded)).
    pub degraded: BTreeSet<String>,
}

impl Report {
    /// A report from its text.
    ///
    /// # Errors
    /// Text that is no report, or one of another version.
    pub fn parse(text: &str) -> Result<Self, String> {
        let report: Report =
            serde_json::from_str(text).map_err(|e| format!("not a report: {e}"))?;
        match report.version {
            VERSION => Ok(report),
            0 => Err("not a report: it has no version".to_owned()),
            other => Err(format!(
                "a report of version {other}; {VERSION} is read here"
            )),
        }
    }

    /// The JSON text.
    #[must_use]
    pub fn json(&self) -> String {
        // No map has keys other than strings, so this does not fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Adds the counts of another process. Percentiles cannot be added: of two the larger one stays.
    pub fn add(&mut self, other: &Report) {
        if self.version == 0 {
            (self.version, self.pid) = (other.version, other.pid);
        }
        // Ranks of one job may have different devices: then those of the first that used any are shown.
        let same = |a: &Device, b: &Device| (&a.name, &a.kind) == (&b.name, &b.kind);
        let mut both = self.devices.iter().zip(&other.devices);
        if both.all(|(a, b)| same(a, b)) {
            for (mine, theirs) in self.devices.iter_mut().zip(&other.devices) {
                mine.add(theirs);
            }
            let more = other.devices.iter().skip(self.devices.len());
            self.devices.extend(more.cloned());
        }
        for (name, calls) in &other.calls {
            self.calls.entry(name.clone()).or_default().add(calls);
        }
        self.counts += &other.counts;
        // Values that are computed from counters are not in the sum of the table.
        self.counts.bytes.saved += other.counts.bytes.saved;
        let (mine, theirs) = (&mut self.counts.faults, &other.counts.faults);
        mine.p50_us = mine.p50_us.max(theirs.p50_us);
        mine.p99_us = mine.p99_us.max(theirs.p99_us);
        self.degraded.extend(other.degraded.iter().cloned());
    }

    /// Whether the report has no calls, no counts and no degraded features.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.degraded.is_empty() && self.counts == Values::default()
    }

    /// How many calls ran on devices.
    #[must_use]
    pub fn offloaded(&self) -> u64 {
        self.calls.values().map(|c| c.offloaded).sum()
    }

    /// The report as a table for people, each line ended by a line feed.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = String::with_capacity(2048);
        // Writing to a String does not fail.
        let _ = self.write_table(&mut out);
        out
    }

    fn write_table(&self, out: &mut String) -> fmt::Result {
        let c = &self.counts;
        for d in &self.devices {
            let memory = human(d.memory as u64);
            writeln!(
                out,
                "device    {} ({}, {memory}): {}",
                d.name,
                d.kind,
                d.did()
            )?;
        }
        writeln!(
            out,
            "{:<10}{:>12}{:>12}  why on the host",
            "routine", "offloaded", "host"
        )?;
        for (name, calls) in &self.calls {
            let mut why: Vec<(&String, &u64)> = calls.why_host.iter().collect();
            why.sort_by_key(|(_, n)| core::cmp::Reverse(**n));
            let why: Vec<String> = why.iter().map(|(w, n)| format!("{w} {n}")).collect();
            let (offloaded, host) = (calls.offloaded, calls.host);
            let line = format!("{name:<10}{offloaded:>12}{host:>12}  {}", why.join(", "));
            writeln!(out, "{}", line.trim_end())?;
        }
        writeln!(
            out,
            "bytes     {} to devices, {} to the host, {} between devices; {}",
            human(c.bytes.h2d),
            human(c.bytes.d2h),
            human(c.bytes.p2p),
            saved(c.bytes.saved)
        )?;
        writeln!(
            out,
            "faults    {} read, {} write, {} false sharing; p50 {:.1} us, p99 {:.1} us",
            c.faults.read, c.faults.write, c.faults.false_sharing, c.faults.p50_us, c.faults.p99_us
        )?;
        writeln!(
            out,
            "cache     {} hits, {} misses, {} evictions, {} closes",
            c.cache.hits, c.cache.misses, c.cache.evictions, c.cache.closes
        )?;
        if c.gate.scans > 0 {
            writeln!(
                out,
                "tracking  {} scans, {} written by the CPU, {} not written and kept on devices",
                c.gate.scans,
                human(c.gate.written),
                human(c.gate.kept)
            )?;
        }
        writeln!(out, "fallbacks {}", c.fallbacks)?;
        if !self.degraded.is_empty() {
            let names: Vec<&str> = self.degraded.iter().map(String::as_str).collect();
            writeln!(out, "degraded  {}", names.join(", "))?;
        }
        Ok(())
    }
}

/// Bytes for people, in decimal units.
#[must_use]
pub fn human(bytes: u64) -> String {
    format_size(bytes, FormatSizeOptions::from(DECIMAL).decimal_places(1))
}

/// `bytes.saved` as text: the bytes that copying all operands at every call would move, less those that were copied
/// between host and devices.
#[must_use]
pub fn saved(bytes: i64) -> String {
    let amount = human(bytes.unsigned_abs());
    if bytes < 0 {
        format!("{amount} more than copying at every call")
    } else {
        format!("{amount} not moved")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Report {
        let device = |name: &str, kind: &str, memory| Device {
            name: name.to_owned(),
            kind: kind.to_owned(),
            memory,
            calls: 3,
            tasks: 12,
            p2p: 2000,
            left_out: [("slower".to_owned(), 5)].into(),
            ..Device::default()
        };
        let mut report = Report {
            version: VERSION,
            pid: 42,
            devices: vec![
                device("sim0", "sim", 1 << 30),
                device("a \"b\"\\\n", "cuda", 7),
            ],
            ..Report::default()
        };
        for (name, offloaded, why) in [
            ("dgemm", 2, &[("small", 3), ("predicted_slower", 4)][..]),
            ("sdot", 1, &[]),
        ] {
            let calls = report.calls.entry(name.to_owned()).or_default();
            calls.offloaded = offloaded;
            for (why, n) in why {
                calls.add_host(why, *n);
            }
        }
        let c = &mut report.counts;
        (c.bytes.h2d, c.bytes.d2h, c.bytes.per_call) = (134_217_728, 1, 13_421_772_800);
        c.bytes.saved = 13_421_772_800 - 134_217_729;
        (c.faults.read, c.faults.p50_us) = (2, 1.25);
        report.degraded = ["no_driver", "map_limit"].map(str::to_owned).into();
        report
    }

    #[test]
    fn json_has_every_key_of_the_contract() {
        let json = sample().json();
        let value: serde_json::Value = serde_json::from_str(&json).expect(&json);
        assert_eq!(value["version"], 2);
        assert_eq!(value["pid"], 42);
        assert_eq!(value["devices"][0]["memory"], 1 << 30);
        assert_eq!(value["devices"][1]["name"], "a \"b\"\\\n");
        for key in ["calls", "tasks", "h2d", "d2h", "p2p"] {
            assert!(value["devices"][0][key].is_number(), "{key}");
        }
        assert_eq!(value["devices"][0]["left_out"]["slower"], 5);
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
            "replayed",
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
            serde_json::json!(["map_limit", "no_driver"])
        );
        for key in crate::base::counters::KEYS {
            let group = if key.group.is_empty() {
                &value
            } else {
                &value[key.group]
            };
            assert!(group[key.name].is_number(), "{key:?}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let report = sample();
        assert_eq!(Report::parse(&report.json()), Ok(report));
    }

    #[test]
    fn an_empty_report_is_valid_too() {
        let report = Report::default();
        assert!(report.is_empty());
        let json = report.json();
        let value: serde_json::Value = serde_json::from_str(&json).expect(&json);
        assert_eq!(value["devices"], serde_json::json!([]));
        assert_eq!(value["calls"], serde_json::json!({}));
    }

    #[test]
    fn other_texts_are_not_reports() {
        for text in ["{", "{}", r#"{"version":1}"#] {
            assert!(Report::parse(text).is_err(), "{text}");
        }
        // Keys of another release are left out, missing ones are zero.
        assert!(Report::parse(r#"{"version":2,"news":{"a":1},"bytes":{"h2d":1}}"#).is_ok());
    }

    #[test]
    fn reports_add_up() {
        let one = sample();
        let mut two = Report::default();
        two.add(&one);
        assert_eq!(two, one);
        two.add(&one);
        assert_eq!((two.pid, two.devices.len(), two.offloaded()), (42, 2, 6));
        assert_eq!(two.calls["dgemm"].why_host["small"], 6);
        assert_eq!(two.counts.bytes.saved, 2 * one.counts.bytes.saved);
        assert_eq!(
            (two.counts.faults.read, two.counts.faults.p50_us),
            (4, 1.25)
        );
        assert_eq!(two.degraded, one.degraded);
    }

    #[test]
    fn the_table_names_what_matters() {
        let table = sample().table();
        for text in [
            "dgemm                2           7  predicted_slower 4, small 3",
            "13.3 GB not moved",
            "degraded  map_limit, no_driver",
        ] {
            assert!(table.contains(text), "{text} in {table}");
        }
    }

    #[test]
    fn amounts_for_people() {
        for (n, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1 kB"),
            (9_996, "10.0 kB"),
            (134_217_728, "134.2 MB"),
            (13_421_772_800, "13.4 GB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(human(n), text);
        }
        assert_eq!(saved(-1500), "1.5 kB more than copying at every call");
    }
}
