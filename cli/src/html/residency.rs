//! How many bytes of each device's memory were in use over time: replicas of matrices, and the scratch memory of kernels.

use maud::{Markup, html};

use super::charts::{BINS, Line, bin, each, over_time};
use super::given::{Given, Traced};
use super::text::counted;
use crate::trace::model::{Device, Trace};
use semcache::runtime::report::table::human;

pub(super) fn section(given: &Given) -> Option<Markup> {
    each(given, |Traced { trace, .. }| {
        let of = |device: &Device| chart(trace, device);
        let charts: Vec<Markup> = trace.devices.iter().filter_map(of).collect();
        (!charts.is_empty()).then(|| {
            html! {
                p.note {
                    "Device memory that replicas of the program's matrices and the scratch memory of kernels take. An eviction takes \
                     the memory of one replica for another; its bytes are copied in again when they are needed."
                }
                @for chart in charts { (chart) }
            }
        })
    })
}

/// The most bytes that are in use between each of `bins` evenly spaced moments and the one before it.
pub(super) fn in_use(trace: &Trace, device: &Device, bins: usize) -> Vec<u64> {
    let mut values = vec![0; bins + 1];
    let (mut now, mut filled) = (0, 0);
    for &(at, bytes) in &device.memory {
        let place = bin(trace, at, bins);
        // Until this change it was as before.
        for value in &mut values[filled..place] {
            *value = now.max(*value);
        }
        filled = place;
        values[place] = values[place].max(now).max(bytes);
        now = bytes;
    }
    // The change in the last moment that was filled is over by the next.
    for value in values.iter_mut().skip(filled + 1) {
        *value = now;
    }
    values
}

/// The chart of a device; nothing if the trace does not say what was in use.
fn chart(trace: &Trace, device: &Device) -> Option<Markup> {
    let values = in_use(trace, device, BINS);
    let most = device.memory.iter().map(|(_, bytes)| *bytes).max()?;
    let line = Line {
        class: "memory",
        text: format!("in use, at most {}", human(most)),
        values: &values,
    };
    let notes = html! {
        @if !device.evictions.is_empty() { p.note { (counted(device.evictions.len() as u64, "eviction")) "." } }
    };
    over_time(trace, device, &[line], &notes)
}
