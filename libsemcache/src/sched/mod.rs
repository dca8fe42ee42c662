//! Scheduler: issues the tasks of a plan. All operations are asynchronous, so one pass over the task list on the
//! calling thread keeps all devices and links busy; tickets order the tasks.

pub mod kernel;
pub mod local;
pub mod run;
pub mod streamed;

pub use run::{Out, Stopped, operand, run, uses};
pub use streamed::StreamedWriteBack;
