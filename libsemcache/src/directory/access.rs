//! Page access (inaccessible, read-only, accessible) for the CPU, derived page by page from the byte sets (R5), and the
//! changes of access that an event causes.

use core::iter::once;

use crate::base::{Access, Interval, Rect, RectSet, Spans};

use super::hulls::has_hull;
use super::{Action, Allocation};

impl Allocation {
    /// The strictest access of the pages that `span` overlaps; `ReadWrite` if none of them is tracked.
    #[must_use]
    pub fn access(&self, span: Interval) -> Access {
        let runs = self.derive(span);
        runs.into_iter()
            .map(|(_, access)| access)
            .min()
            .unwrap_or(Access::ReadWrite)
    }

    /// Appends the tracked pages of the panels that `span` overlaps, each run with its access, in ascending order;
    /// neighbouring runs of the same access are joined.
    pub fn access_runs(&self, span: Interval, out: &mut Vec<(Interval, Access)>) {
        out.append(&mut self.derive(self.round_out(span)));
    }

    /// Whether a matrix has whole pages between its first two columns that are protected with the columns, because the
    /// block has room for more such gaps than mappings may be spent on.
    #[must_use]
    pub fn narrow(&self, rect: &Rect) -> bool {
        let mut columns = rect.runs().filter(|_| has_hull(rect));
        let (Some(first), Some(second)) = (columns.next(), columns.next()) else {
            return false;
        };
        let gap = Interval::new(first.end, second.start).align_in(self.page);
        !gap.is_empty() && gap.len() < self.least_gap()
    }

    /// The bytes of whole pages from which on a gap stays accessible. They follow from the number of tracked pages
    /// alone, so uses of other matrices in the block change the access of no gap.
    pub(super) fn least_gap(&self) -> usize {
        let pages = self.tracked.len() / self.page;
        pages / self.most_gaps.max(1) * self.page
    }

    /// The present access of all pages whose access an event can change by changing the sets within `span`: what
    /// [`Allocation::protect`] compares the new access with.
    pub(super) fn observe(&self, span: Interval) -> Vec<(Interval, Access)> {
        let (gaps, reach) = (self.with_gaps(span), self.reach(span));
        if reach == gaps {
            self.derive(gaps)
        } else {
            // Whole panels, so that the pages of no further panel have to be derived for the ends of this one.
            self.derive(self.round_out(gaps))
        }
    }

    /// All pages whose access may depend on the bytes of the pages that `span` overlaps: those that may lie in one
    /// narrow gap with them or next to them, and those of the same panels if they can be protected together.
    fn reach(&self, span: Interval) -> Interval {
        let (pages, panels) = (self.with_gaps(span), self.round_out(span));
        if pages.is_empty() || !self.has_large(panels) {
            pages
        } else {
            pages.around(panels)
        }
    }

    /// The pages that `span` overlaps, and the pages on both sides that may lie in one narrow gap with them or next to
    /// them.
    fn with_gaps(&self, span: Interval) -> Interval {
        let pages = span.align_out(self.page).intersect(self.tracked);
        if pages.is_empty() {
            return pages;
        }
        let reach = self.least_gap();
        let wide = Interval::new(
            pages.start.saturating_sub(reach),
            pages.end.saturating_add(reach),
        );
        wide.intersect(self.tracked)
    }

    /// Derives the access of the tracked pages that `span` overlaps (R5).
    fn derive(&self, span: Interval) -> Vec<(Interval, Access)> {
        let pages = span.align_out(self.page).intersect(self.tracked);
        let mut runs = Vec::new();
        if pages.is_empty() {
            return runs;
        }
        let closable = self.closable(self.reach(pages));
        // By R1, every stale byte is valid in some replica, so every inaccessible page is among the protected ones.
        let inaccessible = self.protected(once(&self.stale), &closable);
        let valid = self.replicas.iter().map(|(_, replica)| &replica.valid);
        let protected = self.protected(valid, &closable);
        let mut at = pages.start;
        let mut push = |end: usize, access: Access| {
            if end > at {
                runs.push((Interval::new(at, end), access));
            }
            at = end;
        };
        for run in protected.within(pages) {
            push(run.start, Access::ReadWrite);
            for shut in inaccessible.within(run) {
                push(shut.start, Access::Read);
                push(shut.end, Access::None);
            }
            push(run.end, Access::Read);
        }
        push(pages.end, Access::ReadWrite);
        runs
    }

    /// The pages of `closable` that hold bytes of the sets, the narrow gaps between them, and the other pages of the
    /// same large operand in the same panels.
    fn protected<'a>(&self, sets: impl Iterator<Item = &'a RectSet>, closable: &Spans) -> Spans {
        let narrow = self.least_gap();
        let mut pages = self.pages_with(sets, closable, narrow.max(self.page));
        let together = self.together(&pages, closable);
        pages.join(narrow, closable);
        if together.is_empty() {
            return pages;
        }
        pages.iter().chain(&together).copied().collect()
    }

    /// The pages of `closable` that hold bytes of the sets, and the pages between runs that are less than `narrow`
    /// bytes apart.
    pub(super) fn pages_with<'a>(
        &self,
        sets: impl Iterator<Item = &'a RectSet>,
        closable: &Spans,
        narrow: usize,
    ) -> Spans {
        if closable.is_empty() {
            return Spans::new();
        }
        let (mut pages, mut pieces) = (Vec::new(), Vec::new());
        let around: Rect = closable.span().into();
        for held in sets.flat_map(|set| set.near(&around)) {
            let runs = closable.within(held.span().align_out(self.page));
            if held.stride - held.width < self.page {
                // Every page of the rectangle's span holds some of its bytes.
                pages.extend(runs);
                continue;
            }
            for run in runs {
                if run.encloses(held.span()) {
                    pieces.push(*held);
                } else {
                    held.intersect_into(&run.into(), &mut pieces);
                }
            }
            for piece in pieces.drain(..) {
                if piece.stride - piece.width < narrow {
                    pages.push(piece.span().align_out(self.page));
                } else {
                    pages.extend(piece.runs().map(|column| column.align_out(self.page)));
                }
            }
        }
        pages.into_iter().collect()
    }

    /// Pages in narrow gaps become accessible for the CPU's access to `span`, after an event has written back what the
    /// access needs of `span` (and, for a write, invalidated it in all replicas). Pages of `span` that are still
    /// protected lie in narrow gaps: those of which no device holds a byte leave the hulls and become accessible; for a
    /// read of the others, the stale bytes around them are written back, so that they become readable.
    pub(super) fn open_gaps(&mut self, span: Interval, write: bool, actions: &mut Vec<Action>) {
        let wanted = if write {
            Access::ReadWrite
        } else {
            Access::Read
        };
        let around = self.with_gaps(span);
        let open = |alloc: &Self| {
            alloc.least_gap() <= alloc.page
                || alloc.hulls.within(span).next().is_none()
                || !write && alloc.stale.near(&around.into()).next().is_none()
        };
        if open(self) {
            return;
        }
        let mut shut = self.derive(span);
        shut.retain(|(_, access)| *access < wanted);
        if shut.is_empty() {
            return;
        }
        let before = self.observe(span);
        let pages: Spans = shut.iter().map(|(run, _)| *run).collect();
        let valid = self.replicas.iter().map(|(_, replica)| &replica.valid);
        let held = self.pages_with(valid, &pages, self.page);
        for unused in pages.iter().flat_map(|run| held.gaps(*run)) {
            self.expose(unused);
        }
        self.protect(&before, actions);
        if !write && self.access(span) < wanted {
            self.update_host(&around.into(), actions);
        }
    }

    /// Appends the changes of access since `before` was observed; returns the present access of the same pages.
    pub(super) fn protect(
        &mut self,
        before: &[(Interval, Access)],
        actions: &mut Vec<Action>,
    ) -> Vec<(Interval, Access)> {
        let from = actions.len();
        let (Some((first, _)), Some((last, _))) = (before.first(), before.last()) else {
            return Vec::new();
        };
        let now = self.derive(Interval::new(first.start, last.end));
        changes(before, &now, from, actions);
        self.untrack_protected(&actions[from..]);
        now
    }

    /// Ends the dirty tracking of accessible pages that are protected from now on.
    pub(super) fn untrack_protected(&mut self, changes: &[Action]) {
        for change in changes {
            if let Action::Protect { span, access } = change
                && *access != Access::ReadWrite
                && self.tracked_edges.within(*span).next().is_some()
            {
                self.tracked_edges_mut().remove(*span);
            }
        }
    }
}

/// Appends a change of access for every page on which two lists of runs over the same pages differ.
pub(super) fn changes(
    old: &[(Interval, Access)],
    new: &[(Interval, Access)],
    from: usize,
    actions: &mut Vec<Action>,
) {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    while let (Some((was_at, was)), Some((now_at, now))) = (old.peek(), new.peek()) {
        let span = was_at.intersect(*now_at);
        if was != now && !span.is_empty() {
            push_protect(span, *now, from, actions);
        }
        let (was_end, now_end) = (was_at.end, now_at.end);
        if was_end <= now_end {
            old.next();
        }
        if now_end <= was_end {
            new.next();
        }
    }
}

/// Appends a change of access, or extends the last one from position `from` on if `span` follows it and the access is
/// the same.
fn push_protect(span: Interval, access: Access, from: usize, actions: &mut Vec<Action>) {
    if let Some(Action::Protect {
        span: last,
        access: same,
    }) = actions[from..].last_mut()
        && *same == access
        && last.end == span.start
    {
        last.end = span.end;
        return;
    }
    actions.push(Action::Protect { span, access });
}
