//! R16: which pages may be limited at all, so that what stands beside an operand stays the program's.
//!
//! The *hull* of a resident operand reaches from its first byte to its last: a contiguous operand's bytes, a matrix's
//! columns and the gaps between them. A strided vector has none: what lies between its elements is somebody else's. A
//! page may be limited only if the hulls cover every byte of it; padding of the allocator counts as covered.

use semcache_fault::broken;

use crate::base::{Interval, Rect, Spans};

use super::{Action, Allocation};

/// Runs of so many bytes are taken for the elements of a strided vector (the widest element is a double complex
/// number), longer ones for the columns of a matrix.
const ELEMENT: usize = 16;

impl Allocation {
    /// Notes that a device uses `rect`, which is about to be stale or valid.
    pub(super) fn enclose(&mut self, rect: &Rect) {
        if has_hull(rect) && !self.hulls.contains(rect.span()) {
            self.hulls_mut().insert(rect.span());
        }
    }

    /// The whole pages within `span` that the CPU can be kept out of, in ascending order: tracked, not eager, and
    /// covered by hulls.
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
        for run in self.eager.common(&pages.into()).iter().flat_map(Rect::runs) {
            closable.remove(run);
        }
        closable
    }

    /// The bytes of `rect` where nothing is trapped: outside of the tracked part, eager, or on pages that are shared
    /// with bytes beside the resident operands. Without an allocation if there are none.
    #[must_use]
    pub fn open_territory(&self, rect: &Rect) -> Vec<Rect> {
        let pages = rect.span().align_out(self.page);
        let covered = Interval::new(pages.start, pages.end.min(self.content));
        if self.tracked.encloses(pages)
            && self.hulls.contains(covered)
            && (self.eager.is_empty() || !self.eager.overlaps(rect))
        {
            return Vec::new();
        }
        let mut parts = Vec::new();
        for run in self.beside(&self.closable(pages), rect.span()) {
            rect.intersect_into(&run.into(), &mut parts);
        }
        parts
    }

    /// No page is watched any more, and replicas hold nothing of them that the host also has.
    pub fn forget_watched(&mut self) {
        self.watched.clear();
    }

    /// The parts of these open rectangles where what the CPU writes is not even learned afterwards.
    #[must_use]
    pub fn unwatched(&self, open: Vec<Rect>) -> Vec<Rect> {
        if self.watched.is_empty() {
            return open;
        }
        let mut parts = Vec::new();
        for rect in open {
            let mut rest: Spans = [rect.span()].into_iter().collect();
            rest.subtract(&self.watched);
            for run in rest.iter() {
                rect.intersect_into(&(*run).into(), &mut parts);
            }
        }
        parts
    }

    /// The parts of `span` between pages that can be closed.
    fn beside(&self, closable: &Spans, span: Interval) -> Vec<Interval> {
        let mut open = Vec::new();
        let mut at = span.start;
        for run in closable.iter() {
            open.push(Interval::new(at, run.start.min(span.end)));
            at = run.end.max(at);
        }
        open.push(Interval::new(at, span.end));
        open.retain(|run| !run.is_empty());
        open
    }

    /// No replica holds the bytes of `dropped` any more, but for those that they still do. What is left of them in no hull
    /// of a remaining operand is the program's again, and with it the pages around that hold nothing of a device, which
    /// gaps between columns may be. Where that leaves a page with bytes of the program's and of a device, the latter go
    /// home, and it opens.
    pub(super) fn uncover(
        &mut self,
        dropped: impl IntoIterator<Item = Interval>,
        actions: &mut Vec<Action>,
    ) {
        let mut gone: Spans = dropped.into_iter().collect();
        if gone.is_empty() {
            return;
        }
        let around = Rect::from(gone.span());
        for (_, replica) in &self.replicas {
            for held in replica.valid.near(&around).filter(|held| has_hull(held)) {
                gone.remove(held.span());
            }
        }
        for span in gone.iter() {
            let rest: Vec<Interval> = self.hulls.within(*span).collect();
            for part in rest {
                self.expose(part);
                let pages = part.align_out(self.page).intersect(self.tracked);
                for shared in self.beside(&self.closable(pages), pages) {
                    self.share(shared, actions);
                }
            }
            if let Some(unused) = self.unused_around(*span) {
                self.expose(unused);
            }
        }
    }

    /// The largest interval around `span` without a page of which a replica holds something; none if `span` has such pages.
    fn unused_around(&self, span: Interval) -> Option<Interval> {
        let mut unused = Interval::new(0, usize::MAX);
        for held in self.replicas.iter().flat_map(|(_, replica)| &replica.valid) {
            let whole = held.span().align_out(self.page);
            let sparse = !has_hull(held) && held.stride >= self.page;
            if whole.end <= span.start {
                unused.start = unused.start.max(whole.end);
            } else if whole.start >= span.end {
                unused.end = unused.end.min(whole.start);
            } else if sparse {
                // The element two before the one at the start has its page before it.
                let first = span.start.saturating_sub(held.start) / held.stride;
                for element in first.saturating_sub(2)..held.count {
                    let page = held.run(element).align_out(self.page);
                    if page.end <= span.start {
                        unused.start = unused.start.max(page.end);
                    } else if page.start >= span.end {
                        unused.end = unused.end.min(page.start);
                        break;
                    } else {
                        return None;
                    }
                }
            } else {
                return None;
            }
        }
        Some(unused)
    }

    /// The pages of `span` have bytes of the program's that no operand covers: what devices hold there goes home, and
    /// where the page is not watched, they hold it no longer.
    pub(super) fn share(&mut self, span: Interval, actions: &mut Vec<Action>) {
        let pages = span.align_out(self.page).intersect(self.tracked);
        if pages.is_empty() {
            return;
        }
        self.bring_home(&Rect::from(pages), actions);
        let mut lost: Spans = [pages].into_iter().collect();
        lost.subtract(&self.watched);
        for run in lost.iter() {
            self.drop_valid(&Rect::from(*run), actions);
            self.expose(*run);
        }
    }

    /// No hull covers the bytes of `span` any more.
    pub(super) fn expose(&mut self, span: Interval) {
        if self.hulls.within(span).next().is_some() {
            self.hulls_mut().remove(span);
        }
    }
}

/// Whether what lies between its runs belongs to it: it is one run, or a matrix.
pub(super) fn has_hull(rect: &Rect) -> bool {
    rect.is_interval() || rect.width > ELEMENT
}
