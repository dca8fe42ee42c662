//! Pure: a BLAS problem in, tile tasks out. Knows matrices in element coordinates and how many devices
//! there are; knows nothing of addresses, replicas or streams.

pub mod problem;

pub use problem::{Access, Operand, Part, Problem, Routine, Task, TaskOp};
