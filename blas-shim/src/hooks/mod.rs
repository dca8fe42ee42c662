//! The hooks: libc functions that the library wraps because the runtime must know of their calls.
//!
//! Each hook does what libc's function does, and calls the runtime before or after. While no data are on a device, a
//! hook costs one or two loads. Functions that are cancellation points, or that control may leave by an exception, are
//! `extern "C-unwind"` and hold no value with a destructor across libc's function: if a thread is cancelled inside,
//! panels stay accessible for longer than needed, which costs time and does no other harm.

mod buffers;
mod bypass;
mod caller;
mod contexts;
mod cuda;
mod descriptors;
mod exec;
mod heap;
mod io;
mod ioctl;
mod leave;
mod limits;
mod map;
mod mpi;
mod object;
mod pointers;
mod process;
mod raw;
mod raw_syscall;
pub(crate) mod real;
mod signals;

// `resolve` uses this function until the floors below export one.
pub(crate) use object::close;
