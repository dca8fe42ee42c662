//! Sources of copies: from where a replica gets bytes that it lacks (upload), and from which replica the host does
//! (write-back).

use crate::base::{DeviceId, Link, Rect, ReplicaId};

use super::{Action, Allocation, Place, Replica};

impl Allocation {
    /// Appends the copies that fill `rect` of the replica at position `to`, which holds none of its bytes.
    pub(super) fn bring_up(&self, rect: &Rect, to: usize, actions: &mut Vec<Action>) {
        let (id, Replica { device, .. }) = &self.replicas[to];
        let (id, Some(device)) = (*id, *device) else {
            return;
        };
        let place = Place::Replica(id);
        let near = |other: ReplicaId, from: DeviceId| other != id && from == device;
        let over = |link: Link, stale: bool| {
            move |id: ReplicaId, from: DeviceId| {
                from != device
                    && self.links.of(device, from) == link
                    && (stale || !self.not_from.contains(&id))
            }
        };
        for (pieces, stale) in [
            (self.stale.common(rect), true),
            (self.stale.missing(rect), false),
        ] {
            let mut rest = self.copy_from(near, pieces, place, actions);
            for link in self.links.faster(device) {
                rest = self.copy_from(over(link, stale), rest, place, actions);
            }
            if stale {
                rest = self.copy_from(over(Link::Slower, stale), rest, place, actions);
                rest = self.copy_from(over(Link::None, stale), rest, place, actions);
                debug_assert!(rest.is_empty(), "R1: {rest:?} is stale and valid nowhere");
            } else {
                let copies = rest.into_iter().map(|rect| Action::Copy {
                    from: Place::Host,
                    to: place,
                    rect,
                });
                actions.extend(copies);
            }
        }
    }

    /// Whether each byte of `rect` is on some device.
    #[must_use]
    pub fn on_devices(&self, rect: &Rect) -> bool {
        self.nowhere(vec![*rect]).is_empty()
    }

    /// Of these pieces, the bytes that are on no device.
    #[must_use]
    pub fn nowhere(&self, mut pieces: Vec<Rect>) -> Vec<Rect> {
        for (_, replica) in self.replicas.iter().filter(|(_, r)| r.device.is_some()) {
            if pieces.is_empty() {
                break;
            }
            pieces = pieces
                .iter()
                .flat_map(|piece| replica.valid.missing(piece))
                .collect();
        }
        pieces
    }

    /// The stale bytes of `rect` that a replica lacks, and that only devices hold to which its device has no link. They are
    /// written back before the device reads `rect`, so that they come from the host.
    #[must_use]
    pub fn out_of_reach(&self, replica: ReplicaId, rect: &Rect) -> Vec<Rect> {
        let Ok(to) = self.find(replica) else {
            return Vec::new();
        };
        let Some(device) = self.replicas[to].1.device else {
            return Vec::new();
        };
        let has_link = |from: DeviceId| from == device || self.links.of(device, from) != Link::None;
        // A derived replica holds no stale byte.
        let reached = |replica: &Replica| replica.device.is_none_or(has_link);
        if self.replicas.iter().all(|(_, replica)| reached(replica)) {
            return Vec::new();
        }
        let mut rest = self.stale.common(rect);
        for (_, replica) in self.replicas.iter().filter(|(_, replica)| reached(replica)) {
            rest = rest
                .iter()
                .flat_map(|piece| replica.valid.missing(piece))
                .collect();
        }
        rest
    }

    /// Appends the copies that write back the stale bytes of `rect`, and takes the bytes out of `stale`.
    pub(super) fn write_back(&mut self, rect: &Rect, actions: &mut Vec<Action>) {
        let pieces = self.stale.common(rect);
        if !pieces.is_empty() {
            self.queue_write_backs(pieces, actions);
            self.stale_mut().remove(rect);
        }
    }

    /// Writes back the stale bytes of several disjoint rectangles.
    pub(super) fn write_all_back(&mut self, rects: &[Rect], actions: &mut Vec<Action>) {
        let pieces: Vec<Rect> = rects.iter().flat_map(|r| self.stale.common(r)).collect();
        if !pieces.is_empty() {
            self.queue_write_backs(pieces.clone(), actions);
            self.stale_mut().remove_all(&pieces);
        }
    }

    /// Appends the copies that write back `pieces`, all of which are stale.
    fn queue_write_backs(&self, pieces: Vec<Rect>, actions: &mut Vec<Action>) {
        let rest = self.copy_from(|_, _| true, pieces, Place::Host, actions);
        debug_assert!(rest.is_empty(), "R1: {rest:?} is stale and valid nowhere");
    }

    /// Invalidates `rect` in all replicas.
    pub(super) fn drop_valid(&mut self, rect: &Rect, actions: &mut Vec<Action>) {
        for at in 0..self.replicas.len() {
            self.invalidate(at, rect, actions);
        }
    }

    /// Invalidates `rect` in the replica at a position.
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

    /// The stale bytes of `rect` that none of the remaining replicas holds.
    pub(super) fn orphans(&self, rect: &Rect) -> Vec<Rect> {
        self.nowhere(self.stale.common(rect))
    }

    /// Appends copies of the pieces from the chosen replicas, in the order of their ids; returns the bytes that none of
    /// these replicas holds.
    fn copy_from(
        &self,
        chosen: impl Fn(ReplicaId, DeviceId) -> bool,
        mut pieces: Vec<Rect>,
        to: Place,
        actions: &mut Vec<Action>,
    ) -> Vec<Rect> {
        for (id, replica) in &self.replicas {
            if pieces.is_empty() {
                break;
            }
            let from_here = replica.device.is_some_and(|device| chosen(*id, device));
            if !from_here || !pieces.iter().any(|piece| replica.valid.overlaps(piece)) {
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
