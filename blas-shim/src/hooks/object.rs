//! Hook of `dlclose`: the code and static data of a library may be unmapped.
//!
//! Before that, results in static data are written back to the host, which takes the cache's lock. A driver closes
//! libraries of its own with its own lock held, while another thread may hold the cache's lock around a call of that
//! driver. For those libraries nothing is written back: no BLAS operand lies in their data.

#![expect(unsafe_code, reason = "exports a libc function")]

use core::ffi::{CStr, c_int, c_void};

use super::real::{real, with_errno_kept};
use crate::link_map::LinkMap;
use crate::sites;
use semcache::host::adopt;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dlclose(handle: *mut c_void) -> c_int {
    // SAFETY: the program's argument; the loader refuses what is no handle.
    let tell = !unsafe { is_of_driver(handle) };
    if tell {
        with_errno_kept(adopt::on_dlclose);
    }
    // SAFETY: the program's argument.
    let result = unsafe { close(handle) };
    if tell {
        with_errno_kept(adopt::after_dlclose);
    }
    with_errno_kept(sites::forget_unloaded);
    result
}

/// The file names of the libraries that a device's driver closes begin with one of these.
const DRIVER: [&[u8]; 5] = [
    b"libcuda",
    b"libcublas",
    b"libcusolver",
    b"libcusparse",
    b"libnv",
];

/// Whether a handle is that of a library which the driver uses.
///
/// # Safety
/// As [`close`].
unsafe fn is_of_driver(handle: *mut c_void) -> bool {
    // SAFETY: the caller's handle.
    let name = unsafe { LinkMap::of(handle) }.map(|map| map.name);
    let Some(name) = name.filter(|name| !name.is_null()) else {
        return false;
    };
    // SAFETY: the loader's string, see above.
    let path = unsafe { CStr::from_ptr(name) }.to_bytes();
    let file = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    DRIVER.iter().any(|start| file.starts_with(start))
}

/// libc's `dlclose`.
///
/// # Safety
/// A handle that was opened and not closed.
pub(crate) unsafe fn close(handle: *mut c_void) -> c_int {
    let real = real!(dlclose: unsafe extern "C-unwind" fn(*mut c_void) -> c_int);
    // SAFETY: the caller keeps this function's contract.
    real.map_or(-1, |real| unsafe { real(handle) })
}
