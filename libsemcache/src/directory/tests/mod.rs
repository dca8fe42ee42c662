//! The protocol against a sequential memory, and its rules one by one. Golden scenarios are in
//! `tests/scenarios.rs` of this crate.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod rules;
mod traces;
mod world;
