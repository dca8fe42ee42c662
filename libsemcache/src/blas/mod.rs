//! The BLAS as the runtime sees it: decoded calls in, outcomes out. [`args`] applies the reference's
//! argument rules, [`checks`] to all calls that are made together, [`alias`] finds outputs that share bytes with other
//! operands, `offload` decides by a [`policy`], [`run`] carries out, [`finish`] completes on the host what a device refused,
//! [`remember`] makes calls again that find everything as they left it, [`deliver`] stores results that no copy could write,
//! and [`local`] computes where there is neither a device nor a host BLAS.

pub mod alias;
pub mod args;
mod asked;
pub mod batch;
pub mod call;
pub mod checks;
pub mod deliver;
pub mod finish;
pub mod local;
pub mod memo;
pub mod names;
mod offload;
pub mod operands;
pub mod policy;
pub mod remember;
pub mod run;
mod sample;
mod tried;
mod value;

pub use args::{Checked, check};
pub use call::{Call, Outcome, Pointer};
