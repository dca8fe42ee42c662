//! A report as the closing line of a run, and as a table.

use core::cmp::Reverse;

use semcache::base::counters::{Calls, Values, WhyHost};
use semcache::runtime::report::Report;
use semcache::runtime::report::table::{human, saved};
use semcache::runtime::report::time::seconds;

/// How many routines, or reasons, the closing line names.
const NAMED: usize = 4;

/// The report as a table, with a line end after each line.
pub(crate) fn table(report: &Report) -> String {
    let processes = match report.counted() {
        0 | 1 => String::new(),
        n => format!("{n} processes\n"),
    };
    processes + &report.sum.table()
}

/// The closing line of `semcache run`.
pub(crate) fn line(report: &Report) -> String {
    let (calls, counts) = (&report.sum.calls, &report.sum.counts);
    let products = counts.sparse + sparse_on_host(counts);
    let told = if calls.is_empty() && products == 0 {
        "saw no BLAS calls; those of a static or hidden BLAS it cannot see (README, Limits)"
            .to_owned()
    } else if report.sum.offloaded() == 0 && counts.sparse == 0 {
        all_on_host(report)
    } else {
        offloaded(report)
    };
    format!("semcache: {}{told}{}", took(report), tail(report))
}

/// Less time in BLAS calls says nothing.
const LEAST_S: f64 = 0.01;
/// Up to this share of the time may be estimated without a word.
const EXACT: f64 = 0.05;
/// The share of the time from which on that of LAPACK's drivers is named.
const MUCH: f64 = 0.1;

/// What BLAS calls took, and what they would have taken without semcache, as far as that is known.
fn took(report: &Report) -> String {
    let time = &report.sum.time;
    let now_s = time.blas_s;
    let calls: u64 = report
        .sum
        .calls
        .values()
        .map(|c| c.offloaded + c.host)
        .sum();
    if now_s < LEAST_S || time.untimed_calls * 2 > calls {
        return String::new();
    }
    let about = match time.parts.host_sampled_s > EXACT * now_s {
        true => "about ",
        false => "",
    };
    let solvers_s = solvers(report);
    let within = match solvers_s > MUCH * now_s {
        true => format!(" ({} of it in LAPACK, on the host)", seconds(solvers_s)),
        false => String::new(),
    };
    let took = format!("BLAS took {about}{}{within}", seconds(now_s));
    let on_devices = report.sum.offloaded() > 0;
    match time.plain_estimate_s.filter(|_| on_devices) {
        Some(plain_s) if plain_s > 0.0 => {
            let without = format!("about {} without semcache", seconds(plain_s));
            let times = match (plain_s / now_s, now_s / plain_s) {
                (faster, _) if faster >= 1.0 + EXACT => format!("{} times as fast", factor(faster)),
                (_, slower) if slower >= 1.0 + EXACT => {
                    format!("slower: {} times as long", factor(slower))
                }
                _ => "as fast".to_owned(),
            };
            format!("{took}, {without} ({times}); ")
        }
        _ => format!("{took}; "),
    }
}

/// Seconds that LAPACK's drivers took, whose BLAS calls are out of sight.
fn solvers(report: &Report) -> f64 {
    let sum = &report.sum;
    let solvers = sum
        .calls
        .iter()
        .filter(|(_, calls)| calls.why_host.contains_key(WhyHost::Solver.name()));
    let times = solvers.filter_map(|(name, _)| sum.time.routines.get(name));
    times.map(|time| time.parts.host_s).sum()
}

fn factor(times: f64) -> String {
    match times {
        10.0.. => format!("{times:.0}"),
        2.0.. => format!("{times:.1}"),
        _ => format!("{times:.2}"),
    }
}

fn offloaded(report: &Report) -> String {
    let counts = &report.sum.counts;
    let mut routines: Vec<(&str, u64, u64)> = report
        .sum
        .calls
        .iter()
        .filter(|(_, c)| c.offloaded > 0)
        .map(|(name, c)| (name.as_str(), c.offloaded, c.offloaded + c.host))
        .collect();
    if counts.sparse > 0 {
        let all = counts.sparse + sparse_on_host(counts);
        routines.push(("sparse product", counts.sparse, all));
    }
    routines.sort_by_key(|(_, offloaded, _)| Reverse(*offloaded));
    let of = |(name, some, all): &(&str, u64, u64)| format!("{some} of {all} {name}");
    let parts: Vec<String> = routines.iter().take(NAMED).map(of).collect();
    let mut ran = format!("{} calls", parts.join(", "));
    let rest = &routines[routines.len().min(NAMED)..];
    if !rest.is_empty() {
        let some: u64 = rest.iter().map(|(_, some, _)| some).sum();
        let all: u64 = rest.iter().map(|(_, _, all)| all).sum();
        ran += &format!(" and {some} of {all} others");
    }
    let bytes = &counts.bytes;
    let against = match bytes.saved {
        0 => String::new(),
        amount => format!(", {}", saved(amount)),
    };
    format!(
        "{ran} ran on devices; moved {}{against}; {}",
        human(bytes.h2d + bytes.d2h + bytes.mapped),
        counted(counts.faults.read + counts.faults.write, "page fault"),
    )
}

fn all_on_host(report: &Report) -> String {
    let mut sum = Calls::default();
    report.sum.calls.values().for_each(|c| sum.add(c));
    let on_host = match (sum.host, sparse_on_host(&report.sum.counts)) {
        (calls, 0) => counted(calls, "BLAS call"),
        (0, products) => counted(products, "sparse product"),
        (calls, products) => format!(
            "{} and {}",
            counted(calls, "BLAS call"),
            counted(products, "sparse product")
        ),
    };
    if let Some(why) = no_device(report) {
        return format!("{why}: the host computed all {on_host}");
    }
    let mut why: Vec<(&str, u64)> = sum.why_host.iter().map(|(w, n)| (w.as_str(), *n)).collect();
    why.sort_by_key(|(_, n)| Reverse(*n));
    let of = |(why, n): &(&str, u64)| match WhyHost::named(why) {
        Some(why) => format!("{n} {}", why.said()),
        None => format!("{n} {why}"),
    };
    let why: Vec<String> = why.iter().map(of).collect();
    let why = if why.is_empty() {
        String::new()
    } else {
        format!(" ({})", why.join(", "))
    };
    format!("no call ran on a device; {on_host} on the host{why}")
}

/// Why no call could run on a device, if there is none.
fn no_device(report: &Report) -> Option<&'static str> {
    let sum = &report.sum;
    let lacks = |name| sum.degraded.contains(name);
    match sum.devices.is_empty() {
        true if lacks("no_driver") => {
            Some("no GPU: the CUDA driver is missing or cannot be used (semcache doctor)")
        }
        true if lacks("no_devices") => {
            Some("no device: those that were asked for did not start (semcache doctor)")
        }
        _ => None,
    }
}

fn tail(report: &Report) -> String {
    let mut tail = String::new();
    let sum = &report.sum;
    if sum.counts.fallbacks > 0 {
        tail += &format!(
            "; {} finished on the host",
            counted(sum.counts.fallbacks, "call")
        );
    }
    if !sum.degraded.is_empty() {
        let names: Vec<&str> = sum.degraded.iter().map(String::as_str).collect();
        tail += &format!("; degraded: {}", names.join(", "));
    }
    if report.counted() > 1 {
        tail += &format!("; {} processes", report.counted());
    }
    if report.refused > 0 {
        tail += &format!(
            "; {} not counted",
            counted(u64::from(report.refused), "process")
        );
    }
    tail
}

/// Products of sparse matrices that the host computed.
fn sparse_on_host(counts: &Values) -> u64 {
    counts.sparse_host + counts.sparse_passed
}

/// A number of things.
fn counted(n: u64, of: &str) -> String {
    match (n, of.ends_with('s')) {
        (1, _) => format!("1 {of}"),
        (_, true) => format!("{n} {of}es"),
        (_, false) => format!("{n} {of}s"),
    }
}

#[cfg(test)]
mod tests {
    use semcache::base::counters::Degraded;
    use semcache::runtime::report::{Did, Process};

    use super::*;

    const JACOBI: &str = r#"{"devices":[{"name":"sim0","kind":"sim","memory":7}],
        "calls":{"dgemv":{"offloaded":100,"host":0,"why_host":{}}},
        "bytes":{"h2d":134000000,"d2h":3000000,"p2p":0,"saved":13400000000},
        "faults":{"read":1,"write":1,"false_sharing":0,"p50_us":1.0,"p99_us":2.0},
        "cache":{"hits":1,"misses":2,"evictions":3,"closes":4},"fallbacks":0,"degraded":[]}"#;

    fn report(processes: &[&str]) -> Report {
        let mut report = Report::new("run");
        for (pid, text) in (1..).zip(processes) {
            let did: Did = serde_json::from_str(text).expect("what a process did");
            report.add_process(Process {
                pid,
                processes: 1,
                did,
                ..Process::default()
            });
        }
        report
    }

    #[test]
    fn the_closing_line() {
        assert_eq!(
            line(&report(&[JACOBI])),
            "semcache: 100 of 100 dgemv calls ran on devices; moved 137 MB, 13.4 GB less than copying at every call; 2 page faults"
        );
        let two = report(&[JACOBI, JACOBI]);
        assert_eq!(
            line(&two),
            "semcache: 200 of 200 dgemv calls ran on devices; moved 274 MB, 26.8 GB less than copying at every call; \
             4 page faults; 2 processes"
        );
        assert!(table(&two).starts_with("2 processes\n"));
    }

    /// The beginning of the closing line of a run with these times.
    fn leads(offloaded: u64, untimed: u64, time: &str) -> String {
        let host = 100 - offloaded;
        let calls = format!(
            r#""calls":{{"dgemv":{{"offloaded":{offloaded},"host":{host},"why_host":{{"small":{host}}}}}}}"#
        );
        let routine = format!(r#""routines":{{"dgemv":{{{time},"untimed_calls":{untimed}}}}}"#);
        let line = line(&report(&[&format!(r#"{{{calls},"time":{{{routine}}}}}"#)]));
        let line = line.strip_prefix("semcache: ").expect("the name");
        line.split("; ").next().expect("a part").to_owned()
    }

    #[test]
    fn the_closing_line_leads_with_the_time() {
        for (time, said) in [
            (
                r#""kernels_s":3.2,"plain_estimate_s":11.0"#,
                "BLAS took 3.20 s, about 11.0 s without semcache (3.4 times as fast)",
            ),
            (
                r#""kernels_s":3.0,"host_sampled_s":0.2,"plain_estimate_s":1.6"#,
                "BLAS took about 3.20 s, about 1.60 s without semcache (slower: 2.0 times as long)",
            ),
            (
                r#""kernels_s":75.0,"plain_estimate_s":76"#,
                "BLAS took 1 min 15 s, about 1 min 16 s without semcache (as fast)",
            ),
            (
                r#""kernels_s":1.0,"plain_estimate_s":1.5"#,
                "BLAS took 1.00 s, about 1.50 s without semcache (1.50 times as fast)",
            ),
            // Nothing is known of the host.
            (r#""kernels_s":0.25"#, "BLAS took 250 ms"),
            // Too short to say anything.
            (
                r#""kernels_s":0.009,"plain_estimate_s":5"#,
                "100 of 100 dgemv calls ran on devices",
            ),
        ] {
            assert_eq!(leads(100, 0, time), said);
        }
        // Nothing ran on devices: there is nothing to compare.
        let host = r#""host_s":2.0,"plain_estimate_s":2.0"#;
        assert_eq!(leads(0, 50, host), "BLAS took 2.00 s");
        // Of most calls the time is not known.
        assert_eq!(leads(0, 51, host), "no call ran on a device");
    }

    #[test]
    fn other_routines_are_counted() {
        let calls: Vec<String> = ["a", "b", "c", "d", "e"]
            .iter()
            .map(|name| format!(r#""{name}":{{"offloaded":1,"host":1,"why_host":{{"small":1}}}}"#))
            .collect();
        let text = format!(r#"{{"calls":{{{}}}}}"#, calls.join(","));
        let line = line(&report(&[&text]));
        assert!(
            line.contains("1 of 2 d calls and 1 of 2 others ran on devices"),
            "{line}"
        );
    }

    #[test]
    fn the_time_in_lapack_is_named() {
        let text = |host_s: f64| {
            format!(
                r#"{{"calls":{{"dgemm":{{"offloaded":1}},"dgesv":{{"host":2,"why_host":{{"solver":2}}}}}},
                "time":{{"routines":{{"dgemm":{{"kernels_s":0.5}},"dgesv":{{"host_s":{host_s}}}}}}}}}"#
            )
        };
        let much = line(&report(&[&text(1.5)]));
        assert!(
            much.contains(
                "BLAS took 2.00 s (1.50 s of it in LAPACK, on the host); 1 of 1 dgemm calls"
            ),
            "{much}"
        );
        assert!(!line(&report(&[&text(0.01)])).contains("LAPACK"));
    }

    #[test]
    fn nothing_offloaded_says_why() {
        let calls =
            r#""calls":{"dgemm":{"offloaded":0,"host":5,"why_host":{"small":2,"starting":3}}}"#;
        assert_eq!(
            line(&report(&[&format!("{{{calls}}}")])),
            "semcache: no call ran on a device; 5 BLAS calls on the host (3 made while devices were starting, 2 too small to gain)"
        );
        let lacks = Degraded::NoDriver.name();
        assert_eq!(
            line(&report(&[&format!(
                r#"{{{calls},"degraded":["{lacks}"]}}"#
            )])),
            "semcache: no GPU: the CUDA driver is missing or cannot be used (semcache doctor): the host computed all 5 BLAS calls; \
             degraded: no_driver"
        );
        assert_eq!(
            line(&report(&[])),
            "semcache: saw no BLAS calls; those of a static or hidden BLAS it cannot see (README, Limits)"
        );
    }

    #[test]
    fn sparse_products_count() {
        let line = |text| line(&report(&[text]));
        assert_eq!(
            line(r#"{"sparse_host":1,"sparse_passed":2}"#),
            "semcache: no call ran on a device; 3 sparse products on the host"
        );
        assert_eq!(
            line(r#"{"sparse":5,"sparse_host":1,"sparse_passed":2}"#),
            "semcache: 5 of 8 sparse product calls ran on devices; moved 0 B; 0 page faults"
        );
    }
}
