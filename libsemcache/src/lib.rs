//! semcache: a transparent, coherent cache of host matrices on the machine's accelerators.
//!
//! `blas-shim` decodes a BLAS call and hands it to [`blas`]; that floor decides whether the call runs on
//! the devices, [`plan`] cuts it into tile tasks, [`sched`] issues them, and [`cache`] keeps host memory
//! and device replicas coherent by the protocol of [`directory`]. ARCHITECTURE.md has the picture.
//!
//! Floors import downwards only; `tests/floors.rs` enforces the table.

pub mod base;
pub mod blas;
pub mod cache;
pub mod device;
pub mod directory;
pub mod hints;
pub mod host;
pub mod model;
pub mod plan;
pub mod policy;
pub mod process;
pub mod protect;
pub mod runtime;
pub mod sched;
pub mod solver;
pub mod sparse;
pub mod topology;
pub mod trace;
pub mod transfer;
