//! What an event may change, as it was: an event whose copies fail is undone.

use crate::base::{Rect, RectSet, ReplicaId, Spans};

use super::{Allocation, Event};

/// The part of an allocation's state that one event may change, as it was before. It costs a copy of the sets that the
/// event's bytes touch; of all of them only for the events that may change anything.
#[derive(Debug)]
pub struct Checkpoint(Saved);

#[derive(Debug)]
enum Saved {
    Whole(Allocation),
    Part {
        /// Unless the event leaves it as it is.
        stale: Option<RectSet>,
        valid: Vec<(ReplicaId, RectSet)>,
        hulls: Spans,
        coarse: bool,
    },
}

/// Whose validity an event may change.
#[derive(Clone, Copy)]
enum Whose {
    Nobodys,
    /// One replica's, and nothing else.
    Its(ReplicaId),
    /// A replica's, and those of all that hold some of the bytes.
    AlsoHolders(Option<ReplicaId>),
}

impl Allocation {
    /// What `event` may change.
    #[must_use]
    pub fn checkpoint(&self, event: &Event) -> Checkpoint {
        Checkpoint(match *event {
            Event::DeviceRead { replica, rect, .. } => self.part(&rect, Whose::Its(replica)),
            Event::Enclose { ref rect } => self.part(rect, Whose::Nobodys),
            Event::DeviceWrite { replica, rect, .. } => {
                self.part(&rect, Whose::AlsoHolders(Some(replica)))
            }
            Event::CpuRead { span } if self.stays_small() => {
                self.part(&span.into(), Whose::Nobodys)
            }
            Event::CpuWrite { span } if self.stays_small() => {
                // Pages that are shared with others from then on are given up whole.
                let pages = span.align_out(self.page);
                self.part(&pages.into(), Whose::AlsoHolders(None))
            }
            Event::Home { ref rect } => self.part(rect, Whose::Nobodys),
            _ => Saved::Whole(self.clone()),
        })
    }

    /// Takes back the event of the checkpoint; later ones were taken back before.
    pub fn restore(&mut self, checkpoint: Checkpoint) {
        match checkpoint.0 {
            Saved::Whole(before) => *self = before,
            Saved::Part {
                stale,
                valid,
                hulls,
                coarse,
            } => {
                (self.hulls, self.coarse) = (hulls, coarse);
                if let Some(stale) = stale {
                    self.stale = stale;
                }
                for (id, valid) in valid {
                    if let Ok(at) = self.find(id) {
                        self.replicas[at].1.valid = valid;
                    }
                }
            }
        }
    }

    fn part(&self, rect: &Rect, whose: Whose) -> Saved {
        let valid = match whose {
            Whose::Nobodys => Vec::new(),
            Whose::Its(id) => self
                .find(id)
                .map(|at| vec![(id, self.replicas[at].1.valid.clone())])
                .unwrap_or_default(),
            Whose::AlsoHolders(also) => self
                .replicas
                .iter()
                .filter(|(id, replica)| Some(*id) == also || replica.valid.overlaps(rect))
                .map(|(id, replica)| (*id, replica.valid.clone()))
                .collect(),
        };
        let stale = (!matches!(whose, Whose::Its(_))).then(|| self.stale.clone());
        Saved::Part {
            stale,
            valid,
            hulls: self.hulls.clone(),
            coarse: self.coarse,
        }
    }

    /// Whether an interval can be taken out of every set without any being trimmed: each rectangle leaves at most
    /// four.
    fn stays_small(&self) -> bool {
        let small = |set: &RectSet| set.len() <= self.limit / 4;
        small(&self.stale) && self.replicas.iter().all(|(_, r)| small(&r.valid))
    }
}
