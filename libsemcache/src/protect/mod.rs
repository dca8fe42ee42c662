//! Noticing the CPU: gates that restrict what it may do with host pages, and the service that answers
//! when it does it anyway.
//!
//! The signal handler and the table that it reads are the crate [`semcache_fault`]; this floor changes
//! protections together with that table ([`MprotectGate`]), and runs the thread that takes faults from
//! the handler's mailbox and gives them to the cache ([`service`]).
//!
//! # Order
//!
//! Faults race with changes of protection. The page table is kept *at most as permissive* as the
//! protection at every moment: it is lowered before pages are restricted, raised after they are opened.
//! Then a fault on a page that the table calls open is a lost race, and retried; a fault on a page that
//! is open already but not yet in the table is posted, and the sink, which finds nothing to do, lets it
//! be retried. No order of events chains a fault on a tracked page to the program.

mod eager;
mod mprotect;
pub mod service;
pub mod threads;
mod wp_async;

pub use eager::EagerGate;
pub use mprotect::{MprotectGate, mapped, max_map_count};
pub use service::{FaultSink, Served};
pub use wp_async::WpAsync;

use crate::base::Access;
use std::fmt;

/// A mechanism that notices what the CPU does with host pages.
///
/// Ranges are whole pages. Calls for overlapping ranges are serialised by the caller (the cache's lock);
/// others may run at the same time.
pub trait Gate: Send + Sync + fmt::Debug {
    /// Restricts or opens pages. Costs no system call where nothing changes.
    ///
    /// # Errors
    /// [`GateError::VmaBudget`] and [`GateError::Range`] leave everything as it was. After
    /// [`GateError::Os`] each page has either its old or its new protection; faults on these pages are
    /// posted, and the next `apply` never skips them. Opening is never refused by the budget.
    fn apply(&self, addr: usize, len: usize, access: Access) -> Result<(), GateError>;

    /// As [`Gate::apply`], but only if `in_use` says no: it is asked once the table says what is about to be, so that
    /// whoever notes a use and then looks at the table is either seen or sees.
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

    /// Tells that pages are not ours any more because their memory is freed or unmapped: a fault there is
    /// the program's. Changes no protection. Pages that are merely no longer tracked are opened
    /// instead, so that a late fault on them is retried.
    fn forget(&self, addr: usize, len: usize);

    /// Whether a restricted page traps the CPU at all.
    fn traps(&self) -> bool;

    /// How many calls closed something.
    fn closes(&self) -> u64;
}

/// Whether a page is closed at present, as far as the table knows.
#[must_use]
pub fn closed(addr: usize) -> bool {
    semcache_fault::pages::get(addr) == Some(Access::None)
}

/// Whether a page is ours and permits an access at present, as far as the table knows.
#[must_use]
pub fn permits(addr: usize, write: bool) -> bool {
    semcache_fault::pages::get(addr).is_some_and(|access| access.permits(write))
}

/// Whether no page of a range is in the way of an access at present, as far as the table knows.
#[must_use]
pub fn range_permits(addr: usize, len: usize, write: bool) -> bool {
    let page = semcache_fault::pages::page_size();
    let end = addr.saturating_add(len);
    (addr & !(page - 1)..end)
        .step_by(page)
        .all(|at| semcache_fault::pages::get(at).is_none_or(|access| access.permits(write)))
}

/// Whether a page is closed or read-only at present, as far as the table knows.
#[must_use]
pub fn restricted(addr: usize) -> bool {
    semcache_fault::pages::get(addr).is_some_and(|a| a != Access::ReadWrite)
}

/// Whether this is true of the page of an address, or of the page behind it: the first page of an operand stays open where it
/// is shared with other data, although devices hold what follows.
#[must_use]
pub fn begins(test: fn(usize) -> bool, addr: usize) -> bool {
    test(addr) || test(addr.wrapping_add(semcache_fault::pages::page_size()))
}

/// Where a test maps so many bytes of its own: the kernel maps nothing there unasked, so that holes which the
/// test makes stay holes, whatever other threads map meanwhile.
#[cfg(test)]
fn apart(len: usize) -> *mut core::ffi::c_void {
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static NEXT: AtomicUsize = AtomicUsize::new(0x1000_0000_0000);
    let room = (len + (1 << 20)).next_multiple_of(1 << 20);
    core::ptr::with_exposed_provenance_mut(NEXT.fetch_add(room, Relaxed))
}

/// Why a gate did not do what it was asked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GateError {
    /// The range is not whole pages of the user's address space.
    Range,
    /// The process would come too near the kernel's limit of mappings. Keep the data home instead.
    VmaBudget,
    /// A system call needs the pages as they are.
    InUse,
    /// The system refused.
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
