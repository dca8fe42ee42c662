//! libc's own function behind a hook of ours: the next definition in search order, or else libc's, looked up at the
//! first use.

#![expect(unsafe_code, reason = "function pointers come as data from the linker")]

use core::ffi::{CStr, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use semcache_fault::broken;
use semcache_fault::handler::block_async_signals;

/// The threads that are looking a function up, by their number in the kernel; zero: free. Not a thread-local variable, which
/// a sanitizer that begins does not have yet. More threads than fit look up without a place here.
static SEEKERS: [AtomicI32; 16] = [const { AtomicI32::new(0) }; 16];

/// A function that was looked up, or not yet.
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

    /// Its address; null if neither a later library nor libc defines it, and during another look-up of the same thread: the
    /// dynamic linker comes to the program's allocator, which may come to a hook ([`Real::find`]).
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
        // The loader's lock is held meanwhile: a signal handler that came here would wait, in some hook, for what other
        // threads of ours can do only with that lock. Not a guard: that has a thread-local variable, and a sanitizer that
        // begins has none yet.
        let signals = block_async_signals();
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        // A look-up begins by freeing what the last error said. An allocator that asks for the time there (that of newer
        // address sanitizers) must not make it begin once more, with the same text to free.
        let holds = |seeker: &&AtomicI32| seeker.load(Ordering::Relaxed) == own;
        if SEEKERS.iter().any(|seeker| holds(&seeker)) && !broken!("break-loads") {
            signals.restore();
            return ptr::null_mut();
        }
        let free = |seeker: &&AtomicI32| {
            let taken = seeker.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok()
        };
        let place = SEEKERS.iter().find(free);
        // SAFETY: a C string.
        let mut address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if address.is_null() {
            // This library may come after libc in the loader's order (linked or installed as libblas, not preloaded). The
            // program then calls libc's function itself; only calls from within this library come here.
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
        if let Some(place) = place {
            place.store(0, Ordering::Relaxed);
        }
        signals.restore();
        self.address.store(address, Ordering::Relaxed);
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
        // A function, so that the block is the same within and without `unsafe`.
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
    unsafe { *libc::__errno_location() = value };
}

/// Reads `errno`.
pub(crate) fn errno() -> c_int {
    // SAFETY: the calling thread's own variable.
    unsafe { *libc::__errno_location() }
}
