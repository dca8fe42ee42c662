//! What programs that know of semcache ask for (`semcache.h`): hints on matrices. None of them changes what the program computes:
//! page protection keeps the copies coherent, whatever is asked for, when, and by which thread.

pub mod event;
pub mod jobs;
pub mod request;
pub mod view;

use crate::cache::CacheError;
use crate::cache::blocks::Unusable;
use crate::device::api::DeviceError;

/// What became of a request. The numbers are those of `semcache.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Status {
    /// Done, or queued.
    Ok = 0,
    /// Not complete yet: what `semcache_test` says of an event.
    Pending = 2,
    /// No device can be used: there is none, none is up yet, or the process is the child of a fork.
    NoDevice = 3,
    /// An argument is not valid.
    Invalid = 4,
    /// The memory cannot be tracked: a stack, memory of unknown lifetime, pages that the program guards, or a range that is partly
    /// outside of its allocation.
    Untracked = 5,
    /// The device has no room, or the queue of requests is full.
    NoRoom = 6,
    /// The bytes were on a device that is lost.
    Lost = 7,
    /// A signal handler interrupted this thread inside the library: nothing can be done here.
    Busy = 8,
    /// A device refused a copy, or the library failed.
    Failed = 9,
}

impl From<CacheError> for Status {
    fn from(error: CacheError) -> Status {
        log::debug!("a request of semcache.h: {error:?}");
        match error {
            CacheError::NoRoom => Status::NoRoom,
            CacheError::DataLost | CacheError::Device(DeviceError::Lost { .. }) => Status::Lost,
            // The program freed the memory meanwhile: nothing is left to do.
            CacheError::Gone => Status::Ok,
            CacheError::Device(_) | CacheError::Bug(_) => Status::Failed,
        }
    }
}

impl From<Unusable> for Status {
    fn from(_: Unusable) -> Status {
        Status::Untracked
    }
}
