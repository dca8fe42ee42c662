//! Finds the object that calls a hook, by the return address of the call: this library, the devices' driver and its
//! libraries, or another part of the program.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::resolve::objects;

/// The objects whose file names begin with one of these are the driver, cuBLAS, cuSOLVER and cuSPARSE with what they link with.
pub(super) const DRIVER: [&[u8]; 8] = [
    b"libcuda.so",
    b"libcudadebugger.so",
    b"libcublas.so",
    b"libcublasLt.so",
    b"libcusolver.so",
    b"libcusparse.so",
    b"libnvJitLink.so",
    b"libnvidia-",
];

/// Which object a call or a look-up of a function comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Caller {
    /// This library.
    Us,
    /// The driver, cuBLAS, cuSOLVER or cuSPARSE.
    Driver,
    Other,
}

/// libc's `dlvsym`, once this library has looked for a driver; zero before. While it is zero, [`is_driver`] does not
/// look up which object calls: a sanitizer that starts up calls hooks before such a look-up is possible.
pub(super) static REAL_DLVSYM: AtomicUsize = AtomicUsize::new(0);

/// Whether a call or a look-up comes from this library, the driver, cuBLAS, cuSOLVER or cuSPARSE.
pub(super) fn neutral(caller: usize) -> bool {
    who(caller) != Caller::Other
}

/// Whether a call comes from the driver, cuBLAS, cuSOLVER or cuSPARSE; false until this library has looked for a driver.
pub(super) fn is_driver(caller: usize) -> bool {
    REAL_DLVSYM.load(Ordering::Acquire) != 0 && who(caller) == Caller::Driver
}

pub(super) fn who(caller: usize) -> Caller {
    // `dladdr` would wait for the lock that a thread holds for as long as it loads libraries (`dl_load_lock`); reading the list takes
    // `dl_load_write_lock`.
    let objects = objects::loaded();
    let Some(object) = objects::of(&objects, caller) else {
        return Caller::Other;
    };
    let file = object.file_name();
    if object.contains(who as *const () as usize) {
        Caller::Us
    } else if DRIVER.iter().any(|start| file.starts_with(start)) {
        Caller::Driver
    } else {
        Caller::Other
    }
}
