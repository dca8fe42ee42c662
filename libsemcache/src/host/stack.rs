#![expect(unsafe_code, reason = "asks pthread for the stack's bounds")]
//! The bounds of the calling thread's stack. A stack that the program mapped itself looks like any other adopted block,
//! but its pages must stay accessible: the kernel ends a process if it cannot write a signal's frame to the stack.

use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr;

std::thread_local! {
    /// The stack's bounds, once they were read, (0, 0) before; (1, 0) if they are unknown. Const and without a destructor.
    static BOUNDS: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Whether the calling thread's stack pointer lies within `[start, start + len)`.
#[inline(never)]
pub(super) fn is_here(start: usize, len: usize) -> bool {
    let local = 0u8;
    (&raw const local).addr().wrapping_sub(start) < len
}

/// Whether `addr` lies in the calling thread's stack. The answer for the main thread is always no: the kernel maps its
/// stack, so that it is never adopted (and libc would read /proc/self/maps for its bounds).
pub(super) fn contains(addr: usize) -> bool {
    let (start, end) = match BOUNDS.get() {
        (0, 0) => {
            let bounds = ask().unwrap_or((1, 0));
            BOUNDS.set(bounds);
            bounds
        }
        known => known,
    };
    start <= addr && addr < end
}

fn ask() -> Option<(usize, usize)> {
    if rustix::thread::gettid() == rustix::process::getpid() {
        return None;
    }
    let mut attr = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: `attr` is written by the call if it succeeds.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), attr.as_mut_ptr()) } != 0 {
        return None;
    }
    let (mut start, mut size) = (ptr::null_mut(), 0usize);
    // SAFETY: initialised above; both results are places of the right type; destroyed once.
    let known = unsafe {
        let rc = libc::pthread_attr_getstack(attr.as_ptr(), &raw mut start, &raw mut size);
        libc::pthread_attr_destroy(attr.as_mut_ptr());
        rc == 0
    };
    known.then(|| (start.addr(), start.addr() + size))
}
