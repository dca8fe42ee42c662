//! `semcache report --html`: a page in one file that says what happened, where, why and how long, from reports and traces.
//!
//! The page names nothing outside itself, has no script, and forbids its browser both. All text goes through the templates,
//! which escape it, and through [`text::printable`]. A section is a file with a function, and a line in [`SECTIONS`].

mod calls;
mod charts;
mod degraded;
mod devices;
mod gaps;
mod given;
mod links;
mod matrices;
mod moved;
mod numbers;
mod overview;
mod predictions;
mod processes;
mod reasons;
mod residency;
mod sites;
mod svg;
mod text;
mod time;
mod timeline;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use semcache::runtime::report::Report;

use crate::trace::write_file;
use given::Given;

/// A section: its name in the page's address, its title, and what makes it. A section that has nothing to say is left out.
type Section = (&'static str, &'static str, fn(&Given) -> Option<Markup>);

/// The sections, in the order of the page.
const SECTIONS: &[Section] = &[
    ("overview", "What happened", overview::section),
    ("time", "Where the time went", time::section),
    ("timeline", "Timeline", timeline::section),
    (
        "residency",
        "Device memory in use over time",
        residency::section,
    ),
    ("moved", "Copied and evicted over time", moved::section),
    ("links", "Links and lanes", links::section),
    ("devices", "Devices", devices::section),
    ("reasons", "Why calls were not offloaded", reasons::section),
    ("sites", "Where in the code", sites::section),
    ("matrices", "Matrices", matrices::section),
    ("calls", "Calls by routine", calls::section),
    ("processes", "Processes", processes::section),
    ("gaps", "Longest times without a kernel", gaps::section),
    (
        "predictions",
        "Predicted and measured time",
        predictions::section,
    ),
    (
        "degraded",
        "What did not work as it should",
        degraded::section,
    ),
    ("numbers", "All numbers of the report", numbers::section),
];

const STYLE: &str = include_str!("style.css");

/// The browser may use the page's own style, and load and run nothing.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Writes the page on a report, which may be the sum of these files, and these traces.
pub(crate) fn write(
    path: &Path,
    report: Option<Report>,
    reports: &[PathBuf],
    traces: &[PathBuf],
) -> Result<(), String> {
    let page = page(&Given::read(report, reports, traces)?);
    write_file(path, page.as_bytes())
}

/// The page, a line for each section.
fn page(given: &Given) -> String {
    let made = SECTIONS.iter().filter_map(|(id, title, make)| {
        let body = make(given)?;
        let section = html! { section #(id) { h2 { (title) } (body) } };
        Some((*id, *title, text::printable(&section.into_string())))
    });
    let made: Vec<_> = made.collect();
    let title = text::printable(&given.title());
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                (PreEscaped("\n"))
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    nav { @for (id, title, _) in &made { a href=(format!("#{id}")) { (title) } } }
                }
                main { @for (_, _, section) in &made { (PreEscaped("\n")) (PreEscaped(section)) } }
                (PreEscaped("\n"))
                footer { "semcache " (env!("CARGO_PKG_VERSION")) }
            }
        }
    };
    page.into_string() + "\n"
}
