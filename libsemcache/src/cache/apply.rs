//! Execution of the directory's actions (page protection, copies, invalidation), in the directory's order.
//!
//! Bytes that the CPU is to read have been copied to the host before their panel becomes accessible (rule R2). If an
//! action fails, the directory is put back to its state before the step (rule R10).

use log::warn;

use super::HELD;
use super::{Cache, CacheError, Entry};
use crate::base::counters::{COUNTERS, Degraded, degrade};
use crate::base::{Access, DeviceId, Interval, Rect, ReplicaId, Spans};
use crate::device::api::{Backend, DeviceError};
use crate::directory::{Action, Event, Place, Undo};
use crate::host;
use crate::protect::{self, GateError};
use crate::transfer::{Deps, Engine, Pool};

/// When pages become readable whose newest bytes are still being written back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Opening {
    /// At once: the thread waits for the write-backs.
    Now,
    /// At the CPU's next access, which faults: pages that are inaccessible stay so while this device writes them back. If
    /// another device does, the thread waits: the task's device would read bytes that never arrive if that one is lost.
    OnFault(DeviceId),
}

/// Into how many runs of pages a change of access is cut at most, as each may be a mapping of its own.
const MOST_RUNS: usize = 64;
/// How often a refused copy to the host is tried again: its bytes exist in device memory only.
const HOME_TRIES: usize = 4;

impl Cache {
    /// One protocol step: asks the directory, executes its actions, and restores the directory if an action fails. If
    /// `defer` is given, `Invalid` actions are added to it instead of being executed: a kernel whose launch is refused
    /// must not have invalidated anything.
    pub(crate) fn step(
        &self,
        e: &mut Entry,
        pools: &mut [Pool],
        event: &Event,
        defer: Option<&mut Vec<Action>>,
    ) -> Result<(), CacheError> {
        self.step_back(e, pools, event, defer).map(drop)
    }

    /// As [`Cache::step`]; returns how to undo the event, if the event changed the directory.
    pub(crate) fn step_back(
        &self,
        e: &mut Entry,
        pools: &mut [Pool],
        event: &Event,
        defer: Option<&mut Vec<Action>>,
    ) -> Result<Option<Undo>, CacheError> {
        self.step_with(e, pools, event, defer, Opening::Now)
    }

    /// As [`Cache::step_back`], for an operand of a task on the device that has this replica. A page that has to become
    /// readable while this device writes bytes of it back stays inaccessible until the CPU touches it, so that the tasks
    /// behind are queued meanwhile.
    pub(crate) fn step_of_task(
        &self,
        replica: ReplicaId,
        e: &mut Entry,
        pools: &mut [Pool],
        event: &Event,
        defer: Option<&mut Vec<Action>>,
    ) -> Result<Option<Undo>, CacheError> {
        let store = e.stores.get(&replica);
        let opening = store.map_or(Opening::Now, |s| Opening::OnFault(s.device));
        if !self.links.joins()
            && let Event::DeviceRead { rect, .. } | Event::DeviceWrite { rect, .. } = event
        {
            let arriving = e.arriving(rect, self.backend);
            e.dir.not_from(arriving);
        }
        self.step_with(e, pools, event, defer, opening)
    }

    fn step_with(
        &self,
        e: &mut Entry,
        pools: &mut [Pool],
        event: &Event,
        defer: Option<&mut Vec<Action>>,
        opening: Opening,
    ) -> Result<Option<Undo>, CacheError> {
        if e.dir.ready(event) {
            return Ok(None);
        }
        self.attempt(e, pools, event, defer, opening, |_| true)
            .map(Some)
    }

    /// Steps the directory and executes those of its actions for which `wanted` is true; returns how to undo the event.
    fn attempt(
        &self,
        e: &mut Entry,
        pools: &mut [Pool],
        event: &Event,
        defer: Option<&mut Vec<Action>>,
        opening: Opening,
        wanted: impl Fn(&Action) -> bool,
    ) -> Result<Undo, CacheError> {
        let mut actions = Vec::new();
        let undo = e.dir.step(event, &mut actions)?;
        if let Event::Enclose { rect } = event
            && e.dir.narrow(rect)
        {
            COUNTERS.cache.coarse.add(1);
        }
        actions.retain(wanted);
        if let Err(err) = self.execute(e, pools, &actions, defer, opening) {
            self.restore(e, undo);
            return Err(err);
        }
        Ok(undo)
    }

    /// Takes an event back whose actions were executed in part.
    pub(super) fn restore(&self, e: &mut Entry, undo: Undo) {
        e.dir.restore(undo);
        self.track_edges_again(e);
    }

    fn execute(
        &self,
        e: &mut Entry,
        pools: &mut [Pool],
        actions: &[Action],
        mut defer: Option<&mut Vec<Action>>,
        opening: Opening,
    ) -> Result<(), CacheError> {
        for action in actions {
            match *action {
                Action::Protect { span, access } => self.protect(e, span, access, opening)?,
                Action::Copy {
                    from: Place::Host,
                    to: Place::Replica(to),
                    ref rect,
                } => self.up(e, to, rect)?,
                Action::Copy {
                    from: Place::Replica(from),
                    to: Place::Host,
                    ref rect,
                } => self.down(e, from, rect)?,
                Action::Copy {
                    from: Place::Replica(from),
                    to: Place::Replica(to),
                    ref rect,
                } => self.across(e, from, to, rect)?,
                Action::Copy {
                    from: Place::Host,
                    to: Place::Host,
                    ..
                } => {}
                Action::Invalid { replica, ref rect } => match &mut defer {
                    Some(list) => list.push(action.clone()),
                    None => self.invalid(e, replica, rect),
                },
                Action::Drop { replica } => drop_store(e, pools, replica),
                Action::LostData { ref rect } => e.lost.insert(rect),
            }
        }
        Ok(())
    }

    /// Changes the length of a block, in the directory too.
    pub(crate) fn resize(
        &self,
        e: &mut Entry,
        pools: &mut [Pool],
        len: usize,
        content: usize,
        tracked: Interval,
    ) -> Result<(), CacheError> {
        let mut actions = Vec::new();
        e.dir.resize(len, content, tracked, &mut actions);
        (e.block.len, e.block.content) = (len, content);
        self.execute(e, pools, &actions, None, Opening::Now)
    }

    /// Queues the write-back of the newest bytes of `rect` without waiting. The panels stay inaccessible until the CPU
    /// touches them.
    pub(crate) fn queue_write_back(
        &self,
        e: &mut Entry,
        pools: &mut [Pool],
        rect: &Rect,
    ) -> Result<(), CacheError> {
        self.step_closed(e, pools, &Event::WriteBack { rect: *rect })
    }

    /// Steps the directory, but leaves all pages protected as they are: to make a panel accessible now would mean to
    /// wait for the write-backs. The CPU's next access to such a panel faults, and the fault makes it accessible.
    pub(crate) fn step_closed(
        &self,
        e: &mut Entry,
        pools: &mut [Pool],
        event: &Event,
    ) -> Result<(), CacheError> {
        let wanted = |a: &Action| !matches!(a, Action::Protect { .. });
        self.attempt(e, pools, event, None, Opening::Now, wanted)
            .map(drop)
    }

    /// Executes the invalidations that [`Cache::step`] deferred.
    pub(crate) fn execute_deferred(&self, e: &mut Entry, deferred: &[Action]) {
        for action in deferred {
            if let Action::Invalid { replica, rect } = action {
                self.invalid(e, *replica, rect);
            }
        }
    }

    fn invalid(&self, e: &mut Entry, replica: ReplicaId, rect: &Rect) {
        e.watches.end(replica);
        // Bytes that kernels of the program may be changing become the newest when they are released.
        if let Some(s) = e.stores.get_mut(&replica).filter(|s| s.held == 0) {
            Engine {
                backend: self.backend,
            }
            .invalid(s, rect);
        }
    }

    fn up(&self, e: &mut Entry, to: ReplicaId, rect: &Rect) -> Result<(), CacheError> {
        let Some(s) = e.stores.get_mut(&to) else {
            return Err(CacheError::Gone);
        };
        COUNTERS.cache.misses.add(1);
        Ok(Engine {
            backend: self.backend,
        }
        .upload(&mut e.host, s, rect)?)
    }

    pub(super) fn down(
        &self,
        e: &mut Entry,
        from: ReplicaId,
        rect: &Rect,
    ) -> Result<(), CacheError> {
        let Some(s) = e.stores.get_mut(&from) else {
            return Err(CacheError::Gone);
        };
        e.downloads += 1;
        if host::vanished(&e.block) {
            return Ok(());
        }
        let mut tries = 0;
        loop {
            match (Engine {
                backend: self.backend,
            })
            .download(s, &mut e.host, rect)
            {
                Err(DeviceError::Refused { .. }) if tries < HOME_TRIES => {
                    tries += 1;
                    COUNTERS.fallbacks.add(1);
                }
                other => return Ok(other?),
            }
        }
    }

    fn across(
        &self,
        e: &mut Entry,
        from: ReplicaId,
        to: ReplicaId,
        rect: &Rect,
    ) -> Result<(), CacheError> {
        let Some(mut src) = e.stores.remove(&from) else {
            return Err(CacheError::Gone);
        };
        let result = match e.stores.get_mut(&to) {
            Some(dst) => Engine {
                backend: self.backend,
            }
            .peer(&mut src, dst, rect)
            .map_err(CacheError::from),
            None => Err(CacheError::Gone),
        };
        e.stores.insert(from, src);
        result
    }

    /// Applies a panel's access on behalf of a step. If the gate cannot: results in panels that should have been
    /// protected are written back at the end of the call, and panels that should have become accessible stay as they
    /// are until the CPU's next access faults ([`Cache::apply_derived`]). To make more pages accessible here than the
    /// step says would contradict the actions of the step that are still to come.
    fn protect(
        &self,
        e: &mut Entry,
        span: Interval,
        access: Access,
        opening: Opening,
    ) -> Result<(), CacheError> {
        let spans = match opening {
            Opening::OnFault(device) if access == Access::Read => {
                self.not_on_fault(e, device, span)
            }
            _ => vec![span],
        };
        for span in spans {
            if self.try_protect(e, span, access)?.is_err() && access != Access::ReadWrite {
                degrade(Degraded::MapLimit);
                e.unprotected.push(span);
            }
        }
        Ok(())
    }

    /// The pages of `span` that are to become read-only now: all but those that are inaccessible and in a panel that an
    /// operation in flight of this device writes to.
    fn not_on_fault(&self, e: &mut Entry, device: DeviceId, span: Interval) -> Vec<Interval> {
        let rect = Rect::from(span);
        let mut deps = Deps::default();
        e.host.ops.deps(&rect, false, &mut deps);
        let others = deps.tickets().iter().any(|t| t.device != device);
        if others || deps.settled(self.backend) {
            return vec![span];
        }
        e.host.ops.prune(self.backend);
        let written = e.host.ops.writes().filter(|w| w.overlaps(&rect));
        let written: Spans = written
            .map(|w| e.dir.panels_around(w.span()).intersect(span))
            .collect();
        let mut now: Spans = [span].into_iter().collect();
        for panels in written.iter() {
            for first in (panels.start..panels.end).step_by(self.page) {
                if protect::closed(e.host.base + first) {
                    now.remove(Interval::new(first, (first + self.page).min(panels.end)));
                }
            }
        }
        if now.len() > MOST_RUNS {
            return vec![span];
        }
        now.iter().copied().collect()
    }

    /// Applies an access to panels. Panels with lost bytes stay inaccessible: a CPU access to them must end the
    /// process. Panels that a system call of the program is using stay accessible; what a BLAS call leaves in them is
    /// written back before that call returns.
    fn try_protect(
        &self,
        e: &mut Entry,
        span: Interval,
        access: Access,
    ) -> Result<Result<(), GateError>, CacheError> {
        let lost = access != Access::None && e.lost.overlaps(&Rect::from(span));
        if !lost {
            match self.change(e, span, access)? {
                Err(GateError::InUse) => {}
                done => return Ok(done),
            }
        }
        // Panel by panel, since some panels permit the change.
        let mut result = Ok(());
        let mut at = span.start;
        while at < span.end {
            let panel = e.dir.panel_span(at);
            let part = Interval {
                start: at,
                end: panel.end.min(span.end).max(at + 1),
            };
            at = part.end;
            if access != Access::None && e.lost.overlaps(&Rect::from(panel)) {
                continue;
            }
            match self.change(e, part, access)? {
                Err(GateError::InUse) => e.unprotected.push(part),
                done => result = result.and(done),
            }
        }
        Ok(result)
    }

    /// Changes the access of the CPU to pages. More access is given only after operations in flight over the host
    /// bytes: copies to the host have completed before the CPU may read, uploads before the CPU may write (rule R11).
    fn change(
        &self,
        e: &mut Entry,
        span: Interval,
        access: Access,
    ) -> Result<Result<(), GateError>, CacheError> {
        let (addr, len) = (e.host.base + span.start, span.end - span.start);
        if access == Access::Read
            && let Some(opened) = self.write_track(e, span)?
        {
            return Ok(opened);
        }
        if access != Access::None {
            let mut deps = Deps::default();
            let rect = Rect::interval(span.start, span.end);
            e.host
                .ops
                .deps(&rect, access == Access::ReadWrite, &mut deps);
            deps.wait(self.backend)?;
            e.host.ops.prune(self.backend);
        }
        if access == Access::ReadWrite {
            let mut untracked: Spans = [span].into_iter().collect();
            untracked.subtract(e.dir.tracked_edges());
            untracked.iter().for_each(|run| e.scans.untrack(*run));
            return Ok(self.gate.apply(addr, len, access));
        }
        e.set_guarded(true);
        let in_use = || HELD.forbids(addr, len, access);
        let done = self.gate.restrict(addr, len, access, &in_use);
        if access == Access::None && done != Err(GateError::InUse) {
            COUNTERS.cache.closes.add(len.div_ceil(self.panel) as u64);
        }
        if done.is_ok() {
            self.closed(e, span);
        }
        Ok(done)
    }

    /// Gives every panel of `span` the access that the directory derives, between two steps. That includes panels that
    /// were written back ahead of the CPU's access, which the directory calls accessible already.
    pub(crate) fn apply_derived(&self, e: &mut Entry, span: Interval) -> Result<(), CacheError> {
        let mut runs = Vec::new();
        e.dir.access_runs(span, &mut runs);
        for (run, access) in runs {
            if access != Access::None
                && let Err(err) = self.try_protect(e, run, access)?
            {
                // The process has no mapping left for a split. Once everything is written back, the whole block becomes
                // accessible as one mapping, which merges its mappings and needs no further one.
                warn!("{err}: opening the whole block instead");
                return self.open_whole(e);
            }
        }
        Ok(())
    }

    /// Writes back all newest bytes of a block, drops what replicas hold, and makes the block accessible as one
    /// mapping.
    fn open_whole(&self, e: &mut Entry) -> Result<(), CacheError> {
        if !e.lost.is_empty() {
            return Err(CacheError::DataLost);
        }
        let mut actions = Vec::new();
        let undo = e.dir.step(&Event::Flush, &mut actions)?;
        for action in &actions {
            if let Action::Copy {
                from: Place::Replica(from),
                to: Place::Host,
                rect,
            } = action
                && let Err(err) = self.down(e, *from, rect)
            {
                self.restore(e, undo);
                return Err(err);
            }
        }
        if let Err(err) = self.settle_host(e) {
            self.restore(e, undo);
            return Err(err);
        }
        e.open_pages(self.gate)
            .map_err(|err| CacheError::Bug(format!("memory stays closed: {err}")))?;
        e.set_guarded(false);
        Ok(())
    }

    /// Waits for every operation over the host bytes of an allocation.
    pub(crate) fn settle_host(&self, e: &mut Entry) -> Result<(), CacheError> {
        let mut deps = Deps::default();
        e.host.ops.all(&mut deps);
        deps.wait(self.backend)?;
        e.host.ops.clear();
        Ok(())
    }
}

/// Returns the device memory of a replica to its pool; the next user of the memory waits for all operations over the
/// replica.
pub(crate) fn drop_store(e: &mut Entry, pools: &mut [Pool], replica: ReplicaId) {
    e.watches.remove(replica);
    if let Some(s) = e.stores.remove(&replica) {
        let mut deps = Deps::default();
        s.ops.all(&mut deps);
        pools[s.device.index()].give(s.range, deps);
    }
}

impl Entry {
    /// The replicas to which some bytes of `rect` are on their way.
    fn arriving(&self, rect: &Rect, backend: &dyn Backend) -> Vec<ReplicaId> {
        let arriving = self.stores.iter().filter(|(_, store)| {
            let mut writes = Deps::default();
            store.ops.deps(rect, false, &mut writes);
            !writes.settled(backend)
        });
        arriving.map(|(&id, _)| id).collect()
    }
}
