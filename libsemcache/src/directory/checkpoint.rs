//! Undo of an event whose copies fail: the sets that the event changed, as they were before.

use crate::base::{RectSet, ReplicaId, Spans};

use super::state::{Large, Undo};
use super::{Allocation, Replica};

impl Allocation {
    /// Takes back the event that returned `undo`; later events must have been taken back before.
    pub fn restore(&mut self, undo: Undo) {
        if let Some(stale) = undo.stale {
            self.stale = stale;
        }
        if let Some(write_through) = undo.write_through {
            self.write_through = write_through;
        }
        if let Some(hulls) = undo.hulls {
            self.hulls = hulls;
        }
        if let Some(large) = undo.large {
            self.large = large;
        }
        if let Some(tracked_edges) = undo.tracked_edges {
            self.tracked_edges = tracked_edges;
        }
        self.replicas.extend(undo.gone);
        self.replicas.sort_unstable_by_key(|(id, _)| *id);
        for (id, valid) in undo.valid {
            if let Ok(at) = self.find(id) {
                self.replicas[at].1.valid = valid;
            }
        }
    }

    /// The stale bytes, to be changed by an event.
    pub(super) fn stale_mut(&mut self) -> &mut RectSet {
        note(&mut self.undo, |undo| &mut undo.stale, &self.stale);
        &mut self.stale
    }

    /// The write-through panels, to be changed by an event.
    pub(super) fn write_through_mut(&mut self) -> &mut RectSet {
        note(
            &mut self.undo,
            |undo| &mut undo.write_through,
            &self.write_through,
        );
        &mut self.write_through
    }

    /// The hulls, to be changed by an event.
    pub(super) fn hulls_mut(&mut self) -> &mut Spans {
        note(&mut self.undo, |undo| &mut undo.hulls, &self.hulls);
        &mut self.hulls
    }

    /// The large operands, to be changed by an event.
    pub(super) fn large_mut(&mut self) -> &mut Vec<Large> {
        note(&mut self.undo, |undo| &mut undo.large, &self.large);
        &mut self.large
    }

    /// The write-tracked pages, to be changed by an event.
    pub(super) fn tracked_edges_mut(&mut self) -> &mut Spans {
        note(
            &mut self.undo,
            |undo| &mut undo.tracked_edges,
            &self.tracked_edges,
        );
        &mut self.tracked_edges
    }

    /// The valid bytes of the replica at a position, to be changed by an event.
    pub(super) fn valid_mut(&mut self, at: usize) -> &mut RectSet {
        let (id, replica) = &mut self.replicas[at];
        if let Some(undo) = &mut self.undo
            && !undo.valid.iter().any(|(known, _)| known == id)
        {
            undo.valid.push((*id, replica.valid.clone()));
        }
        &mut replica.valid
    }

    /// Keeps the replicas that an event has removed, so that the event can be taken back.
    pub(super) fn removed(&mut self, gone: impl IntoIterator<Item = (ReplicaId, Replica)>) {
        if let Some(undo) = &mut self.undo {
            undo.gone.extend(gone);
        }
    }
}

/// Keeps a copy of a set before its first change by an event, so that the event can be taken back. Between events
/// nothing is kept.
fn note<T: Clone>(undo: &mut Option<Undo>, place: fn(&mut Undo) -> &mut Option<T>, now: &T) {
    if let Some(undo) = undo {
        place(undo).get_or_insert_with(|| now.clone());
    }
}
