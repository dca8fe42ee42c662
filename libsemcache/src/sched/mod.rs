//! Scheduler: issues the tasks of a plan. All operations are asynchronous, so one pass over the task list on the
//! calling thread keeps all devices and links busy; tickets order the tasks.

pub mod homeward;
pub mod kernel;
pub mod local;
pub mod run;

pub use homeward::Homeward;
pub use run::{Out, Stopped, operand, run, uses};
