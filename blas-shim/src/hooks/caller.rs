//! Finds the object that calls a hook, by the return address of the call: this library, the devices' driver and its
//! libraries, or another part of the program.

#![expect(
    unsafe_code,
    reason = "asks the dynamic linker which object an address lies in"
)]

use core::ffi::{CStr, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

use semcache::process::signals_blocked::SignalsBlocked;

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
    // `dladdr` takes the loader's lock, so signals are blocked, as in `Real::ask`.
    let _blocked = SignalsBlocked::new();
    let object = |address: usize| {
        let mut info = MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: room for the answer; the address need not lie in an object.
        let found = unsafe { libc::dladdr(address as *const c_void, info.as_mut_ptr()) } != 0;
        // SAFETY: `dladdr` has filled the answer in if it found an object.
        found.then(|| unsafe { info.assume_init() })
    };
    let Some(theirs) = object(caller) else {
        return Caller::Other;
    };
    if object(who as *const () as usize).is_some_and(|ours| ours.dli_fbase == theirs.dli_fbase) {
        return Caller::Us;
    }
    if theirs.dli_fname.is_null() {
        return Caller::Other;
    }
    // SAFETY: the loader's string of an object that is on the call stack.
    let path = unsafe { CStr::from_ptr(theirs.dli_fname) }.to_bytes();
    let file = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    if DRIVER.iter().any(|start| file.starts_with(start)) {
        Caller::Driver
    } else {
        Caller::Other
    }
}
