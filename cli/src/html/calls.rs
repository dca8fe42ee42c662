//! The calls of each routine, on devices and on the host BLAS.

use maud::{Markup, html};

use super::charts::{entry, meter};
use super::given::Given;
use super::text::{count, share};

pub(super) fn section(given: &Given) -> Option<Markup> {
    let mut calls: Vec<_> = given.calls().into_iter().collect();
    calls.sort_by_key(|(_, calls)| u64::MAX - calls.offloaded.saturating_add(calls.host));
    let most = calls
        .iter()
        .map(|(_, calls)| calls.offloaded.saturating_add(calls.host))
        .max()?;
    Some(html! {
        p.note {
            @if given.report.is_none() { "Counted from the traces. " }
            "The bars have one scale. " (entry("kernel", "on devices")) " " (entry("host-blas", "on the host BLAS"))
        }
        div.table { table.calls {
            thead { tr { th { "routine" } th.n { "on devices" } th.n { "on the host" } th { "offloaded" } th { "calls" } } }
            tbody { @for (routine, calls) in &calls {
                @let all = calls.offloaded.saturating_add(calls.host);
                @let (devices, both) = (100.0 * share(calls.offloaded, most), 100.0 * share(all, most));
                tr {
                    td { code { (routine) } }
                    td.n { (count(calls.offloaded)) }
                    td.n { (count(calls.host)) }
                    td { (meter(share(calls.offloaded, all))) }
                    td.wide { svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
                        rect.kernel width=(format!("{devices:.2}")) height="10" {}
                        rect.host-blas x=(format!("{devices:.2}")) width=(format!("{:.2}", both - devices)) height="10" {}
                    } }
                }
            } }
        } }
    })
}
