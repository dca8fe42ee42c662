//! Stand-in for the CUDA functions on the driver and its devices; and the functions that store results for all others.

#![expect(
    unsafe_code,
    reason = "the program's pointers, as the C functions take them"
)]

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

use semcache::device::api::Backend;

use crate::machine::{self, machine};
use crate::names::{Outcome, Status, describe};
use crate::settings::settings;

/// CUDA 13.0.
const VERSION: c_int = 13000;

/// Stores a result.
///
/// # Safety
/// `to` is null or writable.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Outcome {
    if to.is_null() {
        return Err(Status::InvalidValue);
    }
    // SAFETY: the caller keeps this function's contract.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Stores a string, cut so that it fits `len` bytes with its zero byte.
///
/// # Safety
/// `to` is null or writable for `len` bytes.
unsafe fn put_text(to: *mut c_char, len: c_int, text: &str) -> Outcome {
    let room = usize::try_from(len).unwrap_or(0);
    if to.is_null() || room == 0 {
        return Err(Status::InvalidValue);
    }
    let n = text.len().min(room - 1);
    // SAFETY: n + 1 <= room.
    unsafe {
        core::ptr::copy_nonoverlapping(text.as_ptr(), to.cast::<u8>(), n);
        to.add(n).write(0);
    }
    Ok(())
}

pub(crate) fn init(flags: c_uint) -> Outcome {
    if flags != 0 {
        return Err(Status::InvalidValue);
    }
    load_and_unload();
    machine::start()
}

/// Loads and unloads libraries, as NVIDIA's driver does while it is initialised.
pub(crate) fn load_and_unload() {
    type Close = unsafe extern "C" fn(*mut c_void) -> c_int;
    let loads = settings().loads;
    if loads == 0 {
        return;
    }
    // libc's own `dlclose`: a preloaded hook would spend most of the time outside the loader.
    // SAFETY: a C string; the function found is libc's, which has this type.
    let close: Option<Close> =
        unsafe { core::mem::transmute(libc::dlsym(libc::RTLD_NEXT, c"dlclose".as_ptr())) };
    for _ in 0..loads {
        // SAFETY: a library of libc's without constructors, closed once where it could be opened.
        unsafe {
            let handle = libc::dlopen(c"libutil.so.1".as_ptr(), libc::RTLD_NOW);
            if let Some(close) = close.filter(|_| !handle.is_null()) {
                close(handle);
            }
        }
    }
}

/// A function of the driver by the name in its documentation: the newest version, except for contexts, whose newer
/// versions take more arguments.
pub(crate) unsafe fn by_name(
    symbol: *const c_char,
    function: *mut *mut c_void,
    _version: c_int,
    _flags: u64,
    result: *mut c_uint,
) -> Outcome {
    if symbol.is_null() || function.is_null() {
        return Err(Status::InvalidValue);
    }
    // SAFETY: the program's string.
    let name = unsafe { CStr::from_ptr(symbol) }.to_string_lossy();
    let found = crate::calls::address(&format!("{name}_v2"))
        .or_else(|| crate::calls::address(&name))
        .unwrap_or(core::ptr::null_mut());
    if !result.is_null() {
        // SAFETY: the program's pointer, as the C function's contract says. 0: the symbol was found, 1: it does not exist.
        unsafe { put(result, c_uint::from(found.is_null()))? };
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(function, found)? };
    if found.is_null() {
        return Err(Status::NotFound);
    }
    Ok(())
}

pub(crate) unsafe fn driver_version(version: *mut c_int) -> Outcome {
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(version, VERSION) }
}

pub(crate) unsafe fn device_count(count: *mut c_int) -> Outcome {
    let n = machine()?.devices().len();
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(count, c_int::try_from(n).unwrap_or(0)) }
}

pub(crate) unsafe fn device_get(device: *mut c_int, ordinal: c_int) -> Outcome {
    machine::device(ordinal)?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(device, ordinal) }
}

pub(crate) unsafe fn device_name(name: *mut c_char, len: c_int, device: c_int) -> Outcome {
    machine::device(device)?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put_text(name, len, &format!("Stand-in GPU {device}")) }
}

pub(crate) unsafe fn device_bus(name: *mut c_char, len: c_int, device: c_int) -> Outcome {
    machine::device(device)?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put_text(name, len, &format!("0000:{:02X}:00.0", 16 + device)) }
}

pub(crate) unsafe fn device_memory(bytes: *mut usize, device: c_int) -> Outcome {
    machine::device(device)?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(bytes, settings().memory) }
}

pub(crate) unsafe fn device_attribute(value: *mut c_int, which: c_int, device: c_int) -> Outcome {
    machine::device(device)?;
    let answer = match which {
        1 => 1024,              // threads per block
        10 | 31 | 41 => 32,     // warp size; concurrent kernels and unified addressing: yes
        11 => 0x7fff_ffff,      // pitch
        13 => 1_980_000,        // clock in kHz
        16 => 132,              // multiprocessors
        19 | 83 | 91 | 99 => 1, // maps host memory; registered memory, by its host pointer
        33 => 16 + device,      // PCI bus
        40 => 3,                // copy engines
        75 => 9,                // compute capability
        113 => 1,               // read-only registration
        _ => 0,                 // pageable memory access among them
    };
    let answer = if matches!(which, 31 | 41) { 1 } else { answer };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(value, answer) }
}

pub(crate) unsafe fn can_access_peer(value: *mut c_int, device: c_int, peer: c_int) -> Outcome {
    let (a, b) = (machine::device(device)?, machine::device(peer)?);
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(value, c_int::from(a != b)) }
}

pub(crate) unsafe fn peer_attribute(
    value: *mut c_int,
    which: c_int,
    device: c_int,
    peer: c_int,
) -> Outcome {
    if machine::device(device)? == machine::device(peer)? {
        return Err(Status::InvalidDevice);
    }
    // Performance rank 0; access and native atomics: yes.
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(value, c_int::from(matches!(which, 2 | 3))) }
}

pub(crate) unsafe fn error_name(code: c_int, name: *mut *const c_char) -> Outcome {
    let (text, _) = describe(code).ok_or(Status::InvalidValue)?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(name, text.as_ptr()) }
}

pub(crate) unsafe fn error_text(code: c_int, text: *mut *const c_char) -> Outcome {
    let (_, found) = describe(code).ok_or(Status::InvalidValue)?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(text, found.as_ptr()) }
}
