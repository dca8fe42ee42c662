//! What the charts of several sections have in common.

use maud::{Markup, html};

use super::given::{Given, Traced};
use super::svg::WIDTH;
use super::text::{count, percent};
use crate::trace::gantt::axis::Tick;

/// What a section shows of each trace, under the trace's name if there are several; nothing if it shows nothing of any.
pub(super) fn each(given: &Given, show: impl Fn(&Traced) -> Option<Markup>) -> Option<Markup> {
    let (charted, more) = given.charted();
    let shown: Vec<(&Traced, Markup)> =
        charted.iter().filter_map(|t| Some((t, show(t)?))).collect();
    (!shown.is_empty()).then(|| {
        html! {
            @for (traced, markup) in &shown {
                @if given.traces.len() > 1 { h3 { (traced.trace.program) " " span.file { (traced.file) } } }
                (markup)
            }
            @if more > 0 { p.note { "Not shown: " (count(more as u64)) " more traces." } }
        }
    })
}

/// The texts of a time axis. On a narrow page every other one is hidden.
pub(super) fn axis(ticks: &[Tick]) -> Markup {
    html! {
        div.axis aria-hidden="true" {
            @for (place, tick) in ticks.iter().enumerate() {
                span.odd[place % 2 == 1].first[tick.at < 0.04].last[tick.at > 0.94]
                    style=(format!("left:{:.2}%", 100.0 * tick.at)) { (tick.text) }
            }
        }
    }
}

/// The vertical lines of a time axis as the data of a path.
pub(super) fn grid(ticks: &[Tick], height: f64) -> String {
    ticks
        .iter()
        .map(|tick| format!("M{:.2} 0V{height}", tick.at * WIDTH as f64))
        .collect()
}

/// An entry of a legend.
pub(super) fn entry(class: &str, text: &str) -> Markup {
    html! { span.entry { i.swatch.(class) {} (text) } }
}

/// A share as a bar in a cell of a table, with its text.
pub(super) fn meter(share: f64) -> Markup {
    html! {
        span.meter {
            svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
                rect.track width="100" height="10" {}
                rect.fill width=(format!("{:.2}", 100.0 * share.clamp(0.0, 1.0))) height="10" {}
            }
            span { (percent(share)) }
        }
    }
}
