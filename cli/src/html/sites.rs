//! The places in the code that call the BLAS, whose accesses to matrices faulted, or whose calls of MPI were given their bytes, and what to do about each.

use maud::{Markup, html};
use semcache::runtime::report::table::human;

use super::given::Given;
use super::text::{count, counted};
use crate::report::advice;
use crate::report::lines::Lines;

/// How many have a line.
const SHOWN: usize = 40;

pub(super) fn section(given: &Given) -> Option<Markup> {
    let sites = &given.report.as_ref()?.sum.sites;
    let mut lines = Lines::default();
    let more = sites.len().saturating_sub(SHOWN);
    (!sites.is_empty()).then(|| {
        html! {
            p.note { "Those that matter most first: by seconds, where something took them, and by calls." }
            div.table { table {
                thead { tr {
                    th { "where" } th { "does" } th.n { "on devices" } th.n { "on the host" } th.n { "moved" } th.n { "faults" }
                    th.n { "seconds" } th { "what to do" }
                } }
                tbody { @for site in sites.iter().take(SHOWN) {
                    tr {
                        td.text { code { (lines.of(&site.place, site.faults == 0)) } }
                        td { (site.does) }
                        td.n { (count(site.offloaded)) }
                        td.n { (count(site.host())) }
                        td.n { (human(site.h2d.saturating_add(site.d2h))) }
                        td.n { (count(site.faults)) }
                        td.n { (format!("{:.3}", site.seconds)) }
                        td.text { (advice::site(site)) }
                    }
                } }
            } }
            @if more > 0 { p.note { "Not shown: " (counted(more as u64, "more line")) "." } }
        }
    })
}
