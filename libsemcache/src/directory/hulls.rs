//! Hulls of resident operands: which pages may be protected at all, so that other data of the program beside an operand
//! stays accessible (R16).
//!
//! The *hull* of a resident operand reaches from its first byte to its last: a contiguous operand's bytes, a matrix's
//! columns and the gaps between them. A strided vector has no hull, because the bytes between its elements may be other
//! data of the program. A page may be protected only if the hulls cover every byte of it; padding of the allocator
//! counts as covered.

use semcache_fault::broken;

use crate::base::{Access, Interval, Rect, Spans};

use super::{Action, Allocation};

/// Runs of at most this number of bytes are taken for the elements of a strided vector (the widest element is a double
/// complex number), longer ones for the columns of a matrix.
const ELEMENT: usize = 16;

/// Which of the bytes that were invalidated in replicas leave the hulls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leaving {
    /// All of them: the CPU writes there.
    All,
    /// Those that lie in the span of no rectangle that a replica holds.
    Unspanned,
    /// Those of [`Leaving::Unspanned`] on pages of which no replica holds a byte: a page on which two tiles of a matrix
    /// meet stays protected when one of them is evicted.
    Evicted,
}

impl Allocation {
    /// Adds the hull of `rect`, which a device uses and which is about to be stale or valid.
    pub(super) fn enclose(&mut self, rect: &Rect) {
        if !has_hull(rect) {
            return;
        }
        if !self.hulls.contains(rect.span()) {
            self.hulls_mut().insert(rect.span());
        }
        if self.is_large(rect) {
            self.note_large(rect);
        }
    }

    /// Whether the announcement of an operand changes nothing.
    pub(super) fn enclosed(&self, rect: &Rect) -> bool {
        !has_hull(rect) || self.hulls.contains(rect.span()) && !self.is_large(rect)
    }

    /// The whole pages within `span` that may be protected, in ascending order: tracked, not write-through, and covered
    /// by hulls.
    pub(super) fn closable(&self, span: Interval) -> Spans {
        let pages = span.align_out(self.page).intersect(self.tracked);
        if broken!("break-neighbours") {
            return [pages].into_iter().collect();
        }
        let covered = self.hulls.within(pages).map(|mut hull| {
            if hull.end >= self.content.min(pages.end) {
                hull.end = pages.end;
            }
            hull.align_in(self.page)
        });
        let mut closable: Spans = covered.collect();
        for run in self
            .write_through
            .common(&pages.into())
            .iter()
            .flat_map(Rect::runs)
        {
            closable.remove(run);
        }
        closable
    }

    /// The untrapped bytes of `rect`: outside of the tracked part, write-through, or on pages that are shared with
    /// bytes beside the resident operands. If there are none, the empty result costs no heap allocation.
    #[must_use]
    pub fn untrapped(&self, rect: &Rect) -> Vec<Rect> {
        let pages = rect.span().align_out(self.page);
        let covered = Interval::new(pages.start, pages.end.min(self.content));
        if self.tracked.encloses(pages)
            && self.hulls.contains(covered)
            && (self.write_through.is_empty() || !self.write_through.overlaps(rect))
        {
            return Vec::new();
        }
        let mut parts = Vec::new();
        for run in self.closable(pages).gaps(rect.span()) {
            rect.intersect_into(&run.into(), &mut parts);
        }
        parts
    }

    /// Forgets which pages were write-tracked. The caller has invalidated in replicas what the host also has of them.
    pub fn forget_tracked_edges(&mut self) {
        self.tracked_edges.clear();
    }

    /// The parts of these untrapped rectangles that are not write-tracked either, so that no scan finds what the CPU
    /// writes there.
    #[must_use]
    pub fn not_write_tracked(&self, open: Vec<Rect>) -> Vec<Rect> {
        if self.tracked_edges.is_empty() {
            return open;
        }
        let mut parts = Vec::new();
        for rect in open {
            for run in self.tracked_edges.gaps(rect.span()) {
                rect.intersect_into(&run.into(), &mut parts);
            }
        }
        parts
    }

    /// Adjusts the hulls after the bytes of `dropped` were invalidated in replicas: those that are `leaving` belong to the
    /// program again. Where that leaves a page with bytes of the program and bytes that a device holds, the latter are written back,
    /// and the page becomes accessible. Returns pages that are still in the hulls although no rectangle that a replica
    /// holds spans them, as gaps between columns may be: these pages belong to the program, too ([`Self::release`]).
    #[must_use]
    pub(super) fn uncover(
        &mut self,
        dropped: impl IntoIterator<Item = Interval>,
        leaving: Leaving,
        actions: &mut Vec<Action>,
    ) -> Spans {
        let mut gone: Spans = dropped.into_iter().collect();
        let hulls: Vec<Interval> = self.hulls.meeting(gone.span()).collect();
        let Some(around) = hulls.iter().copied().reduce(Interval::around) else {
            return Spans::new();
        };
        let spanned = self.spanned(around);
        if leaving != Leaving::All {
            gone.subtract(&spanned);
        }
        if leaving == Leaving::Evicted {
            gone = gone
                .iter()
                .map(|run| self.without_held_edges(*run))
                .collect();
        }
        let done = actions.len();
        for span in gone.iter() {
            let rest: Vec<Interval> = self.hulls.within(*span).collect();
            for part in rest {
                self.expose(part);
                let pages = part.align_out(self.page).intersect(self.tracked);
                for shared in self.closable(pages).gaps(pages) {
                    self.share(shared, actions);
                }
            }
        }
        // Bytes that were written back because their page is shared span nothing any longer.
        let spanned = if actions.len() == done {
            spanned
        } else {
            self.spanned(around)
        };
        self.unused(around, &spanned)
    }

    /// `run` without the bytes on its first and on its last page, where a replica holds bytes of that page.
    fn without_held_edges(&self, mut run: Interval) -> Interval {
        let page = |at: usize| Interval::new(at, at + 1).align_out(self.page);
        let first = page(run.start);
        if self.held(&first.into()) {
            run.start = first.end.min(run.end);
        }
        if !run.is_empty() {
            let last = page(run.end - 1);
            if self.held(&last.into()) {
                run.end = last.start.max(run.start);
            }
        }
        run
    }

    /// The pages of the hulls in `around` that no device holds a byte of, outside of `spanned`, the spans of the
    /// rectangles that replicas hold there, and that are not protected for the sake of a large operand.
    fn unused(&self, around: Interval, spanned: &Spans) -> Spans {
        let mut unused: Spans = self
            .hulls
            .within(around)
            .flat_map(|part| spanned.gaps(part.align_out(self.page)))
            .map(|between| between.align_in(self.page))
            .collect();
        if !unused.is_empty() {
            // Unused pages that are protected together with others of their panel become accessible together with
            // those, so huge pages stay in one piece. These panels are found without a look at each column: columns
            // that are less than a panel apart have bytes in every panel between them.
            let closable = self.closable(self.round_out(unused.span()));
            let valid = || self.replicas.iter().map(|(_, replica)| &replica.valid);
            let around = self.pages_with(valid(), &closable, self.panel);
            let together = self.together(&around, &closable);
            unused.subtract(&together.into_iter().collect());
            if around
                .iter()
                .any(|run| unused.meeting(*run).next().is_some())
            {
                unused.subtract(&self.pages_with(valid(), &closable, self.page));
            }
        }
        unused
    }

    /// Takes the pages of `span` out of the hulls that were there for the sake of a large operand only, which has been
    /// forgotten. The caller derives the access of pages afterwards.
    pub(super) fn expose_unused(&mut self, span: Interval) {
        let hulls: Vec<Interval> = self.hulls.meeting(span).collect();
        if let Some(around) = hulls.into_iter().reduce(Interval::around) {
            let unused = self.unused(around, &self.spanned(around));
            unused.iter().for_each(|run| self.expose(*run));
        }
    }

    /// The spans of the rectangles near `span` that replicas hold, gaps between columns included.
    fn spanned(&self, span: Interval) -> Spans {
        let near = Rect::from(span);
        let valid = self.replicas.iter().map(|(_, replica)| &replica.valid);
        let held = valid.flat_map(|set| set.near(&near));
        held.filter(|held| has_hull(held)).map(Rect::span).collect()
    }

    /// Takes pages of which no device holds a byte out of the hulls, after an event's other changes of access: those
    /// that lay in narrow gaps, or in a panel with others of their operand, become accessible, also outside the event's
    /// own bytes.
    pub(super) fn release(&mut self, unused: &Spans, actions: &mut Vec<Action>) {
        for run in unused.iter() {
            let may_be_protected = run.len() < self.least_gap() || self.has_large(*run);
            if may_be_protected && self.access(*run) != Access::ReadWrite {
                let before = self.observe(*run);
                self.expose(*run);
                self.protect(&before, actions);
            } else {
                self.expose(*run);
            }
        }
    }

    /// Updates hulls and page access after the bytes of `dropped` were invalidated in replicas; `before` is the access
    /// observed before that.
    pub(super) fn hand_over(
        &mut self,
        dropped: impl IntoIterator<Item = Interval>,
        leaving: Leaving,
        before: &[(Interval, Access)],
        actions: &mut Vec<Action>,
    ) {
        let dropped: Spans = dropped.into_iter().collect();
        let unused = self.uncover(dropped.iter().copied(), leaving, actions);
        self.protect(before, actions);
        self.release(&unused, actions);
        self.forget_large(dropped.span(), actions);
    }

    /// The pages of `span` have bytes of the program that no operand covers: what devices hold there is written back,
    /// and where the page is not write-tracked, it is invalidated in all replicas.
    pub(super) fn share(&mut self, span: Interval, actions: &mut Vec<Action>) {
        let pages = span.align_out(self.page).intersect(self.tracked);
        if pages.is_empty() {
            return;
        }
        self.write_back(&Rect::from(pages), actions);
        let lost: Vec<Interval> = self.tracked_edges.gaps(pages).collect();
        for run in lost {
            self.drop_valid(&Rect::from(run), actions);
            self.expose(run);
        }
    }

    /// Takes the bytes of `span` out of all hulls.
    pub(super) fn expose(&mut self, span: Interval) {
        if self.hulls.within(span).next().is_some() {
            self.hulls_mut().remove(span);
        }
    }
}

/// Whether the bytes between the rectangle's runs belong to it: it is one run, or the columns of a matrix.
pub(super) fn has_hull(rect: &Rect) -> bool {
    rect.is_interval() || rect.width > ELEMENT
}
