//! The protocol against a sequential memory, and its rules one by one. Golden scenarios are in
//! `tests/scenarios.rs` of this crate.

mod repeats;
mod rules;
mod traces;
mod world;
