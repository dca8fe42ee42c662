//! Pages that an operand shares with other data of the program.
//!
//! The first and last page of an operand may hold other data, so they stay open ([`crate::directory`], R16). They are armed
//! before any of their bytes are sent (`Cache::watch_edges`), whatever the block's history, and the directory is told
//! ([`Event::Watch`]): what devices hold of them stays valid beyond the call.
//!
//! What a call writes there is copied home before the call returns. That copy marks the page as written, and so does a thread of
//! the program that writes other data there meanwhile. If devices hold some of that other data, the two are told apart
//! by what the page holds: it is read, then its mark is taken, before the copy home begins (`Cache::beside`). Once the
//! copy has landed the mark is taken again, and the page is compared with what was read
//! (`Cache::landed_on_edges`). A byte that is the same still equals what devices hold of it, since
//!
//! * a write before the first mark was taken shows in that mark, and everything on the page is dropped;
//! * a write between the two marks shows in the comparison, unless it left the same value;
//! * a write after the second mark shows in the next.
//!
//! The bytes of results are not compared: the program does not write a call's result while the call runs.
#![expect(unsafe_code, reason = "reads pages of the program")]

use core::ffi::c_void;
use std::sync::atomic::Ordering;

use log::debug;
use semcache_fault::probe::attempt;

use super::scans::Choice;
use super::{Cache, CacheError, Entry, State};
use crate::base::{AllocId, Interval, Rect, RectSet, Spans};
use crate::directory::Event;
use crate::transfer::{Deps, Pool};

/// Ranges of pages that one operand may share with other data to be armed. An operand that is in one piece has its first
/// and last page; a strided vector may have a page for each element, and these are sent at each call.
const MOST_EDGES: usize = 4;

/// Ranges of pages that may be armed in a block before those that operands share with other data are given up.
const MOST_ARMED: usize = 128;

/// What the end of a call waits for.
#[derive(Debug, Default)]
pub struct Homecoming {
    /// The copies in flight.
    pub deps: Deps,
    pub(super) on_edges: Vec<OnEdges>,
}

/// Bytes of a result that come home to watched pages.
#[derive(Debug)]
pub(super) struct OnEdges {
    id: AllocId,
    landing: Vec<Rect>,
    /// Those of these pages of which devices hold other bytes.
    shared: Vec<Shared>,
}

/// A range of watched pages before anything was copied to it. What it holds is missing if it could not be read.
#[derive(Debug)]
struct Shared {
    pages: Interval,
    before: Option<Vec<u8>>,
}

impl Cache {
    /// A call is about to use an operand: the pages that it shares with other data are armed, and what devices hold there
    /// stays valid from now on. Where that is not possible it is sent at each call.
    pub(super) fn watch_edges(
        &self,
        e: &mut Entry,
        pools: &mut [Pool],
        rect: &Rect,
    ) -> Result<(), CacheError> {
        if self.scanner.choice == Choice::Never || e.scans.refused || !self.traps() {
            return Ok(());
        }
        let open = e.dir.unwatched(e.dir.open_territory(rect));
        let pages = open.iter().map(|part| part.span().align_out(self.page));
        let mut pages: Spans = pages
            .map(|pages| pages.intersect(e.dir.tracked()))
            .collect();
        for eager in e.dir.eager().iter().flat_map(Rect::runs) {
            pages.remove(eager);
        }
        if pages.is_empty() || pages.len() > MOST_EDGES || self.scanner.watch().is_none() {
            return Ok(());
        }
        self.scanner.used.store(true, Ordering::Relaxed);
        e.set_guarded(true);
        if e.scans.armed.len() + pages.len() > MOST_ARMED {
            self.unwatch_edges(e, pools)?;
            if e.scans.armed.len() + pages.len() > MOST_ARMED {
                return Ok(());
            }
        }
        for &run in pages.iter() {
            // Nothing there is valid, so no mark is lost.
            if let Err(err) = self.mark(e, run) {
                let base = e.host.base;
                debug!("{base:#x}: what is sent of shared pages is sent again: {err}");
                e.scans.refuse();
                return Ok(());
            }
            e.scans.armed.insert(&Rect::from(run));
            let (pages, on) = (run, true);
            self.step(e, pools, &Event::Watch { pages, on }, None)?;
        }
        Ok(())
    }

    /// What devices hold on pages that operands share with other data is dropped, and these pages are not armed any more.
    fn unwatch_edges(&self, e: &mut Entry, pools: &mut [Pool]) -> Result<(), CacheError> {
        let watched = e.dir.watched().clone();
        let (pages, on) = (e.dir.tracked(), false);
        self.step(e, pools, &Event::Watch { pages, on }, None)?;
        for &run in watched.iter() {
            e.scans.disarm(run);
        }
        Ok(())
    }

    /// Bytes of a result are about to be copied to watched pages: notes what these pages hold, if devices hold other
    /// bytes of them. The pages are to be scanned next, before anything is copied.
    pub(super) fn beside(&self, id: AllocId, e: &Entry, landing: Vec<Rect>) -> OnEdges {
        let own: RectSet = landing.iter().copied().collect();
        let around = landing.iter().map(|rect| rect.span().align_out(self.page));
        let pages: Spans = around
            .flat_map(|pages| e.dir.watched().within(pages))
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
            shared: shared.collect(),
            landing,
        }
    }

    /// See [`Cache::beside`], for bytes that a device has just written; the pages are scanned.
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
        let coming = self.beside(id, e, landing);
        for shared in &coming.shared {
            let mut found = self.written(e, shared.pages);
            e.scans.dirt.append(&mut found);
        }
        self.drop_dirt(e, pools)?;
        Ok(coming)
    }

    /// Waits, without the lock, for what must be home before a call returns, and for what must have been read. What
    /// devices hold of other bytes on the pages that it has come home to is dropped if the CPU wrote there.
    ///
    /// # Errors
    /// A copy failed, or a device is lost.
    pub fn arrive(&self, coming: &Homecoming) -> Result<(), CacheError> {
        coming.deps.wait(self.backend)?;
        for come in &coming.on_edges {
            let of_block = coming.on_edges.iter().filter(|other| other.id == come.id);
            let own: RectSet = of_block
                .flat_map(|other| other.landing.iter().copied())
                .collect();
            self.landed_on_edges(come, &own)?;
        }
        Ok(())
    }

    /// Bytes of results have come home to pages that they share with other data, and the call has not returned. `own` are all
    /// such bytes of the block.
    fn landed_on_edges(&self, come: &OnEdges, own: &RectSet) -> Result<(), CacheError> {
        let mut guard = self.lock();
        let State { entries, pools, .. } = &mut *guard;
        let Some(e) = entries.get_mut(&come.id) else {
            return Ok(());
        };
        for rect in &come.landing {
            let found = self.written(e, rect.span());
            if e.scans.refused {
                // The scan failed: nothing is known of any page.
                break;
            }
            for run in found {
                let mut others = own.missing(&run.into());
                others.retain(|rect| e.dir.held(rect));
                if !others.is_empty() && come.changed(e, run, &others) {
                    e.scans.dirt.extend(others.iter().flat_map(Rect::runs));
                }
            }
        }
        self.drop_dirt(e, pools)?;
        Ok(())
    }
}

impl OnEdges {
    /// Whether `others`, which lie on the pages of `run`, may not be what they were before the copy.
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

/// What these bytes of a block are; `None` if they cannot be read.
fn read(base: usize, span: Interval) -> Option<Vec<u8>> {
    #[repr(C)]
    struct Copying {
        from: usize,
        to: *mut u8,
        len: usize,
    }
    /// # Safety
    /// `data` is a `Copying` whose `to` has room.
    unsafe extern "C" fn copy(data: *const c_void) {
        // SAFETY: the caller's.
        let Copying { from, to, len } = unsafe { data.cast::<Copying>().read() };
        let from = core::ptr::with_exposed_provenance::<u8>(from);
        // SAFETY: `to` has room for the bytes, and lies in our own memory. If the source cannot be read the copy is left. Other
        // threads of the program may write to it meanwhile: any mixture of old and new bytes will do, since the new ones
        // are found by the comparison or by the next scan.
        unsafe { core::ptr::copy_nonoverlapping(from, to, len) };
    }
    let mut bytes = vec![0; span.len()];
    let work = Copying {
        from: base + span.start,
        to: bytes.as_mut_ptr(),
        len: bytes.len(),
    };
    // SAFETY: `copy` only copies bytes, and what it holds is ours; signals are blocked where calls run on devices.
    let done = unsafe { attempt(copy, (&raw const work).cast()) };
    (done == Some(true)).then_some(bytes)
}
