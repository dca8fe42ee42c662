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
    let known = WhyHost::ALL.iter().find(|known| known.name() == why);
    let mut routines: Vec<&(String, u64)> = of.routines.iter().collect();
    routines.sort_by_key(|(_, n)| u64::MAX - n);
    html! {
        article.reason {
            h4 { code { (why) } " " span.number { (count(of.calls)) } (meter(share(of.calls, all))) }
            @if let Some(known) = known {
                p { (prose(known.doc())) }
                p { b { "What to do: " } (prose(advice(*known))) }
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

/// What the user can do so that such calls run on devices, or that nothing need be done.
fn advice(why: WhyHost) -> &'static str {
    match why {
        WhyHost::Small => {
            "Nothing, as a rule: devices do not pay for such calls. Larger or batched calls would be offloaded; \
             `SEMCACHE_OFFLOAD=always` offloads these, to compare."
        }
        WhyHost::PredictedSlower => {
            "Nothing, if the prediction is right. `semcache calibrate` measures the machine, `semcache predict` says what bounds such a \
             call, and a run with `SEMCACHE_OFFLOAD=always` shows what devices would take."
        }
        WhyHost::Aliased => {
            "Give the output memory of its own, and allocate each matrix as one block by `malloc` or its kin, not on a stack."
        }
        WhyHost::BadArgument => "Correct the call: the host BLAS's message names the argument.",
        WhyHost::Unsupported => {
            "Use another routine or layout if one does the same: by columns instead of rows, for example."
        }
        WhyHost::Disabled => "Take the routine out of `SEMCACHE_DISABLE`.",
        WhyHost::Never => "Unset `SEMCACHE_OFFLOAD`, or set it to `auto`.",
        WhyHost::NoDevice => {
            "`semcache doctor` says what of this machine can be used, and what is missing."
        }
        WhyHost::Starting => {
            "Nothing: this ends once the devices are up. In a short program most calls may come before that."
        }
        WhyHost::Loading => {
            "Nothing: the code is loaded while such calls go on, and later ones are offloaded."
        }
        WhyHost::OutOfMemory => {
            "Free device memory that other processes use, use a device with more, or divide the call."
        }
        WhyHost::Refused => {
            "Look at the program's stderr and the kernel's log for what failed; `semcache doctor` examines the machine."
        }
        WhyHost::Convention => {
            "Use another host BLAS, or name one by `SEMCACHE_HOST_BLAS`; `semcache doctor` says which it finds."
        }
        WhyHost::Nested => "Nothing: such calls are parts of others.",
        WhyHost::Forked => {
            "Start processes by exec, not by fork alone, or fork before the first large call."
        }
        WhyHost::Providers => {
            "Load one BLAS library only: `ldd` and `LD_DEBUG=libs` show which are loaded."
        }
        WhyHost::Empty => {
            "Nothing, if that is meant; else correct the dimensions or the alignment."
        }
        WhyHost::Environment => {
            "Restore rounding to nearest, and mask the exceptions, around large calls."
        }
        WhyHost::Guarded => "Do not protect pages of the matrices, or use others for large calls.",
    }
}
