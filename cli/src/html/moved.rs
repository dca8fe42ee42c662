//! What has been copied to and from each device, and what was evicted, up to each moment.
//!
//! From these sums does not follow how many bytes a device holds. A trace has no event for memory that is freed with a matrix,
//! nor for results that take memory without a copy; and bytes that the CPU changed are copied in again, to where they were. So
//! the page has the sums, which are exact, and not their difference, which would be neither.

use maud::{Markup, html};

use super::charts::{axis, each, entry, grid};
use super::given::{Given, Traced};
use super::svg::{WIDTH, line};
use super::text::counted;
use crate::trace::gantt::axis::{Tick, ticks};
use crate::trace::gantt::window::Window;
use crate::trace::model::{Device, Trace, What};
use semcache::runtime::report::table::human;

/// The number of moments at which the sums are drawn, less one.
const BINS: usize = 240;
/// The height of a chart.
const HIGH: f64 = 120.0;
/// The number of marks of the time axis.
const MARKS: usize = 8;

/// The bytes of a device up to each moment.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) uploaded: Vec<u64>,
    pub(super) from_peers: Vec<u64>,
    pub(super) written_back: Vec<u64>,
    pub(super) evicted: Vec<u64>,
    /// The bytes of copies to and from the device that have no times, and are in none of the sums.
    pub(super) untimed: u64,
}

pub(super) fn section(given: &Given) -> Option<Markup> {
    each(given, |Traced { trace, .. }| {
        let charts: Vec<Markup> = trace
            .devices
            .iter()
            .filter_map(|device| chart(trace, device))
            .collect();
        (!charts.is_empty()).then(|| {
            html! {
                p.note {
                    "Bytes up to each moment; a copy counts when it ends, an eviction when its device memory is taken for other \
                     bytes. How many bytes a device holds does not follow: a trace does not have memory that is freed with a \
                     matrix, nor results that only a kernel wrote, and bytes that the CPU changed are copied in again."
                }
                @for chart in charts { (chart) }
            }
        })
    })
}

/// The sums of a device.
pub(super) fn sums(trace: &Trace, device: &Device, bins: usize) -> Sums {
    let length = trace.to.saturating_sub(trace.from).max(1);
    let mut sums = Sums {
        uploaded: vec![0; bins + 1],
        from_peers: vec![0; bins + 1],
        written_back: vec![0; bins + 1],
        evicted: vec![0; bins + 1],
        ..Sums::default()
    };
    let bin = |at: u64| {
        let since = u128::from(at.saturating_sub(trace.from));
        ((since * bins as u128).div_ceil(u128::from(length)) as usize).min(bins)
    };
    for op in device.lanes.iter().flat_map(|lane| &lane.ops) {
        let of = match op.what {
            What::Upload => &mut sums.uploaded,
            What::Peer(_) => &mut sums.from_peers,
            What::Download => &mut sums.written_back,
            What::Within | What::Kernel => continue,
        };
        let sum = &mut of[bin(op.to)];
        *sum = sum.saturating_add(op.amount);
    }
    for (at, bytes) in &device.evictions {
        let sum = &mut sums.evicted[bin(*at)];
        *sum = sum.saturating_add(*bytes);
    }
    for of in [
        &mut sums.uploaded,
        &mut sums.from_peers,
        &mut sums.written_back,
        &mut sums.evicted,
    ] {
        let mut sum = 0_u64;
        for value in of {
            sum = sum.saturating_add(*value);
            *value = sum;
        }
    }
    let untimed = device.lanes.iter().flat_map(|lane| &lane.untimed);
    let copies = untimed.filter(|(what, _)| !matches!(what, What::Kernel | What::Within));
    sums.untimed = copies.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes));
    sums
}

/// The chart of a device; nothing if nothing was copied.
fn chart(trace: &Trace, device: &Device) -> Option<Markup> {
    let sums = sums(trace, device, BINS);
    let lines = [
        ("upload", "uploaded", &sums.uploaded),
        ("peer", "copied from other devices", &sums.from_peers),
        ("download", "written back", &sums.written_back),
        ("evicted", "evicted", &sums.evicted),
    ];
    let lines: Vec<_> = lines
        .into_iter()
        .filter_map(|(class, what, of)| {
            Some((class, what, of, *of.last().filter(|last| **last > 0)?))
        })
        .collect();
    let most = lines.iter().map(|(.., last)| *last).max()?;
    let (step, top) = scale(most);
    let points = |of: &[u64]| {
        let place = |(at, value): (usize, &u64)| {
            (at as f64 * WIDTH as f64 / BINS as f64, height(*value, top))
        };
        line(&of.iter().enumerate().map(place).collect::<Vec<_>>())
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
                    @for (class, what, of, _) in &lines { path.line.(class) d=(points(of)) { title { (what) } } }
                }
                @for mark in &marks {
                    span.mark style=(format!("top:{:.2}%", 100.0 * height(*mark, top) / HIGH)) { (human(*mark)) }
                }
            }
            (axis(&time))
            p.axis-title { "time since the trace began" }
            p.legend {
                @for (class, what, _, last) in &lines { (entry(class, &format!("{what} {}", human(*last)))) }
            }
            @if sums.untimed > 0 {
                p.note { "Not in the chart: " (human(sums.untimed)) " of copies whose times are not in the trace." }
            }
            @if !device.evictions.is_empty() { p.note { (counted(device.evictions.len() as u64, "eviction")) "." } }
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
