//! Kit of the fault tests: protected memory and a service thread.
#![allow(dead_code, reason = "each test binary uses its part")]
#![expect(unsafe_code, reason = "protects pages and touches them")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect};
use semcache_fault::handler::{self, threads};
use semcache_fault::mailbox::{self, Verdict};
use semcache_fault::page::Access;
use semcache_fault::pages;
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::mpsc;
use std::time::Duration;

/// Fresh memory of `pages` pages, each starting with its index, all inaccessible. Never unmapped.
pub(crate) fn closed(count: usize) -> usize {
    let page = pages::page_size();
    let addr = mapped(count);
    for i in 0..count {
        // SAFETY: this test's own fresh memory.
        unsafe { (addr as *mut usize).byte_add(i * page).write(i) };
    }
    close(addr, count * page);
    addr
}

/// Fresh accessible memory that the page table does not know.
pub(crate) fn mapped(count: usize) -> usize {
    // SAFETY: a new mapping.
    unsafe {
        mmap_anonymous(
            None,
            NonZeroUsize::new(count * pages::page_size()).unwrap(),
            ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
            MapFlags::MAP_PRIVATE,
        )
    }
    .unwrap()
    .as_ptr() as usize
}

/// A pointer to memory of a test.
pub(crate) fn pointer(addr: usize) -> NonNull<c_void> {
    NonNull::new(addr as *mut _).unwrap()
}

pub(crate) fn close(addr: usize, len: usize) {
    pages::lower(addr, len, Access::None).unwrap();
    protect(addr, len, ProtFlags::PROT_NONE);
}

pub(crate) fn open(addr: usize, len: usize, access: Access) {
    let flags = match access {
        Access::None => ProtFlags::PROT_NONE,
        Access::Read => ProtFlags::PROT_READ,
        Access::ReadWrite => ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
    };
    protect(addr, len, flags);
    pages::set(addr, len, Some(access)).unwrap();
}

pub(crate) fn protect(addr: usize, len: usize, flags: ProtFlags) {
    // SAFETY: memory of this test only.
    unsafe { mprotect(pointer(addr), len, flags) }.unwrap();
}

/// A load that the compiler does not remove.
pub(crate) fn read(addr: usize) -> usize {
    // SAFETY: memory of this test; the service thread makes it accessible if it is not.
    unsafe { (addr as *const usize).read_volatile() }
}

/// A store that the compiler does not remove.
pub(crate) fn write(addr: usize, value: usize) {
    // SAFETY: as in `read`.
    unsafe { (addr as *mut usize).write_volatile(value) }
}

/// Makes the page of a fault accessible: for reading, or for both if the fault was a write.
pub(crate) fn open_page(addr: usize, write: bool) -> Verdict {
    let page = pages::page_size();
    let access = if write {
        Access::ReadWrite
    } else {
        Access::Read
    };
    if !pages::get(addr).is_some_and(|a| a.permits(write)) {
        open(addr & !(page - 1), page, access);
    }
    Verdict::Retry
}

/// Installs the handler and starts a service thread.
pub(crate) fn serve(mut sink: impl FnMut(usize, bool) -> Verdict + Send + 'static) {
    handler::install().unwrap();
    let (ready, started) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = handler::block_async_signals();
        threads::register_runtime_thread();
        mailbox::attach();
        ready.send(()).unwrap();
        loop {
            if let Some(fault) = mailbox::take(Duration::from_millis(50)) {
                let verdict = sink(fault.addr, fault.write);
                mailbox::complete(fault, verdict);
            }
        }
    });
    started.recv().unwrap();
}

/// Waits until the service thread has found this number of tickets abandoned: it looks for them when it is idle.
pub(crate) fn await_abandoned(tickets: u64) {
    let found = |_| {
        std::thread::sleep(Duration::from_millis(10));
        mailbox::abandoned() >= tickets
    };
    assert!((0..6000).any(found), "{} found", mailbox::abandoned());
}
