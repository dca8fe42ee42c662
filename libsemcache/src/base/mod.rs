//! Vocabulary that all other modules share: identities, element types, byte rectangles, configuration and counters.
//! This module uses no other module of the crate and does no I/O.

pub mod config;
pub mod counters;
pub mod dense;
pub mod device_set;
pub mod distribution;
pub mod dtype;
pub mod hardware;
pub mod heuristics;
pub mod ids;
pub mod intent;
pub mod kernel;
pub mod links;
pub mod maps;
pub mod rect;
pub mod routine;
pub mod solver;
pub mod spans;
pub mod sparse;
pub mod tile;
pub mod timed;
pub mod work;

pub use device_set::DeviceSet;
pub use dtype::{Dtype, Scalar, Value};
pub use hardware::Hardware;
pub use ids::{AllocId, DeviceId, ReplicaId};
pub use intent::Intent;
pub use links::{Link, Links};
pub use rect::{Interval, Rect, RectSet};
pub use routine::{Diag, Form, Op, Routine, Side, Uplo};
pub use semcache_fault::page::Access;
pub use solver::Solver;
pub use spans::Spans;
pub use tile::TileSize;
pub use work::Work;
