//! Stands in for `semcache::host::{heap, adopt, runtime_heap}`.

#![expect(unsafe_code, reason = "calls glibc's allocator")]

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(n: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(p: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_free(p: *mut c_void);
    fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
}

/// The runtime's allocator: never the hooked one.
#[derive(Debug)]
pub(crate) struct RuntimeHeap;

// SAFETY: glibc's allocator has the contract; larger alignments than its own go through memalign.
unsafe impl GlobalAlloc for RuntimeHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: no preconditions.
        unsafe {
            if layout.align() <= 16 {
                __libc_malloc(layout.size()).cast()
            } else {
                __libc_memalign(layout.align(), layout.size()).cast()
            }
        }
    }

    unsafe fn dealloc(&self, p: *mut u8, _layout: Layout) {
        // SAFETY: came from `alloc`.
        unsafe { __libc_free(p.cast()) }
    }
}

/// `semcache::host::heap`
pub(super) mod heap {
    use super::{__libc_calloc, __libc_free, __libc_malloc, __libc_memalign, __libc_realloc};
    use crate::hooks::real::real;
    use core::ffi::c_void;

    /// `malloc`
    pub(crate) fn malloc(size: usize) -> *mut c_void {
        // SAFETY: no preconditions.
        unsafe { __libc_malloc(size) }
    }

    /// `calloc`
    pub(crate) fn calloc(n: usize, size: usize) -> *mut c_void {
        // SAFETY: no preconditions.
        unsafe { __libc_calloc(n, size) }
    }

    /// `memalign`
    pub(crate) fn memalign(align: usize, size: usize) -> *mut c_void {
        // SAFETY: no preconditions.
        unsafe { __libc_memalign(align, size) }
    }

    /// `realloc`
    ///
    /// # Safety
    /// As C's.
    pub(crate) unsafe fn realloc(p: *mut c_void, size: usize) -> *mut c_void {
        // SAFETY: the caller's.
        unsafe { __libc_realloc(p, size) }
    }

    /// `free`
    ///
    /// # Safety
    /// As C's.
    pub(crate) unsafe fn free(p: *mut c_void) {
        // SAFETY: the caller's.
        unsafe { __libc_free(p) }
    }

    /// `malloc_usable_size`
    ///
    /// # Safety
    /// As C's.
    pub(crate) unsafe fn usable_size(p: *mut c_void) -> usize {
        // SAFETY: the caller's.
        real!(malloc_usable_size: unsafe extern "C" fn(*mut c_void) -> usize)
            .map_or(0, |f| unsafe { f(p) })
    }

    /// Our part of `malloc_trim`.
    pub(crate) fn trim() -> bool {
        false
    }
}

/// `semcache::host::adopt`
pub(super) mod adopt {
    use core::ffi::c_int;

    /// What the hook of `munmap` shall do.
    #[derive(Debug)]
    #[expect(dead_code, reason = "the real thing makes the other one too")]
    pub(crate) enum Unmap {
        /// The system call.
        Proceed,
        /// Nothing but report success.
        Done,
    }

    pub(crate) fn before_mmap(_addr: usize, _len: usize, _flags: c_int) {}
    pub(crate) fn on_mmap(_addr: usize, _len: usize, _prot: c_int, _flags: c_int, _fd: c_int) {}
    pub(crate) fn on_munmap(_addr: usize, _len: usize) -> Unmap {
        Unmap::Proceed
    }
    pub(crate) fn before_mremap(
        _old: usize,
        _old_len: usize,
        _flags: c_int,
        _target: usize,
        _new_len: usize,
    ) {
    }
    pub(crate) fn on_mremap(_old: usize, _old_len: usize, _new: usize, _new_len: usize) {}
    pub(crate) fn on_madvise(_addr: usize, _len: usize, _advice: c_int) {}
    pub(crate) fn on_mprotect(_addr: usize, _len: usize, _prot: c_int) {}
    pub(crate) fn on_dlclose() {}
}
