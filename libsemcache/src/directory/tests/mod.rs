//! Tests of the coherence protocol: random histories against a sequential memory, and the rules one by one. Recorded
//! scenarios are in `tests/scenarios.rs` of this crate.

mod repeats;
mod rules;
mod traces;
mod world;
