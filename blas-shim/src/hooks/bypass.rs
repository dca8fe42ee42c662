//! Hooks of functions (AIO, io_uring) after which the kernel reads and writes the program's memory without a page fault. Before such a
//! call all results are written back, and from then on results are written back before each BLAS call returns
//! ([`semcache::runtime::go_write_through`]).
//!
//! Libraries (liburing, the MPI of mpi4py) may be loaded privately: then their functions do not follow this library in the search order,
//! and `theirs` looks for them in all loaded objects.

#![expect(
    unsafe_code,
    reason = "exports functions of libc and of other libraries"
)]

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::real::set_errno;
use crate::core::{Degraded, go_write_through};
use crate::resolve::objects;
use crate::thread;
use semcache::process::signals_blocked::SignalsBlocked;

/// The function of a privately loaded library; called if none follows this library in the search order.
#[cold]
pub(super) fn elsewhere(name: &CStr, cell: &AtomicPtr<c_void>) -> *mut c_void {
    let known = cell.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // `objects::loaded` takes the loader's lock, so signals are blocked, as in `Real::ask`.
    let _blocked = SignalsBlocked::new();
    let here = elsewhere as *const () as usize;
    let loaded = objects::loaded();
    let others = loaded.iter().filter(|object| !object.contains(here));
    let found = others
        .filter_map(|object| object.definition(name))
        .next()
        .map_or(core::ptr::null_mut(), |address| address as *mut c_void);
    cell.store(found, Ordering::Relaxed);
    found
}

/// The real function of a name, with arguments of word size.
macro_rules! theirs {
    ($name:ident($($word:ident),*)) => {{
        type Function = unsafe extern "C-unwind" fn($(theirs!(@ $word)),*) -> c_int;
        match $crate::hooks::real::real!($name: Function) {
            Some(function) => Some(function),
            None => {
                static FOUND: core::sync::atomic::AtomicPtr<core::ffi::c_void> = core::sync::atomic::AtomicPtr::new(core::ptr::null_mut());
                const NAME: &[u8] = concat!(stringify!($name), "\0").as_bytes();
                let address = core::ffi::CStr::from_bytes_with_nul(NAME).map_or(core::ptr::null_mut(), |name| $crate::hooks::bypass::elsewhere(name, &FOUND));
                // SAFETY: the library's function of this name has this type; null is `None`.
                unsafe { core::mem::transmute::<*mut core::ffi::c_void, Option<Function>>(address) }
            }
        }
    }};
    (@ $word:ident) => { usize };
}
pub(super) use theirs;

/// Hooks of functions with integer and pointer arguments that return an `int`: page protection ends for the process,
/// then the real function is called.
macro_rules! announce {
    ($why:expr, $missing:expr; $($name:ident($($word:ident),*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($word: usize),*) -> c_int {
            let Some(function) = theirs!($name($($word),*)) else {
                return $missing;
            };
            // MPI does so with buffers that are accessible already, and with memory of its own.
            let here = 0_u8;
            if !thread::state().inside_mpi(&raw const here as usize) {
                go_write_through($why);
            }
            // SAFETY: the program's arguments, passed on.
            unsafe { function($($word),*) }
        }
    )*};
}

fn no_such() -> c_int {
    set_errno(libc::ENOSYS);
    -1
}

// glibc's own asynchronous I/O: its threads read and write by functions that are not hooked.
announce! { Degraded::AsyncIo, no_such();
    aio_read(request);
    aio_read64(request);
    aio_write(request);
    aio_write64(request);
    lio_listio(mode, list, count, event);
    lio_listio64(mode, list, count, event);
}

// libaio's and liburing's functions, which contain system call instructions of their own.
announce! { Degraded::AsyncIo, -libc::ENOSYS;
    io_setup(events, context);
    io_queue_init(events, context);
    io_uring_setup(entries, parameters);
    io_uring_queue_init(entries, ring, flags);
    io_uring_queue_init_params(entries, ring, parameters);
    io_uring_queue_init_mem(entries, ring, parameters, memory, size);
}
