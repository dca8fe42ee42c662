//! Issues the tasks of a plan. Everything is asynchronous, so one pass over the task list on the calling
//! thread keeps all devices and links busy; order between tasks is made by tickets.

pub mod homeward;
pub mod kernel;
pub mod local;
pub mod run;

pub use homeward::Homeward;
pub use run::{Out, Stopped, operand, run, uses};
