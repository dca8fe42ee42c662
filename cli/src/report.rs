//! `semcache report`: prints JSON reports as a table, and the meanings of their keys and names.

use std::path::PathBuf;
use std::process::ExitCode;

use semcache::base::counters::{Degraded, KEYS, WhyHost};

use crate::summary::Summary;

#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// What every key and name of a report means, as Markdown (docs/report.md)
    #[arg(long, conflicts_with = "files")]
    keys: bool,
    /// The reports; several are added up
    #[arg(required_unless_present = "keys", value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn report(options: &Options) -> Result<ExitCode, String> {
    if options.keys {
        print!("{}", keys());
        return Ok(ExitCode::SUCCESS);
    }
    let mut total = Summary::default();
    for file in &options.files {
        total.add(file)?;
    }
    print!("{}", total.table());
    Ok(ExitCode::SUCCESS)
}

fn keys() -> String {
    let numbers = KEYS.iter().map(|k| {
        let dot = if k.group.is_empty() { "" } else { "." };
        (format!("{}{dot}{}", k.group, k.name), k.doc)
    });
    let reasons = WhyHost::ALL.iter().map(|w| (w.name().to_owned(), w.doc()));
    let degraded = Degraded::ALL.iter().map(|d| (d.name().to_owned(), d.doc()));
    let mut text = "\
# The report

`SEMCACHE_REPORT=FILE`, or `semcache run --report FILE`, has each process write a JSON report of version 1 as it ends. Keys are
added, never renamed. `devices` lists the devices that the process used, `calls` the calls of each routine: `offloaded` to
devices, on the `host`, and `why_host`, by reason. `semcache report FILE...` adds reports up and prints them as a table.
`semcache report --keys` prints this page.
"
    .to_owned();
    for (title, rows) in [
        ("Numbers", numbers.collect::<Vec<_>>()),
        ("Reasons in `why_host`", reasons.collect()),
        ("Names in `degraded`", degraded.collect()),
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
