//! The BLAS as the runtime sees it: decoded calls in, outcomes out. [`args`] applies the reference's
//! argument rules, [`alias`] finds outputs that share bytes with other operands, [`offload`] decides,
//! [`run`] carries out, [`batch`] several products at once, [`finish`] completes on the host what a device refused,
//! [`remember`] makes calls again that find everything as they left it.

pub mod alias;
pub mod args;
pub mod batch;
pub mod call;
pub mod finish;
pub mod memo;
pub mod names;
pub mod offload;
pub mod operands;
pub mod remember;
pub mod run;
mod sample;

pub use args::{Checked, check};
pub use call::{Call, Outcome, Pointer};
