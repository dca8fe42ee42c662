//! Why calls ran on the host BLAS: each reason with what it means, and what can be done about it.

use std::collections::BTreeMap;

use maud::{Markup, html};
use semcache::base::counters::WhyHost;

use super::charts::meter;
use super::given::Given;
use super::text::{count, prose, share};

/// The calls with one reason.
#[derive(Debug, Default)]
struct Of {
    calls: u64,
    routines: Vec<(String, u64)>,
}

/// How many routines are named beside a reason.
const ROUTINES: usize = 5;

pub(super) fn section(given: &Given) -> Option<Markup> {
    let mut reasons: BTreeMap<String, Of> = BTreeMap::new();
    for (routine, calls) in given.calls() {
        for (why, n) in calls.why_host {
            let of = reasons.entry(why).or_default();
            of.calls = of.calls.saturating_add(n);
            of.routines.push((routine.clone(), n));
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, of)| u64::MAX - of.calls);
    let all = reasons
        .iter()
        .map(|(_, of)| of.calls)
        .fold(0, u64::saturating_add);
    (!reasons.is_empty()).then(|| {
        html! {
            p.note { (count(all)) " calls ran on the host BLAS, for these reasons, the most frequent first." }
            @for (why, of) in &reasons { (reason(why, of, all)) }
        }
    })
}

fn reason(why: &str, of: &Of, all: u64) -> Markup {
    let known = WhyHost::named(why);
    let mut routines: Vec<&(String, u64)> = of.routines.iter().collect();
    routines.sort_by_key(|(_, n)| u64::MAX - n);
    html! {
        article.reason {
            h4 { code { (why) } " " span.number { (count(of.calls)) } (meter(share(of.calls, all))) }
            @if let Some(known) = known {
                p { (prose(known.doc())) }
                p { b { "What to do: " } (known.advice()) "." }
            } @else {
                p { "This version of the command does not know the reason." }
            }
            p.note {
                @for (place, (routine, n)) in routines.iter().take(ROUTINES).enumerate() {
                    @if place > 0 { ", " }
                    (routine) " " (count(*n))
                }
                @if routines.len() > ROUTINES { " and " (count((routines.len() - ROUTINES) as u64)) " more routines" }
            }
        }
    }
}
