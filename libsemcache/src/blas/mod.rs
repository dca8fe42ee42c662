//! BLAS calls as the runtime sees them: decoded calls come in, outcomes go out. [`args`] applies the reference BLAS's
//! argument rules to one call, [`checks`] to all products of a batch, [`alias`] finds outputs that share bytes with
//! another operand, `offload` decides between host and devices by an [`offload_policy`] (`decided` tells the trace and the log), `host_part` what the host computes of a call on
//! devices, `owners` which devices compute the parts of a call of level 1, `kernel_loads` loads kernels' code while calls stay on the host, [`run`] executes a call on devices, [`window`] one whose tasks are not all queued at once, [`finish`] completes a call
//! on the host after a device refused a task or was lost, [`replay`] replays calls whose
//! operands have not changed since the last call, [`section`] keeps the results of calls that return once they are queued, [`deliver`] stores results that no copy could write, and [`local`]
//! computes where there is neither a device nor a host BLAS. [`plain`] is what the host BLAS would take, for the report. [`predict`] tells what would be decided on a machine that is only
//! described.

mod ab_probe;
pub mod alias;
pub mod args;
mod asked;
pub mod batch;
pub mod call;
pub mod call_key;
pub mod checks;
mod decided;
pub mod deliver;
pub mod finish;
mod gathered;
mod host_part;
mod issue;
mod kernel_loads;
pub mod local;
pub mod mapped;
pub mod names;
mod offload;
pub mod offload_policy;
pub mod operands;
mod owners;
pub mod plain;
pub mod predict;
pub mod replay;
pub mod run;
mod sample;
pub mod section;
mod spread;
pub mod tiling;
mod tilings;
pub mod told;
mod value;
pub mod window;

pub use args::{Checked, check};
pub use call::{Call, Outcome, Pointer};
