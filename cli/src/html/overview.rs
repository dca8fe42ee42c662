//! What happened, in a few numbers, and what the page is made of.

use maud::{Markup, html};
use semcache::runtime::report::Report;
use semcache::runtime::report::table::{human, saved};

use super::given::Given;
use super::text::{count, counted};
use crate::trace::page::first_line;
use crate::trace::shares::totals;
use crate::trace::tell;

pub(super) fn section(given: &Given) -> Option<Markup> {
    Some(html! {
        div.tiles { (tiles(given)) }
        p.note { "Made of" @if files(given) == 1 { " one file:" } @else { " these files:" } }
        ul.files {
            @for file in &given.reports { li { span.file { (file) } ": report" } }
            @for traced in &given.traces {
                li { span.file { (traced.file) } ": trace of " (first_line(&traced.trace, &totals(&traced.trace))) }
            }
        }
        @if !given.traces.is_empty() && given.report.is_none() {
            p.note { "There is no report: what is said about calls is counted from the traces." }
        }
        @if given.traces.is_empty() {
            p.note {
                "There is no trace, so the page has no times. " code { "semcache run --trace FILE" } " writes one, and "
                code { "semcache report --html PATH --trace FILE" } " adds it."
            }
        }
    })
}

fn files(given: &Given) -> usize {
    given.reports.len() + given.traces.len()
}

/// A number with what it is.
fn tile(value: &str, what: &str) -> Markup {
    html! { div.tile { b { (value) } span { (what) } } }
}

fn tiles(given: &Given) -> Markup {
    let calls = given.calls();
    let offloaded: u64 = calls.values().map(|c| c.offloaded).sum();
    let host: u64 = calls.values().map(|c| c.host).sum();
    let longest = given.traces.iter().map(|t| t.trace.to - t.trace.from).max();
    html! {
        (tile(&count(offloaded), &format!("of {} on devices", counted(offloaded.saturating_add(host), "call"))))
        @if let Some(report) = &given.report { (of_report(report)) }
        @else { (of_traces(given)) }
        @if let Some(longest) = longest {
            (tile(&tell::length(longest), if given.traces.len() > 1 { "traced, the longest" } else { "traced" }))
        }
    }
}

fn of_report(report: &Report) -> Markup {
    let (bytes, faults) = (&report.sum.counts.bytes, &report.sum.counts.faults);
    let moved = bytes
        .h2d
        .saturating_add(bytes.d2h)
        .saturating_add(bytes.mapped);
    let text = saved(bytes.saved);
    let (amount, than) = text.split_at(
        text.match_indices(' ')
            .nth(1)
            .map_or(text.len(), |(at, _)| at),
    );
    html! {
        (tile(&human(moved), "moved between host and devices"))
        (tile(amount, than.trim()))
        @if bytes.p2p > 0 { (tile(&human(bytes.p2p), "moved between devices")) }
        (tile(&count(faults.read.saturating_add(faults.write)), "page faults served"))
        (tile(&count(report.sum.devices.len() as u64), if report.sum.devices.len() == 1 { "device" } else { "devices" }))
        @if report.counted() > 1 { (tile(&count(report.counted()), "processes")) }
    }
}

fn of_traces(given: &Given) -> Markup {
    let all: Vec<_> = given.traces.iter().map(|t| totals(&t.trace)).collect();
    let moved = all
        .iter()
        .map(|t| t.up.saturating_add(t.down))
        .fold(0, u64::saturating_add);
    let peer = all.iter().map(|t| t.peer).fold(0, u64::saturating_add);
    let faults = all.iter().map(|t| t.faults).sum();
    let devices = given
        .traces
        .iter()
        .map(|t| t.trace.devices.len())
        .max()
        .unwrap_or(0);
    html! {
        (tile(&human(moved), "moved between host and devices"))
        @if peer > 0 { (tile(&human(peer), "moved between devices")) }
        (tile(&count(faults), "page faults served"))
        (tile(&count(devices as u64), if devices == 1 { "device" } else { "devices" }))
    }
}
