//! Pages of host memory and the access that the CPU has to them.

use crate::sync::{AtomicU8, Ordering};

/// The access that the CPU has to a page or panel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Access {
    /// Inaccessible: any access faults (`PROT_NONE`).
    None = 1,
    /// Reads pass, writes fault (`PROT_READ`).
    Read = 2,
    /// Accessible: reads and writes pass.
    ReadWrite = 3,
}

impl Access {
    /// Whether a read (`write` false) or a write passes without a fault.
    #[must_use]
    pub const fn permits(self, write: bool) -> bool {
        matches!(
            (self, write),
            (Access::ReadWrite, _) | (Access::Read, false)
        )
    }
}

/// One byte of the page table: what is known of one page.
///
/// 0 is "untracked", 1 to 3 are the discriminants of [`Access`], and 4 is doubt: a change of protection failed
/// half-way, so the page may be accessible or not. Doubt reads as inaccessible, so a fault on the page is posted; and
/// it equals no access, so the next change of protection is never skipped.
#[derive(Debug)]
#[repr(transparent)]
pub struct PageByte(AtomicU8);

const DOUBT: u8 = 4;

impl PageByte {
    /// An untracked page.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> PageByte {
        PageByte(AtomicU8::new(0))
    }

    /// What is known of the page; `Option::None` if it is untracked.
    #[must_use]
    pub fn get(&self) -> Option<Access> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            2 => Some(Access::Read),
            3 => Some(Access::ReadWrite),
            _ => Some(Access::None),
        }
    }

    /// Sets what is known of the page.
    pub fn set(&self, access: Option<Access>) {
        self.0
            .store(access.map_or(0, |a| a as u8), Ordering::Release);
    }

    /// Restricts what is known of the page to `access`; an untracked page counts as accessible. Not atomic against
    /// another writer of the same page.
    pub fn lower(&self, access: Access) {
        let raw = self.0.load(Ordering::Relaxed);
        if raw == 0 || (raw != DOUBT && raw > access as u8) {
            self.0.store(access as u8, Ordering::Release);
        }
    }

    /// Marks the page's protection as unknown.
    pub fn doubt(&self) {
        self.0.store(DOUBT, Ordering::Release);
    }

    /// The raw byte, for comparisons of neighbours.
    #[cfg(not(loom))]
    pub(crate) fn raw(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(loom)]
impl Default for PageByte {
    fn default() -> PageByte {
        PageByte::new()
    }
}

/// What the fault handler does with a fault of the kind "mapped, but access refused".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The page is accessible by now: return, so that the access is retried.
    Retry,
    /// The page is inaccessible (or read-only, and the access is a write): post the fault to the service thread.
    Post,
    /// The page is untracked: chain to the program's handler.
    NotOurs,
}

/// Decides by what is known of the page.
///
/// Relies on the order that the gate keeps: the byte is lowered *before* the protection and raised *after* it. So a
/// byte that permits the access means that the page was made accessible after this fault was raised (or that the
/// program itself protected the page, which the handler's retry budget notices), and a byte that forbids the access on
/// an accessible page costs one needless post.
#[must_use]
pub const fn decide(known: Option<Access>, write: bool) -> Decision {
    match known {
        None => Decision::NotOurs,
        Some(access) if access.permits(write) => Decision::Retry,
        Some(_) => Decision::Post,
    }
}
