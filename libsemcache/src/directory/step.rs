//! The transitions of the coherence protocol, one function per event.

use core::iter::once;

use crate::base::{Access, DeviceId, Interval, Rect, RectSet, ReplicaId, Spans};

use super::hulls::{Leaving, has_hull};
use super::{Action, Allocation, Event, Illegal, Place, Replica, Undo};

impl Allocation {
    /// Applies `event` and appends the actions that it needs, in order; returns the undo of the event.
    ///
    /// An event that needs no change appends nothing and does not allocate.
    ///
    /// # Errors
    ///
    /// The event names an unknown replica or bytes outside of it. The state is unchanged then.
    pub fn step(&mut self, event: &Event, actions: &mut Vec<Action>) -> Result<Undo, Illegal> {
        self.undo = Some(Undo::default());
        let stepped = self.apply(event, actions);
        let undo = self.undo.take().unwrap_or_default();
        stepped?;
        if cfg!(semcache_zeal)
            && let Err(broken) = self.check()
        {
            panic!("after {event:?}: {broken}");
        }
        Ok(undo)
    }

    fn apply(&mut self, event: &Event, actions: &mut Vec<Action>) -> Result<(), Illegal> {
        match event {
            Event::Tidy { rect } => self.tidy(rect, actions),
            Event::DeviceRead { replica, rect } => {
                let at = self.find_room(*replica, rect)?;
                self.device_read(at, rect, actions);
            }
            Event::DeviceWrite {
                replica,
                rect,
                keep,
            } => {
                let at = self.find_room(*replica, rect)?;
                self.device_write(at, rect, *keep, actions);
            }
            Event::Enclose { rect } => {
                if self.enclosed(rect) {
                    return Ok(());
                }
                // The hulls of other pages stay as they are.
                let new: Spans = if self.is_large(rect) {
                    once(rect.span()).collect()
                } else {
                    self.hulls.gaps(rect.span()).collect()
                };
                let before = self.observe(new.span());
                self.enclose(rect);
                self.protect(&before, actions);
            }
            Event::CpuRead { span } => {
                self.make_way(*span, false, actions);
                self.update_host(&Rect::from(*span), actions);
                self.open_gaps(*span, false, actions);
                self.trim(actions);
            }
            Event::CpuWrite { span } => {
                self.make_way(*span, true, actions);
                self.cpu_write(*span, actions);
                self.open_gaps(*span, true, actions);
                self.trim(actions);
            }
            Event::Dirty { pages } => {
                self.dirty(pages, actions);
                self.trim(actions);
            }
            Event::WriteBack { rect } => self.update_host(rect, actions),
            Event::Settle { rect } => {
                self.settle(rect, actions);
                self.trim(actions);
            }
            Event::WriteTrack { pages, on } => self.write_track(*pages, *on, actions),
            Event::Derive { replica } => {
                let at = self.find(*replica)?;
                self.derive_from(at, actions)?;
            }
            Event::Evict { replica } => {
                let at = self.find(*replica)?;
                self.evict(at, actions);
            }
            Event::Flush => self.flush(actions),
            Event::Lost { device } => self.lost(*device, actions),
            Event::WriteThrough { span, on } => self.set_write_through(*span, *on, actions),
        }
        Ok(())
    }

    /// Makes `rect` valid in the replica at position `at`. Returns the access of its pages after the change, if it was
    /// derived.
    fn device_read(
        &mut self,
        at: usize,
        rect: &Rect,
        actions: &mut Vec<Action>,
    ) -> Option<Vec<(Interval, Access)>> {
        let missing = self.replicas[at].1.valid.missing(rect);
        if missing.is_empty() {
            return None;
        }
        let before = self.observe(rect.span());
        let mut copies = Vec::new();
        for piece in &missing {
            self.bring_up(piece, at, &mut copies);
        }
        self.valid_mut(at).insert(rect);
        self.enclose(rect);
        self.use_large(rect);
        let now = self.protect(&before, actions);
        actions.append(&mut copies);
        Some(now)
    }

    fn device_write(&mut self, at: usize, rect: &Rect, keep: bool, actions: &mut Vec<Action>) {
        let others = |(i, (_, replica)): (usize, &(ReplicaId, Replica))| {
            i != at && replica.valid.overlaps(rect)
        };
        let closed = self.stale.contains(rect);
        let alone = !self.replicas.iter().enumerate().any(others);
        if closed && alone {
            // Bytes that are stale and in no other replica are all in this one (R1).
            return;
        }
        let mut observed = None;
        if keep {
            observed = self.device_read(at, rect, actions);
        }
        if closed {
            self.valid_mut(at).insert(rect);
        } else {
            let before = observed.unwrap_or_else(|| self.observe(rect.span()));
            self.valid_mut(at).insert(rect);
            self.stale_mut().insert(rect);
            self.enclose(rect);
            self.use_large(rect);
            self.protect(&before, actions);
        }
        for other in 0..self.replicas.len() {
            if other != at && !alone {
                self.invalidate(other, rect, actions);
            }
        }
    }

    /// `CpuRead` and `WriteBack`: the stale bytes of `rect` are written back, replicas stay valid.
    pub(super) fn update_host(&mut self, rect: &Rect, actions: &mut Vec<Action>) {
        if !self.stale.overlaps(rect) {
            return;
        }
        // Fragments that would have to be cut run by run are written back whole.
        let mixed: Vec<Rect> = self.stale.mixed(rect).copied().collect();
        let whole = mixed.iter().map(Rect::span);
        let before = self.observe(whole.fold(rect.span(), Interval::around));
        for rect in mixed.iter().chain([rect]) {
            self.write_back(rect, actions);
        }
        self.protect(&before, actions);
    }

    fn cpu_write(&mut self, span: Interval, actions: &mut Vec<Action>) {
        let rect = Rect::from(span);
        if !self.held(&rect) && self.hulls.within(span).next().is_none() {
            return;
        }
        let before = self.observe(span);
        self.write_back(&rect, actions);
        self.drop_valid(&rect, actions);
        // The bytes of `span` in gaps of a matrix also belong to the program, until the matrix is used again.
        let unused = self.uncover([span], Leaving::All, actions);
        self.protect(&before, actions);
        self.release(&unused, actions);
        self.forget_large(span, actions);
    }

    fn dirty(&mut self, pages: &[Interval], actions: &mut Vec<Action>) {
        let written = self.written(pages);
        if !written.iter().any(|rect| self.held(rect)) {
            return;
        }
        let before = self.observe(written.span());
        for rect in &written {
            self.drop_known(rect, actions);
        }
        self.hand_over(
            written.iter().flat_map(Rect::runs),
            Leaving::Unspanned,
            &before,
            actions,
        );
    }

    /// The pages as a set of at most `limit` rectangles: pages that are too scattered are taken as whole panels, and if
    /// that is not enough, as the span of all. To invalidate more than was written is safe, and cheaper than an exact
    /// patch list of thousands of pages.
    fn written(&self, pages: &[Interval]) -> RectSet {
        let mut written = RectSet::new();
        for by_panel in [false, true] {
            written.clear();
            for page in pages {
                let span = if by_panel {
                    page.align_out(self.panel)
                } else {
                    *page
                };
                written.insert(&Rect::from(span));
                if written.len() > self.limit {
                    break;
                }
            }
            if written.len() <= self.limit {
                return written;
            }
        }
        let start = pages.iter().map(|page| page.start).min().unwrap_or(0);
        let end = pages.iter().map(|page| page.end).max().unwrap_or(0);
        RectSet::from(Interval::new(start, end))
    }

    fn settle(&mut self, rect: &Rect, actions: &mut Vec<Action>) {
        // The bytes in `parts` are on unprotected pages, so their write-back changes no page's access.
        let parts = self.untrapped(rect);
        for part in &parts {
            self.write_back(part, actions);
        }
        let parts = self.not_write_tracked(parts);
        for part in &parts {
            self.drop_valid(part, actions);
        }
        self.hand_over(
            parts.iter().map(Rect::span),
            Leaving::Unspanned,
            &[],
            actions,
        );
        let span = rect.span();
        let unused = has_hull(rect) && !self.held(&span.into());
        if unused && self.hulls.within(span).next().is_some() {
            // The call ended without using the operand on a device.
            let before = self.observe(span);
            self.hand_over([span], Leaving::Unspanned, &before, actions);
        }
        if self.announced_large(rect) {
            self.use_large(rect);
            self.forget_large(span, actions);
        }
    }

    fn write_track(&mut self, pages: Interval, on: bool, actions: &mut Vec<Action>) {
        let mut changed: Spans = if on {
            once(pages.align_in(self.page).intersect(self.tracked)).collect()
        } else {
            self.tracked_edges
                .within(pages.align_out(self.page))
                .collect()
        };
        if on {
            changed.subtract(&self.closable(pages));
            changed.subtract(&self.tracked_edges);
        }
        let held = |run: &&Interval| self.held(&Rect::from(**run));
        // The CPU may have overwritten bytes of a page after a running call has sent them to a device, and before the
        // page was write-tracked.
        let dropped: Vec<Interval> = changed.iter().filter(held).copied().collect();
        for run in changed.iter() {
            if on {
                self.tracked_edges_mut().insert(*run);
            } else {
                self.tracked_edges_mut().remove(*run);
            }
        }
        for run in &dropped {
            self.drop_known(&Rect::from(*run), actions);
        }
        self.hand_over(dropped, Leaving::Unspanned, &[], actions);
    }

    /// Invalidates those bytes of `rect` in all replicas whose host copy is the newest as well.
    fn drop_known(&mut self, rect: &Rect, actions: &mut Vec<Action>) {
        for known in self.stale.missing(rect) {
            self.drop_valid(&known, actions);
        }
    }

    fn derive_from(&mut self, at: usize, actions: &mut Vec<Action>) -> Result<(), Illegal> {
        let (replica, Replica { device, rect, .. }) = self.replicas[at];
        if device.is_some() || rect.end() > self.extent {
            return Err(Illegal::Outside { replica, rect });
        }
        let before = self.observe(rect.span());
        self.enclose(&rect);
        self.protect(&before, actions);
        self.update_host(&rect, actions);
        let before = self.observe(rect.span());
        self.valid_mut(at).insert(&rect);
        self.use_large(&rect);
        self.protect(&before, actions);
        Ok(())
    }

    fn evict(&mut self, at: usize, actions: &mut Vec<Action>) {
        let id = self.replicas[at].0;
        let before = self.observe(self.replicas[at].1.valid.span());
        let (_, gone) = self.replicas.remove(at);
        for held in &gone.valid {
            for rect in self.orphans(held) {
                actions.push(Action::Copy {
                    from: Place::Replica(id),
                    to: Place::Host,
                    rect,
                });
                self.stale_mut().remove(&rect);
            }
        }
        let dropped: Vec<Interval> = gone.valid.iter().map(Rect::span).collect();
        self.removed([(id, gone)]);
        self.hand_over(dropped, Leaving::Evicted, &before, actions);
        actions.push(Action::Drop { replica: id });
    }

    fn flush(&mut self, actions: &mut Vec<Action>) {
        let before = self.observe(self.tracked);
        let all = Rect::from(Interval::new(0, self.extent));
        self.write_back(&all, actions);
        self.drop_valid(&all, actions);
        self.hulls_mut().clear();
        self.large_mut().clear();
        self.protect(&before, actions);
    }

    fn lost(&mut self, device: DeviceId, actions: &mut Vec<Action>) {
        if !self
            .replicas
            .iter()
            .any(|(_, replica)| replica.device == Some(device))
        {
            return;
        }
        let before = self.observe(self.tracked);
        let (gone, kept) = self
            .replicas
            .drain(..)
            .partition(|(_, replica)| replica.device == Some(device));
        self.replicas = kept;
        let gone: Vec<(ReplicaId, Replica)> = gone;
        for held in gone.iter().flat_map(|(_, replica)| &replica.valid) {
            for rect in self.orphans(held) {
                actions.push(Action::LostData { rect });
                self.stale_mut().remove(&rect);
            }
        }
        actions.extend(gone.iter().map(|(id, _)| Action::Drop { replica: *id }));
        self.removed(gone);
        self.hand_over([self.tracked], Leaving::Unspanned, &before, actions);
    }

    fn set_write_through(&mut self, span: Interval, on: bool, actions: &mut Vec<Action>) {
        let panels = self.round_out(span);
        let rect = Rect::from(panels);
        if if on {
            self.write_through.contains(&rect)
        } else {
            !self.write_through.overlaps(&rect)
        } {
            return;
        }
        self.cpu_write(panels, actions);
        let before = self.observe(panels);
        self.expose(panels);
        if on {
            self.write_through_mut().insert(&rect);
        } else {
            self.write_through_mut().remove(&rect);
        }
        self.protect(&before, actions);
    }
}
