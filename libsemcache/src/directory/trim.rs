//! Bounds on the directory's byte sets (R15): small fragments are written back and invalidated, so that every query
//! stays cheap.

use crate::base::{Interval, Rect, RectSet};

use super::hulls::Leaving;
use super::{Action, Allocation};

/// The most rectangles of a set whose spans meet the span of the bytes that a kernel is about to use.
pub const MAX_NEAR: usize = 16;

/// The most rectangles of a set that an access cuts in two.
const MAX_CROSSED: usize = 8;

/// When the CPU's access would cut more than [`MAX_CROSSED`] rectangles of at most this number of bytes, they are
/// written back whole, and for a write invalidated, instead of cut.
const SMALL: usize = 64 << 10;

/// Runs that may have to be compared one by one between two operands of one kernel: the pieces that they cut each other
/// into stay in the sets until the kernel is launched.
const MAX_RUNS: usize = 16;

/// Whether the same sets can hold two operands of one kernel: operands that are mixed with each other would be cut into
/// as many pieces as they have runs.
#[must_use]
pub fn separable(a: &Rect, b: &Rect) -> bool {
    a.runs_to_visit(b) <= MAX_RUNS
}

impl Allocation {
    /// Whether [`super::Event::Tidy`] would remove any fragment from a set.
    #[must_use]
    pub fn untidy(&self, rect: &Rect) -> bool {
        let mut sets = self.replicas.iter().map(|(_, replica)| &replica.valid);
        self.fat(&self.stale, rect) || sets.any(|valid| self.fat(valid, rect))
    }

    /// Writes back and invalidates the fragments beside which `rect` could be added to the sets only in many pieces.
    pub(super) fn tidy(&mut self, rect: &Rect, actions: &mut Vec<Action>) {
        // Writing back bytes of one set may leave pieces in another set.
        while self.untidy(rect) {
            self.give_up(|alloc, set, _| alloc.in_the_way(set, rect), actions);
        }
    }

    /// Writes back and invalidates the smallest fragments of every set that has too many, until half of the limit is
    /// left: one at a time would repeat the work at the next event.
    pub(super) fn trim(&mut self, actions: &mut Vec<Action>) {
        let limit = self.limit;
        // Pages that become accessible as a result cut further fragments.
        while self.give_up(|_, set, _| smallest(set.iter(), limit), actions) {}
    }

    /// Small fragments that the CPU's access to `span` would cut are taken out of the sets whole: stale bytes are
    /// written back, and for a write what replicas hold of the fragments is invalidated.
    pub(super) fn make_way(&mut self, span: Interval, write: bool, actions: &mut Vec<Action>) {
        let rect = Rect::from(span);
        self.give_up(
            |_, set, stale| {
                let small = |have: &&Rect| have.bytes() <= SMALL;
                let crossed = set.crossed(&rect).filter(small).copied();
                let crossed: Vec<Rect> = crossed.collect();
                if (write || stale) && crossed.len() > MAX_CROSSED {
                    crossed
                } else {
                    Vec::new()
                }
            },
            actions,
        );
    }

    /// Writes back and invalidates those fragments of every set that `which` names; `which` is told whether the set is
    /// that of the stale bytes. Returns whether there were any.
    fn give_up(
        &mut self,
        which: impl Fn(&Self, &RectSet, bool) -> Vec<Rect>,
        actions: &mut Vec<Action>,
    ) -> bool {
        let stale = which(self, &self.stale, true);
        let mut held = Vec::new();
        for (at, (_, replica)) in self.replicas.iter().enumerate() {
            let rects = which(self, &replica.valid, false);
            if !rects.is_empty() {
                held.push((at, rects));
            }
        }
        let spans = stale.iter().chain(held.iter().flat_map(|(_, rects)| rects));
        let Some(span) = spans.map(Rect::span).reduce(Interval::around) else {
            return false;
        };
        let before = self.observe(span);
        self.write_all_back(&stale, actions);
        let mut dropped = Vec::new();
        for (at, rects) in held {
            self.write_all_back(&rects, actions);
            let replica = self.replicas[at].0;
            actions.extend(rects.iter().map(|&rect| Action::Invalid { replica, rect }));
            self.valid_mut(at).remove_all(&rects);
            dropped.extend(rects.iter().map(Rect::span));
        }
        self.hand_over(dropped, Leaving::Unspanned, &before, actions);
        true
    }

    /// Whether [`Self::in_the_way`] names any fragment.
    fn fat(&self, set: &RectSet, rect: &Rect) -> bool {
        set.len() > self.limit
            || set.near(rect).nth(self.limit.min(MAX_NEAR)).is_some()
            || set.mixed(rect).next().is_some()
            || set.near(rect).nth(MAX_CROSSED).is_some()
                && set.crossed(rect).nth(MAX_CROSSED).is_some()
    }

    /// The fragments of a set that are mixed with `rect`, and the smallest ones of those that cross `rect`, lie near
    /// it, or are in the set at all, where these are too many.
    fn in_the_way(&self, set: &RectSet, rect: &Rect) -> Vec<Rect> {
        if !self.fat(set, rect) {
            return Vec::new();
        }
        let mut gone: Vec<Rect> = set.mixed(rect).copied().collect();
        gone.extend(smallest(set.crossed(rect), MAX_CROSSED));
        for (limit, all) in [(MAX_NEAR.min(self.limit), false), (self.limit, true)] {
            let kept = |have: &&Rect| !gone.contains(have);
            let more = if all {
                smallest(set.iter().filter(kept), limit)
            } else {
                smallest(set.near(rect).filter(kept), limit)
            };
            gone.extend(more);
        }
        gone
    }
}

/// The fragments to remove, smallest first, if there are more than `limit`: half of `limit` stay.
fn smallest<'a>(set: impl Iterator<Item = &'a Rect> + Clone, limit: usize) -> Vec<Rect> {
    if set.clone().nth(limit).is_none() {
        return Vec::new();
    }
    let mut rects: Vec<Rect> = set.copied().collect();
    rects.sort_by_key(Rect::bytes);
    rects.truncate(rects.len() - limit / 2);
    rects
}
