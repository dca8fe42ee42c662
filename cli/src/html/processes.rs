//! The processes of the report, those with most calls first.

use maud::{Markup, html};
use semcache::runtime::report::Process;
use semcache::runtime::report::table::human;

use super::given::Given;
use super::text::{count, counted};

/// How many have a line of their own.
const SHOWN: usize = 32;

pub(super) fn section(given: &Given) -> Option<Markup> {
    let report = given.report.as_ref()?;
    let on_host = |process: &Process| process.did.calls.values().map(|c| c.host).sum::<u64>();
    let mut processes: Vec<&Process> = report.processes.iter().collect();
    processes.sort_by_key(|p| u64::MAX - p.did.offloaded().saturating_add(on_host(p)));
    let more = processes.len().saturating_sub(SHOWN);
    processes.truncate(SHOWN);
    (!processes.is_empty()).then(|| {
        html! {
            div.table { table {
                thead { tr {
                    th { "process" } th.n { "rank" } th.n { "seconds" } th.n { "on devices" } th.n { "on the host" }
                    th.n { "moved" } th.n { "faults" } th { "command" }
                } }
                tbody { @for process in processes {
                    @let (bytes, faults) = (&process.did.counts.bytes, &process.did.counts.faults);
                    tr {
                        td {
                            @if process.pid == 0 { (counted(process.processes, "other")) } @else { (process.pid) }
                            @if !process.ended { " (no end)" }
                        }
                        td.n { @if let Some(rank) = process.rank { (rank) } }
                        td.n { (format!("{:.1}", process.seconds)) }
                        td.n { (count(process.did.offloaded())) }
                        td.n { (count(on_host(process))) }
                        td.n { (human(bytes.h2d.saturating_add(bytes.d2h).saturating_add(bytes.mapped))) }
                        td.n { (count(faults.read.saturating_add(faults.write))) }
                        td.text { code { (process.command) } }
                    }
                } }
            } }
            @if more > 0 { p.note { "Not shown: " (counted(more as u64, "more line")) "." } }
            @if report.refused > 0 {
                p.note { "Processes that could not be counted, because too many ran at the same time: " (report.refused) "." }
            }
        }
    })
}
