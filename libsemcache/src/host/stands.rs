//! Whether a block that was found before is still the memory that it was, although memory can be unmapped without any
//! of semcache's hooks being called.

use super::observer::run_of;
use super::{Block, Provenance, glibc, registry};

/// Whether the memory of a block that is in use still belongs to the block. A library that calls libc's `free`
/// directly, past semcache's, may have unmapped the memory, and static data disappears with its object. Changes that go
/// through semcache's hooks need no check here: the observer is told before such memory changes hands.
#[must_use]
pub fn stands(block: &Block) -> bool {
    if run_of(block.id).is_some() {
        return glibc::header_stands(block.start, block.id.0);
    }
    registry::find(block.start).is_some_and(|b| b.id == block.id)
}

/// Whether a block that semcache allocated was unmapped by a library that calls libc's `free` directly. Asked under the
/// observer's locks before a device writes bytes back: the program has freed those bytes, and the copy would fail or
/// overwrite other memory.
#[must_use]
pub fn vanished(block: &Block) -> bool {
    block.provenance == Provenance::Owned && !glibc::header_stands(block.start, block.id.0)
}
