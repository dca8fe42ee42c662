//! The life of semcache in a process: nothing until the first call that matters ([`start`]), then calls run
//! on devices until the process forks ([`fork`]) or ends ([`exit`]).

mod devices;
pub mod exit;
pub mod fork;
pub mod init;
pub mod io;
mod mode;
mod phase;
mod present;
mod ranks;
pub mod report;
mod retire;
pub mod start;
mod started;
mod underway;
mod ungated;
mod valgrind;

pub use crate::host::runs_here;
pub use mode::{Mode, mode};
pub use retire::{retire, sandbox};
pub use started::{Runtime, get};
pub use ungated::go_eager;

use crate::process::masked::Masked;
use semcache_fault::arithmetic::Usual;

use crate::base::config::Config;
use crate::base::counters::{self, Degraded, WhyHost, degrade};
use crate::base::{Dtype, Routine};
use crate::blas::args::{self, Checked};
use crate::blas::batch::{Batch, Batched};
use crate::blas::checks::{Group, check};
use crate::blas::policy::Policy;
use crate::blas::run::Ran;
use crate::blas::{self, Call, Outcome, names, remember};
use crate::protect;
use crate::sched::local;
use underway::Underway;

/// What the shim knows of a call besides its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// There is no host BLAS for it: it must run here, whatever it takes.
    pub must_run: bool,
}

/// Runs a call on the devices if that is worth it. Everything but [`Outcome::Host`] is counted here, and so
/// is the reason for that.
#[must_use]
pub fn call(call: &Call, facts: &Facts) -> Outcome {
    // The decision computes in floating point, too.
    let usual = Usual::new();
    blas::deliver::part_with_gone(call, false);
    if usual.devices_have_it()
        && let Some(outcome) = repeat(call)
    {
        drop(usual);
        blas::deliver::deliver(call);
        return outcome;
    }
    match group(&Group::single(call), usual, facts) {
        Ok(ran) => ran.outcome,
        Err(_) if facts.must_run => blas::local::compute(get().and_then(|r| r.cache), call),
        Err(_) => Outcome::Host,
    }
}

/// Runs the products of a batch on the devices if that is worth it; counts as [`call`] does, one call.
#[must_use]
pub fn batch(batch: &Batch, facts: &Facts) -> Batched {
    let usual = Usual::new();
    for call in &batch.calls {
        blas::deliver::part_with_gone(call, false);
    }
    match group(&Group::batch(batch), usual, facts) {
        Ok(ran) => ran.from.map_or(Batched::Done, Batched::From),
        Err(_) if facts.must_run && batch_here(batch, 0) => Batched::Done,
        Err(_) => Batched::Host,
    }
}

/// Runs calls that the program makes as one, and counts that.
fn group(group: &Group<'_>, usual: Usual, facts: &Facts) -> Result<Ran, WhyHost> {
    let index = names::index(group.routine, group.dtype);
    let decided = if usual.devices_have_it() {
        decide(group, facts.must_run)
    } else {
        Err(elsewhere(group))
    };
    drop(usual);
    // The program's handlers get the faults of all that follows, and may leave by a jump.
    group.calls.iter().for_each(blas::deliver::deliver);
    match &decided {
        Ok(_) => counters::offloaded(index),
        Err(why) => counters::host(index, *why),
    }
    let mut ran = decided?;
    for rest in std::mem::take(&mut ran.rests) {
        ran.outcome = rest.compute();
    }
    Ok(ran)
}

/// Computes the products of a batch from one on, on the calling thread. Nothing is done if one of them is illegal.
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

/// Sends calls of a thread whose floating-point environment no device has to the host. Devices are not started for
/// that; if they run already, what they hold of the operands is copied home.
fn elsewhere(group: &Group<'_>) -> WhyHost {
    if let Err(why) = usable(group.routine, group.dtype) {
        return why;
    }
    if let Some(cache) = get().and_then(|r| r.cache) {
        let _masked = Masked::new();
        if let Some(_underway) = Underway::begin() {
            for call in group.calls {
                blas::checks::bring_home_of(cache, call);
            }
        }
    }
    WhyHost::Environment
}

/// Makes a call as it was made before, if it is known and finds everything as it left it.
fn repeat(call: &Call) -> Option<Outcome> {
    if mode() != Mode::On {
        return None;
    }
    let known = remember::known(call)?;
    let cache = get()?.cache?;
    if known.comes_home() {
        let checks = {
            let _masked = Masked::new();
            check(&Group::single(call)).ok()?
        };
        touch(checks.ends());
        let _masked = Masked::new();
        drop(checks);
    }
    // As in `decide`. Other operands need no look: nothing of the call touches host memory.
    let _masked = Masked::new();
    let _underway = Underway::begin()?;
    known.again(cache)
}

/// The configuration, if it and the state of the process leave the routine to devices.
fn usable(routine: Routine, dtype: Dtype) -> Result<&'static Config, WhyHost> {
    match mode() {
        Mode::Forked => {
            // Only a child that computes has something to report.
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
    if config.is_disabled(routine.name(dtype)) {
        return Err(WhyHost::Disabled);
    }
    Ok(config)
}

fn decide(group: &Group<'_>, must_run: bool) -> Result<Ran, WhyHost> {
    let (calls, dtype) = (group.calls, group.dtype);
    let config = usable(group.routine, dtype)?;
    let largest = blas::call::largest(calls).ok_or(WhyHost::Empty)?;
    // Whoever disables a routine does not want the products of a batch on devices either.
    if config.is_disabled(largest.routine.name(dtype)) {
        return Err(WhyHost::Disabled);
    }
    retire::secluded()?;
    let runtime = start::for_call(largest, must_run)?;
    let cache = runtime.cache.ok_or(WhyHost::NoDevice)?;
    let policy = &runtime.policy;
    policy.back();
    if !must_run && undecided(policy, calls, largest) {
        return Err(WhyHost::PredictedSlower);
    }
    // No handler of the program's runs while the check allocates memory, for the allocator has a lock. When `touch` reads a bad
    // address a handler may leave this function by a jump: the memory leaks then, and nothing else happens.
    let checks = {
        let _masked = Masked::new();
        check(group)?
    };
    touch(checks.ends());
    let ran = {
        // A signal handler that jumps out of the middle of a call would leave the cache locked for ever.
        let _masked = Masked::new();
        let mut checks = checks;
        let _underway = Underway::begin().ok_or(WhyHost::NoDevice)?;
        let ran = blas::run::run(cache, policy, group, &mut checks);
        let left = match &ran {
            Ok(ran) => ran.from,
            Err(_) => Some(0),
        };
        if let Some(from) = left {
            checks.bring_home(cache, from);
        }
        ran
    };
    if matches!(ran, Err(WhyHost::Guarded)) {
        for call in calls {
            blas::deliver::part_with_gone(call, true);
        }
    }
    ran
}

/// Whether calls go to the host without a decision, which takes longer than some of them. Not if an operand begins in a
/// closed panel: with a decision it comes home in larger pieces, if at all.
fn undecided(policy: &Policy, calls: &[Call], largest: &Call) -> bool {
    (!calls.iter().any(is_kept) && policy.hopeless(largest))
        || (!calls.iter().any(begins_closed) && policy.stays_home(calls))
}

fn begins_closed(call: &Call) -> bool {
    let mut operands = call.operands().iter();
    any_protected() && operands.any(|at| protect::begins(protect::closed, at.addr))
}

/// Whether the host could not run the call without a fault, as far as the first pages of its operands tell: a closed
/// panel keeps it from reading, a read-only one from writing only.
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

/// Whether an operand that begins at an address begins with pages that are closed or read-only because devices use it: two
/// look-ups in a table.
#[must_use]
#[inline]
pub fn is_restricted(addr: usize) -> bool {
    protect::begins(protect::restricted, addr)
}

/// Reads both ends of every operand, but for closed pages, which are known to be there: a bad address faults
/// now, before anything is locked or any signal blocked, and the program's handler may leave by a jump.
#[expect(unsafe_code, reason = "reads the program's operands")]
fn touch(addresses: impl Iterator<Item = usize>) {
    for addr in addresses {
        if !protect::closed(addr) {
            // SAFETY: a byte of the program's operand.
            unsafe { local::touch(addr) };
        }
    }
}

/// Whether calls under the fixed floor may go straight to the host: not under `SEMCACHE_OFFLOAD=always`.
#[must_use]
pub fn has_floor() -> bool {
    init::has_floor()
}

/// Whether any panel of the process may be closed or read-only: one relaxed load.
#[must_use]
pub fn any_protected() -> bool {
    crate::cache::any_guarded()
}
