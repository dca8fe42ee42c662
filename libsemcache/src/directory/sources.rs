//! Where bytes come from: copies to a replica and copies home.

use crate::base::{Rect, ReplicaId};

use super::{Action, Allocation, Place, Replica};

impl Allocation {
    /// Appends the copies that bring `rect`, none of which it holds, to the replica at position `to`.
    pub(super) fn bring_up(
        &self,
        rect: &Rect,
        to: usize,
        peer_first: bool,
        actions: &mut Vec<Action>,
    ) {
        let (id, device) = (self.replicas[to].0, self.replicas[to].1.device);
        let place = Place::Replica(id);
        let near = |other: ReplicaId, replica: &Replica| other != id && replica.device == device;
        let far = |_: ReplicaId, replica: &Replica| replica.device != device;
        for piece in self.stale.common(rect) {
            let rest = self.copy_from(near, vec![piece], place, actions);
            let rest = self.copy_from(far, rest, place, actions);
            debug_assert!(rest.is_empty(), "R1: {rest:?} is stale and valid nowhere");
        }
        for piece in self.stale.missing(rect) {
            let mut rest = self.copy_from(near, vec![piece], place, actions);
            if peer_first {
                rest = self.copy_from(far, rest, place, actions);
            }
            let copies = rest.into_iter().map(|rect| Action::Copy {
                from: Place::Host,
                to: place,
                rect,
            });
            actions.extend(copies);
        }
    }

    /// Appends the copies that bring the stale bytes of `rect` home, and takes them out of `stale`.
    pub(super) fn bring_home(&mut self, rect: &Rect, actions: &mut Vec<Action>) {
        let pieces = self.stale.common(rect);
        if !pieces.is_empty() {
            self.send_home(pieces, actions);
            self.stale_mut().remove(rect);
        }
    }

    /// The same for several rectangles, which are disjoint.
    pub(super) fn bring_all_home(&mut self, rects: &[Rect], actions: &mut Vec<Action>) {
        let pieces: Vec<Rect> = rects.iter().flat_map(|r| self.stale.common(r)).collect();
        if !pieces.is_empty() {
            self.send_home(pieces.clone(), actions);
            self.stale_mut().remove_all(&pieces);
        }
    }

    /// Appends the copies that bring pieces home, all of them stale.
    fn send_home(&self, pieces: Vec<Rect>, actions: &mut Vec<Action>) {
        let rest = self.copy_from(|_, _| true, pieces, Place::Host, actions);
        debug_assert!(rest.is_empty(), "R1: {rest:?} is stale and valid nowhere");
    }

    /// Takes `rect` out of what replicas hold.
    pub(super) fn drop_valid(&mut self, rect: &Rect, actions: &mut Vec<Action>) {
        for at in 0..self.replicas.len() {
            self.invalidate(at, rect, actions);
        }
    }

    /// Takes `rect` out of what the replica at a position holds.
    pub(super) fn invalidate(&mut self, at: usize, rect: &Rect, actions: &mut Vec<Action>) {
        let (replica, held) = (self.replicas[at].0, &self.replicas[at].1.valid);
        let gone = held.common(rect);
        if !gone.is_empty() {
            actions.extend(
                gone.into_iter()
                    .map(|rect| Action::Invalid { replica, rect }),
            );
            self.valid_mut(at).remove(rect);
        }
    }

    /// The bytes of `rect` that are stale and that no replica holds (any more).
    pub(super) fn orphans(&self, rect: &Rect) -> Vec<Rect> {
        let mut rest = self.stale.common(rect);
        for (_, replica) in &self.replicas {
            if !rest.is_empty() {
                rest = rest
                    .iter()
                    .flat_map(|piece| replica.valid.missing(piece))
                    .collect();
            }
        }
        rest
    }

    /// Appends copies of the pieces from the chosen replicas, in the order of their ids; returns what none
    /// of them holds.
    fn copy_from(
        &self,
        chosen: impl Fn(ReplicaId, &Replica) -> bool,
        mut pieces: Vec<Rect>,
        to: Place,
        actions: &mut Vec<Action>,
    ) -> Vec<Rect> {
        for (id, replica) in &self.replicas {
            if pieces.is_empty() {
                break;
            }
            if !chosen(*id, replica) || !pieces.iter().any(|piece| replica.valid.overlaps(piece)) {
                continue;
            }
            let from = Place::Replica(*id);
            for piece in &pieces {
                let copies = replica.valid.common(piece);
                actions.extend(
                    copies
                        .into_iter()
                        .map(|rect| Action::Copy { from, to, rect }),
                );
            }
            pieces = pieces
                .iter()
                .flat_map(|piece| replica.valid.missing(piece))
                .collect();
        }
        pieces
    }
}
