//! What has been copied to and from each device, and what was evicted, up to each moment. How many bytes a device holds does not
//! follow from these sums: results take memory without a copy, memory is freed with a matrix, and bytes that the CPU changed are
//! copied in again, to where they were. [`residency`](super::residency) has that.

use maud::{Markup, html};

use super::charts::{BINS, Line, bin, each, over_time};
use super::given::{Given, Traced};
use crate::trace::model::{Device, Trace, What};
use semcache::runtime::report::table::human;

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
                     bytes."
                }
                @for chart in charts { (chart) }
            }
        })
    })
}

/// The sums of a device.
pub(super) fn sums(trace: &Trace, device: &Device, bins: usize) -> Sums {
    let mut sums = Sums {
        uploaded: vec![0; bins + 1],
        from_peers: vec![0; bins + 1],
        written_back: vec![0; bins + 1],
        evicted: vec![0; bins + 1],
        ..Sums::default()
    };
    let bin = |at: u64| bin(trace, at, bins);
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
    let lines = lines.into_iter().filter_map(|(class, what, values)| {
        let last = *values.last().filter(|last| **last > 0)?;
        let text = format!("{what} {}", human(last));
        Some(Line {
            class,
            text,
            values,
        })
    });
    let notes = html! {
        @if sums.untimed > 0 {
            p.note { "Not in the chart: " (human(sums.untimed)) " of copies whose times are not in the trace." }
        }
    };
    over_time(trace, device, &lines.collect::<Vec<_>>(), &notes)
}
