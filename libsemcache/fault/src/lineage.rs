#![expect(unsafe_code, reason = "a page that the kernel empties in a child")]
//! Detects a process that a bare system call forked: such a child ran no fork handler.
//!
//! One page is marked (`MADV_WIPEONFORK`) to be wiped in a child that copies the memory. A child that shares the memory
//! (vfork, CLONE_VM) still has the parent's threads to serve it, and finds the mark. Any thread may look, in a signal
//! handler too.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use rustix::mm::{self, Advice, MapFlags, ProtFlags};

static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

/// Marks this process, once. Before Linux 4.14 the kernel cannot wipe the page, and orphans are not detected.
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
    // SAFETY: the page mapped just above, which holds nothing yet.
    if unsafe { mm::madvise(at, page, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: as above; no other code has its address.
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

/// Called in a child whose fork handlers run: it is no orphan.
pub fn acknowledge() {
    if let Some(mark) = word() {
        mark.store(1, Ordering::Release);
    }
}

/// Whether this process is a copy of a marked one in which no fork handler ran.
#[must_use]
pub fn orphaned() -> bool {
    word().is_some_and(|mark| mark.load(Ordering::Relaxed) == 0)
}
