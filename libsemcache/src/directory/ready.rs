//! Which events would change nothing: the fast check of a call whose operands are resident already, made at every such
//! call.

use crate::base::{Intent, Rect, RectSet, ReplicaId};

use super::{Allocation, Event};

impl Allocation {
    /// Whether a device's access to an operand, or its announcement ([`Event::Enclose`]), needs no change:
    /// [`Allocation::step`] would change nothing and append nothing. False for other events, and where the answer is
    /// not cheap to find.
    #[must_use]
    pub fn ready(&self, event: &Event) -> bool {
        match event {
            Event::DeviceRead { replica, rect, .. } => self
                .replica(*replica)
                .is_some_and(|holder| holder.device.is_some() && surely(&holder.valid, rect)),
            Event::DeviceWrite { replica, rect, .. } => {
                // By R1, bytes that are stale and in no other replica are all in this one.
                self.find_room(*replica, rect).is_ok()
                    && surely(&self.stale, rect)
                    && !self
                        .replicas()
                        .any(|(id, other)| id != *replica && other.valid.overlaps(rect))
            }
            Event::Enclose { rect } => self.enclosed(rect),
            _ => false,
        }
    }

    /// Whether a kernel's access to an operand, and the end of its call ([`Event::Settle`]), would leave the state as
    /// it is. If so, returns the bytes that the end of the call would write back: those that the kernel writes on
    /// accessible, write-tracked pages.
    #[must_use]
    pub fn repeats(&self, replica: ReplicaId, rect: &Rect, intent: Intent) -> Option<Vec<Rect>> {
        let open = self.untrapped(rect);
        let on_host = !open.iter().any(|part| self.stale.overlaps(part));
        if !on_host
            || !self.not_write_tracked(open.clone()).is_empty()
            || !self.ready(&Event::Enclose { rect: *rect })
        {
            return None;
        }
        if intent == Intent::Read || open.is_empty() {
            let used = Event::used(replica, *rect, intent);
            return self.ready(&used).then(Vec::new);
        }
        let written_back: RectSet = open.iter().copied().collect();
        let holder = &self.replicas[self.find_room(replica, rect).ok()?].1;
        let mut others = self.replicas().filter(|(id, _)| *id != replica);
        let alone = !others.any(|(_, other)| other.valid.overlaps(rect));
        let rest = self.stale.missing(rect);
        let settled = rest.iter().all(|part| written_back.contains(part))
            && open.iter().all(|part| surely(&holder.valid, part));
        (alone && settled && self.has_room_for(rect, &open)).then_some(open)
    }

    /// Whether a kernel's write, and the end of its call, would change nothing but this: other replicas lose the copies that they hold of
    /// these bytes, none of which lie on accessible pages ([`super::Action::Invalid`]). False where the answer is not cheap to find.
    #[must_use]
    pub fn only_outdates(&self, replica: ReplicaId, rect: &Rect) -> bool {
        let holds = |at: usize| surely(&self.replicas[at].1.valid, rect);
        // Their sets stay below the limit (R15): rectangles may be cut.
        let has_room = |valid: &RectSet| {
            let mut left = valid.clone();
            left.remove(rect);
            left.len() <= self.limit
        };
        let mut others = self.replicas().filter(|(id, _)| *id != replica);
        self.find_room(replica, rect).is_ok_and(holds)
            && surely(&self.stale, rect)
            && self.enclosed(rect)
            && self.untrapped(rect).is_empty()
            && !self.untidy(rect)
            && others.all(|(_, other)| !other.valid.overlaps(rect) || has_room(&other.valid))
    }

    /// Whether the set of stale bytes stays below its limit (R15) if a kernel writes `rect` and the end of the call writes these parts of
    /// it back: rectangles may be cut.
    fn has_room_for(&self, rect: &Rect, written_back: &[Rect]) -> bool {
        let mut stale = self.stale.clone();
        stale.insert(rect);
        for part in written_back {
            stale.remove(part);
        }
        stale.len() <= self.limit
    }
}

/// Whether a set contains a rectangle; false where the answer is not cheap to find.
fn surely(set: &RectSet, rect: &Rect) -> bool {
    set.near(rect).any(|have| have.contains(rect))
        || set.mixed(rect).next().is_none() && set.contains(rect)
}
