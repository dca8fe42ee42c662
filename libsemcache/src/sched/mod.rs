//! Scheduler: issues the tasks of a plan (the tile products of one BLAS call, each with its device) to the devices. Copies
//! and kernels are queued without waiting, so one pass over the task list on the calling thread keeps all devices and
//! PCIe or NVLink links busy. Each queued operation has a ticket (its position in a stream), and waits on the device for
//! the operations that it depends on.

pub mod kernel;
pub mod local;
pub mod memory;
mod queue;
mod room;
pub mod run;
pub mod streamed;
pub mod timeline;
pub mod virtual_time;
pub mod window;

pub use queue::{Memory, Out, operand, uses, with_mapped};
pub use room::Tiles;
pub use run::{Holds, Stopped, add_tasks, make_room, run};
pub use streamed::StreamedWriteBack;
pub use window::Windowed;
