//! `semcache report`: a JSON report as a table.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use semcache::runtime::report::{human, saved};

use crate::summary::Summary;

pub(crate) fn report(files: &[PathBuf]) -> Result<ExitCode, String> {
    let mut total = Summary::default();
    for file in files {
        total.add(&Summary::read(file)?);
    }
    print!("{}", table(&total));
    Ok(ExitCode::SUCCESS)
}

/// The table, lines ended.
pub(crate) fn table(total: &Summary) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write_table(total, &mut out);
    out
}

fn write_table(t: &Summary, out: &mut String) -> std::fmt::Result {
    if t.processes > 1 {
        writeln!(out, "{} processes", t.processes)?;
    }
    for (name, kind, memory) in &t.devices {
        writeln!(out, "device    {name} ({kind}, {})", human(*memory))?;
    }
    writeln!(
        out,
        "{:<10}{:>12}{:>12}  why on the host",
        "routine", "offloaded", "host"
    )?;
    for (name, calls) in &t.calls {
        let why: Vec<String> = calls
            .why_host
            .iter()
            .map(|(w, n)| format!("{w} {n}"))
            .collect();
        let line = format!(
            "{name:<10}{:>12}{:>12}  {}",
            calls.offloaded,
            calls.host,
            why.join(", ")
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(
        out,
        "bytes     {} to devices, {} home, {} between devices; {}",
        human(t.h2d),
        human(t.d2h),
        human(t.p2p),
        saved(t.saved)
    )?;
    writeln!(
        out,
        "faults    {} read, {} write, {} false sharing",
        t.fault_reads, t.fault_writes, t.false_sharing
    )?;
    writeln!(
        out,
        "cache     {} hits, {} misses, {} evictions, {} closes",
        t.hits, t.misses, t.evictions, t.closes
    )?;
    writeln!(out, "fallbacks {}", t.fallbacks)?;
    if !t.degraded.is_empty() {
        writeln!(out, "degraded  {}", t.degraded.join(", "))?;
    }
    Ok(())
}
