//! The dynamic linker's record of an object (`struct link_map` of link.h).

#![expect(
    unsafe_code,
    reason = "the dynamic linker's records are C structures in memory"
)]

use core::ffi::{c_char, c_void};
use core::ptr;

/// The record, up to the last field that is read.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct LinkMap {
    /// Load bias of the object.
    pub(crate) bias: usize,
    /// Its path; null or empty for the program itself.
    pub(crate) name: *const c_char,
    /// The address of its dynamic section.
    pub(crate) section: usize,
    /// The record of the object that was loaded next.
    pub(crate) next: *const LinkMap,
}

impl LinkMap {
    /// The record of the object that a handle is of.
    ///
    /// # Safety
    /// A handle of `dlopen` that is not closed meanwhile; of one that is none the dynamic linker says so.
    pub(crate) unsafe fn of(handle: *mut c_void) -> Option<LinkMap> {
        let mut map: *const LinkMap = ptr::null();
        // SAFETY: the caller's handle, and room for the pointer that this request stores.
        if unsafe { libc::dlinfo(handle, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) } != 0 {
            return None;
        }
        // SAFETY: the dynamic linker's record, which lives until the object is closed; null is dealt with.
        unsafe { map.as_ref() }.copied()
    }
}
