//! The blocks of host memory that calls on devices had operands in, or solvers on the host, and what happens to each.

use maud::{Markup, html};
use semcache::runtime::report::table::human;

use super::given::Given;
use super::text::{count, counted};
use crate::report::advice;
use crate::report::lines::Lines;

/// How many have a line.
const SHOWN: usize = 40;

pub(super) fn section(given: &Given) -> Option<Markup> {
    let matrices = &given.report.as_ref()?.sum.matrices;
    let mut lines = Lines::default();
    let more = matrices.len().saturating_sub(SHOWN);
    let mut rows: Vec<Markup> = Vec::new();
    for matrix in matrices.iter().take(SHOWN) {
        let (first, told) = advice::told(matrix, &mut lines);
        rows.push(html! {
            tr {
                td.text {
                    @if matrix.name.is_empty() { (matrix.first_does) " at " code { (first) } } @else { (matrix.name) }
                }
                td { (count(matrix.rows)) " x " (count(matrix.cols)) }
                td.n { (human(matrix.bytes)) }
                td.n { (count(matrix.calls)) }
                td.n { (human(matrix.h2d.saturating_add(matrix.d2h))) }
                td.n { (count(matrix.loads.saturating_add(matrix.stores))) }
                td.text { (told) }
            }
        });
    }
    (!rows.is_empty()).then(|| {
        html! {
            p.note { "Each is a block of host memory, by the first call on devices, or of a solver on the host, with an operand there." }
            div.table { table {
                thead { tr {
                    th { "first used by" } th { "size" } th.n { "block" } th.n { "calls" } th.n { "moved" } th.n { "faults" }
                    th { "what happens to it" }
                } }
                tbody { @for row in &rows { (row) } }
            } }
            @if more > 0 { p.note { "Not shown: " (counted(more as u64, "more line")) "." } }
        }
    })
}
