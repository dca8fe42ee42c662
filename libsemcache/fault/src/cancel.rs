#![expect(unsafe_code, reason = "pthread's cancellation state and type")]
//! Cancellation (`pthread_cancel`) of the program's threads while they run code of ours.
//!
//! glibc ends a cancelled thread by unwinding its stack by force, from wherever the thread is: in a cancellation point
//! (libc's `close`, and anything that a device's driver calls), or, where the thread asked for that, at any instruction.
//! In code of ours that would lose locks, and end the process at the first frame that control may not leave by unwinding.
//!
//! A thread is [`disabled`] while it has a lock of ours. Between that, where the program may leave by a jump, its type is
//! [`deferred`] only: a jump then leaves a thread that ends at its next cancellation point, as most do anyway.

use crate::broken;
use core::ptr;
use libc::c_int;

const DISABLE: c_int = 1;
const DEFERRED: c_int = 0;

// Both end the thread if it was cancelled and may now end anywhere: by unwinding the caller.
unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
}

type Setter = unsafe extern "C-unwind" fn(c_int, *mut c_int) -> c_int;

/// How the calling thread could be cancelled before, to go back to.
#[derive(Clone, Copy, Debug)]
#[must_use = "the thread may have to be cancelled again as before"]
pub struct Before {
    set: Setter,
    to: c_int,
}

/// Nothing cancels the calling thread from here on.
#[inline]
pub fn disabled() -> Before {
    set(pthread_setcancelstate, DISABLE)
}

/// Only cancellation points cancel the calling thread from here on.
#[inline]
pub fn deferred() -> Before {
    set(pthread_setcanceltype, DEFERRED)
}

#[inline]
fn set(set: Setter, wanted: c_int) -> Before {
    let mut to = wanted;
    if !broken!("break-cancel") {
        // SAFETY: `to` is a place for the old value, which the function returns before it could unwind. It does not unwind
        // here: the new value never lets a thread end.
        unsafe { set(wanted, &raw mut to) };
    }
    Before { set, to }
}

impl Before {
    /// Goes back. Ends the thread here, by unwinding the caller, if it was cancelled meanwhile and may end anywhere.
    #[inline]
    pub fn restore(self) {
        if !broken!("break-cancel") {
            // SAFETY: a value that the function returned; null is allowed.
            unsafe { (self.set)(self.to, ptr::null_mut()) };
        }
    }
}
