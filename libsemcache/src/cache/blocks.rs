//! Which block of host memory an operand belongs to.

use super::Cache;
use crate::base::Rect;
use crate::host::{self, Block};

/// Why devices cannot use bytes of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// They are only partly inside a block, or overlap one without belonging to it: their newest contents may be on a device, where a
    /// plain copy of host memory would miss them.
    Aliased,
    /// The program guards pages of them: the CPU's access faults there, as it does without semcache.
    Guarded,
}

impl Cache {
    /// The block that holds all of an operand of a call; `None` for transient memory, which the call can access. `written`: whether
    /// devices are to write the bytes.
    ///
    /// # Errors
    /// Devices cannot use the bytes.
    pub fn block_of(&self, place: &Rect, written: bool) -> Result<Option<Block>, Unusable> {
        let found = self.block_at(place)?;
        if found.is_none() && !host::guards::permits(place, written) {
            return Err(Unusable::Guarded);
        }
        Ok(found)
    }

    /// The block that holds all of a rectangle whose offsets are addresses, and which can be protected now; `None` for transient
    /// memory.
    ///
    /// # Errors
    /// [`Unusable::Aliased`].
    pub fn block_at(&self, place: &Rect) -> Result<Option<Block>, Unusable> {
        match host::holding(place.start, place.end()) {
            // `holding` may return a block that a foreign `free`, one that the hooks do not see, has unmapped:
            // `prepare` checks that.
            Some(b) if place.end() <= b.start + b.len => {
                if host::prepare(&b, place.start, place.end() - place.start) {
                    Ok(Some(b))
                } else {
                    Err(Unusable::Aliased)
                }
            }
            None if !self.overlaps(place.start, place.end())
                && host::find(place.end() - 1).is_none() =>
            {
                Ok(None)
            }
            _ => Err(Unusable::Aliased),
        }
    }
}
