//! A report as text for people.

use core::fmt::{self, Write as _};

use humansize::{DECIMAL, FormatSizeOptions, format_size};

use super::{Device, Did};

/// What a device did.
fn of_device(d: &Device) -> String {
    let mut text = format!(
        "{} calls, {} tasks; {} from the host, {} to it, {} from other devices",
        d.calls,
        d.tasks,
        human(d.h2d),
        human(d.d2h),
        human(d.p2p)
    );
    let why: Vec<String> = d.left_out.iter().map(|(w, n)| format!("{w} {n}")).collect();
    if !why.is_empty() {
        text += &format!("; left out: {}", why.join(", "));
    }
    text
}
impl Did {
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
                of_device(d)
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
        for line in self.time.lines() {
            writeln!(out, "{line}")?;
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
        format!("{amount} less than copying at every call")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
