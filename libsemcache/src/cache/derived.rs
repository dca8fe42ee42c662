//! Beginning and end of the watch on bytes from which data are derived ([`super::watches`]).

use super::HELD;
use super::edges::PendingCopies;
use super::watches::Watch;
use super::{Cache, CacheError, Entry, State};
use crate::base::{Access, AllocId, Interval, Rect, Spans};
use crate::directory::Event;

impl Cache {
    /// Watches these contiguous bytes of blocks that are in use, from now on. Adds the addresses of those to `loose` that are not
    /// watched: they lie on pages that cannot be protected, or that they may share with other data, whose changes would end the watch.
    /// If a device is lost, or a system call is writing to the bytes, the watch has ended already.
    #[must_use]
    pub fn watch(&self, of: &[(AllocId, Interval)], loose: &mut Vec<Interval>) -> Watch {
        let mut watch = Watch::default();
        let mut guard = self.lock();
        for (id, span) in of {
            if self
                .watch_one(&mut guard, (*id, *span), &mut watch)
                .is_err()
            {
                watch.end();
            }
            let Some(e) = guard.entries.get(id) else {
                watch.end();
                continue;
            };
            let mut open: Spans = [*span].into_iter().collect();
            let last = watch.replicas.last().filter(|(of, _)| of == id);
            if let Some(replica) = last.and_then(|(_, replica)| e.dir.replica(*replica)) {
                let held = replica.valid.iter().flat_map(Rect::runs);
                held.for_each(|run| open.remove(run));
            }
            let at = e.host.base;
            let addresses = |run: &Interval| Interval::new(at + run.start, at + run.end);
            loose.extend(open.iter().map(addresses));
        }
        watch
    }

    fn watch_one(
        &self,
        state: &mut State,
        (id, span): (AllocId, Interval),
        watch: &mut Watch,
    ) -> Result<(), CacheError> {
        self.inspect_locked(state, id, span)?;
        let e = state.entries.get(&id).ok_or(CacheError::Gone)?;
        let (at, tracked) = (e.host.base, e.dir.tracked());
        if span.end > e.block.len || e.lost.overlaps(&span.into()) {
            return Err(CacheError::Gone);
        }
        let inner = span.align_in(self.page).intersect(tracked);
        if inner.is_empty() {
            return Ok(());
        }
        if HELD.forbids(at + inner.start, inner.len(), Access::Read) {
            return Err(CacheError::Gone);
        }
        let replica = state.new_replica();
        let State { entries, pools, .. } = &mut *state;
        let e = entries.get_mut(&id).ok_or(CacheError::Gone)?;
        e.dir.add_derived(replica, inner.into());
        watch.replicas.push((id, replica));
        self.step(e, pools, &Event::Derive { replica }, None)?;
        // What could not be protected is not watched.
        let mut pending = PendingCopies::default();
        self.settle_locked(state, id, &inner.into(), &mut pending)?;
        let e = state.entries.get_mut(&id).ok_or(CacheError::Gone)?;
        e.watches.add(replica, watch);
        Ok(pending.deps.wait(self.backend)?)
    }

    /// Whether the watched bytes are what they were: collects what the CPU has written to write-tracked pages of them. It is certain as
    /// long as no thread of the program writes to them.
    ///
    /// # Errors
    /// A device is lost.
    pub fn is_same(&self, watch: &Watch) -> Result<bool, CacheError> {
        let mut guard = self.lock();
        for (id, replica) in &watch.replicas {
            let e = guard.entries.get(id);
            let found = e.and_then(|e| e.dir.replica(*replica));
            if let Some(span) = found.map(|found| found.rect.span()) {
                self.inspect_locked(&mut guard, *id, span)?;
            }
        }
        Ok(watch.holds())
    }

    /// Ends a watch: pages need not be protected for its sake any more.
    pub fn unwatch(&self, watch: &Watch) {
        watch.end();
        let mut guard = self.lock();
        let State { entries, pools, .. } = &mut *guard;
        for (id, replica) in &watch.replicas {
            let replica = *replica;
            let known = |e: &&mut Entry| e.dir.replica(replica).is_some();
            let Some(e) = entries.get_mut(id).filter(known) else {
                continue;
            };
            if let Err(error) = self.step(e, pools, &Event::Evict { replica }, None) {
                log::warn!("the end of a watch: {error:?}");
            }
        }
    }
}
