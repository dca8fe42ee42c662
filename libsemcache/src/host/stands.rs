//! Whether a block that was found before is still what it was, for whoever is told of all that the hooks see.

use super::observer::run_of;
use super::{Block, Provenance, glibc, registry};

/// Whether the memory of a block that is in use is still that block's, as far as the observer cannot know: a library
/// that was bound past our `free` may have unmapped it, and an object with its static data may be gone. What
/// goes through our hooks is not looked at: the observer was told of it before the memory changed hands.
#[must_use]
pub fn stands(block: &Block) -> bool {
    if run_of(block.id).is_some() {
        return glibc::header_stands(block.start, block.id.0);
    }
    registry::find(block.start).is_some_and(|b| b.id == block.id)
}

/// Whether a block of ours was unmapped by a library that was bound past our `free`. Asked before bytes are sent home,
/// under the observer's locks: nobody wants them, and a device could not write them.
#[must_use]
pub fn vanished(block: &Block) -> bool {
    block.provenance == Provenance::Owned && !glibc::header_stands(block.start, block.id.0)
}
