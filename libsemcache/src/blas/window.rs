//! Calls that are issued in a window ([`crate::sched::window`]): which ones, and how they are left off and taken up again.
//!
//! While such a call is left off, no lock is held, no signal is blocked, and nothing of the call is needed by anything else: a
//! handler of the program may compute, or leave the call by a jump. What is queued then stays valid, and the rest is not computed.
//! Results on pages that are not trapped are in host memory meanwhile, and replicas hold no bytes there that the CPU could change
//! unnoticed, as at the end of a call.

use super::checks::Item;
use super::finish::Rest;
use super::issue::{Carried, Issue, Predicted, as_loss, write_back};
use super::offload_policy::Policy;
use super::operands::PageLocks;
use super::spread::Spread;
use crate::base::DeviceSet;
use crate::base::counters::{COUNTERS, WhyHost};
use crate::cache::Cache;
use crate::plan::Plan;
use crate::process::waited::Stopwatch;
use crate::sched::{Stopped, Windowed};

/// The number of tasks of each device that are queued ahead, if a call is issued in a window: a call of level 3 on devices of which
/// [`Policy::ahead`] says so, unless all of it is queued ahead anyway. A call with an operand on pages that are never protected is
/// not: what has been written of its result would have to be written back whenever a signal handler runs.
pub(super) fn depth(
    cache: &Cache,
    policy: &Policy,
    item: &Item,
    (plan, on): (&Plan, &DeviceSet),
) -> Option<usize> {
    let ahead = policy.ahead(on)?;
    let level3 = item.problem.routine.level() == 3;
    let more = plan.tasks.len() > on.len().saturating_mul(ahead);
    let known = item.blocks.iter().all(Option::is_some);
    (level3 && more && known && cache.traps()).then_some(ahead)
}

/// How far a call has gone.
#[derive(Debug)]
pub enum Gone {
    /// Not to its end: the thread has something else to do.
    LeftOff(Box<Unfinished>),
    /// To its end.
    Ended(Carried),
}

/// A call that is issued in a window.
#[derive(Debug)]
pub struct Unfinished {
    item: Item,
    issue: Issue,
    windowed: Windowed,
    spread: Spread,
    watch: Stopwatch,
}

impl Unfinished {
    /// A call of which no task is queued yet.
    ///
    /// # Errors
    /// Another thread has meanwhile freed, unmapped or remapped a block, or a part of it.
    pub(super) fn new(
        (cache, policy): (&Cache, &Policy),
        item: &Item,
        number: u64,
        predicted: Option<Predicted>,
        (plan, spread, on): (Plan, Spread, &DeviceSet),
        depth: usize,
    ) -> Result<Box<Unfinished>, WhyHost> {
        let on = (on, &spread.rates);
        let issue = Issue::new(
            cache,
            number,
            item,
            (&plan, on),
            PageLocks::Before,
            predicted,
        )?;
        COUNTERS.window.calls.add(1);
        Ok(Box::new(Unfinished {
            windowed: Windowed::new(cache, &item.problem, plan, on, (policy.scheduler, depth)),
            item: item.clone(),
            issue,
            spread,
            watch: Stopwatch::start(),
        }))
    }

    /// Goes on with the call until it ends, or `pause` says that the thread has something else to do: then the call is left off.
    ///
    /// # Errors
    /// The reason why the host must run the call; no byte of the program was changed.
    pub fn go_on(
        mut self: Box<Self>,
        cache: &Cache,
        policy: &Policy,
        pause: &dyn Fn() -> bool,
    ) -> Result<Gone, WhyHost> {
        let launched = self.advance(cache, pause);
        if let Ok(false) = launched {
            // From here on the time includes that of the program's handlers.
            self.issue.forget_time();
            self.windowed.forget_time();
            return Ok(Gone::LeftOff(self));
        }
        policy.drifted(self.windowed.spread());
        let Unfinished {
            item,
            issue,
            windowed,
            spread,
            ..
        } = *self;
        let plan = windowed.into_plan();
        spread.count(cache, &plan);
        let ended = issue.end((cache, &policy.sites), &item, &plan, launched.map(|_| None));
        ended.map(Gone::Ended)
    }

    /// Queues tasks. Returns whether all are queued; if not, the call may be left off now.
    fn advance(&mut self, cache: &Cache, pause: &dyn Fn() -> bool) -> Result<bool, Stopped> {
        let watch = self.watch;
        let now = move || watch.seconds().0;
        let Unfinished {
            item,
            issue,
            windowed,
            ..
        } = self;
        let (placed, tiles, streamed) = issue.parts()?;
        let call = (&*item.problem, placed);
        if windowed.advance(cache, call, tiles, streamed, &now, pause)? {
            return Ok(true);
        }
        write_back(cache, placed.iter(), &[]).map_err(|error| Stopped {
            at: windowed.queued(),
            error: as_loss(error),
        })?;
        Ok(false)
    }

    /// What the host has to compute, since devices may not be used any more: all newest bytes are in host memory, or behind pages
    /// that are inaccessible until they are.
    #[must_use]
    pub fn on_host(self: Box<Self>) -> Carried {
        let Unfinished {
            item,
            issue,
            windowed,
            ..
        } = *self;
        let queued = windowed.queued();
        let plan = windowed.into_plan();
        let tasks = plan.tasks.get(queued..).unwrap_or_default();
        let placed = &issue.operands.placed;
        let rest = Rest::new(&item.problem, tasks, placed, None, Box::new([]));
        Carried::Rest(rest)
    }
}
