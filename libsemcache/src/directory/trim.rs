//! R15: sets stay small, so that every question stays cheap.

use crate::base::{Interval, Rect, RectSet};

use super::{Action, Allocation};

/// The most rectangles of a set whose spans meet the span of what a kernel is about to use.
pub const MAX_NEAR: usize = 16;

/// The most rectangles of a set that an access cuts in two.
const MAX_CROSSED: usize = 8;

/// Bytes up to which more than [`MAX_CROSSED`] rectangles are given up rather than cut by the CPU's access to a part of them.
const SMALL: usize = 64 << 10;

/// Runs that two operands of one kernel may have to be compared one by one: what each is cut into stays in the sets until
/// the kernel is launched.
const MAX_MIXING: usize = 16;

/// Whether two operands of one kernel can be held by the same sets: those that are mixed with each other would be cut into
/// as many pieces as they have runs.
#[must_use]
pub fn separable(a: &Rect, b: &Rect) -> bool {
    a.mixing(b) <= MAX_MIXING
}

impl Allocation {
    /// Whether [`super::Event::Tidy`] would give anything up.
    #[must_use]
    pub fn untidy(&self, rect: &Rect) -> bool {
        let mut sets = self.replicas.iter().map(|(_, replica)| &replica.valid);
        self.fat(&self.stale, rect) || sets.any(|valid| self.fat(valid, rect))
    }

    /// Gives up what `rect` could be added to the sets beside only in many pieces.
    pub(super) fn tidy(&mut self, rect: &Rect, actions: &mut Vec<Action>) {
        // What goes home out of one set may leave pieces in another.
        while self.untidy(rect) {
            self.give_up(|alloc, set, _| alloc.in_the_way(set, rect), actions);
        }
    }

    /// Gives up the smallest fragments of every set that has too many, until half of the limit is left:
    /// giving up one at a time would repeat the work at the next event.
    pub(super) fn trim(&mut self, actions: &mut Vec<Action>) {
        let limit = self.limit;
        // Pages that open because of it cut other fragments.
        while self.give_up(|_, set, _| smallest(set.iter(), limit), actions) {}
    }

    /// Gives up what the CPU's access to `span` would cut into pieces for little: stale bytes go home whole, and for a
    /// write what replicas hold of them is dropped.
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

    /// Gives up those fragments of every set that `which` names; it is told whether the set is that of the stale bytes.
    /// Whether there were any.
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
        self.bring_all_home(&stale, actions);
        let mut dropped = Vec::new();
        for (at, rects) in held {
            self.bring_all_home(&rects, actions);
            let replica = self.replicas[at].0;
            actions.extend(rects.iter().map(|&rect| Action::Invalid { replica, rect }));
            self.valid_mut(at).remove_all(&rects);
            dropped.extend(rects.iter().map(Rect::span));
        }
        self.hand_over(dropped, &before, actions);
        true
    }

    /// Whether there is anything [`Self::in_the_way`].
    fn fat(&self, set: &RectSet, rect: &Rect) -> bool {
        set.len() > self.limit
            || set.near(rect).nth(self.limit.min(MAX_NEAR)).is_some()
            || set.mixed(rect).next().is_some()
            || set.near(rect).nth(MAX_CROSSED).is_some()
                && set.crossed(rect).nth(MAX_CROSSED).is_some()
    }

    /// The fragments of a set that are mixed with `rect`, and the smallest where there are too many that it crosses, near
    /// it or in all.
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

/// The fragments to give up, smallest first, if there are more than `limit`: half of that many stay.
fn smallest<'a>(set: impl Iterator<Item = &'a Rect> + Clone, limit: usize) -> Vec<Rect> {
    if set.clone().nth(limit).is_none() {
        return Vec::new();
    }
    let mut rects: Vec<Rect> = set.copied().collect();
    rects.sort_by_key(Rect::bytes);
    rects.truncate(rects.len() - limit / 2);
    rects
}
