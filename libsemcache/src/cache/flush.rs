//! Write-back of results to the host: at the end of a call for bytes on pages that are not trapped, and at exit.

use super::HELD;
use super::edges::{PendingCopies, count_edges};
use super::{Cache, CacheError, Entry, State};
use crate::base::{Access, AllocId, Interval, Rect, Spans};
use crate::device::api::{Backend, DeviceError};
use crate::directory::Event;
use crate::host;
use crate::protect;
use crate::transfer::Deps;
use semcache_fault::held::Hold;

/// Up to this number of bytes it takes less time to look at the access of all pages (a nanosecond each) than to ask a device
/// whether copies are complete.
const FEW_BYTES: usize = 4 << 20;

impl Cache {
    /// Ends a call for one operand. Result bytes on pages that the CPU can access at any time are written back to the
    /// host, and replicas drop their bytes on these pages unless the page is write-tracked. Adds to `pending` what the
    /// call has to wait for ([`Cache::arrive`]): these copies, and uploads that still read write-tracked pages.
    ///
    /// # Errors
    /// A copy to the host failed for good.
    pub(super) fn settle_locked(
        &self,
        state: &mut State,
        id: AllocId,
        rect: &Rect,
        pending: &mut PendingCopies,
    ) -> Result<(), CacheError> {
        let State { entries, pools, .. } = state;
        let Some(e) = entries.get_mut(&id) else {
            return Ok(());
        };
        let open = e.dir.untrapped(rect);
        if !open.is_empty() {
            let stale = e.dir.stale();
            let bytes = open
                .iter()
                .flat_map(|part| stale.common(part))
                .map(|r| r.bytes());
            count_edges(e, bytes.sum());
            if !e.dir.tracked_edges().is_empty() {
                let stale = e.dir.stale();
                let landing: Vec<Rect> = open.iter().flat_map(|part| stale.common(part)).collect();
                if !landing.is_empty() {
                    let come = self.land_on_edges(id, e, pools, landing)?;
                    pending.on_edges.push(come);
                }
            }
            self.step(e, pools, &Event::Settle { rect: *rect }, None)?;
        }
        let unprotected = std::mem::take(&mut e.unprotected);
        for (i, &span) in unprotected.iter().enumerate() {
            // The panel is made write-through and protectable again at once: its newest bytes are written back,
            // replicas drop their bytes of it, and its pages are accessible.
            let written = self.step(e, pools, &Event::WriteThrough { span, on: true }, None);
            if let Err(err) = written.and_then(|()| self.end_write_through_of(e, pools, span)) {
                e.unprotected.extend_from_slice(&unprotected[i..]);
                return Err(err);
            }
        }
        self.unguarded(e, rect, &mut pending.deps);
        for span in unprotected {
            e.host.ops.deps(&span.into(), true, &mut pending.deps);
        }
        for come in pending.on_edges.iter_mut().filter(|come| come.id == id) {
            come.version = e.dir.version();
        }
        Ok(())
    }

    /// Collects the tickets of operations over `part` of which page protection does not keep the CPU away: downloads to
    /// pages that it can read, and uploads from pages that it can write. The page table says which these are: a page that a
    /// result shares with other data stays accessible if the result is evicted, and another thread's operand covers the
    /// page then. Pages whose replica a call has evicted may still be protected: the CPU's first access faults, and the
    /// fault waits for the operations over the page.
    fn unguarded(&self, e: &Entry, part: &Rect, out: &mut Deps) {
        let (base, pages) = (e.host.base, part.span().align_out(self.page));
        let mut over = Deps::default();
        e.host.ops.deps(part, true, &mut over);
        // Copies of earlier calls are complete as a rule. For few pages the devices are not asked: that takes longer.
        if over.is_empty() || pages.len() > FEW_BYTES && over.settled(self.backend) {
            return;
        }
        let found =
            semcache_fault::pages::runs(base + pages.start, pages.len(), |from, to, access| {
                if access == Access::None {
                    return;
                }
                let mut pieces = Vec::new();
                part.intersect_into(&Rect::interval(from - base, to - base), &mut pieces);
                for piece in &pieces {
                    e.host.ops.deps(piece, access == Access::ReadWrite, out);
                }
            });
        if found.is_err() {
            e.host.ops.deps(part, true, out);
        }
    }

    /// Removes the entry of a transient operand. The call has waited for the operations over the operand, unless
    /// something failed. After this returns the program may free the memory, so no operation over it may be in flight.
    pub fn finish_transient(&self, id: AllocId) {
        let mut guard = self.lock();
        if let Some(mut e) = guard.remove(id) {
            // An error is ignored: a lost device writes nothing any more.
            let _ = self.settle_host(&mut e);
            release_stores(&mut e, &mut guard.pools);
        }
    }

    /// Writes the newest bytes of `rect` back to the host and makes their panels accessible to the CPU, for writing if
    /// `write`; panels that lie between two columns stay as they are.
    ///
    /// # Errors
    /// The bytes are lost, or a copy failed for good.
    pub fn open(&self, id: AllocId, rect: &Rect, write: bool) -> Result<(), CacheError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(e) = state.entries.get(&id) else {
            return Ok(());
        };
        let panel = e
            .dir
            .panels_around(Interval::new(rect.start, rect.start + 1));
        let spans: Spans = match rect.count > 1 && rect.stride - rect.width > panel.len() {
            true => rect.runs().map(|run| e.dir.panels_around(run)).collect(),
            false => [rect.span()].into_iter().collect(),
        };
        let mut spans = spans.iter();
        spans.try_for_each(|span| self.open_locked(state, id, *span, write))
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

    /// Writes whole panels back and makes them accessible. Replicas on devices that turn out to be lost are given up on
    /// the way; an error if bytes of `needed` were lost with them.
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
        // Whatever actions the directory emitted, the panels must permit the access when this returns.
        self.apply_derived(e, span)?;
        // Some panels could not be made read-only, because a system call that waits for the cache's lock is about to
        // write them. They are made writable, as for that system call, and the replicas drop their bytes of them.
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

    /// Makes `len` bytes at `addr` accessible for a system call that reads (with `write`: writes) them, with the newest
    /// bytes written back first, and keeps their panels from being made inaccessible until [`io_done`]. Takes
    /// the cache's lock only if a page does not permit the access; `quiet` is called before that, and its result is
    /// dropped after the lock.
    pub fn open_for_io<Q>(
        &self,
        addr: usize,
        len: usize,
        write: bool,
        quiet: impl FnOnce() -> Q,
    ) -> Hold {
        let place = HELD.enter(addr, len, write);
        self.open_held(addr, len, write, quiet);
        place
    }

    /// Makes `len` bytes at `addr`, which are noted as in use, accessible, as [`Cache::open_for_io`] does.
    pub fn open_held<Q>(&self, addr: usize, len: usize, write: bool, quiet: impl FnOnce() -> Q) {
        if protect::range_permits(addr, len, write) {
            return;
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
                log::error!("cannot open {addr:#x} for a system call or MPI: {err:?}");
            }
        }
    }

    /// Notes that `len` bytes at `addr`, of which all panels are accessible, were written without a fault: replicas drop what they hold
    /// of the pages. `quiet` is as in [`Cache::open_for_io`].
    pub fn wrote<Q>(&self, addr: usize, len: usize, quiet: impl FnOnce() -> Q) {
        let _quiet = quiet();
        let mut guard = self.lock();
        let state = &mut *guard;
        for id in state.find_range(addr, addr.saturating_add(len)) {
            let State { entries, pools, .. } = &mut *state;
            let Some(e) = entries.get_mut(&id).filter(|e| !host::vanished(&e.block)) else {
                continue;
            };
            let pages = vec![e.clip(addr, len).align_out(self.page)];
            if let Err(err) = self.step(e, pools, &Event::Dirty { pages }, None) {
                log::error!("cannot drop copies of {addr:#x}: {err:?}");
            }
        }
    }

    /// Makes all panels of all blocks accessible, as [`Cache::open_for_io`] does, for a system call that the kernel
    /// refused although its buffers, as far as the runtime knows them, are accessible.
    pub fn open_all_for_io<Q>(&self, quiet: impl FnOnce() -> Q) -> Hold {
        let place = HELD.enter(0, usize::MAX / 2, true);
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

    /// Writes back the newest bytes of all blocks, drops what replicas hold, and makes all pages accessible. A block
    /// with bytes that cannot be written back (their device is lost) stays inaccessible; its error is returned after
    /// all other blocks are done.
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
}

/// Ends what [`Cache::open_for_io`] began: the panels of the buffer may be made inaccessible again.
pub fn io_done(place: &Hold) {
    HELD.leave(place);
}

impl super::Entry {
    /// The whole panels of this allocation that overlap a range of addresses.
    pub(crate) fn clip(&self, addr: usize, len: usize) -> Interval {
        let start = addr.max(self.block.start) - self.block.start;
        let end = addr
            .saturating_add(len)
            .min(self.block.start + self.block.len)
            - self.block.start;
        self.dir.panels_around(Interval { start, end })
    }
}

/// Returns the device memory of all replicas of an allocation to the pools.
pub(crate) fn release_stores(e: &mut super::Entry, pools: &mut [crate::transfer::Pool]) {
    let ids: Vec<_> = e.stores.keys().copied().collect();
    for id in ids {
        super::apply::drop_store(e, pools, id);
    }
}

/// Waits for tickets. The caller holds no lock.
///
/// # Errors
/// A device was lost.
pub fn wait(backend: &dyn Backend, deps: &Deps) -> Result<(), DeviceError> {
    deps.wait(backend)
}
