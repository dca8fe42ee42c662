//! Pages and what the CPU may do with them.

use crate::sync::{AtomicU8, Ordering};

/// What the CPU may do with a page or panel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Access {
    /// Closed: any access faults (`PROT_NONE`).
    None = 1,
    /// Reads pass, writes fault (`PROT_READ`).
    Read = 2,
    /// Open.
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
/// 0 is "not ours", 1 to 3 are the discriminants of [`Access`], and 4 is doubt: a change of protection
/// failed half-way, so the page may be open or closed. Doubt reads as closed, so a fault on it is
/// posted, and it equals no access, so the next change is never skipped.
#[derive(Debug)]
#[repr(transparent)]
pub struct PageByte(AtomicU8);

const DOUBT: u8 = 4;

impl PageByte {
    /// A page that is not ours.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> PageByte {
        PageByte(AtomicU8::new(0))
    }

    /// What is known of the page; `Option::None` if it is not ours.
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

    /// Restricts what is known of the page to `access`; a page that is not ours counts as open. Not
    /// atomic against another writer of the same page.
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

/// What the handler does with a fault of the kind "mapped, but access refused".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The page is open by now: return, so that the access is retried.
    Retry,
    /// The page is closed: ask the service.
    Post,
    /// Somebody else's page.
    NotOurs,
}

/// Decides by what is known of the page.
///
/// Relies on the order that the gate keeps: the byte is lowered *before* the protection and raised
/// *after* it. So a byte that permits the access means that the page was opened after this fault was
/// raised (or that the program itself protected the page, which the handler's retry budget notices),
/// and a closed byte on an open page costs one needless post.
#[must_use]
pub const fn decide(known: Option<Access>, write: bool) -> Decision {
    match known {
        None => Decision::NotOurs,
        Some(access) if access.permits(write) => Decision::Retry,
        Some(_) => Decision::Post,
    }
}
