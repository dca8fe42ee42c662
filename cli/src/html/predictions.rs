//! The calls on devices that took longest, with the time that was predicted for each.

use maud::{Markup, html};

use super::charts::each;
use super::given::{Given, Traced};
use super::text::counted;
use crate::trace::predicted::{Errors, calls};
use crate::trace::tell;

/// How many calls are shown.
const SHOWN: usize = 10;

pub(super) fn section(given: &Given) -> Option<Markup> {
    each(given, |Traced { trace, .. }| {
        let mut calls = calls(trace);
        let errors = Errors::of(&calls)?;
        let number = calls.len() as u64;
        calls.sort_by_key(|call| u64::MAX - call.measured());
        calls.truncate(SHOWN);
        Some(html! {
            p.note {
                "From a call's first page lock or operation to the end of its last operation. Of " (counted(number, "call")) ": the median \
                 error is " (format!("{:.1}", 100.0 * errors.median)) " %, nine tenths are at most "
                (format!("{:.1}", 100.0 * errors.nine_tenths)) " % off."
            }
            div.table { table {
                thead { tr { th { "call" } th { "sizes" } th.n { "devices" } th.n { "predicted" } th.n { "measured" } th.n { "error" } } }
                tbody { @for call in &calls {
                    @let [m, n, k] = call.sizes;
                    tr {
                        td { (tell::cause(trace, call.id)) }
                        td { (m) " × " (n) " × " (k) }
                        td.n { (call.devices) }
                        td.n { (tell::length(call.predicted)) }
                        td.n { (tell::length(call.measured())) }
                        td.n { (format!("{:+.1} %", 100.0 * call.error())) }
                    }
                } }
            } }
        })
    })
}
