//! Tests of `semcache trace`.

mod gaps;
pub(crate) mod hand;
mod issuing;
mod predicted;
mod reading;
mod shares;
