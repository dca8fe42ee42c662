//! The longest times in which no kernel ran on a device, with what the next kernel waited for.

use maud::{Markup, html};

use super::charts::each;
use super::given::{Given, Traced};
use crate::trace::gaps::{gaps, longest};
use crate::trace::page::gap_text;

/// How many are shown.
const SHOWN: usize = 10;

pub(super) fn section(given: &Given) -> Option<Markup> {
    each(given, |Traced { trace, .. }| {
        let gaps = longest(trace.devices.iter().flat_map(gaps).collect(), SHOWN);
        (!gaps.is_empty()).then(|| {
            html! {
                p.note { "With the parts of each, the longest first: what the next kernel waited for, and what the host did meanwhile." }
                ol.gaps { @for gap in &gaps {
                    @let text = gap_text(trace, gap);
                    @let mut lines = text.lines().map(str::trim);
                    li {
                        (lines.next().unwrap_or_default())
                        ul { @for line in lines { li { (line) } } }
                    }
                } }
            }
        })
    })
}
