#![expect(unsafe_code, reason = "a page that the kernel empties in a child")]
//! Whether this is the process that it was: a child that was made by a bare system call ran no handler of fork.
//!
//! One page is marked to be wiped in a child with a copy of the memory. A child that shares it (vfork, CLONE_VM) still
//! has the parent's threads to serve it, and finds the mark. Any thread may look, a signal handler too.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use rustix::mm::{self, Advice, MapFlags, ProtFlags};

static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

/// Marks this process, once. Without the kernel's help (before Linux 4.14) it has no orphans.
pub fn mark() {
    if !MARK.load(Ordering::Acquire).is_null() {
        return;
    }
    let page = rustix::param::page_size();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let Ok(at) = (unsafe { mm::mmap_anonymous(ptr::null_mut(), page, access, MapFlags::PRIVATE) })
    else {
        return;
    };
    // SAFETY: our own page, which holds nothing yet.
    if unsafe { mm::madvise(at, page, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: as above; nobody else knows it.
        let _ = unsafe { mm::munmap(at, page) };
        return;
    }
    let mark = at.cast::<AtomicU32>();
    // SAFETY: a page has room for a word, and is aligned; zeros are an atomic.
    unsafe { &*mark }.store(1, Ordering::Release);
    MARK.store(mark, Ordering::Release);
}

fn word() -> Option<&'static AtomicU32> {
    // SAFETY: null, or the page of `mark`, which is never unmapped.
    unsafe { MARK.load(Ordering::Acquire).as_ref() }
}

/// In a child whose fork handlers run: it is known of.
pub fn acknowledge() {
    if let Some(mark) = word() {
        mark.store(1, Ordering::Release);
    }
}

/// Whether this process is a copy of one that was marked, and nobody here was told.
#[must_use]
pub fn orphaned() -> bool {
    word().is_some_and(|mark| mark.load(Ordering::Relaxed) == 0)
}
