//! Finds the object that calls a hook, by the return address of the call: this library, the devices' driver and its
//! libraries, or another part of the program.

#![expect(
    unsafe_code,
    reason = "asks the dynamic linker which object an address lies in"
)]

use core::ffi::{CStr, c_int, c_void};
use core::slice;
use core::sync::atomic::{AtomicUsize, Ordering};

use semcache::host::loader;

/// The objects whose file names begin with one of these are the driver and cuBLAS.
pub(super) const DRIVER: [&[u8]; 5] = [
    b"libcuda.so",
    b"libcudadebugger.so",
    b"libcublas.so",
    b"libcublasLt.so",
    b"libnvidia-",
];

/// Which object a call or a look-up of a function comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Caller {
    /// This library.
    Us,
    /// The driver, or cuBLAS.
    Driver,
    Other,
}

/// libc's `dlvsym`, once this library has looked for a driver; zero before. While it is zero, [`is_driver`] does not
/// look up which object calls: a sanitizer that starts up calls hooks before such a look-up is possible.
pub(super) static REAL_DLVSYM: AtomicUsize = AtomicUsize::new(0);

/// Whether a call or a look-up comes from this library, the driver or cuBLAS.
pub(super) fn neutral(caller: usize) -> bool {
    who(caller) != Caller::Other
}

/// Whether a call comes from the driver or cuBLAS; false until this library has looked for a driver.
pub(super) fn is_driver(caller: usize) -> bool {
    REAL_DLVSYM.load(Ordering::Acquire) != 0 && who(caller) == Caller::Driver
}

pub(super) fn who(caller: usize) -> Caller {
    let mut asked = Asked {
        address: caller,
        found: Caller::Other,
    };
    // SAFETY: the callback gets what it expects. `dladdr` would wait for the lock that a thread holds for as long as it loads libraries
    // (`dl_load_lock`); this walk takes `dl_load_write_lock`.
    unsafe { loader::objects(look, (&raw mut asked).cast()) };
    asked.found
}

/// An address, and whose object it lies in.
struct Asked {
    address: usize,
    found: Caller,
}

/// Looks at one object; ends the walk at the one that the address lies in.
unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, asked: *mut c_void) -> c_int {
    // SAFETY: `who` passes its question, and the loader a valid record, whose headers are an array of that length and whose name is a
    // string or null; none changes while the loader holds its lock.
    let (asked, bias, headers, name) = unsafe {
        let info = &*info;
        let headers: &[libc::Elf64_Phdr] = if info.dlpi_phdr.is_null() {
            &[]
        } else {
            slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum))
        };
        let name = if info.dlpi_name.is_null() {
            c""
        } else {
            CStr::from_ptr(info.dlpi_name)
        };
        (&mut *asked.cast::<Asked>(), info.dlpi_addr, headers, name)
    };
    let holds = |address: usize| {
        let mut segments = headers.iter().filter(|h| h.p_type == libc::PT_LOAD);
        segments.any(|h| {
            let start = bias.wrapping_add(h.p_vaddr) as usize;
            (start..start + h.p_memsz as usize).contains(&address)
        })
    };
    if !holds(asked.address) {
        return 0;
    }
    let path = name.to_bytes();
    let file = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    asked.found = if holds(who as *const () as usize) {
        Caller::Us
    } else if DRIVER.iter().any(|start| file.starts_with(start)) {
        Caller::Driver
    } else {
        Caller::Other
    };
    1
}
