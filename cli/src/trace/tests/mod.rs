//! Tests of `semcache trace`.

mod gaps;
pub(super) mod hand;
mod reading;
mod shares;
