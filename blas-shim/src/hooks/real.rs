//! Looks up libc's own function behind a hook: the next definition in load order, or else libc's, looked up at the
//! first use.
//!
//! The first use may be in any state of the process: in the allocator of a program, while the dynamic linker frees the
//! text of an error, or behind a seccomp filter. So the functions of libc, and of libraries before it, are found
//! without the dynamic linker and without a system call ([`elf::next_function`]); only for libraries behind libc
//! (MPI's, liburing) `dlsym` is called.

#![expect(unsafe_code, reason = "function pointers come as data from the linker")]

use core::ffi::{CStr, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use semcache_fault::broken;
use semcache_fault::handler::block_async_signals;

use crate::elf;

/// The threads that are calling the dynamic linker, by the addresses of their `errno`; zero: free. Not a thread-local
/// variable, which does not exist yet while a sanitizer starts up. If the table is full, a thread calls the dynamic
/// linker without an entry.
static SEEKERS: [AtomicUsize; 16] = [const { AtomicUsize::new(0) }; 16];

/// A function's name, and its address once it is looked up.
#[derive(Debug)]
pub(crate) struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Real {
    /// The function of this name.
    pub(crate) const fn new(name: &'static CStr) -> Real {
        Real {
            name,
            address: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The function's address; null if neither a later library nor libc defines it.
    #[inline]
    pub(crate) fn address(&self) -> *mut c_void {
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            self.find()
        } else {
            address
        }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        let found = elf::next_function(self.name).filter(|_| !broken!("break-loads"));
        let address = found.unwrap_or_else(|| self.ask());
        self.address.store(address, Ordering::Relaxed);
        address
    }

    /// Looks the function up by the dynamic linker; null also if the calling thread is in such a look-up already.
    fn ask(&self) -> *mut c_void {
        // `dlsym` frees the text of its last error first, and the program's allocator may call a hook that comes here
        // again.
        let own = errno_place().addr();
        let seeks = |seeker: &AtomicUsize| seeker.load(Ordering::Relaxed) == own;
        if SEEKERS.iter().any(seeks) {
            return ptr::null_mut();
        }
        let takes = |seeker: &&AtomicUsize| {
            let taken = seeker.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok()
        };
        let place = SEEKERS.iter().find(takes);
        // `dlsym` holds the loader's lock. A signal handler that ran on this thread meanwhile could wait, in a hook,
        // for a thread of the runtime's that needs that lock: so signals are blocked. Not by a guard (`SignalsBlocked`): that
        // has a thread-local variable, which does not exist yet while a sanitizer starts up.
        let signals = block_async_signals();
        // SAFETY: a C string.
        let mut address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if address.is_null() {
            // This library may come after libc in load order (linked or installed as libblas, not preloaded). The
            // program then calls libc's functions directly; only calls from within this library come here.
            const LOADED: c_int = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
            // SAFETY: C strings. libc is never unloaded, so the handle may be kept.
            address = unsafe {
                let libc = libc::dlopen(c"libc.so.6".as_ptr(), LOADED);
                if libc.is_null() {
                    libc
                } else {
                    libc::dlsym(libc, self.name.as_ptr())
                }
            };
        }
        signals.restore();
        if let Some(place) = place {
            place.store(0, Ordering::Relaxed);
        }
        address
    }
}

/// libc's function of a name, as an `Option` of a function pointer of the type.
macro_rules! real {
    ($name:ident: $type:ty) => {{
        static REAL: $crate::hooks::real::Real =
            match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes())
            {
                Ok(name) => $crate::hooks::real::Real::new(name),
                Err(_) => panic!("a name has no zero byte"),
            };
        // A function, so that the expansion is the same inside and outside an `unsafe` block.
        #[inline(always)]
        fn find() -> Option<$type> {
            // SAFETY: libc's function of this name has this type; null is `None`.
            unsafe { core::mem::transmute(REAL.address()) }
        }
        find()
    }};
}
pub(crate) use real;

/// Sets `errno`.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the calling thread's own variable.
    unsafe { *errno_place() = value };
}

/// Reads `errno`.
pub(crate) fn errno() -> c_int {
    // SAFETY: the calling thread's own variable.
    unsafe { *errno_place() }
}

/// Runs `work` of the runtime, which may wait for locks and call libc; afterwards `errno` is what it was before.
pub(crate) fn with_errno_kept<T>(work: impl FnOnce() -> T) -> T {
    let before = errno();
    let result = work();
    set_errno(before);
    result
}

fn errno_place() -> *mut c_int {
    // SAFETY: only asks where the calling thread's variable is.
    unsafe { libc::__errno_location() }
}
