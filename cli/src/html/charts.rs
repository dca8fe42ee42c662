//! What the charts of several sections have in common.

use maud::{Markup, html};

use semcache::runtime::report::table::human;

use super::given::{Given, Traced};
use super::svg::{WIDTH, line};
use super::text::{count, percent};
use crate::trace::gantt::axis::{Tick, ticks};
use crate::trace::gantt::window::Window;
use crate::trace::model::{Device, Trace};

/// The number of moments at which amounts over time are drawn, less one.
pub(super) const BINS: usize = 240;
/// The height of a chart of amounts over time.
const HIGH: f64 = 120.0;
/// The number of marks of a time axis.
const MARKS: usize = 8;

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

/// An amount of bytes over the time of a trace.
pub(super) struct Line<'a> {
    pub(super) class: &'static str,
    /// Its entry in the legend.
    pub(super) text: String,
    /// The bytes at each of the moments of [`bin`].
    pub(super) values: &'a [u64],
}

/// The first of `bins` moments after the trace's beginning, evenly spaced, at which something counts that happened at this time.
pub(super) fn bin(trace: &Trace, at: u64, bins: usize) -> usize {
    let length = u128::from(trace.to.saturating_sub(trace.from).max(1));
    let since = u128::from(at.saturating_sub(trace.from));
    ((since * bins as u128).div_ceil(length) as usize).min(bins)
}

/// A chart of a device's bytes over time; nothing if all are zero.
pub(super) fn over_time(
    trace: &Trace,
    device: &Device,
    lines: &[Line<'_>],
    notes: &Markup,
) -> Option<Markup> {
    let all = lines.iter().flat_map(|line| line.values);
    let most = *all.max().filter(|most| **most > 0)?;
    let (step, top) = scale(most);
    let points = |values: &[u64]| {
        let place = |(at, value): (usize, &u64)| {
            (at as f64 * WIDTH as f64 / BINS as f64, height(*value, top))
        };
        line(&values.iter().enumerate().map(place).collect::<Vec<_>>())
    };
    let marks: Vec<u64> = (1..)
        .map(|n| step.saturating_mul(n))
        .take_while(|mark| height(*mark, top) > HIGH / 16.0)
        .collect();
    let time: Vec<Tick> = ticks(Window::new(trace.from, trace.to), trace.from, MARKS);
    Some(html! {
        figure.plot {
            figcaption { "device " (device.id) " " (device.name) }
            div.frame {
                svg viewBox=(format!("0 0 {WIDTH} {HIGH}")) preserveAspectRatio="none" role="img" aria-label="bytes over time" {
                    rect.track width=(WIDTH) height=(HIGH) {}
                    path.grid d=(grid(&time, HIGH)) {}
                    @for mark in &marks { path.grid d=(format!("M0 {:.2}H{WIDTH}", height(*mark, top))) {} }
                    @for of in lines { path.line.(of.class) d=(points(of.values)) { title { (of.text) } } }
                }
                @for mark in &marks {
                    span.mark style=(format!("top:{:.2}%", 100.0 * height(*mark, top) / HIGH)) { (human(*mark)) }
                }
            }
            (axis(&time))
            p.axis-title { "time since the trace began" }
            p.legend { @for line in lines { (entry(line.class, &line.text)) } }
            (notes)
        }
    })
}

/// How far below the top of the chart an amount lies.
fn height(value: u64, top: u64) -> f64 {
    HIGH * (1.0 - value as f64 / top as f64).clamp(0.0, 1.0)
}

/// The distance of the horizontal lines, 1, 2 or 5 times a power of ten, and the amount at the top of the chart: above the largest.
fn scale(most: u64) -> (u64, u64) {
    let mut step = 1_u64;
    for times in [2, 5, 2].into_iter().cycle() {
        if most / step < 4 {
            break;
        }
        // 1, 2, 5, 10: the factors are 2, 2.5 and 2.
        step = match times {
            5 => (step / 2).saturating_mul(5),
            _ => step.saturating_mul(2),
        };
    }
    (step, most.saturating_add(step / 4).max(1))
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
