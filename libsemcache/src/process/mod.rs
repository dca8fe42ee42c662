//! What holds for the whole process or one of its threads: signals blocked while a lock of ours is held, libraries being
//! loaded, the descriptors of the devices' libraries, the time that a thread has waited for devices. Each is the state of
//! one process or thread that code of several floors must see, and knows nothing of blocks, devices or calls.

pub mod descriptors;
pub mod ending;
pub mod inside;
pub mod loads;
pub mod masked;
pub mod waited;
