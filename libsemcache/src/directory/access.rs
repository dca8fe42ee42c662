//! What the CPU may do where, derived page by page from the byte sets (R5), and the changes to it.

use core::iter::once;

use crate::base::{Access, Interval, Rect, RectSet, Spans};

use super::{Action, Allocation};

/// Whole pages between the columns of resident matrices stay open while there are at most so many columns with such
/// gaps in a block: each is a mapping of its own, of which a process has 65,530.
pub const MAX_SEAMS: usize = 1024;

impl Allocation {
    /// What the CPU may do with the pages that `span` overlaps: the strictest of them. Where nothing is
    /// tracked, everything.
    #[must_use]
    pub fn access(&self, span: Interval) -> Access {
        let runs = self.observe(span);
        runs.into_iter()
            .map(|(_, access)| access)
            .min()
            .unwrap_or(Access::ReadWrite)
    }

    /// Appends the pages of the panels that `span` overlaps with what the CPU may do there, in ascending order,
    /// neighbours of the same access as one; the tracked part only.
    pub fn access_runs(&self, span: Interval, out: &mut Vec<(Interval, Access)>) {
        out.append(&mut self.observe(self.round_out(span)));
    }

    /// Whether gaps with whole pages in them are closed with the columns around them.
    #[must_use]
    pub fn coarse(&self) -> bool {
        self.coarse
    }

    /// What the CPU may do now with the pages that `span` overlaps: what [`Allocation::protect`] compares with.
    pub(super) fn observe(&self, span: Interval) -> Vec<(Interval, Access)> {
        self.derive(span, self.coarse)
    }

    /// R5, for the tracked pages that `span` overlaps.
    fn derive(&self, span: Interval, coarse: bool) -> Vec<(Interval, Access)> {
        let pages = span.align_out(self.page).intersect(self.tracked);
        let mut runs = Vec::new();
        if pages.is_empty() {
            return runs;
        }
        let closable = self.closable(pages);
        let closed = self.pages_with(once(&self.stale), &closable, coarse);
        let valid = self.replicas.iter().map(|(_, replica)| &replica.valid);
        let mut limited = self.pages_with(valid, &closable, coarse);
        limited.subtract(&closed);
        let mut marked: Vec<(Interval, Access)> = closed
            .iter()
            .map(|run| (*run, Access::None))
            .chain(limited.iter().map(|run| (*run, Access::Read)))
            .collect();
        marked.sort_by_key(|(run, _)| run.start);
        let mut at = pages.start;
        for (run, access) in marked {
            if run.start > at {
                runs.push((Interval::new(at, run.start), Access::ReadWrite));
            }
            runs.push((run, access));
            at = run.end;
        }
        if at < pages.end {
            runs.push((Interval::new(at, pages.end), Access::ReadWrite));
        }
        runs
    }

    /// The pages of `closable` that hold bytes of the sets.
    fn pages_with<'a>(
        &self,
        sets: impl Iterator<Item = &'a RectSet>,
        closable: &Spans,
        coarse: bool,
    ) -> Spans {
        let (mut pages, mut pieces) = (Vec::new(), Vec::new());
        let around: Rect = closable.span().into();
        for held in sets.flat_map(|set| set.near(&around)) {
            for run in closable.within(held.span().align_out(self.page)) {
                if coarse {
                    pages.push(run);
                } else {
                    held.intersect_into(&run.into(), &mut pieces);
                }
            }
            for piece in pieces.drain(..) {
                if piece.stride - piece.width < self.page {
                    pages.push(piece.span().align_out(self.page));
                } else {
                    pages.extend(piece.runs().map(|column| column.align_out(self.page)));
                }
            }
        }
        pages.into_iter().collect()
    }

    /// Columns of resident matrices with whole pages between them, at most.
    fn seams(&self) -> usize {
        let valid = self.replicas.iter().map(|(_, replica)| &replica.valid);
        once(&self.stale)
            .chain(valid)
            .flatten()
            .filter(|rect| rect.stride - rect.width >= self.page)
            .map(|rect| rect.count)
            .sum()
    }

    /// Appends the changes of access since `before` was observed.
    pub(super) fn protect(&mut self, before: &[(Interval, Access)], actions: &mut Vec<Action>) {
        let from = actions.len();
        let (Some((first, _)), Some((last, _))) = (before.first(), before.last()) else {
            return;
        };
        let seen = Interval::new(first.start, last.end);
        let coarse = self.seams() > MAX_SEAMS;
        if coarse != self.coarse {
            // The pages that were not observed hold what they held, but are limited by the other rule.
            for rest in [
                Interval::new(self.tracked.start, seen.start),
                Interval::new(seen.end, self.tracked.end),
            ] {
                let (old, new) = (self.derive(rest, !coarse), self.derive(rest, coarse));
                changes(&old, &new, from, actions);
            }
            self.set_coarse(coarse);
        }
        changes(before, &self.observe(seen), from, actions);
        self.unwatch_limited(&actions[from..]);
    }

    /// Pages that are limited from now on are not watched any longer.
    pub(super) fn unwatch_limited(&mut self, changes: &[Action]) {
        for change in changes {
            if let Action::Protect { span, access } = change
                && *access != Access::ReadWrite
                && self.watched.within(*span).next().is_some()
            {
                self.watched_mut().remove(*span);
            }
        }
    }
}

/// Appends what differs between two lists of runs over the same pages.
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

/// Appends a protection, or extends the last one from position `from` on if it goes on there.
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
