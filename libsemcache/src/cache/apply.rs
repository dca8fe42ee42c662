//! Executing what the directory demands, in its order.
//!
//! A copy that would be read by the CPU has landed before the panel is opened (rule R2); a failed action
//! leaves the directory as it was before the step (rule R10).

use log::warn;

use super::{Cache, CacheError, Entry};
use crate::base::counters::COUNTERS;
use crate::base::{Access, Interval, Rect, ReplicaId};
use crate::device::api::DeviceError;
use crate::directory::{Action, Event, Place};
use crate::protect::closed;
use crate::transfer::{Deps, Engine, Pool};

/// How often a refused copy towards the host is tried again: its bytes exist nowhere else.
const HOME_TRIES: usize = 4;

impl Cache {
    /// One protocol step: asks the directory, executes its actions, and restores its state if one fails.
    /// `Invalid` actions are returned instead of executed when `defer` is given: a kernel that is refused
    /// must not have invalidated anything.
    pub(crate) fn step(
        &self,
        e: &mut Entry,
        pools: &mut [Pool],
        event: &Event,
        defer: Option<&mut Vec<Action>>,
    ) -> Result<(), CacheError> {
        let mut actions = Vec::new();
        let before = e.dir.clone();
        if let Err(illegal) = e.dir.step(event, &mut actions) {
            e.dir = before;
            return Err(illegal.into());
        }
        if actions.is_empty() {
            return Ok(());
        }
        let result = self.execute(e, pools, &actions, defer);
        if result.is_err() {
            e.dir = before;
        }
        result
    }

    fn execute(
        &self,
        e: &mut Entry,
        pools: &mut [Pool],
        actions: &[Action],
        mut defer: Option<&mut Vec<Action>>,
    ) -> Result<(), CacheError> {
        for action in actions {
            match *action {
                Action::Protect { span, access } => self.protect(e, span, access)?,
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

    /// The block has a new length.
    pub(crate) fn resize(
        &self,
        e: &mut Entry,
        pools: &mut [Pool],
        len: usize,
        tracked: Interval,
    ) -> Result<(), CacheError> {
        let mut actions = Vec::new();
        e.dir.resize(len, tracked, &mut actions);
        e.block.len = len;
        self.execute(e, pools, &actions, None)
    }

    /// Queues the newest bytes of `rect` towards the host without waiting; panels are opened by whoever
    /// touches them.
    pub(crate) fn send_home(
        &self,
        e: &mut Entry,
        pools: &mut [Pool],
        rect: &Rect,
    ) -> Result<(), CacheError> {
        self.step_closed(e, pools, &Event::Home { rect: *rect })
    }

    /// A step that leaves panels closed which the directory would open now: opening would have to wait for
    /// the copies home. Whoever touches them opens them.
    pub(crate) fn step_closed(
        &self,
        e: &mut Entry,
        pools: &mut [Pool],
        event: &Event,
    ) -> Result<(), CacheError> {
        let mut actions = Vec::new();
        let before = e.dir.clone();
        e.dir.step(event, &mut actions)?;
        actions.retain(|a| !matches!(a, Action::Protect { .. }));
        let result = self.execute(e, pools, &actions, None);
        if result.is_err() {
            e.dir = before;
        }
        result
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
        if let Some(s) = e.stores.get_mut(&replica) {
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
        COUNTERS.misses.add(1);
        Ok(Engine {
            backend: self.backend,
        }
        .upload(&mut e.host, s, rect)?)
    }

    fn down(&self, e: &mut Entry, from: ReplicaId, rect: &Rect) -> Result<(), CacheError> {
        let Some(s) = e.stores.get_mut(&from) else {
            return Err(CacheError::Gone);
        };
        e.downloads += 1;
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

    /// Applies a panel access. Loosening waits until the host bytes under it are settled: downloads have
    /// landed before the CPU may read, uploads have read before it may write (rule R11).
    pub(crate) fn protect(
        &self,
        e: &mut Entry,
        span: Interval,
        access: Access,
    ) -> Result<(), CacheError> {
        if access != Access::ReadWrite && e.held_by_io(span, access) {
            // The kernel is using these panels for the program: they stay open, and what this call leaves
            // in them goes home before it returns.
            e.unprotected.push(span);
            return Ok(());
        }
        if access != Access::None && e.lost.overlaps(&Rect::from(span)) {
            return self.protect_around_lost(e, span, access);
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
        if access != Access::ReadWrite {
            e.set_guarded(true);
        }
        if access == Access::None {
            COUNTERS
                .closes
                .add((span.end - span.start).div_ceil(self.panel) as u64);
        }
        let addr = e.host.base + span.start;
        match self.gate.apply(addr, span.end - span.start, access) {
            Ok(()) => Ok(()),
            // No room to split a mapping: with everything home, the whole block opens as one, which merges
            // its mappings and always has room.
            Err(err) if access == Access::ReadWrite => {
                warn!("{err}: opening the whole block instead");
                self.open_whole(e)
            }
            Err(err)
                if access == Access::Read
                    && !e
                        .dir
                        .stale()
                        .overlaps(&Rect::interval(span.start, span.end))
                    && closed(addr) =>
            {
                warn!("{err}: opening the whole block instead");
                self.open_whole(e)
            }
            // No room for another mapping: these panels are not closed, so their results go home at once.
            Err(_) => {
                crate::base::counters::degrade(crate::base::counters::Degraded::MapLimit);
                e.unprotected.push(span);
                Ok(())
            }
        }
    }

    /// Panels with bytes that are lost stay closed: whoever touches them must learn it.
    fn protect_around_lost(
        &self,
        e: &mut Entry,
        span: Interval,
        access: Access,
    ) -> Result<(), CacheError> {
        let mut at = span.start;
        while at < span.end {
            let panel = e.dir.panel_span(at);
            let part = Interval {
                start: at,
                end: panel.end.min(span.end).max(at + 1),
            };
            if !e.lost.overlaps(&Rect::from(panel)) {
                self.protect(e, part, access)?;
            }
            at = part.end;
        }
        Ok(())
    }

    /// Everything home, all validity dropped, one mapping, open.
    fn open_whole(&self, e: &mut Entry) -> Result<(), CacheError> {
        let mut actions = Vec::new();
        e.dir.step(&Event::Flush, &mut actions)?;
        for action in &actions {
            if let Action::Copy {
                from: Place::Replica(from),
                to: Place::Host,
                rect,
            } = action
            {
                self.down(e, *from, rect)?;
            }
        }
        self.settle_host(e)?;
        self.gate
            .apply(e.block.start, e.block.len, Access::ReadWrite)
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

/// Gives the device memory of a replica back, behind everything that uses it.
pub(crate) fn drop_store(e: &mut Entry, pools: &mut [Pool], replica: ReplicaId) {
    if let Some(s) = e.stores.remove(&replica) {
        let mut deps = Deps::default();
        s.ops.all(&mut deps);
        pools[s.device.index()].give(s.range, deps);
    }
}
