//! The BLAS as the runtime sees it: decoded calls in, outcomes out.

pub mod call;

pub use call::{Args, Call, Outcome};
