//! Large operands (of several panels): their pages in one panel are protected together, which saves `mprotect` calls
//! (R16).
//!
//! A device gets the tiles of a large operand one by one. If each tile changed the access of its own pages only, every
//! task would call `mprotect` for some pages at the ends of its tile. That splits the huge pages there with which the
//! kernel maps the block, and all later calls would change page tables of small pages
//! (`bench/results/h200-x1-programs.md`).

use crate::base::{Interval, Rect, Spans};

use super::state::Large;
use super::{Action, Allocation};

/// An operand that spans at most this number of panels is not large: each of its tiles changes the access of its own
/// pages only. Such an operand is mostly one tile, so protecting its pages panel by panel would save no `mprotect`, and
/// the directory would take a third longer for each task (`benches/directory.rs`).
const PANELS: usize = 4;

/// The largest number of large operands noted in a block. The pages of further operands are protected page by page.
const MOST: usize = 16;

impl Allocation {
    /// Whether the operand's pages are to be protected together, and it has not been noted as large yet.
    pub(super) fn is_large(&self, rect: &Rect) -> bool {
        let gap = rect.stride.saturating_sub(rect.width);
        let narrow = rect.is_interval() || gap < self.least_gap().max(self.page);
        let large = self.panel > self.page && rect.span().len() > PANELS * self.panel && narrow;
        let mut others = self.large.iter().map(|other| other.rect.span());
        large && self.large.len() < MOST && !others.any(|other| other.encloses(rect.span()))
    }

    /// Notes a large operand.
    pub(super) fn note_large(&mut self, rect: &Rect) {
        let (rect, used) = (*rect, false);
        self.large_mut().push(Large { rect, used });
    }

    /// Whether `rect` is a large operand of which no replica has held anything.
    pub(super) fn announced_large(&self, rect: &Rect) -> bool {
        let mut large = self.large.iter();
        large.any(|large| !large.used && large.rect == *rect)
    }

    /// Notes the use of large operands: replicas hold `rect` from now on, or (if `rect` is a large operand) a call that
    /// announced it has ended without using it.
    pub(super) fn use_large(&mut self, rect: &Rect) {
        let new = |large: &Large| !large.used && large.rect.overlaps(rect);
        if self.large.iter().any(new) {
            let large = self.large_mut().iter_mut().filter(|large| new(large));
            large.for_each(|large| large.used = true);
        }
    }

    /// From the first to the last byte of each large operand.
    #[cfg(test)]
    pub(super) fn large_spans(&self) -> impl Iterator<Item = Interval> {
        self.large.iter().map(|large| large.rect.span())
    }

    /// Whether a part of a large operand lies in `span`.
    pub(super) fn has_large(&self, span: Interval) -> bool {
        let mut large = self.large.iter();
        large.any(|large| large.rect.span().overlaps(span))
    }

    /// The pages of `closable` that lie in one panel with some of `pages`, and together with them between the first and
    /// the last byte of one large operand.
    pub(super) fn together(&self, pages: &Spans, closable: &Spans) -> Vec<Interval> {
        let mut together = Vec::new();
        if self.large.is_empty() || pages.is_empty() {
            return together;
        }
        let around = self.round_out(pages.span());
        let mut seen = Interval::default();
        for large in &self.large {
            let mut span = large.rect.span();
            if span.end >= self.content {
                // The rest of the last page is padding.
                span.end = self.content.next_multiple_of(self.page).max(span.start);
            }
            let span = span.align_in(self.page).intersect(around);
            if seen.encloses(span) {
                // The operands of one matrix mostly overlap.
                continue;
            }
            seen = span;
            for part in closable.within(span) {
                let mut rest = part;
                while let Some(held) = pages.within(rest).next() {
                    let panels = held.align_out(self.panel).intersect(part);
                    together.push(panels);
                    rest = Interval::new(panels.end, part.end);
                }
            }
        }
        together
    }

    /// Forgets the large operands of which replicas hold nothing, between two calls; the caller derives the access of
    /// pages afterwards.
    pub(super) fn keep_large(&mut self) {
        let mut large = core::mem::take(&mut self.large);
        large.retain(|large| self.held(&large.rect));
        self.large = large;
    }

    /// Forgets the large operands of which replicas held bytes and hold none any more, after the other changes of
    /// access by an event that took bytes within `span` from replicas.
    pub(super) fn forget_large(&mut self, span: Interval, actions: &mut Vec<Action>) {
        for at in (0..self.large.len()).rev() {
            let Large { rect, used } = self.large[at];
            if used && rect.span().overlaps(span) && !self.held(&rect) {
                let before = self.observe(rect.span());
                self.large_mut().remove(at);
                self.expose_unused(rect.span());
                self.protect(&before, actions);
            }
        }
    }
}
