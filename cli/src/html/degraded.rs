//! The features that were unavailable, or were given up while the program ran.

use maud::{Markup, html};
use semcache::base::counters::Degraded;

use super::given::Given;
use super::text::prose;

pub(super) fn section(given: &Given) -> Option<Markup> {
    let names = &given
        .report
        .as_ref()
        .filter(|report| !report.sum.degraded.is_empty())?
        .sum
        .degraded;
    let doc = |name: &str| {
        let known = Degraded::ALL.iter().find(|known| known.name() == name);
        known.map_or(
            "This version of the command does not know the name.",
            |known| known.doc(),
        )
    };
    Some(html! {
        dl { @for name in names { dt { code { (name) } } dd { (prose(doc(name))) } } }
    })
}
