#![expect(unsafe_code, reason = "implements a global allocator")]
//! The heap of the runtime itself: the global allocator of the preloaded library's Rust code.
//!
//! A page fault on protected memory can come from any instruction, also from inside glibc's allocator while an arena is
//! locked, and the thread that serves the fault must not need that arena. So this heap is Doug Lea's allocator over
//! mappings of its own. Its lock is never held while program memory is touched, nor while a signal handler of the
//! program could run.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr;

use dlmalloc::{Allocator, Dlmalloc};

use super::lock::{Guard, Lock};
use super::sys;
use crate::process::signals_blocked::SignalsBlocked;

static HEAP: Lock<Dlmalloc<Pages>> = Lock::new(Dlmalloc::new_with_allocator(Pages));

pub(super) fn lock_for_fork() -> &'static Lock<Dlmalloc<Pages>> {
    &HEAP
}

/// The source of the heap's pages.
#[derive(Debug)]
pub(super) struct Pages;

// SAFETY: each mapping is private, anonymous, zeroed and used only by this heap until it is unmapped; every request is
// in whole pages, as dlmalloc rounds to `page_size`.
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

/// The heap, locked, with signals blocked until after the lock is released: fields are dropped in order.
fn heap() -> (Guard<'static, Dlmalloc<Pages>>, SignalsBlocked) {
    let blocked = SignalsBlocked::new();
    (HEAP.lock(), blocked)
}

// SAFETY: dlmalloc's functions have the contract of GlobalAlloc's, under the lock that makes them exclusive.
unsafe impl GlobalAlloc for RuntimeHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { heap().0.malloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { heap().0.free(p, layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { heap().0.calloc(layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { heap().0.realloc(p, layout.size(), layout.align(), new_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::signals_blocked::tests::blocked;

    #[test]
    fn no_handler_runs_while_the_heap_is_taken() {
        assert!(!blocked());
        let taken = heap();
        assert!(blocked());
        drop(taken);
        assert!(!blocked());
        // Allocating and freeing under the lock leaves signals unblocked afterwards.
        let layout = Layout::from_size_align(1 << 20, 64).unwrap();
        // SAFETY: freed once, with the layout that it was made with.
        unsafe {
            let at = RuntimeHeap.alloc(layout);
            assert!(!at.is_null());
            RuntimeHeap.dealloc(at, layout);
        }
        assert!(!blocked());
    }
}
