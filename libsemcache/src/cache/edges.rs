//! Shared pages: the first and last page of an operand, which may hold other data of the program.
//!
//! Shared pages are never made inaccessible or read-only ([`crate::directory`], R16). They are write-tracked before any
//! of their bytes are uploaded (`Cache::track_edges`), whatever the block's use so far, and the directory is told
//! ([`Event::WriteTrack`]): what replicas hold of these pages stays valid beyond the call.
//!
//! Result bytes on shared pages are written back before the call returns. That copy marks the page as written, and so
//! does a thread of the program that writes other data on the page meanwhile. If replicas hold some of that other data,
//! the page's contents tell the two writers apart: before the copy begins, the page is read, then a scan collects and
//! clears its mark (`Cache::beside`). After the copy a second scan collects the mark, and the page is compared with
//! what was read (`Cache::landed_on_edges`). A byte of other data that is unchanged still equals what replicas hold of
//! it, since
//!
//! * a write before the first scan shows in that scan, and replicas drop everything on the page;
//! * a write between the two scans shows in the comparison, unless it left the same value. Then the same value is what
//!   replicas hold, unless another thread's call has uploaded a different one meanwhile: a changed version of the directory
//!   shows that, and the page counts as changed;
//! * a write after the second scan shows in the next scan.
//!
//! A system call that is reading into the page writes through pages that the kernel has pinned and marked beforehand
//! (direct I/O): while one runs, the page counts as changed.
//!
//! Result bytes are not compared: the program does not write a call's result while the call runs.
#![expect(unsafe_code, reason = "reads pages of the program")]

use std::sync::atomic::Ordering;

use log::debug;

use super::HELD;
use super::copied::copied;
use super::scans::Choice;
use super::{Cache, CacheError, Entry, State};
use crate::base::counters::PAGE;
use crate::base::{Access, AllocId, Interval, Rect, RectSet, Spans};
use crate::directory::Event;
use crate::transfer::{Deps, Pool};

/// The most ranges of shared pages that are write-tracked for one operand. A contiguous operand has its first and last
/// page; a strided vector may have a page for each element, and bytes on such pages are uploaded by each call instead.
const MOST_EDGES: usize = 4;

/// The most ranges of write-tracked pages in a block. Before shared pages of a further operand would exceed it, write
/// tracking of all shared pages of the block ends.
const MOST_WRITE_TRACKED: usize = 128;

/// The copies that the end of a call waits for.
#[derive(Debug, Default)]
pub struct PendingCopies {
    /// Write-backs in flight, and uploads that still read write-tracked pages.
    pub deps: Deps,
    pub(super) on_edges: Vec<OnEdges>,
}

/// Counts bytes of results that are written back before a call returns.
pub(super) fn count_edges(e: &Entry, bytes: usize) {
    if bytes > 0
        && let Some(matrix) = PAGE.matrices.known(e.block.start)
    {
        matrix.edges.add(bytes as u64);
    }
}

/// Result bytes of one operand that are written back to write-tracked shared pages.
#[derive(Debug)]
pub(super) struct OnEdges {
    pub(super) id: AllocId,
    /// The version of the block's directory when the write-backs were queued.
    pub(super) version: u64,
    landing: Vec<Rect>,
    /// Those of the shared pages of which replicas hold bytes other than the result's.
    shared: Vec<Shared>,
}

/// A range of write-tracked pages and their contents before a write-back; `None` if the contents could not be read.
#[derive(Debug)]
struct Shared {
    pages: Interval,
    before: Option<Vec<u8>>,
}

impl Cache {
    /// Before a call uses an operand: write-tracks the pages that the operand shares with other data, so that what
    /// replicas hold of these pages stays valid from now on. Where pages cannot be write-tracked, their bytes are
    /// uploaded by each call.
    pub(super) fn track_edges(
        &self,
        e: &mut Entry,
        pools: &mut [Pool],
        rect: &Rect,
    ) -> Result<(), CacheError> {
        if self.scanner.choice == Choice::Never || e.scans.refused || !self.traps() {
            return Ok(());
        }
        let open = e.dir.not_write_tracked(e.dir.untrapped(rect));
        let pages = open.iter().map(|part| part.span().align_out(self.page));
        let mut pages: Spans = pages
            .map(|pages| pages.intersect(e.dir.tracked()))
            .collect();
        for through in e.dir.write_through().iter().flat_map(Rect::runs) {
            pages.remove(through);
        }
        if pages.is_empty() || pages.len() > MOST_EDGES || self.scanner.tracker().is_none() {
            return Ok(());
        }
        self.scanner.used.store(true, Ordering::Relaxed);
        e.set_guarded(true);
        if e.scans.write_tracked.len() + pages.len() > MOST_WRITE_TRACKED {
            self.untrack_edges(e, pools)?;
            if e.scans.write_tracked.len() + pages.len() > MOST_WRITE_TRACKED {
                return Ok(());
            }
        }
        for &run in pages.iter() {
            // Replicas hold nothing valid on these pages, so no mark of an earlier write is lost.
            if let Err(err) = self.mark(e, run) {
                let base = e.host.base;
                debug!("{base:#x}: what is sent of shared pages is sent again: {err}");
                e.scans.refuse();
                return Ok(());
            }
            e.scans.write_tracked.insert(&Rect::from(run));
            let (pages, on) = (run, true);
            self.step(e, pools, &Event::WriteTrack { pages, on }, None)?;
        }
        Ok(())
    }

    /// After an event was taken back, which may have protected shared pages and ended their write tracking: the directory
    /// calls them write-tracked, so they are tracked again. They are still protected; what was written before that is in
    /// [`super::scans::Scans::dirt`].
    pub(super) fn track_edges_again(&self, e: &mut Entry) {
        if e.dir.tracked_edges().is_empty() {
            return;
        }
        let edges = e.dir.tracked_edges().clone();
        for pages in edges.iter().map(|&run| Rect::from(run)) {
            for part in e.scans.write_tracked.missing(&pages) {
                e.scans.write_tracked.insert(&part);
                if self.mark(e, part.span()).is_err() {
                    // All write-tracked pages count as written, and write tracking of the block ends.
                    e.scans.refuse();
                }
            }
        }
    }

    /// Replicas drop their bytes of the block's shared pages, and these pages are not write-tracked any more.
    fn untrack_edges(&self, e: &mut Entry, pools: &mut [Pool]) -> Result<(), CacheError> {
        let edges = e.dir.tracked_edges().clone();
        let (pages, on) = (e.dir.tracked(), false);
        self.step(e, pools, &Event::WriteTrack { pages, on }, None)?;
        for &run in edges.iter() {
            e.scans.untrack(run);
        }
        Ok(())
    }

    /// Before result bytes are written back to write-tracked pages: reads the contents of those pages of which replicas
    /// hold other bytes. The caller scans the pages next, before any byte is copied.
    pub(super) fn beside(&self, id: AllocId, e: &Entry, landing: Vec<Rect>) -> OnEdges {
        let own: RectSet = landing.iter().copied().collect();
        let around = landing.iter().map(|rect| rect.span().align_out(self.page));
        let pages: Spans = around
            .flat_map(|pages| e.dir.tracked_edges().within(pages))
            .collect();
        let shared = pages.iter().filter(|run| {
            let others = own.missing(&Rect::from(**run));
            others.iter().any(|rect| e.dir.held(rect))
        });
        let shared = shared.map(|&pages| Shared {
            pages,
            before: read(e.host.base, pages),
        });
        OnEdges {
            id,
            version: e.dir.version(),
            shared: shared.collect(),
            landing,
        }
    }

    /// As [`Cache::beside`], for result bytes that a device has just written; also scans the pages, and replicas drop
    /// what the CPU wrote there.
    ///
    /// # Errors
    /// A device is lost.
    pub(super) fn land_on_edges(
        &self,
        id: AllocId,
        e: &mut Entry,
        pools: &mut [Pool],
        landing: Vec<Rect>,
    ) -> Result<OnEdges, CacheError> {
        let come = self.beside(id, e, landing);
        for shared in &come.shared {
            let mut found = self.written(e, shared.pages);
            e.scans.dirt.append(&mut found);
        }
        self.drop_dirt(e, pools)?;
        Ok(come)
    }

    /// Waits, without the lock, for the write-backs and uploads that must be complete before a call returns. Then
    /// replicas drop bytes other than the result's on pages that a write-back reached, if the CPU wrote these bytes
    /// meanwhile.
    ///
    /// # Errors
    /// A copy failed, or a device is lost.
    pub fn arrive(&self, pending: &PendingCopies) -> Result<(), CacheError> {
        pending.deps.wait(self.backend)?;
        for come in &pending.on_edges {
            let of_block = pending.on_edges.iter().filter(|other| other.id == come.id);
            let own: RectSet = of_block
                .flat_map(|other| other.landing.iter().copied())
                .collect();
            self.landed_on_edges(come, &own)?;
        }
        Ok(())
    }

    /// After result bytes were written back to shared pages, and before the call returns: replicas drop other bytes of
    /// these pages that the CPU wrote meanwhile. `own` are all result bytes of the call that were written back to
    /// write-tracked pages of the block.
    fn landed_on_edges(&self, come: &OnEdges, own: &RectSet) -> Result<(), CacheError> {
        let mut guard = self.lock();
        let State { entries, pools, .. } = &mut *guard;
        let Some(e) = entries.get_mut(&come.id) else {
            return Ok(());
        };
        for rect in &come.landing {
            let found = self.written(e, rect.span());
            if e.scans.refused {
                // After a failed scan nothing is known of any page: `drop_dirt` takes all write-tracked pages for
                // written.
                break;
            }
            for run in found {
                let mut others = own.missing(&run.into());
                others.retain(|rect| e.dir.held(rect));
                let (addr, len) = (e.host.base + run.start, run.len());
                let certain =
                    e.dir.version() != come.version || HELD.forbids(addr, len, Access::Read);
                if !others.is_empty() && (certain || come.changed(e, run, &others)) {
                    e.scans.dirt.extend(others.iter().flat_map(Rect::runs));
                }
            }
        }
        self.drop_dirt(e, pools)?;
        Ok(())
    }
}

impl OnEdges {
    /// Whether the bytes `others`, on the pages of `run`, may differ from what they were before the write-back.
    fn changed(&self, e: &Entry, run: Interval, others: &[Rect]) -> bool {
        let Some(shared) = self.shared.iter().find(|shared| shared.pages.encloses(run)) else {
            return true;
        };
        let (Some(before), Some(now)) = (&shared.before, read(e.host.base, run)) else {
            return true;
        };
        let differs = |part: Interval| {
            let at = |origin: usize| part.start - origin..part.end - origin;
            before.get(at(shared.pages.start)) != now.get(at(run.start))
        };
        others.iter().flat_map(Rect::runs).any(differs)
    }
}

/// Reads these bytes of a block; `None` if a load faults.
fn read(base: usize, span: Interval) -> Option<Vec<u8>> {
    let mut bytes = vec![0; span.len()];
    let to = bytes.as_mut_ptr().expose_provenance();
    // SAFETY: bytes of the block, or the load faults; `bytes` has room for them, and lies in the runtime's own memory. Signals are
    // blocked where calls run on devices. Other threads of the program may write to the source meanwhile: any mixture of old and new
    // bytes will do, since the comparison or the next scan finds the new ones.
    let done = unsafe { copied(base + span.start, to, span.len()) };
    done.then_some(bytes)
}
