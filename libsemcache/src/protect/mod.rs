//! Page protection: gates that restrict the CPU's access to pages of host memory, and the service thread that handles
//! the page faults of restricted accesses.
//!
//! The signal handler and the page table that it reads are the crate [`semcache_fault`]; this floor changes protections
//! together with that table ([`MprotectGate`]), and runs the thread that takes faults from the handler's mailbox and
//! gives them to the cache ([`service`]).
//!
//! # Order
//!
//! Faults race with changes of protection. The page table is *at most as permissive* as the protection at every moment:
//! it is lowered before pages are restricted, and raised after they are made accessible. A fault on a page that the
//! table calls accessible is a lost race, and the access is retried. A fault on a page that is accessible already, but
//! not yet in the table, is posted to the service thread; the sink finds nothing to do, and the access is retried. No
//! order of events passes a fault on a tracked page to the program's signal handler.

mod mprotect;
mod permitted;
pub mod service;
mod wp_async;
mod write_through;

pub use mprotect::{MprotectGate, mapped, max_map_count};
pub use permitted::range_permits;
pub use service::{FaultSink, Served};
pub use wp_async::WpAsync;
pub use write_through::WriteThroughGate;

use crate::base::Access;
use std::fmt;

/// A mechanism that traps the CPU's accesses to pages of host memory.
///
/// Ranges are whole pages. The caller (the cache's lock) serialises calls for overlapping ranges; calls for other
/// ranges may run at the same time.
pub trait Gate: Send + Sync + fmt::Debug {
    /// Restricts pages or makes them accessible. Costs no system call where nothing changes.
    ///
    /// # Errors
    /// [`GateError::VmaBudget`] and [`GateError::Range`] leave everything as it was. After [`GateError::Os`] each page
    /// has either its old or its new protection; faults on these pages are posted to the service thread, and the next
    /// `apply` never skips them. The budget never refuses to make pages accessible.
    fn apply(&self, addr: usize, len: usize, access: Access) -> Result<(), GateError>;

    /// As [`Gate::apply`], but only if `in_use` returns false. `in_use` is called after the page table has been
    /// lowered: a thread that notes its system call's buffer and then reads the table either is seen by `in_use`, or
    /// sees the lowered table.
    ///
    /// # Errors
    /// As [`Gate::apply`]; [`GateError::InUse`] leaves the pages as they were.
    fn restrict(
        &self,
        addr: usize,
        len: usize,
        access: Access,
        in_use: &dyn Fn() -> bool,
    ) -> Result<(), GateError>;

    /// Takes pages out of the page table because their memory is freed or unmapped: a later fault on them goes to the
    /// program's handler. Changes no protection. Pages that still exist but are no longer tracked are made accessible
    /// instead, so that a late fault on them is retried.
    fn forget(&self, addr: usize, len: usize);

    /// Whether a restricted page traps the CPU at all.
    fn traps(&self) -> bool;

    /// The number of calls that have made pages inaccessible.
    fn closes(&self) -> u64;
}

/// Whether a page is inaccessible at present, according to the page table.
#[must_use]
pub fn closed(addr: usize) -> bool {
    semcache_fault::pages::get(addr) == Some(Access::None)
}

/// Whether a page is tracked and permits an access at present, according to the page table.
#[must_use]
pub fn permits(addr: usize, write: bool) -> bool {
    semcache_fault::pages::get(addr).is_some_and(|access| access.permits(write))
}

/// Whether a page is inaccessible or read-only at present, according to the page table.
#[must_use]
pub fn restricted(addr: usize) -> bool {
    semcache_fault::pages::get(addr).is_some_and(|a| a != Access::ReadWrite)
}

/// Whether `test` holds for the page of an address, or for the page behind it: the first page of an operand stays
/// accessible where it is shared with other data, although devices hold the bytes that follow.
#[must_use]
pub fn begins(test: fn(usize) -> bool, addr: usize) -> bool {
    test(addr) || test(addr.wrapping_add(semcache_fault::pages::page_size()))
}

/// An address at which a test maps `len` bytes: the kernel chooses no address in this region itself, so holes that the
/// test unmaps stay unmapped, also if other threads map memory meanwhile.
#[cfg(test)]
fn apart(len: usize) -> *mut core::ffi::c_void {
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static NEXT: AtomicUsize = AtomicUsize::new(0x1000_0000_0000);
    let room = (len + (1 << 20)).next_multiple_of(1 << 20);
    core::ptr::with_exposed_provenance_mut(NEXT.fetch_add(room, Relaxed))
}

/// Why a gate did not change the access of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GateError {
    /// The range is not whole pages of the user's address space.
    Range,
    /// The process would come too near the kernel's limit of mappings. The caller writes the data back instead.
    VmaBudget,
    /// A system call uses the pages as a buffer, and needs their present protection.
    InUse,
    /// `mprotect` failed.
    Os(rustix::io::Errno),
}

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GateError::Range => f.write_str("not a range of whole pages"),
            GateError::VmaBudget => f.write_str("too many protection changes inside mappings"),
            GateError::InUse => f.write_str("a system call uses the pages"),
            GateError::Os(errno) => write!(f, "mprotect: {errno}"),
        }
    }
}

impl std::error::Error for GateError {}
