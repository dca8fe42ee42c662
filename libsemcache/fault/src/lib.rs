//! The fault path: code that semcache runs inside a SIGSEGV handler.
//!
//! Faults come from arbitrary code: from inside `memcpy`, from inside `realloc` with the allocator's lock held, on an 8
//! KiB alternate stack. So this crate has neither `std` nor `alloc`; the compiler proves that no code here allocates,
//! locks a mutex or prints. Rules of the fault path:
//!
//! - H1 The handler reads the page table, posts to the mailbox, waits on a futex, returns. Small frames; raw system
//!   calls only, which leave `errno` alone.
//! - H2 A fault on a page that semcache does not track is chained to the program's handler, whatever its kind. The
//!   fault handler is never uninstalled, since another library may chain to it.
//! - H3 A fault on a runtime thread is a bug of semcache: one line by raw `write`, then chain. Such threads are known
//!   by thread id in a fixed array, because first-touch TLS in a loaded library may allocate.
//! - H4 The service path does not allocate from the process heap and does not log.
//! - H5 A dead service thread must not hang the program's threads: waits time out and look for a sign of life.
//! - H6 No Rust reference to tracked memory is ever formed.
//! - H7 No lock, busy bit or lease is held while a user address is dereferenced.
//!
//! [`page`] defines what is known of a page, [`pages`] is the table of all tracked pages, [`mailbox`] the way from a
//! faulting thread to the service thread and back, [`handler`] the signal handler and the program's virtual
//! dispositions; [`held`] lists the buffers of system calls under way; [`probe`] reads memory that may be unmapped;
//! [`reserve`] knows the address range that should seem unmapped, [`descriptor`] which file descriptors semcache still
//! owns, [`opening`] keeps the program's `dup2` away while one is opened; [`arithmetic`] sets the floating-point
//! environment of a thread; [`cancel`] keeps `pthread_cancel` from ending a thread inside semcache.
#![no_std]

#[cfg(loom)]
extern crate std;

mod sync;

#[cfg(not(loom))]
pub mod arithmetic;
pub mod broken;
pub mod cancel;
#[cfg(not(loom))]
pub mod counters;
#[cfg(not(loom))]
pub mod descriptor;
#[cfg(not(loom))]
pub mod handler;
pub mod held;
#[cfg(not(loom))]
pub mod latency;
#[cfg(not(loom))]
pub mod lineage;
pub mod mailbox;
#[cfg(not(loom))]
pub mod opening;
pub mod page;
#[cfg(not(loom))]
pub mod pages;
#[cfg(not(loom))]
pub mod probe;
#[cfg(not(loom))]
pub mod reserve;
#[cfg(not(loom))]
mod sys;
