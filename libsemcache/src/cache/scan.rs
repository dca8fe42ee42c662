//! Dirty tracking of inputs: pages stay writable and write-tracked instead of read-only, and before their next use a
//! scan reports which of them the CPU wrote.
//!
//! In an entry with `Scans::on`, a panel that the directory restricts to `Read` stays writable and is write-tracked
//! ([`WpAsync`](crate::protect::WpAsync)). Before the next use PAGEMAP_SCAN collects the pages that were written. Replicas
//! drop only the bytes of these pages ([`Event::Dirty`]), so only these are uploaded again. Panels with results whose newest
//! copy is on a device (state G) are made inaccessible, as without dirty tracking.
//!
//! # Why no written byte is missed
//!
//! A byte that is valid in a replica and not stale is the same on the host, *unless its page is write-tracked and
//! marked written*. Code that relies on the two being the same scans first:
//!
//! * **A call** scans the pages of all its operands before the offload decision ([`Cache::survey`]; a replayed call
//!   scans under the lock that it launches under, `hot`). The program must not write operands while the call runs, so
//!   what the scan found holds for the whole call, however many tasks the call has. Other threads may write bytes
//!   beside the operands, in the same pages even: the call neither uploads nor uses those bytes, and their pages are
//!   marked for the next scan.
//! * **A scan** clears the marks, so every replica drops the bytes of the pages found before anything else is done
//!   (R13). If that fails, the pages are kept in `dirt`, and the next scan tries again.
//! * **Write tracking begins** before the upload. A byte becomes valid by being uploaded as part of an operand, and its
//!   page is write-tracked by then. A page that was write-tracked before and written since is scanned by the same call.
//! * **Making a panel inaccessible**: the panel is made inaccessible first, then scanned; pages written until then go
//!   to `dirt`. Their written bytes lie beside the operands of the call that makes the panel inaccessible. An
//!   inaccessible panel is not write-tracked: copies to the host may mark its pages. **Making it accessible** again:
//!   all copies in flight over it have completed, it is write-tracked while it is inaccessible (perhaps before they have
//!   completed: then they mark it), then made accessible.
//! * **Uploading** is not trapped: a byte that the CPU writes during the upload would reach the device torn, or too
//!   new. So a call waits at its end until its uploads from write-tracked panels have been read ([`Cache::settle`]).
//! * **Steps other than use** need no scan: write-back copies stale bytes only, to panels that are inaccessible, and
//!   eviction and dropping do not rely on host and replica being the same.
//!
//! A system call that began before a scan may write after the scan, through pages that the kernel has pinned for it
//! (direct I/O). The pages were marked when the system call pinned them: the scan finds them, replicas drop their
//! bytes, and these are not uploaded until the system call is over.
//!
//! If a scan fails, all write-tracked bytes count as written: replicas drop them, and page protection traps writes from
//! then on. The same happens to a block that is resized; a freed block's pages are unregistered.
//!
//! # Which blocks
//!
//! By default, blocks of which the CPU rewrites a small part between calls, again and again (`policy::inputs`); their panels
//! become write-tracked one by one, as they are written or uploaded. A block that is mostly rewritten, or of which replicas keep less in
//! the panels around the written pages than was written, goes back to page protection: a first write to a write-tracked page costs 0.7 to
//! 1.4 us and splits a huge page, while one fault makes a whole read-only panel writable.

use std::sync::atomic::Ordering;

use log::{debug, warn};
use semcache_fault::broken;

pub use super::scans::Choice;
use super::scans::Scans;
use super::{Cache, CacheError, Entry, State};
use crate::base::counters::{COUNTERS, Degraded, degrade};
use crate::base::{Access, AllocId, Interval, Rect};
use crate::directory::Event;
use crate::protect::GateError;
use crate::transfer::{Deps, Pool};

/// If a scan finds more ranges of written pages than this, replicas drop the whole panels around them.
const FINE: usize = 128;

impl Cache {
    /// Chooses which blocks are write-tracked. Returns false if all are to be and the kernel cannot do it.
    pub fn scan(&mut self, choice: Choice) -> bool {
        self.scanner.choice = choice;
        choice != Choice::Always || self.scanner.tracker().is_some()
    }

    /// The dirty tracking of a new entry.
    pub(super) fn new_scans(&self, tracked: Interval) -> Scans {
        let on = self.scanner.choice == Choice::Always
            && !tracked.is_empty()
            && self.scanner.tracker().is_some();
        self.scanner.used.fetch_or(on, Ordering::Relaxed);
        Scans {
            on,
            ..Scans::default()
        }
    }

    /// As [`Cache::survey`] does before a call uses these bytes: if pages of the block are write-tracked, replicas drop those that the CPU
    /// has dirtied since the last scan.
    ///
    /// # Errors
    /// A device is lost.
    pub fn inspect(&self, id: AllocId, span: Interval) -> Result<(), CacheError> {
        self.inspect_locked(&mut self.lock(), id, span).map(drop)
    }

    /// Before a call uses these bytes: if pages of the allocation are write-tracked, PAGEMAP_SCAN collects those of
    /// `span` dirtied since the last scan, and replicas drop the bytes of these pages. Returns whether pages were
    /// dirty.
    ///
    /// # Errors
    /// A device is lost. The call must not run on devices.
    pub(super) fn inspect_locked(
        &self,
        state: &mut State,
        id: AllocId,
        span: Interval,
    ) -> Result<bool, CacheError> {
        if !self.scanner.used.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let State { entries, pools, .. } = &mut *state;
        let Some(e) = entries.get_mut(&id).filter(|e| !e.scans.idle()) else {
            return Ok(false);
        };
        let mut found = self.written(e, span);
        // The program's writes to other data on an operand's pages say nothing of how the program uses the operand's
        // block.
        let beside = found.iter().map(|run| {
            e.dir
                .tracked_edges()
                .within(*run)
                .map(Interval::len)
                .sum::<usize>()
        });
        let beside: usize = beside.sum();
        e.scans.dirt.append(&mut found);
        let (bytes, kept) = self.drop_dirt(e, pools)?;
        let len = e.block.len;
        if bytes > beside {
            state.note_cpu(id, bytes - beside, true);
            state.uses.scanned(id, bytes - beside, kept, len);
        }
        Ok(bytes > 0)
    }

    /// Replicas drop the bytes of all pages found written. Returns how many bytes the pages have, and how many replicas keep in the panels
    /// around them.
    pub(super) fn drop_dirt(
        &self,
        e: &mut Entry,
        pools: &mut [Pool],
    ) -> Result<(usize, usize), CacheError> {
        let ended = e.scans.refused && !e.scans.write_tracked.is_empty();
        if ended {
            // After a failed scan all write-tracked pages count as written, besides those found when panels were made
            // inaccessible.
            let write_tracked = e.scans.write_tracked.iter().flat_map(Rect::runs);
            e.scans.dirt.extend(write_tracked);
        }
        if e.scans.dirt.is_empty() {
            return Ok((0, 0));
        }
        let mut dirt = std::mem::take(&mut e.scans.dirt);
        dirt.sort_unstable_by_key(|i| i.start);
        let bytes = dirt.iter().map(|i| i.len()).sum();
        COUNTERS.gate.written.add(bytes as u64);
        if !broken!("break-gate") {
            let pages = if dirt.len() > FINE {
                e.by_panels(&dirt)
            } else {
                dirt.clone()
            };
            let event = Event::Dirty { pages };
            if let Err(err) = self.step(e, pools, &event, None) {
                // The scan has cleared the kernel's marks, so this list is the only record of the written pages.
                e.scans.dirt = dirt;
                return Err(err);
            }
        }
        let kept = e.held_beside(&dirt);
        COUNTERS.gate.kept.add(kept as u64);
        if ended {
            self.end_marks(e);
        }
        Ok((bytes, kept))
    }

    /// Scans `span`: returns its write-tracked pages that were written since the last scan or since tracking began, and
    /// tracks them anew. If the scan fails, returns all write-tracked pages of `span`.
    pub(super) fn written(&self, e: &mut Entry, span: Interval) -> Vec<Interval> {
        let runs = e.write_tracked_in(span.align_out(self.page));
        let mut found = Vec::new();
        let base = e.host.base;
        for run in &runs {
            let result = match self.scanner.tracker() {
                Some(w) => w.scan(base + run.start, run.len(), &mut found),
                None => Err(rustix::io::Errno::BADF),
            };
            if let Err(err) = result {
                debug!("scanning {:#x}: {err}", base + run.start);
                degrade(Degraded::NoGate);
                e.scans.refuse();
                return runs;
            }
        }
        for i in &mut found {
            *i = Interval::new(i.start - base, i.end - base);
        }
        found
    }

    /// Write-tracks panels that are to be restricted to reading, and leaves them accessible. `None`: page protection
    /// has to make them read-only.
    pub(super) fn write_track(
        &self,
        e: &mut Entry,
        span: Interval,
    ) -> Result<Option<Result<(), GateError>>, CacheError> {
        if !e.scans.on {
            return Ok(None);
        }
        let rect = Rect::from(span);
        let fresh = e.scans.write_tracked.missing(&rect);
        let mut deps = Deps::default();
        for part in &fresh {
            e.host.ops.deps(part, true, &mut deps);
        }
        // A page may be write-tracked while it is protected: a result or an input was evicted before the copies of its bytes
        // were complete, and then an operand that shares the page with other data was used.
        let (addr, ops) = (e.host.base + span.start, &e.host.ops);
        let protected = semcache_fault::pages::runs(addr, span.len(), |from, to, access| {
            if access != Access::ReadWrite {
                let pages = Rect::interval(from - e.host.base, to - e.host.base);
                ops.deps(&pages, true, &mut deps);
            }
        });
        if protected.is_err() {
            ops.deps(&rect, true, &mut deps);
        }
        if !deps.is_empty() {
            deps.wait(self.backend)?;
            e.host.ops.prune(self.backend);
        }
        for run in fresh.iter().flat_map(Rect::runs) {
            if let Err(err) = self.mark(e, run) {
                debug!(
                    "{:#x} is made read-only, since it cannot be write-tracked: {err}",
                    e.host.base
                );
                e.scans.refuse();
                return Ok(None);
            }
        }
        e.set_guarded(true);
        let open = self.gate.apply(addr, span.len(), Access::ReadWrite);
        if open.is_ok() {
            e.scans.write_tracked.insert(&rect);
        }
        Ok(Some(open))
    }

    pub(super) fn mark(&self, e: &mut Entry, run: Interval) -> rustix::io::Result<()> {
        let tracker = self.scanner.tracker().ok_or(rustix::io::Errno::NOSYS)?;
        if e.scans.registered.is_none() {
            let all = e.dir.tracked();
            tracker.register(e.host.base + all.start, all.len())?;
            e.scans.registered = Some(all);
        }
        tracker.track(e.host.base + run.start, run.len())
    }

    /// After page protection restricted pages: notes which of them were written before that, and ends their write
    /// tracking.
    pub(super) fn closed(&self, e: &mut Entry, span: Interval) {
        if !e.scans.write_tracked.overlaps(&Rect::from(span)) {
            return;
        }
        let mut found = self.written(e, span);
        e.scans.dirt.append(&mut found);
        e.scans.untrack(span);
    }

    /// Ends dirty tracking of a block: replicas drop the bytes of all write-tracked pages, and page protection traps
    /// writes from here on.
    pub(super) fn end_scans(&self, e: &mut Entry, pools: &mut [Pool]) -> Result<(), CacheError> {
        let again = e.scans.refused;
        e.scans.refuse();
        self.drop_dirt(e, pools)?;
        self.end_marks(e);
        e.scans.refused = again;
        Ok(())
    }

    /// Before pages of the block are replaced by others: replicas drop the bytes of all write-tracked pages, and the
    /// pages are unregistered. New pages are registered when they are next used.
    pub(super) fn renew_scans(&self, e: &mut Entry, pools: &mut [Pool]) -> Result<(), CacheError> {
        let on = e.scans.on;
        if e.scans.registered.is_some() {
            self.end_scans(e, pools)?;
            e.scans.on = on;
        }
        Ok(())
    }

    /// Unregisters the block's pages from write tracking. After this, replicas hold nothing valid of shared pages.
    pub(super) fn end_marks(&self, e: &mut Entry) {
        e.scans.write_tracked.clear();
        if !e.dir.tracked_edges().is_empty() {
            e.dir.forget_tracked_edges();
        }
        if let Some(all) = e.scans.registered.take()
            && let Some(tracker) = self.scanner.tracker()
        {
            tracker.unregister(e.host.base + all.start, all.len());
        }
    }

    /// Before a call reads a block: begins or ends dirty tracking of the block, by its use so far. Returns whether it is
    /// on.
    pub(super) fn choose_scans(&self, state: &mut State, id: AllocId) -> bool {
        let State {
            entries,
            pools,
            uses,
            ..
        } = state;
        let Some(e) = entries.get_mut(&id) else {
            return false;
        };
        if self.scanner.choice == Choice::ByUse {
            if e.scans.on && uses.tracking_loses(id) {
                match self.end_scans(e, pools) {
                    Ok(()) => uses.end_write_tracking(id),
                    Err(err) => warn!("a block stays write-tracked: {err:?}"),
                }
            } else if !e.scans.on
                && !e.scans.refused
                && uses.patched(id)
                && !e.dir.tracked().is_empty()
                && self.scanner.tracker().is_some()
            {
                debug!("{:#x} is write-tracked", e.host.base);
                e.scans.on = true;
                self.scanner.used.store(true, Ordering::Relaxed);
            }
        }
        e.scans.on
    }
}

impl Entry {
    fn write_tracked_in(&self, span: Interval) -> Vec<Interval> {
        let common = self.scans.write_tracked.common(&Rect::from(span));
        let mut runs: Vec<Interval> = common.iter().flat_map(Rect::runs).collect();
        runs.sort_by_key(|i| i.start);
        runs.dedup_by(|next, last| {
            let follows = last.end == next.start;
            if follows {
                last.end = next.end;
            }
            follows
        });
        runs
    }

    /// The panels that overlap these ranges. The ranges are in ascending order, and so are the panels.
    fn by_panels(&self, parts: &[Interval]) -> Vec<Interval> {
        let mut panels: Vec<Interval> = Vec::new();
        for part in parts {
            let span = self.dir.panels_around(*part);
            match panels.last_mut() {
                Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
                _ => panels.push(span),
            }
        }
        panels
    }

    /// The number of bytes that replicas hold in the panels of these ranges.
    fn held_beside(&self, parts: &[Interval]) -> usize {
        let panels = self.by_panels(parts);
        let mut bytes = 0;
        for (_, r) in self.dir.replicas() {
            for panel in &panels {
                let held = r.valid.common(&Rect::from(*panel));
                bytes += held.iter().map(Rect::bytes).sum::<usize>();
            }
        }
        bytes
    }
}
