#![expect(unsafe_code, reason = "implements a global allocator")]
//! The heap of the runtime itself.
//!
//! A fault can come from any instruction, also from inside glibc's allocator with an arena locked, and
//! whoever serves it must not need that arena. So the preloaded library's Rust code allocates here: Doug
//! Lea's allocator over mappings of its own, behind a lock that is never held while program memory is
//! touched.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr;

use dlmalloc::{Allocator, Dlmalloc};

use super::lock::Lock;
use super::sys;

static HEAP: Lock<Dlmalloc<Pages>> = Lock::new(Dlmalloc::new_with_allocator(Pages));

pub(super) fn lock_for_fork() -> &'static Lock<Dlmalloc<Pages>> {
    &HEAP
}

/// Where the pages come from.
#[derive(Debug)]
pub(super) struct Pages;

// SAFETY: each mapping is private, anonymous, zeroed and ours until it is unmapped; every request is in whole
// pages, as dlmalloc rounds to `page_size`.
unsafe impl Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        match sys::whole_pages(size).and_then(sys::map_table) {
            Some(addr) => (ptr::with_exposed_provenance_mut(addr), size, 0),
            None => (ptr::null_mut(), 0, 0),
        }
    }

    fn remap(&self, p: *mut u8, old: usize, new: usize, can_move: bool) -> *mut u8 {
        // SAFETY: dlmalloc passes a mapping made by `alloc`, whole.
        unsafe { sys::remap(p.expose_provenance(), old, new, can_move) }
            .map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
    }

    fn free_part(&self, p: *mut u8, old: usize, new: usize) -> bool {
        // SAFETY: the tail of a mapping made by `alloc`, which dlmalloc uses no longer.
        unsafe { sys::unmap(p.expose_provenance() + new, old - new) };
        true
    }

    fn free(&self, p: *mut u8, size: usize) -> bool {
        // SAFETY: a mapping made by `alloc`, which dlmalloc uses no longer.
        unsafe { sys::unmap(p.expose_provenance(), size) };
        true
    }

    fn can_release_part(&self, _flags: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        sys::page_size()
    }
}

/// The runtime's allocator; the preloaded library declares it `#[global_allocator]`. All values are the same
/// heap.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuntimeHeap;

// SAFETY: dlmalloc's functions have the contract of GlobalAlloc's, under the lock that makes them exclusive.
unsafe impl GlobalAlloc for RuntimeHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { HEAP.lock().malloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { HEAP.lock().free(p, layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { HEAP.lock().calloc(layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: passed on.
        unsafe {
            HEAP.lock()
                .realloc(p, layout.size(), layout.align(), new_size)
        }
    }
}
