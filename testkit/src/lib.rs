//! Test kit: code that the tests of all packages share.
//!
//! * [`apart`] and [`alone`] give a `#[test]` a process of its own; `runner` (a feature) runs a list of cases, each in
//!   a process and under settings of its own. Signal handlers, page protection, limits, the library's settings and counters
//!   belong to the process, so their tests need one. Either way the process is this test binary, started again for one test.
//! * [`forked`] makes children by `fork`.
//! * [`oracle`] computes BLAS by its definition, on dense matrices.
//! * [`Rng`] gives repeatable numbers, [`devices`] says which devices the suites run on, [`build`] makes libraries and C
//!   programs.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "for tests, not for the library in a user's process; a panic is how a test fails"
)]

pub mod build;
pub mod devices;
mod fork;
pub mod oracle;
mod process;
mod rng;
#[cfg(feature = "runner")]
pub mod runner;

pub use fork::{Forked, forked};
pub use process::{LIMIT, alone, apart, apart_under, run};
pub use rng::Rng;
