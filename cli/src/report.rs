//! `semcache report`: prints the sum of JSON reports as a table; with `--keys`, the meaning of every key, reason and
//! degraded feature that a report may name.

use core::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

use semcache::base::counters::{Degraded, KEYS, LeftOut, WhyHost};

use semcache::runtime::report::{Report, time};

use crate::summary;

#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Print what every key, reason and degraded feature in a report means, as Markdown
    #[arg(long, conflicts_with = "files")]
    keys: bool,
    /// Report files; their counts are summed
    #[arg(required_unless_present = "keys", value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn report(options: &Options) -> Result<ExitCode, String> {
    if options.keys {
        print!("{}", keys());
        return Ok(ExitCode::SUCCESS);
    }
    let mut sum = Report::default();
    for file in &options.files {
        let named = |e: &dyn Display| format!("{}: {e}", file.display());
        let text = std::fs::read_to_string(file).map_err(|e| named(&e))?;
        sum.add(&Report::parse(&text).map_err(|e| named(&e))?);
    }
    print!("{}", summary::table(&sum));
    Ok(ExitCode::SUCCESS)
}

fn keys() -> String {
    let numbers = KEYS.iter().map(|k| {
        let dot = if k.group.is_empty() { "" } else { "." };
        (format!("{}{dot}{}", k.group, k.name), k.doc)
    });
    let numbers = time::keys().into_iter().chain(numbers);
    let reasons = WhyHost::ALL.iter().map(|w| (w.name().to_owned(), w.doc()));
    let left_out = LeftOut::ALL.iter().map(|w| (w.name().to_owned(), w.doc()));
    let degraded = Degraded::ALL.iter().map(|d| (d.name().to_owned(), d.doc()));
    let mut text = "\
# The report

`SEMCACHE_REPORT=FILE`, or `semcache run --report FILE`, has each process write a JSON report as it ends. Its `version` is 2 and
rises when a key is renamed, goes or changes its meaning; a new key does not change it. `devices` lists the devices that the
process used, each with the calls of which it ran a task (`calls`), its tasks, the bytes copied to it from the host (`h2d`), from it
to the host (`d2h`) and to it from other devices (`p2p`), and the calls that ran on other devices only, by reason (`left_out`; calls
that repeat an earlier one are not among these), and in virtual time what its kernels and copies took together and when the last of them
is complete, in nanoseconds (`virtual_time`). `calls` counts the calls of each routine: how many ran on devices (`offloaded`), how many on the host BLAS
(`host`), and those by reason (`why_host`). `semcache report FILE...` adds reports up and prints them as a table.
`semcache report --keys` prints this page.

`time` says what the program's threads spent on BLAS calls, in seconds, together and by routine (`time.routines`). No time counts twice:
the parts add up to `time.blas_s`. Times of several threads and processes are added up. Names that end in `_estimate_s` or `_sampled_s`
are estimates, all others are measured. What devices did meanwhile is not part of it (`sampled`, `virtual_time`).
"
    .to_owned();
    for (title, rows) in [
        ("Numbers", numbers.collect::<Vec<_>>()),
        ("Reasons in `why_host`", reasons.collect()),
        ("Reasons in `left_out`", left_out.collect()),
        ("Features in `degraded`", degraded.collect()),
    ] {
        text += &format!("\n## {title}\n\n| name | meaning |\n|---|---|\n");
        for (name, doc) in rows {
            text += &format!("| `{name}` | {} |\n", doc.trim());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_in_docs_is_the_table_in_the_code() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/report.md");
        let text = std::fs::read_to_string(page).expect("docs/report.md");
        assert_eq!(
            text,
            super::keys(),
            "docs/report.md is not what `semcache report --keys` prints"
        );
    }
}
