//! The libc functions that the runtime must see, wrapped.
//!
//! Each does what libc's does, and tells the runtime before or after. While nothing is on a device the
//! cost is one or two loads. Functions that are cancellation points, or that control may leave by an
//! exception, are `extern "C-unwind"` and hold nothing with a destructor across libc's function: a thread
//! that is cancelled inside leaves panels open longer than needed, which costs time and nothing else.

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
mod kernel;
mod limits;
mod map;
mod object;
mod pointers;
mod process;
mod raw;
pub(crate) mod real;
mod signals;

// Until the floors below are there.
pub(crate) use object::close;
