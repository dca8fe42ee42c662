//! Tests of `semcache trace`.

mod gaps;
mod hand;
mod reading;
mod shares;
