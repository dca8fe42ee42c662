//! The links between host and devices with the bytes that they moved, and the lanes of the devices.

use std::collections::BTreeMap;

use maud::{Markup, html};
use semcache::runtime::report::table::human;

use super::charts::{each, meter};
use super::given::{Given, Traced};
use super::text::{count, share};
use crate::trace::model::{Trace, What};
use crate::trace::shares::{covered, lanes, span};
use crate::trace::tell;

pub(super) fn section(given: &Given) -> Option<Markup> {
    each(given, |Traced { trace, .. }| {
        let links = links(trace);
        lane_table(trace).map(|lanes| {
            html! {
                @if !links.is_empty() { h4 { "Links" } (link_table(&links)) }
                h4 { "Lanes of devices" }
                p.note {
                    "GB/s are 10" sup { "9" } " bytes per second of the time in which at least one copy ran. Shares are of the \
                     time from the first to the last operation of any device."
                }
                (lanes)
            }
        })
    })
}

/// What one end of a link is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum End {
    Host,
    Device(u8),
}

/// What a link moved in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Moved {
    pub(super) copies: u64,
    pub(super) bytes: u64,
    /// The bytes of copies whose times are known, and how long at least one of them ran.
    pub(super) timed: u64,
    pub(super) busy: u64,
}

/// Beginnings and ends of copies.
type Spans = Vec<(u64, u64)>;

/// The links that moved something, in both directions.
pub(super) fn links(trace: &Trace) -> BTreeMap<(End, End), Moved> {
    let mut links: BTreeMap<(End, End), (Moved, Spans)> = BTreeMap::new();
    for device in &trace.devices {
        let of = |what| match what {
            What::Upload => Some((End::Host, End::Device(device.id))),
            What::Download => Some((End::Device(device.id), End::Host)),
            What::Peer(from) => Some((End::Device(from), End::Device(device.id))),
            What::Within | What::Kernel => None,
        };
        for op in device.lanes.iter().flat_map(|lane| &lane.ops) {
            let Some(ends) = of(op.what) else { continue };
            let (moved, spans) = links.entry(ends).or_default();
            moved.copies += 1;
            moved.bytes = moved.bytes.saturating_add(op.amount);
            moved.timed = moved.timed.saturating_add(op.amount);
            spans.push((op.from, op.to));
        }
        for (what, bytes) in device.lanes.iter().flat_map(|lane| &lane.untimed) {
            let Some(ends) = of(*what) else { continue };
            let (moved, _) = links.entry(ends).or_default();
            moved.copies += 1;
            moved.bytes = moved.bytes.saturating_add(*bytes);
        }
    }
    let busy = links.into_iter().map(|(ends, (moved, mut spans))| {
        spans.sort_unstable();
        let busy = covered(spans.into_iter());
        (ends, Moved { busy, ..moved })
    });
    busy.collect()
}

fn link_table(links: &BTreeMap<(End, End), Moved>) -> Markup {
    let all = links
        .values()
        .map(|moved| moved.bytes)
        .fold(0, u64::saturating_add);
    let end = |end: &End| match end {
        End::Host => "host".to_owned(),
        End::Device(id) => format!("device {id}"),
    };
    html! {
        div.table { table {
            thead { tr { th { "link" } th.n { "copies" } th.n { "bytes" } th { "of all bytes" } th.n { "busy" } th.n { "GB/s" } } }
            tbody { @for ((from, to), moved) in links {
                tr {
                    td { (end(from)) " → " (end(to)) }
                    td.n { (count(moved.copies)) }
                    td.n { (human(moved.bytes)) }
                    td { (meter(share(moved.bytes, all))) }
                    td.n { (tell::length(moved.busy)) }
                    td.n { (tell::rate(moved.timed, moved.busy)) }
                }
            } }
        } }
    }
}

fn lane_table(trace: &Trace) -> Option<Markup> {
    let (from, to) = span(trace)?;
    let mut previous = None;
    Some(html! {
        div.table { table {
            thead { tr {
                th { "lane" } th.n { "operations" } th.n { "busy" } th { "share" } th.n { "bytes" } th.n { "GB/s" }
            } }
            tbody { @for lane in lanes(trace) {
                @if previous.replace(lane.device) != Some(lane.device) {
                    tr.group { th colspan="6" {
                        "device " (lane.device) " " (trace.device(lane.device).map_or("", |d| d.name.as_str()))
                    } }
                }
                tr {
                    td { (lane.lane) }
                    td.n { (count(lane.operations)) @if lane.untimed > 0 { " + " (count(lane.untimed)) " without times" } }
                    td.n { (tell::length(lane.busy)) }
                    td { (meter(share(lane.busy, to - from))) }
                    td.n { @if let Some(bytes) = lane.bytes { (human(bytes)) } }
                    td.n { @if lane.copied.0 > 0 { (tell::rate(lane.copied.0, lane.copied.1)) } }
                }
            } }
        } }
    })
}
