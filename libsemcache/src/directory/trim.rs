//! R15: sets stay small, so that every question stays cheap.

use crate::base::{Rect, RectSet};

use super::sources::invalidate;
use super::{Action, Allocation};

/// The most rectangles in any set of an allocation between calls.
pub const MAX_FRAGMENTS: usize = 512;

impl Allocation {
    /// Gives up the smallest fragments of every set that has too many, until half of the limit is left:
    /// giving up one at a time would repeat the work at the next event.
    pub(super) fn trim(&mut self, actions: &mut Vec<Action>) {
        let limit = self.limit;
        let fits = |set: &RectSet| set.len() <= limit;
        if fits(&self.stale)
            && self
                .replicas
                .iter()
                .all(|(_, replica)| fits(&replica.valid))
        {
            return;
        }
        let before = self.observe(self.tracked);
        for at in 0..self.replicas.len() {
            let given_up = smallest(&self.replicas[at].1.valid, limit);
            for rect in &given_up {
                self.bring_home(rect, actions);
                let (id, replica) = &mut self.replicas[at];
                invalidate(*id, replica, rect, actions);
            }
            self.uncover(given_up.iter().map(Rect::span), actions);
        }
        for rect in smallest(&self.stale, limit) {
            self.bring_home(&rect, actions);
        }
        self.protect(&before, actions);
    }
}

/// The fragments to give up, smallest first; none if there are not too many.
fn smallest(set: &RectSet, limit: usize) -> Vec<Rect> {
    if set.len() <= limit {
        return Vec::new();
    }
    let mut rects: Vec<Rect> = set.iter().copied().collect();
    rects.sort_by_key(Rect::bytes);
    rects.truncate(set.len() - limit / 2);
    rects
}
