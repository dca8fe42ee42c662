//! The devices as the reports have them: what each ran and moved, what it was left out of, and the rates of its samples.

use maud::{Markup, html};
use semcache::base::counters::LeftOut;
use semcache::runtime::report::table::human;
use semcache::runtime::report::{Device, VirtualTime};

use super::given::Given;
use super::text::{count, counted, prose};
use crate::trace::tell;

pub(super) fn section(given: &Given) -> Option<Markup> {
    let report = given
        .report
        .as_ref()
        .filter(|report| !report.sum.devices.is_empty())?;
    let sampled = &report.sum.counts.sampled;
    let rates = [
        ("from the host", sampled.h2d_bytes, sampled.h2d_ns),
        ("to the host", sampled.d2h_bytes, sampled.d2h_ns),
        ("between devices", sampled.p2p_bytes, sampled.p2p_ns),
    ];
    let rates: Vec<_> = rates
        .into_iter()
        .filter(|(_, bytes, ns)| *bytes > 0 && *ns > 0)
        .collect();
    Some(html! {
        div.table { table {
            thead { tr {
                th.n { "memory" } th.n { "calls" } th.n { "tasks" }
                th.n { "from the host" } th.n { "to the host" } th.n { "from devices" }
            } }
            tbody { @for (place, device) in report.sum.devices.iter().enumerate() {
                tr.group { th colspan="6" { "device " (place) " " (device.name) " (" (device.kind) ")" } }
                tr {
                    td.n { (human(device.memory as u64)) }
                    td.n { (count(device.calls)) }
                    td.n { (count(device.tasks)) }
                    td.n { (human(device.h2d)) }
                    td.n { (human(device.d2h)) }
                    td.n { (human(device.p2p)) }
                }
            } }
        } }
        @for (place, device) in report.sum.devices.iter().enumerate() { (virtual_time(place, device)) }
        (left_out(&report.sum.devices))
        @if !rates.is_empty() {
            h4 { "Rates of sampled copies" }
            p.note { "1 operation in 256 of each stream is timed, with or without a trace." }
            ul { @for (what, bytes, ns) in rates {
                li { (what) ": " (tell::rate(bytes, ns)) " GB/s over " (human(bytes)) " in " (tell::length(ns)) }
            } }
        }
        @if sampled.kernels > 0 {
            p { "Sampled kernels: " (counted(sampled.kernels, "kernel")) " in " (tell::length(sampled.kernel_ns)) "." }
        }
    })
}

/// What a device took on the modelled machine, if the run was one in virtual time.
fn virtual_time(place: usize, device: &Device) -> Markup {
    let time = &device.virtual_time;
    html! {
        @if *time != VirtualTime::default() {
            p {
                "Device " (place) " in virtual time: kernels " (tell::length(time.kernels_ns)) ", uploads "
                (tell::length(time.uploads_ns)) ", write-backs " (tell::length(time.write_backs_ns)) ", from other devices "
                (tell::length(time.peers_ns)) "; complete after " (tell::length(time.end_ns)) "."
            }
        }
    }
}

/// The calls that ran on other devices only, by reason.
fn left_out(devices: &[Device]) -> Markup {
    let doc = |why: &str| {
        LeftOut::ALL
            .iter()
            .find(|w| w.name() == why)
            .map_or("", |w| w.doc())
    };
    let rows = devices
        .iter()
        .enumerate()
        .flat_map(|(place, d)| d.left_out.iter().map(move |(why, n)| (place, why, *n)));
    let rows: Vec<_> = rows.filter(|(.., n)| *n > 0).collect();
    html! {
        @if !rows.is_empty() {
            h4 { "Calls that ran on other devices only" }
            div.table { table {
                thead { tr { th { "device" } th { "reason" } th.n { "calls" } th { "meaning" } } }
                tbody { @for (place, why, n) in rows {
                    tr { td { (place) } td { code { (why) } } td.n { (count(n)) } td.text { (prose(doc(why))) } }
                } }
            } }
        }
    }
}
