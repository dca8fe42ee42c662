//! Everything home: at the end of a call for bytes that cannot be trapped, before fork, at exit.

use std::sync::MutexGuard;

use super::edges::Homecoming;
use super::{Cache, CacheError, State};
use crate::base::{AllocId, Interval, Rect};
use crate::device::api::{Backend, DeviceError};
use crate::directory::Event;
use crate::host;
use crate::protect;
use crate::transfer::Deps;
use semcache_fault::held::Hold;

/// Holds the cache still across a fork.
#[derive(Debug)]
pub struct Frozen(MutexGuard<'static, State>);

impl Cache {
    /// End of a call for one operand: bytes on pages that the CPU can access at any time are copied home, and what devices hold of
    /// them is forgotten unless the page is armed. What is being sent from armed pages must have been read. Adds what the
    /// call has to wait for ([`Cache::arrive`]).
    ///
    /// # Errors
    /// A copy home failed for good.
    pub(super) fn settle_locked(
        &self,
        state: &mut State,
        id: AllocId,
        rect: &Rect,
        coming: &mut Homecoming,
    ) -> Result<(), CacheError> {
        let State { entries, pools, .. } = state;
        let Some(e) = entries.get_mut(&id) else {
            return Ok(());
        };
        let mut open = e.dir.open_territory(rect);
        if !open.is_empty() {
            if !e.dir.watched().is_empty() {
                let stale = e.dir.stale();
                let landing: Vec<Rect> = open.iter().flat_map(|part| stale.common(part)).collect();
                if !landing.is_empty() {
                    let come = self.land_on_edges(id, e, pools, landing)?;
                    coming.on_edges.push(come);
                    // What the scan found may have opened more.
                    open = e.dir.open_territory(rect);
                }
            }
            self.step(e, pools, &Event::Settle { rect: *rect }, None)?;
        }
        let unprotected = std::mem::take(&mut e.unprotected);
        for (i, &span) in unprotected.iter().enumerate() {
            // Eager for a moment: home, forgotten, open.
            let home = self.step(e, pools, &Event::Eager { span, on: true }, None);
            if let Err(err) = home.and_then(|()| self.track_again(e, pools, span)) {
                e.unprotected.extend_from_slice(&unprotected[i..]);
                return Err(err);
            }
        }
        for r in open
            .iter()
            .copied()
            .chain(unprotected.iter().map(|&s| Rect::from(s)))
        {
            e.host.ops.deps(&r, true, &mut coming.deps);
        }
        for untrapped in e.scans.untrapped(rect) {
            e.host.ops.reads(&untrapped, &mut coming.deps);
        }
        Ok(())
    }

    /// Forgets a one-call entry. Its operations were waited for, unless something failed: its memory is not
    /// ours when this returns, so nothing may be in flight over it.
    pub fn finish_transient(&self, id: AllocId) {
        let mut guard = self.lock();
        if let Some(mut e) = guard.remove(id) {
            // A lost device writes nothing any more.
            let _ = self.settle_host(&mut e);
            release_stores(&mut e, &mut guard.pools);
        }
    }

    /// Brings the newest bytes of `rect` home and makes them accessible to the CPU, for writing if `write`.
    ///
    /// # Errors
    /// The bytes are lost, or a copy failed for good.
    pub fn open(&self, id: AllocId, rect: &Rect, write: bool) -> Result<(), CacheError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        self.open_locked(state, id, rect.span(), write)
    }

    pub(crate) fn open_locked(
        &self,
        state: &mut State,
        id: AllocId,
        span: Interval,
        write: bool,
    ) -> Result<(), CacheError> {
        let Some(e) = state.entries.get_mut(&id) else {
            return Ok(());
        };
        if span.start >= span.end {
            return Ok(());
        }
        if e.lost.overlaps(&Rect::interval(span.start, span.end)) {
            return Err(CacheError::DataLost);
        }
        let span = e.dir.panels_around(span);
        self.give_to_cpu(state, id, span, span, write)
    }

    /// Brings whole panels home and opens them. Devices that turn out to be lost are given up on the way; an
    /// error if that cost bytes of `needed`.
    pub(crate) fn give_to_cpu(
        &self,
        state: &mut State,
        id: AllocId,
        span: Interval,
        needed: Interval,
        write: bool,
    ) -> Result<(), CacheError> {
        let event = if write {
            Event::CpuWrite { span }
        } else {
            Event::CpuRead { span }
        };
        let mut result = self.try_to_give(state, id, span, &event);
        for _ in self.backend.devices() {
            let Err(CacheError::Device(DeviceError::Lost { device })) = result else {
                break;
            };
            self.lose(state, device)?;
            let e = state.entries.get(&id).ok_or(CacheError::Gone)?;
            if e.lost.overlaps(&Rect::from(needed)) {
                return Err(CacheError::DataLost);
            }
            result = self.try_to_give(state, id, span, &event);
        }
        result
    }

    fn try_to_give(
        &self,
        state: &mut State,
        id: AllocId,
        span: Interval,
        event: &Event,
    ) -> Result<(), CacheError> {
        let State { entries, pools, .. } = state;
        let e = entries.get_mut(&id).ok_or(CacheError::Gone)?;
        let before = e.unprotected.len();
        self.step(e, pools, event, None)?;
        // Whatever the directory emitted, the panels must permit the access now.
        self.apply_derived(e, span)?;
        // Closed panels that a system call is about to write, as soon as it has the lock, were not opened for reading
        // only: they are opened for both, as for that call.
        for part in e.unprotected.split_off(before) {
            let part = e.dir.panels_around(part);
            self.step(e, pools, &Event::CpuWrite { span: part }, None)?;
            self.apply_derived(e, part)?;
        }
        let mut deps = Deps::default();
        e.host.ops.deps(
            &Rect::from(span),
            matches!(event, Event::CpuWrite { .. }),
            &mut deps,
        );
        Ok(deps.wait(self.backend)?)
    }

    /// Opens `len` bytes at `addr` for a system call that reads (or writes) them, and keeps the panels from
    /// being closed until [`Cache::io_done`]. Locks the cache only where a page is in the way; `quiet` is called
    /// before, and what it returns lives as long as the lock.
    pub fn open_for_io<Q>(
        &self,
        addr: usize,
        len: usize,
        write: bool,
        quiet: impl FnOnce() -> Q,
    ) -> Hold {
        let place = self.held.enter(addr, len, write);
        if protect::range_permits(addr, len, write) {
            return place;
        }
        let _quiet = quiet();
        let mut guard = self.lock();
        let state = &mut *guard;
        for id in state.find_range(addr, addr.saturating_add(len)) {
            let Some(e) = state.entries.get(&id) else {
                continue;
            };
            let span = e.clip(addr, len);
            state.note_cpu(id, span.len(), write);
            if let Err(err) = self.open_locked(state, id, span, write) {
                log::error!("cannot open {addr:#x} for a system call: {err:?}");
            }
        }
        place
    }

    /// The same of every block, for a system call that was refused although what is known of its memory is open.
    pub fn open_all_for_io<Q>(&self, quiet: impl FnOnce() -> Q) -> Hold {
        let place = self.held.enter(0, usize::MAX / 2, true);
        let _quiet = quiet();
        let mut guard = self.lock();
        let state = &mut *guard;
        let blocks: Vec<_> = state.entries.iter().map(|(&id, e)| (id, e.block)).collect();
        for (id, block) in blocks {
            let span = Interval::new(0, block.len);
            if host::vanished(&block) || protect::range_permits(block.start, block.len, true) {
                continue;
            }
            if let Err(err) = self.open_locked(state, id, span, true) {
                log::error!("cannot open {:#x} for a system call: {err:?}", block.start);
            }
        }
        place
    }

    /// Ends what [`Cache::open_for_io`] began.
    pub fn io_done(&self, place: &Hold) {
        self.held.leave(place);
    }

    /// Everything home, all validity dropped, everything open. What cannot be brought home (a lost device)
    /// stays closed and is reported as an error after all the rest is done.
    ///
    /// # Errors
    /// The first failure.
    pub fn flush_all(&self) -> Result<(), CacheError> {
        let mut guard = self.lock();
        let State { entries, pools, .. } = &mut *guard;
        let mut result = Ok(());
        for e in entries.values_mut().filter(|e| !host::vanished(&e.block)) {
            let r = self
                .step(e, pools, &Event::Flush, None)
                .and_then(|()| self.settle_host(e));
            match r {
                Ok(()) if e.lost.is_empty() => {
                    let open = e.open_pages(self.gate);
                    if self.gate.traps() && open.is_ok() {
                        e.set_guarded(false);
                    }
                }
                Ok(()) => {}
                Err(err) => result = Err(err),
            }
        }
        result
    }

    /// Before fork: the newest bytes are home (replicas stay valid), and nothing changes until the guard is
    /// dropped.
    pub fn freeze(&'static self) -> Frozen {
        let mut guard = self.lock();
        let State { entries, pools, .. } = &mut *guard;
        for e in entries.values_mut().filter(|e| !host::vanished(&e.block)) {
            if semcache_fault::broken!("break-processes") {
                break;
            }
            let rect = Rect::interval(0, e.block.len);
            let home = self
                .step(e, pools, &Event::Home { rect }, None)
                .and_then(|()| {
                    let mut deps = Deps::default();
                    e.host.ops.deps(&rect, false, &mut deps);
                    Ok(deps.wait(self.backend)?)
                });
            if let Err(err) = home {
                log::error!("before fork: {err:?}");
            }
        }
        Frozen(guard)
    }

    /// In the child of a fork: memory is opened and the devices are never touched again.
    pub fn thaw_child(&self, mut frozen: Frozen) {
        for e in frozen.0.entries.values_mut() {
            // The child's own page tables: nobody else runs here, so the order does not matter.
            if e.lost.is_empty() {
                let _ = e.open_pages(self.gate);
            }
            e.set_guarded(false);
            e.host.ops.clear();
        }
        frozen.0.by_start.clear();
        // Replicas belong to the parent's devices; forgetting them without telling the pools is the point.
        for (_, e) in std::mem::take(&mut frozen.0.entries) {
            std::mem::forget(e);
        }
        self.held.forget();
    }
}

impl super::Entry {
    /// The whole panels of this allocation under a range of addresses.
    pub(crate) fn clip(&self, addr: usize, len: usize) -> Interval {
        let start = addr.max(self.block.start) - self.block.start;
        let end = addr
            .saturating_add(len)
            .min(self.block.start + self.block.len)
            - self.block.start;
        self.dir.panels_around(Interval { start, end })
    }
}

/// Gives all device memory of an allocation back.
pub(crate) fn release_stores(e: &mut super::Entry, pools: &mut [crate::transfer::Pool]) {
    let ids: Vec<_> = e.stores.keys().copied().collect();
    for id in ids {
        super::apply::drop_store(e, pools, id);
    }
}

/// Waits for tickets without holding any lock.
///
/// # Errors
/// A device was lost.
pub fn wait(backend: &dyn Backend, deps: &Deps) -> Result<(), DeviceError> {
    deps.wait(backend)
}
