//! Tests of `semcache trace`.

mod gaps;
pub(super) mod hand;
mod issuing;
mod predicted;
mod reading;
mod shares;
