//! Tests of `semcache trace`.

mod gaps;
pub(super) mod hand;
mod predicted;
mod reading;
mod shares;
