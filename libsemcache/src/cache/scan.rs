//! Inputs whose panels are armed rather than read-only: what the CPU wrote is asked for before the next use.
//!
//! An entry may be *scanned* (`Scans::on`): a panel that the directory limits to `Read` is then left writable and
//! armed ([`WpAsync`](crate::protect::WpAsync)), and a scan tells later which of its pages were written. Only these are dropped from the
//! replicas ([`Event::Dirty`]), so only these are sent again. Results (state G) are closed as always.
//!
//! # Why no written byte is missed
//!
//! That a byte is valid in a replica, and not stale, means that the host's byte is the same, *unless its page is armed
//! and marked written*. Whoever relies on it scans first:
//!
//! * **A call**, of all its operands' bytes, before it is decided upon ([`Cache::survey`]; a remembered one under the
//!   lock that it launches under, `hot`). The program must not write operands while the call runs, so what the scan
//!   found holds for the whole call, however many tasks it has. Other threads may write bytes beside the operands,
//!   in the same pages even: those bytes the call neither sends nor uses, and their pages are marked for the next
//!   scan.
//! * **A scan** takes the marks away, so what it found goes to every replica before anything else is done (R13). If that
//!   fails, it is kept in `dirt` and tried again by the next.
//! * **Arming** comes before the copy. A byte becomes valid by being sent as an operand, and its page is armed by then.
//!   A page that is armed already and was written since is scanned by the same call.
//! * **Closing** a panel: it is closed first, then scanned for what was written until then, which goes to `dirt`. Those
//!   are bytes beside the operands of the call that closes it. A closed panel is not armed: what comes home may leave
//!   marks. **Opening** it: everything in flight over it has landed, it is armed while it is closed, then opened.
//! * **Sending** is not trapped: a byte that the CPU writes while it is sent would reach the device torn, or too new.
//!   So a call waits at its end until what it sent from armed panels was read ([`Cache::settle`]).
//! * **Panels beyond use**: writing home touches stale bytes only, evicting and dropping need no equality, and what is
//!   brought home from a panel was closed.
//!
//! A system call that began before a scan and writes after it through pages that it holds (direct input) was reported
//! when it took hold of the pages: the bytes are dropped then, and nobody sends them until the call is over.
//!
//! An error of a scan means that everything armed was written: it is dropped and page protection takes over. So does a
//! block that is resized; the marks of one that is freed are taken away.
//!
//! # Which blocks
//!
//! By default those of which the CPU rewrites a little between calls, over and over (`history`); their panels change
//! over one by one, as they are written or sent. One that is rewritten for the most part goes back: a
//! first write to an armed page costs 0.7 us and splits a huge page, a fault of a read-only panel opens all of it.

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

/// Ranges of written pages beyond which they are counted by panels.
const FINE: usize = 128;

impl Cache {
    /// Chooses which blocks are scanned. Whether it can be done, if for all.
    pub fn scan(&mut self, choice: Choice) -> bool {
        self.scanner.choice = choice;
        choice != Choice::Always || self.scanner.watch().is_some()
    }

    /// A block becomes known.
    pub(super) fn new_scans(&self, tracked: Interval) -> Scans {
        let on = self.scanner.choice == Choice::Always
            && !tracked.is_empty()
            && self.scanner.watch().is_some();
        self.scanner.used.fetch_or(on, Ordering::Relaxed);
        Scans {
            on,
            ..Scans::default()
        }
    }

    /// A call is about to use these bytes: drops from the replicas what the CPU has written of them, and of their
    /// pages, where that is not trapped. Whether it was anything.
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
        // What the program does with other data on an operand's pages says nothing of the operand.
        let beside = found.iter().map(|run| {
            e.dir
                .watched()
                .within(*run)
                .map(Interval::len)
                .sum::<usize>()
        });
        let beside: usize = beside.sum();
        e.scans.dirt.append(&mut found);
        let bytes = self.drop_dirt(e, pools)?;
        if bytes > beside {
            state.note_cpu(id, bytes - beside, true);
        }
        Ok(bytes > 0)
    }

    /// Tells every replica what was found written. How much it was.
    pub(super) fn drop_dirt(&self, e: &mut Entry, pools: &mut [Pool]) -> Result<usize, CacheError> {
        let ended = e.scans.refused && !e.scans.armed.is_empty();
        if ended {
            // Besides what was found when panels were closed.
            let armed = e.scans.armed.iter().flat_map(Rect::runs);
            e.scans.dirt.extend(armed);
        }
        if e.scans.dirt.is_empty() {
            return Ok(0);
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
                // The marks are gone; this is all that is known.
                e.scans.dirt = dirt;
                return Err(err);
            }
        }
        COUNTERS.gate.kept.add(e.held_beside(&dirt) as u64);
        if ended {
            self.end_marks(e);
        }
        Ok(bytes)
    }

    /// The armed pages of `span` that were written since they were armed or scanned; they are armed anew. After an error
    /// that is all of them.
    pub(super) fn written(&self, e: &mut Entry, span: Interval) -> Vec<Interval> {
        let runs = e.armed_in(span.align_out(self.page));
        let mut found = Vec::new();
        let base = e.host.base;
        for run in &runs {
            let result = match self.scanner.watch() {
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

    /// Arms panels that are to be limited to reading, and leaves them open. `None`: that is to be done by protection.
    pub(super) fn arm(
        &self,
        e: &mut Entry,
        span: Interval,
    ) -> Result<Option<Result<(), GateError>>, CacheError> {
        if !e.scans.on {
            return Ok(None);
        }
        let rect = Rect::from(span);
        let fresh = e.scans.armed.missing(&rect);
        if !fresh.is_empty() {
            let mut deps = Deps::default();
            for part in &fresh {
                e.host.ops.deps(part, true, &mut deps);
            }
            deps.wait(self.backend)?;
            e.host.ops.prune(self.backend);
        }
        for run in fresh.iter().flat_map(Rect::runs) {
            if let Err(err) = self.mark(e, run) {
                debug!("{:#x} is watched by page protection: {err}", e.host.base);
                e.scans.refuse();
                return Ok(None);
            }
        }
        e.set_guarded(true);
        let addr = e.host.base + span.start;
        let open = self.gate.apply(addr, span.len(), Access::ReadWrite);
        if open.is_ok() {
            e.scans.armed.insert(&rect);
        }
        Ok(Some(open))
    }

    pub(super) fn mark(&self, e: &mut Entry, run: Interval) -> rustix::io::Result<()> {
        let watch = self.scanner.watch().ok_or(rustix::io::Errno::NOSYS)?;
        if e.scans.registered.is_none() {
            let all = e.dir.tracked();
            watch.register(e.host.base + all.start, all.len())?;
            e.scans.registered = Some(all);
        }
        watch.arm(e.host.base + run.start, run.len())
    }

    /// Pages were limited by protection: what was written until then is remembered.
    pub(super) fn closed(&self, e: &mut Entry, span: Interval) {
        if !e.scans.armed.overlaps(&Rect::from(span)) {
            return;
        }
        let mut found = self.written(e, span);
        e.scans.dirt.append(&mut found);
        e.scans.disarm(span);
    }

    /// Everything that is armed is dropped, and page protection watches the block from here on.
    pub(super) fn end_scans(&self, e: &mut Entry, pools: &mut [Pool]) -> Result<(), CacheError> {
        let again = e.scans.refused;
        e.scans.refuse();
        self.drop_dirt(e, pools)?;
        self.end_marks(e);
        e.scans.refused = again;
        Ok(())
    }

    /// The block's pages are about to be others: all begins anew.
    pub(super) fn renew_scans(&self, e: &mut Entry, pools: &mut [Pool]) -> Result<(), CacheError> {
        let on = e.scans.on;
        if e.scans.registered.is_some() {
            self.end_scans(e, pools)?;
            e.scans.on = on;
        }
        Ok(())
    }

    /// Takes the marks off the pages; nothing is valid any more where there were any.
    pub(super) fn end_marks(&self, e: &mut Entry) {
        e.scans.armed.clear();
        if !e.dir.watched().is_empty() {
            e.dir.forget_watched();
        }
        if let Some(all) = e.scans.registered.take()
            && let Some(watch) = self.scanner.watch()
        {
            watch.unregister(e.host.base + all.start, all.len());
        }
    }

    /// A call is about to read a block: whether it is watched by scans, after its history had a say.
    pub(super) fn choose_scans(&self, state: &mut State, id: AllocId) -> bool {
        let State {
            entries,
            pools,
            history,
            ..
        } = state;
        let (Some(e), Some(h)) = (entries.get_mut(&id), history.get(&id)) else {
            return false;
        };
        if self.scanner.choice == Choice::ByHistory {
            if e.scans.on && h.refilled() {
                if let Err(err) = self.end_scans(e, pools) {
                    warn!("a block stays watched by scans: {err:?}");
                }
            } else if !e.scans.on
                && !e.scans.refused
                && h.patched()
                && h.unwatched().is_none()
                && !e.dir.tracked().is_empty()
                && self.scanner.watch().is_some()
            {
                debug!("{:#x} is watched by scans", e.host.base);
                e.scans.on = true;
                self.scanner.used.store(true, Ordering::Relaxed);
            }
        }
        e.scans.on
    }
}

impl Entry {
    fn armed_in(&self, span: Interval) -> Vec<Interval> {
        let common = self.scans.armed.common(&Rect::from(span));
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

    /// The panels that hold these bytes, in ascending order as they are.
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

    /// Bytes that replicas hold in the panels of these parts.
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
