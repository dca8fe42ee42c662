//! Panels, the unit in which bytes are fetched for the CPU, and changes of a block's size (`realloc`, `mremap`).

use crate::base::{Access, Interval, Rect};

use super::access::changes;
use super::hulls::Leaving;
use super::{Action, Allocation};

impl Allocation {
    /// The panel that holds `offset`, clipped to the tracked part. If `offset` is untracked: the untracked bytes within
    /// that panel's bounds that lie on the same side of the tracked part.
    #[must_use]
    pub fn panel_span(&self, offset: usize) -> Interval {
        let panel = self.panel_at(offset);
        let Interval { start, end } = self.tracked;
        if self.tracked.contains(offset) {
            panel.intersect(self.tracked)
        } else if self.tracked.is_empty() {
            panel.intersect(Interval::new(0, self.extent))
        } else if offset < start {
            panel.intersect(Interval::new(0, start))
        } else {
            panel.intersect(Interval::new(end, self.extent.max(end)))
        }
    }

    /// The panels that hold these bytes, as one interval ([`Allocation::panel_span`]).
    #[must_use]
    pub fn panels_around(&self, span: Interval) -> Interval {
        let first = self.panel_span(span.start);
        let last = self.panel_span(span.end.max(span.start + 1) - 1);
        Interval {
            start: first.start.min(span.start),
            end: last.end.max(span.end),
        }
    }

    /// The panels that `span` overlaps as one interval, clipped to the tracked part.
    pub(super) fn round_out(&self, span: Interval) -> Interval {
        let part = span.intersect(self.tracked);
        if part.is_empty() {
            part
        } else {
            part.align_out(self.panel).intersect(self.tracked)
        }
    }

    /// The block's size, its content or its tracked part changes, between two calls. Offsets keep their meaning.
    ///
    /// The directory forgets bytes past the new content. Bytes whose accesses can no longer be trapped are written back
    /// and invalidated first. New pages get the access that is derived; the access of pages past the new end is left
    /// alone.
    pub fn resize(
        &mut self,
        extent: usize,
        content: usize,
        tracked: Interval,
        actions: &mut Vec<Action>,
    ) {
        let (old, new) = (self.tracked, tracked.align_in(self.page));
        let mut before = self.observe(old);
        // New pages are not write-tracked yet, so dirty tracking ends for all pages of the block.
        let write_tracked = core::mem::take(&mut self.tracked_edges);
        for run in write_tracked.iter() {
            self.drop_valid(&Rect::from(*run), actions);
        }
        let unused = self.uncover(write_tracked.iter().copied(), Leaving::Unspanned, actions);
        unused.iter().for_each(|run| self.expose(*run));
        self.forget(Interval::new(content, usize::MAX), actions);
        let sides = if new.is_empty() {
            [old, Interval::default()]
        } else {
            [
                Interval::new(0, new.start),
                Interval::new(new.end, usize::MAX),
            ]
        };
        for side in sides {
            let open = side.intersect(old);
            self.write_back(&open.into(), actions);
            self.drop_valid(&open.into(), actions);
        }
        let padded = Interval::new(self.content, self.content + 1).align_out(self.page);
        (self.extent, self.tracked, self.content) = (extent, new, content.min(extent));
        let past = Interval::new(self.content, usize::MAX);
        let unused = self.uncover([sides[0], sides[1], past], Leaving::Unspanned, actions);
        unused.iter().for_each(|run| self.expose(*run));
        // Bytes that were padding may belong to the program now.
        if !self.closable(padded).contains(padded.intersect(new)) {
            self.share(padded, actions);
        }
        // The ends of a write-through panel may have moved with the tracked part.
        let write_through = core::mem::take(&mut self.write_through);
        for run in write_through.iter().flat_map(Rect::runs) {
            self.write_through.insert(&Rect::from(self.round_out(run)));
        }
        self.keep_large();
        // Pages that are no longer tracked become accessible, unless they lie past the block's end.
        let end = old.end.min(extent.next_multiple_of(self.page)).max(new.end);
        let start = match (old.is_empty(), new.is_empty()) {
            (true, _) => new.start,
            (false, true) => old.start,
            (false, false) => old.start.min(new.start),
        };
        let all = Interval::new(start, end);
        let mut after = self.observe(new);
        fill(&mut before, all);
        fill(&mut after, all);
        changes(&before, &after, actions.len(), actions);
    }

    /// Takes `span` out of all sets, because these bytes no longer exist.
    fn forget(&mut self, span: Interval, actions: &mut Vec<Action>) {
        let rect = Rect::interval(span.start, span.end.min(crate::base::rect::MAX_OFFSET));
        self.stale.remove(&rect);
        self.drop_valid(&rect, actions);
    }

    fn panel_at(&self, offset: usize) -> Interval {
        let start = offset - offset % self.panel;
        Interval::new(start, start.saturating_add(self.panel))
    }
}

/// Adds runs for the parts of `all` before and after the given ones: pages that are not protected.
fn fill(runs: &mut Vec<(Interval, Access)>, all: Interval) {
    let first = runs.first().map_or(all.end, |(run, _)| run.start);
    let last = runs.last().map_or(all.end, |(run, _)| run.end);
    if first > all.start {
        runs.insert(0, (Interval::new(all.start, first), Access::ReadWrite));
    }
    if last < all.end {
        runs.push((Interval::new(last, all.end), Access::ReadWrite));
    }
}
