//! Tables of a report with a line for each process or routine, the one with most calls first.

use core::cmp::Reverse;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use semcache::base::counters::WhyHost;
use semcache::runtime::report::table::human;
use semcache::runtime::report::{Process, Report};

use super::advice;
use super::lines::Lines;

/// The longest command line that is shown whole.
const LONGEST: usize = 48;

/// A line for each process.
pub(super) fn process(report: &Report) -> String {
    let mut rows: Vec<(u64, [String; 8])> = report.processes.iter().map(of_process).collect();
    rows.sort_by_key(|(calls, _)| Reverse(*calls));
    table(
        &[
            "process",
            "rank",
            "seconds",
            "on devices",
            "host",
            "moved",
            "faults",
            "command",
        ],
        rows.into_iter().map(|(_, row)| row),
        7,
    )
}

fn of_process(process: &Process) -> (u64, [String; 8]) {
    let did = &process.did;
    let (bytes, faults) = (&did.counts.bytes, &did.counts.faults);
    let host: u64 = did.calls.values().map(|c| c.host).sum();
    let pid = match (process.pid, process.ended) {
        (0, _) => "others".to_owned(),
        (pid, true) => pid.to_string(),
        // Killed, or still running: its numbers are what it had counted.
        (pid, false) => format!("{pid} (no end)"),
    };
    let row = [
        pid,
        process.rank.map(|r| r.to_string()).unwrap_or_default(),
        format!("{:.1}", process.seconds),
        did.offloaded().to_string(),
        host.to_string(),
        human(bytes.h2d + bytes.d2h + bytes.mapped),
        (faults.read + faults.write).to_string(),
        shown(&process.command),
    ];
    (did.offloaded() + host, row)
}

/// A command line without control characters, which a terminal would obey, and not too long.
fn shown(command: &str) -> String {
    let plain: String = command.escape_debug().collect();
    match plain.chars().count() > LONGEST {
        true => plain
            .chars()
            .take(LONGEST - 1)
            .chain(['\u{2026}'])
            .collect(),
        false => plain,
    }
}

/// A line for each routine.
pub(super) fn routine(report: &Report) -> String {
    let mut rows: Vec<(u64, [String; 4])> = Vec::new();
    for (name, calls) in &report.sum.calls {
        let mut why: Vec<(&String, &u64)> = calls.why_host.iter().collect();
        why.sort_by_key(|(_, n)| Reverse(**n));
        let of = |(why, n): &(&String, &u64)| match WhyHost::named(why) {
            Some(why) => format!("{n} {}", why.said()),
            None => format!("{n} {why}"),
        };
        let why: Vec<String> = why.iter().map(of).collect();
        let row = [
            name.clone(),
            calls.offloaded.to_string(),
            calls.host.to_string(),
            why.join(", "),
        ];
        rows.push((calls.offloaded + calls.host, row));
    }
    rows.sort_by_key(|(calls, _)| Reverse(*calls));
    table(
        &["routine", "on devices", "host", "why on the host"],
        rows.into_iter().map(|(_, row)| row),
        3,
    )
}

/// A line for each place in the code, those that matter most first.
pub(super) fn site(report: &Report) -> String {
    let mut lines = Lines::default();
    let rows = report.sum.sites.iter().map(|site| {
        let is_call = site.faults == 0;
        [
            lines.of(&site.place, is_call),
            site.does.clone(),
            site.offloaded.to_string(),
            site.host().to_string(),
            human(site.h2d + site.d2h),
            site.faults.to_string(),
            format!("{:.3}", site.seconds),
            advice::site(site),
        ]
    });
    let rows: Vec<[String; 8]> = rows.collect();
    table(
        &[
            "where",
            "does",
            "on devices",
            "host",
            "moved",
            "faults",
            "seconds",
            "what to do",
        ],
        rows.into_iter(),
        7,
    )
}

/// A line for each block of host memory with operands of calls on devices or of solvers on the host, those that matter most first.
pub(super) fn matrix(report: &Report) -> String {
    let mut lines = Lines::default();
    let mut rows: Vec<[String; 7]> = Vec::new();
    for matrix in &report.sum.matrices {
        let (first, told) = advice::told(matrix, &mut lines);
        let name = match matrix.name.as_str() {
            "" => format!("{} at {first}", matrix.first_does),
            name => name.escape_debug().to_string(),
        };
        rows.push([
            name,
            format!("{} x {}", matrix.rows, matrix.cols),
            human(matrix.bytes),
            matrix.calls.to_string(),
            human(matrix.h2d + matrix.d2h),
            (matrix.loads + matrix.stores).to_string(),
            told,
        ]);
    }
    table(
        &[
            "first used by",
            "size",
            "block",
            "calls",
            "moved",
            "faults",
            "what happens to it",
        ],
        rows.into_iter(),
        6,
    )
}

/// Numbers to the right, but in the first column and from column `left` on.
fn table<const N: usize>(
    head: &[&str; N],
    rows: impl Iterator<Item = [String; N]>,
    left: usize,
) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_header(head);
    table.add_rows(rows);
    for column in table.column_iter_mut().take(left).skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines: Vec<String> = table
        .lines()
        .map(|l| l.trim_end().to_owned() + "\n")
        .collect();
    lines.concat()
}

#[cfg(test)]
mod tests {
    use semcache::runtime::report::Did;

    use super::*;

    #[test]
    fn processes_and_routines_have_lines() {
        let text = r#"{"calls":{"dgemm":{"offloaded":2,"host":3,"why_host":{"small":3}},"ddot":{"offloaded":0,"host":9,
            "why_host":{"nested":9}}},"bytes":{"h2d":1000,"d2h":500},"faults":{"read":1}}"#;
        let did: Did = serde_json::from_str(text).expect("what a process did");
        let mut report = Report::new("run");
        for (pid, ended) in [(7, true), (8, false)] {
            report.add_process(Process {
                pid,
                processes: 1,
                seconds: 1.25,
                ended,
                rank: Some(pid - 7),
                command: format!("a\u{1b}[2J\n{}", "x".repeat(60)),
                did: did.clone(),
                ..Process::default()
            });
        }
        let text = process(&report);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].starts_with(" 7") && lines[2].starts_with(" 8 (no end)"),
            "{text}"
        );
        assert!(
            lines[1].contains(r"a\u{1b}[2J\n")
                && text.chars().all(|c| c == '\n' || !c.is_control())
        );
        assert!(
            lines.iter().all(|line| line.chars().count() < 140),
            "{text}"
        );
        let text = routine(&report);
        let words = |i: usize| {
            text.lines()
                .nth(i)
                .unwrap_or_default()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            words(1),
            "ddot 0 18 18 made by the host BLAS itself, or in a reduction of MPI"
        );
        assert_eq!(words(2), "dgemm 4 6 6 too small to gain");
    }
}
