//! State of the whole process, or of one of its threads, that code of several modules must see: signals blocked while a
//! lock of the runtime is held, the runtime's threads, a queue of work, libraries being loaded, the descriptors of the devices' libraries, the time
//! that a thread has waited for devices and what else it spent its time on, the files that the library writes, memory that several
//! processes share, whether another process lives. Nothing here knows of blocks, devices or calls.

pub mod background;
pub mod crew;
pub mod descriptors;
pub mod driver_scope;
pub mod ending;
pub mod lives;
pub mod loads;
pub mod own_file;
pub mod queue;
pub mod shared;
pub mod signals_blocked;
pub mod spent;
pub mod threads;
pub mod waited;
