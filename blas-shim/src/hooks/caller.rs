//! Who calls a hook, told by the address that it returns to: this library, the devices' driver and its libraries, or another
//! part of the program.

#![expect(
    unsafe_code,
    reason = "asks the dynamic linker which object an address lies in"
)]

use core::ffi::{CStr, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

use semcache::process::masked::Masked;

/// Objects whose names begin so are the driver's and cuBLAS's.
pub(super) const DRIVER: [&[u8]; 5] = [
    b"libcuda.so",
    b"libcudadebugger.so",
    b"libcublas.so",
    b"libcublasLt.so",
    b"libnvidia-",
];

/// Who calls, or asks for something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Caller {
    /// This library.
    Us,
    /// The driver, or cuBLAS.
    Driver,
    Other,
}

/// libc's `dlvsym`, once the driver was looked for; zero before: what is asked very early, by a sanitizer that begins, is
/// not even asked who asks.
pub(super) static REAL_DLVSYM: AtomicUsize = AtomicUsize::new(0);

/// Whether a call or a request comes from us, the driver or cuBLAS.
pub(super) fn neutral(caller: usize) -> bool {
    who(caller) != Caller::Other
}

/// Whether it comes from the driver or cuBLAS; nobody, until we have looked for one.
pub(super) fn is_driver(caller: usize) -> bool {
    REAL_DLVSYM.load(Ordering::Acquire) != 0 && who(caller) == Caller::Driver
}

pub(super) fn who(caller: usize) -> Caller {
    // The loader's lock is held meanwhile, as in `Real::ask`.
    let _masked = Masked::new();
    let object = |address: usize| {
        let mut info = MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: room for the answer; the address is only looked up.
        let found = unsafe { libc::dladdr(address as *const c_void, info.as_mut_ptr()) } != 0;
        // SAFETY: filled in where something was found.
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
