//! What an event changed, as it was: an event whose copies fail is undone.

use crate::base::{RectSet, ReplicaId, Spans};

use super::{Allocation, Replica};

/// What takes one event back: each set that the event changed, as it was before, and the replicas that it removed. Nothing
/// is copied that the event left alone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Undo {
    stale: Option<RectSet>,
    eager: Option<RectSet>,
    hulls: Option<Spans>,
    watched: Option<Spans>,
    coarse: Option<bool>,
    /// What replicas held.
    valid: Vec<(ReplicaId, RectSet)>,
    /// Replicas that are gone, as they were when they went.
    gone: Vec<(ReplicaId, Replica)>,
}

impl Allocation {
    /// Takes back the event that returned `undo`; later ones were taken back before.
    pub fn restore(&mut self, undo: Undo) {
        if let Some(stale) = undo.stale {
            self.stale = stale;
        }
        if let Some(eager) = undo.eager {
            self.eager = eager;
        }
        if let Some(hulls) = undo.hulls {
            self.hulls = hulls;
        }
        if let Some(watched) = undo.watched {
            self.watched = watched;
        }
        self.coarse = undo.coarse.unwrap_or(self.coarse);
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
        if let Some(undo) = &mut self.undo
            && undo.stale.is_none()
        {
            undo.stale = Some(self.stale.clone());
        }
        &mut self.stale
    }

    /// The eager panels, to be changed by an event.
    pub(super) fn eager_mut(&mut self) -> &mut RectSet {
        if let Some(undo) = &mut self.undo
            && undo.eager.is_none()
        {
            undo.eager = Some(self.eager.clone());
        }
        &mut self.eager
    }

    /// The hulls, to be changed by an event.
    pub(super) fn hulls_mut(&mut self) -> &mut Spans {
        if let Some(undo) = &mut self.undo
            && undo.hulls.is_none()
        {
            undo.hulls = Some(self.hulls.clone());
        }
        &mut self.hulls
    }

    /// The watched pages, to be changed by an event.
    pub(super) fn watched_mut(&mut self) -> &mut Spans {
        if let Some(undo) = &mut self.undo
            && undo.watched.is_none()
        {
            undo.watched = Some(self.watched.clone());
        }
        &mut self.watched
    }

    /// Gaps with whole pages in them are closed with the columns around them from now on, or no longer.
    pub(super) fn set_coarse(&mut self, coarse: bool) {
        if let Some(undo) = &mut self.undo {
            undo.coarse.get_or_insert(self.coarse);
        }
        self.coarse = coarse;
    }

    /// What the replica at a position holds, to be changed by an event.
    pub(super) fn valid_mut(&mut self, at: usize) -> &mut RectSet {
        let (id, replica) = &mut self.replicas[at];
        if let Some(undo) = &mut self.undo
            && !undo.valid.iter().any(|(known, _)| known == id)
        {
            undo.valid.push((*id, replica.valid.clone()));
        }
        &mut replica.valid
    }

    /// An event is done with replicas that it has removed.
    pub(super) fn removed(&mut self, gone: impl IntoIterator<Item = (ReplicaId, Replica)>) {
        if let Some(undo) = &mut self.undo {
            undo.gone.extend(gone);
        }
    }
}
