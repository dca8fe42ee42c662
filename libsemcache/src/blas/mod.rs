//! The BLAS as the runtime sees it: decoded calls in, outcomes out.

pub mod alias;
pub mod args;
pub mod call;

pub use args::{Checked, Placed, check};
pub use call::{Args, Call, Outcome};
