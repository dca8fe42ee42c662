//! Which events would change nothing: the answer that a resident call asks for, over and over.

use crate::base::{Rect, RectSet};

use super::hulls::has_hull;
use super::{Allocation, Event};

impl Allocation {
    /// Whether a device's access to an operand, or its announcement ([`Event::Enclose`]), finds everything as it needs it:
    /// [`Allocation::step`] would change nothing and append nothing. False for other events, and where that is not cheap to
    /// find out.
    #[must_use]
    pub fn ready(&self, event: &Event) -> bool {
        match event {
            Event::DeviceRead { replica, rect, .. } => self
                .replica(*replica)
                .is_some_and(|holder| surely(&holder.valid, rect)),
            Event::DeviceWrite { replica, rect, .. } => {
                // By R1, what is stale and in no other replica is all here.
                self.find_room(*replica, rect).is_ok()
                    && surely(&self.stale, rect)
                    && !self
                        .replicas()
                        .any(|(id, other)| id != *replica && other.valid.overlaps(rect))
            }
            Event::Enclose { rect } => !has_hull(rect) || self.hulls.contains(rect.span()),
            _ => false,
        }
    }
}

/// Whether a set contains a rectangle, as far as that is cheap to say.
fn surely(set: &RectSet, rect: &Rect) -> bool {
    set.near(rect).any(|have| have.contains(rect))
        || set.mixed(rect).next().is_none() && set.contains(rect)
}
