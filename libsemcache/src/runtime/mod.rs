//! The runtime of semcache in a process, from its first BLAS call to its end: no device is touched before the first
//! call that is large enough ([`start`]); then calls run on devices until the process forks ([`fork`]) or ends
//! ([`exit`]).

mod at_site;
pub mod copies;
pub mod counted;
mod devices;
pub mod exit;
pub mod fork;
pub mod hints;
pub mod init;
pub mod io;
mod left_off;
mod mode;
mod panicked;
mod phase;
mod present;
mod publish;
pub mod ranks;
pub mod rates;
pub mod report;
mod requests;
mod retire;
mod secluded;
pub mod solver;
pub mod sparse;
pub mod start;
mod started;
pub mod timed;
mod traced;
mod underway;
mod ungated;
mod valgrind;

pub use crate::host::runs_here;
pub use mode::{Mode, mode};
pub use panicked::caught;
pub use retire::{retire, sandbox};
pub use secluded::is_secluded;
pub use started::{Runtime, get};
pub use ungated::go_write_through;

use core::cell::Cell;
use std::time::Duration;

use crate::process::signals_blocked::{self, SignalsBlocked};
use crate::process::spent::{Spending, Spent};
use semcache_fault::arithmetic::Usual;

use crate::base::Work;
use crate::base::config::Config;
use crate::base::counters::{self, COUNTERS, Degraded, WhyHost, degrade};
use crate::blas::args::{self, Checked};
use crate::blas::batch::{Batch, Batched};
use crate::blas::checks::{Group, check};
use crate::blas::finish::{HostBlas, HostHas};
use crate::blas::mapped::Landed;
use crate::blas::offload_policy::Policy;
use crate::blas::replay::Replayed;
use crate::blas::run::Ran;
use crate::blas::window::Gone;
use crate::blas::{self, Call, Outcome, call_key, names};
use crate::cache::Cache;
use crate::protect;
use crate::sched::local;
use crate::trace::{self, Event, Side};
use at_site::AtSite;
use left_off::LeftOff;
use timed::{Left, Timed};
use traced::Traced;
use underway::Underway;

/// What the shim knows of a call besides its arguments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// The host BLAS lacks this routine: the runtime must execute the call, at any cost.
    pub must_run: bool,
    /// The host BLAS, which computes its part of a call, and what no device finishes.
    pub host: Option<&'a dyn HostBlas>,
    /// The call site, by its index among the counters.
    pub site: Option<usize>,
    /// When the call began ([`spent::now`](crate::process::spent::now)); 0: now.
    pub begun: u64,
    /// Says when a call left for the host BLAS.
    pub left: Option<&'a Cell<Left>>,
}

/// Runs a call on the devices if the prediction says that this is faster. Every outcome except [`Outcome::Host`] is
/// counted here, and so is the reason for [`Outcome::Host`].
#[must_use]
pub fn call(call: &Call, facts: &Facts<'_>) -> Outcome {
    let timed = Timed::since(
        facts.begun,
        names::index(call.routine, call.dtype),
        facts.site,
    );
    // The offload decision computes in floating point too, so it needs the default floating-point environment.
    let usual = Usual::new();
    let at_site = AtSite::enter(facts.site);
    let traced = begin(call.sizes(), call.routine.name(call.dtype));
    blas::deliver::part_with_gone(call, false);
    let key = call_key::of(call);
    let repeated = match usual.devices_have_it() {
        true => repeat(call, key),
        false => None,
    };
    let rest = match repeated {
        Some(Replayed::Whole(outcome, _)) => {
            if let Some(traced) = traced {
                traced.end(Side::Replayed);
            }
            at_site.ran(None);
            drop(usual);
            blas::deliver::deliver(call);
            timed.end(timed::Ran::Devices, None);
            return outcome;
        }
        Some(Replayed::Until(element)) => Some(call.from(element)),
        None => None,
    };
    // The host BLAS would compute the whole call.
    let must_run = facts.must_run || rest.is_some();
    let facts = &Facts { must_run, ..*facts };
    let (call, key) = match &rest {
        Some(rest) => (rest, call_key::of(rest)),
        None => (call, key),
    };
    let ran = group(&Group::single(call, key), usual, at_site, facts, traced);
    let place = place(&ran, facts);
    let outcome = match ran {
        Ok(ran) => ran.outcome,
        Err(_) if must_run => {
            let _in_host = Spending::on(Spent::Host);
            blas::local::compute(get().and_then(|r| r.cache), call)
        }
        Err(_) => Outcome::Host,
    };
    timed.end(place, facts.left);
    outcome
}

/// Runs the products of a batch on the devices if the prediction says that this is faster; counted as one call, as in
/// [`call`].
#[must_use]
pub fn batch(batch: &Batch, facts: &Facts<'_>) -> Batched {
    let at_site = AtSite::enter(facts.site);
    let group_of_all = Group::batch(batch);
    let index = names::index(group_of_all.routine, group_of_all.dtype);
    let timed = Timed::since(facts.begun, index, facts.site);
    let usual = Usual::new();
    let name = group_of_all.routine.name(group_of_all.dtype);
    let sizes = batch.calls.first().map_or([0; 3], Call::sizes);
    let traced = begin(sizes, name);
    for call in &batch.calls {
        blas::deliver::part_with_gone(call, false);
    }
    let ran = group(&group_of_all, usual, at_site, facts, traced);
    let place = place(&ran, facts);
    let batched = match ran {
        Ok(ran) => ran.from.map_or(Batched::Done, Batched::From),
        Err(_) if facts.must_run && batch_here(batch, 0) => Batched::Done,
        Err(_) => Batched::Host,
    };
    timed.end(place, facts.left);
    batched
}

/// Where calls ran, for their time.
fn place(ran: &Result<Ran, WhyHost>, facts: &Facts<'_>) -> timed::Ran {
    match ran {
        Ok(ran) if ran.on_host => timed::Ran::Host,
        Ok(_) => timed::Ran::Devices,
        Err(_) if facts.must_run => timed::Ran::Host,
        Err(_) => timed::Ran::Left,
    }
}

/// The call's event, if a trace is asked for.
fn begin(sizes: [i64; 3], name: &'static str) -> Option<Traced> {
    // The configuration, which the first call reads, says whether there is a trace.
    init::config();
    Traced::begin(sizes, name)
}

/// Runs calls that the program makes as one (a single call or a batch), and counts where they ran.
fn group(
    group: &Group<'_>,
    usual: Usual,
    at_site: AtSite,
    facts: &Facts<'_>,
    traced: Option<Traced>,
) -> Result<Ran, WhyHost> {
    let index = names::index(group.routine, group.dtype);
    let decided = if usual.devices_have_it() {
        decide(group, facts)
    } else {
        Err(elsewhere(group))
    };
    drop(usual);
    // From here on the program's own handlers get the faults, and may leave by a jump.
    group.calls.iter().for_each(blas::deliver::deliver);
    let on_host = match &decided {
        Ok(ran) => ran.timed.as_ref().map(|(why, _)| *why),
        Err(why) => Some(*why),
    };
    match on_host {
        None => counters::offloaded(index),
        Some(why) => counters::host(index, why),
    }
    at_site.ran(on_host);
    let cause = trace::cause();
    if let Some(traced) = traced {
        traced.end(on_host.map_or(Side::Devices, Side::Host));
    }
    let took = |note: fn(&Policy, Work, f64)| {
        move |work: Work, time: Duration| {
            if let Some(runtime) = get() {
                let _blocked = SignalsBlocked::new();
                let _usual = Usual::new();
                note(&runtime.policy, work, time.as_secs_f64());
            }
        }
    };
    let mut ran = decided?;
    if let (Some((why, whole)), Some(host)) = (ran.timed.take(), facts.host) {
        let in_host = Spending::on(Spent::Host);
        if !whole.compute_whole(host, &took(Policy::host_took_all)) {
            return Err(why);
        }
        drop(in_host);
        ran.on_host = true;
    }
    ran.landed.drain(..).for_each(Landed::store);
    for rest in std::mem::take(&mut ran.rests) {
        let begun = trace::now();
        let _in_host = Spending::on(Spent::Host);
        ran.outcome = rest.compute(facts.host, &took(Policy::host_took));
        if trace::on() {
            let span = (begun, trace::now());
            trace::record(Event::HostPart { span, cause });
        }
    }
    Ok(ran)
}

/// Computes the products `from..` of a batch on the calling thread. If one of them has illegal arguments, none is
/// computed.
#[must_use]
pub fn batch_here(batch: &Batch, from: usize) -> bool {
    let rest = batch.calls.get(from..).unwrap_or_default();
    if rest.iter().any(|c| args::check(c) == Checked::Bad) {
        return false;
    }
    let cache = get().and_then(|r| r.cache);
    for call in rest {
        let _ = crate::blas::local::compute(cache, call);
    }
    true
}

/// Sends calls to the host BLAS when the calling thread has a floating-point environment that no device has. Devices
/// are not started for that; if they already run, the newest bytes of the operands are written back first.
fn elsewhere(group: &Group<'_>) -> WhyHost {
    if let Err(why) = usable(group.routine.name(group.dtype)) {
        return why;
    }
    if let Some(cache) = get().and_then(|r| r.cache) {
        let _blocked = SignalsBlocked::new();
        if let Some(_underway) = Underway::begin() {
            for call in group.calls {
                blas::checks::write_back_of(cache, call);
            }
        }
    }
    WhyHost::Environment
}

/// Replays a call: runs it as the same call ran before, if it is known and its operands are in the state that it left
/// them in.
fn repeat(call: &Call, key: u64) -> Option<Replayed> {
    if mode() != Mode::On {
        return None;
    }
    let runtime = get()?;
    let (known, cache) = (runtime.policy.replays(call, key)?, runtime.cache?);
    let sends = known.sends();
    if known.writes_back() {
        let checks = {
            let _blocked = SignalsBlocked::new();
            check(&Group::single(call, key)).ok()?
        };
        touch(checks.ends());
        let _blocked = SignalsBlocked::new();
        drop(checks);
    }
    // Signals are blocked as in `decide`. Operands that stay on devices are not read here: the call touches no host
    // memory.
    let replayed = {
        let _blocked = SignalsBlocked::new();
        let _underway = Underway::begin()?;
        let mut inputs = None;
        if !sends.is_empty() {
            let checks = check(&Group::single(call, key)).ok()?;
            inputs = Some(checks.copy_inputs(cache, sends)?);
        }
        let ended = known.again(cache, inputs.as_ref());
        if let Some(inputs) = inputs {
            inputs.give(cache);
        }
        ended?
    };
    Some(match replayed {
        Replayed::Whole(outcome, Some(landed)) => {
            landed.store();
            Replayed::Whole(outcome, None)
        }
        others => others,
    })
}

/// The configuration, if the configuration and the state of the process allow the routine on devices.
fn usable(name: &str) -> Result<&'static Config, WhyHost> {
    match mode() {
        Mode::Forked => {
            // Only a child that makes BLAS calls has something to report.
            degrade(Degraded::Forked);
            return Err(WhyHost::Forked);
        }
        Mode::Ended => return Err(WhyHost::NoDevice),
        Mode::Cold | Mode::On | Mode::Off => {}
    }
    let config = init::config();
    if config.offload == crate::base::config::Offload::Never {
        return Err(WhyHost::Never);
    }
    if config.is_disabled(name) {
        return Err(WhyHost::Disabled);
    }
    Ok(config)
}

fn decide(group: &Group<'_>, facts: &Facts<'_>) -> Result<Ran, WhyHost> {
    let must_run = facts.must_run;
    let (calls, dtype) = (group.calls, group.dtype);
    let config = usable(group.routine.name(dtype))?;
    let largest = blas::call::largest(calls).ok_or(WhyHost::Empty)?;
    // A user who disables a routine (`SEMCACHE_DISABLE`) disables it for the products of a batch, too.
    if config.is_disabled(largest.routine.name(dtype)) {
        return Err(WhyHost::Disabled);
    }
    retire::secluded()?;
    let runtime = start::for_call(largest, must_run)?;
    let cache = runtime.cache.ok_or(WhyHost::NoDevice)?;
    let policy = &runtime.policy;
    if !must_run && undecided(policy, group, largest) {
        return Err(WhyHost::PredictedSlower);
    }
    // Signals are blocked while the check allocates memory, since the allocator has a lock that a handler of the
    // program may want. If `touch` reads a bad address, a handler may leave this function by a jump: the memory of the
    // checks leaks then, and nothing else happens.
    let checks = {
        let _blocked = SignalsBlocked::new();
        check(group)?
    };
    touch(checks.ends());
    // Its address tells a call that is left off from those of other frames.
    let frame = 0_u8;
    let frame = (&raw const frame).addr();
    let (ran, left_off) = {
        // If a signal handler jumped out of the middle of a call, the cache would stay locked for ever.
        let _blocked = SignalsBlocked::new();
        let mut checks = checks;
        let _underway = Underway::begin().ok_or(WhyHost::NoDevice)?;
        let host = HostHas {
            routine: !must_run,
            door: !must_run && facts.host.is_some(),
        };
        let mut ran = blas::run::run(cache, policy, group, &mut checks, host);
        let left = match &ran {
            Ok(ran) if ran.timed.is_some() => Some(0),
            Ok(ran) => ran.from,
            Err(_) => Some(0),
        };
        if let Some(from) = left {
            checks.write_back(cache, from);
        }
        let call = ran.as_mut().ok().and_then(|ran| ran.unfinished.take());
        (ran, call.map(|call| LeftOff::keep(call, frame)))
    };
    let ran = match left_off {
        Some(call) => to_its_end(cache, policy, group, call, frame),
        None => ran,
    };
    if matches!(ran, Err(WhyHost::Guarded)) {
        for call in calls {
            blas::deliver::part_with_gone(call, true);
        }
    }
    ran
}

/// Goes on with a call that is issued in a window. Between two tasks, whenever a signal of the program is pending, the call is left
/// off: the program's handlers run with no lock held, and may leave by a jump. If the use of devices has ended meanwhile, in a
/// child of `fork` for one, the host computes the rest.
fn to_its_end(
    cache: &Cache,
    policy: &Policy,
    group: &Group<'_>,
    mut call: LeftOff,
    frame: usize,
) -> Result<Ran, WhyHost> {
    let pause = || signals_blocked::pending() || underway::over();
    loop {
        let _blocked = SignalsBlocked::new();
        let unfinished = call.take_up();
        let Some(_underway) = Underway::begin() else {
            return Ok(Ran::of(unfinished.on_host()));
        };
        match unfinished.go_on(cache, policy, &pause) {
            Ok(Gone::Ended(carried)) => return Ok(Ran::of(carried)),
            Ok(Gone::LeftOff(unfinished)) => {
                COUNTERS.window.pauses.add(1);
                call = LeftOff::keep(unfinished, frame);
            }
            Err(why) => {
                for call in group.calls {
                    blas::checks::write_back_of(cache, call);
                }
                return Err(why);
            }
        }
        // Here signals are blocked no longer, and handlers run.
    }
}

/// Whether calls go to the host BLAS without a full decision, which would take longer than some of the calls. Not if an
/// operand begins in an inaccessible panel: with a full decision its bytes are written back in larger pieces, or not at
/// all.
fn undecided(policy: &Policy, group: &Group<'_>, largest: &Call) -> bool {
    let calls = group.calls;
    (!calls.iter().any(begins_closed) && policy.stays_on_host(group.key))
        || (!calls.iter().any(is_kept) && policy.hopeless(largest))
}

fn begins_closed(call: &Call) -> bool {
    let mut operands = call.operands().iter();
    any_protected() && operands.any(|at| protect::begins(protect::closed, at.addr))
}

/// Whether the host BLAS could not run the call without a fault, judged by the first page of each operand: an
/// inaccessible page stops reads and writes, a read-only page stops writes.
#[must_use]
pub fn is_kept(call: &Call) -> bool {
    let kept = |(addr, written)| {
        if written {
            protect::begins(protect::restricted, addr)
        } else {
            protect::begins(protect::closed, addr)
        }
    };
    any_protected() && call.accesses().any(kept)
}

/// Whether the page at one of these addresses, or the page behind it, is inaccessible or read-only because devices use it. Words that
/// are no addresses, or lie far from all pages that devices ever used, are told by two comparisons, the others by two look-ups in a table.
#[must_use]
#[inline]
pub fn any_restricted(addresses: impl Iterator<Item = usize>) -> bool {
    let (extent, page) = (
        semcache_fault::pages::extent(),
        semcache_fault::pages::page_size(),
    );
    // The page behind an address may be the first of them.
    let near = extent.start.saturating_sub(page)..extent.end;
    let mut near = addresses.filter(|addr| near.contains(addr));
    near.any(|addr| protect::begins(protect::restricted, addr))
}

/// Reads the first and last byte of every operand, except in inaccessible pages, which are known to be mapped: a bad
/// address faults now, before anything is locked or any signal blocked, and the program's handler may leave by a jump.
#[expect(unsafe_code, reason = "reads the program's operands")]
fn touch(addresses: impl Iterator<Item = usize>) {
    for addr in addresses {
        if !protect::closed(addr) {
            // SAFETY: a byte of the program's operand.
            unsafe { local::touch(addr) };
        }
    }
}

/// Whether calls below the fixed size floor go straight to the host BLAS: not under `SEMCACHE_OFFLOAD=always`.
#[must_use]
pub fn has_floor() -> bool {
    init::has_floor()
}

/// Whether any panel of the process may be inaccessible or read-only: one relaxed load.
#[must_use]
pub fn any_protected() -> bool {
    crate::cache::any_guarded()
}
