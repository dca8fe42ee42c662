#![expect(unsafe_code, reason = "pthread's cancellation state and type")]
//! Cancellation (`pthread_cancel`) of the program's threads while they run code of semcache.
//!
//! glibc ends a cancelled thread by unwinding its stack by force, from wherever the thread is: in a cancellation point
//! (libc's `close`, and any function that a device's driver calls), or, if the thread asked for that, at any
//! instruction. Inside semcache that would leave locks taken for ever, and end the process at the first frame that must
//! not be unwound.
//!
//! While a thread holds a lock of semcache its cancellation is [`disabled`]. In the rest of semcache, which a handler
//! of the program may leave by `longjmp`, cancellation is only [`deferred`] to cancellation points: after such a jump,
//! which semcache does not notice, the thread keeps that setting, which is also the one that threads begin with.

use crate::broken;
use core::ptr;
use libc::c_int;

const DISABLE: c_int = 1;
const DEFERRED: c_int = 0;

// Both unwind the caller if the thread has been cancelled and the new value allows cancellation at any instruction.
unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
}

type Setter = unsafe extern "C-unwind" fn(c_int, *mut c_int) -> c_int;

/// The cancellation state or type that the calling thread had, to be restored.
#[derive(Clone, Copy, Debug)]
#[must_use = "the thread may have to be cancelled again as before"]
pub struct Before {
    set: Setter,
    to: c_int,
}

/// From here on `pthread_cancel` does not end the calling thread; a request waits until [`Before::restore`].
#[inline]
pub fn disabled() -> Before {
    set(pthread_setcancelstate, DISABLE)
}

/// From here on `pthread_cancel` ends the calling thread at cancellation points only.
#[inline]
pub fn deferred() -> Before {
    set(pthread_setcanceltype, DEFERRED)
}

#[inline]
fn set(set: Setter, wanted: c_int) -> Before {
    let mut to = wanted;
    if !broken!("break-cancel") {
        // SAFETY: `to` is a place for the old value. The function does not unwind here: neither of the new values
        // allows cancellation at any instruction.
        unsafe { set(wanted, &raw mut to) };
    }
    Before { set, to }
}

impl Before {
    /// Restores the old value. If the thread was cancelled meanwhile and that value allows cancellation at any
    /// instruction, the thread ends here, by unwinding the caller.
    #[inline]
    pub fn restore(self) {
        if !broken!("break-cancel") {
            // SAFETY: a value that the function returned; null is allowed.
            unsafe { (self.set)(self.to, ptr::null_mut()) };
        }
    }
}
