//! Copies from and to host memory that the program may take away, or guard, before they are made.

#![expect(unsafe_code, reason = "moves raw bytes that the caller vouches for")]

use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

use super::copy;
use crate::device::api::{Region, Shape, Ticket, undelivered};
use crate::device::host_memory::HostMemory;

/// Uploads whose host memory could not be read, until whoever queued them knows.
#[derive(Debug, Default)]
pub(super) struct Unread(Mutex<Vec<Ticket>>);

impl Unread {
    pub(super) fn note(&self, ticket: Ticket) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(ticket);
    }

    /// Whether the upload is one of them.
    pub(super) fn take(&self, ticket: Ticket) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.len();
        all.retain(|t| *t != ticket);
        all.len() < before
    }
}

/// # Safety
/// As [`copy::upload`].
pub(super) unsafe fn upload(
    host: &HostMemory,
    src: Region,
    dst: Region,
    shape: Shape,
    scratch: &mut Vec<u8>,
) -> Result<(), Errno> {
    if undelivered::lacks(src, shape) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the caller's.
    unsafe { copy::upload(host, src, dst, shape, scratch) }
}

/// Bytes that cannot be written where they belong are kept for the thread whose result they are.
///
/// # Safety
/// As [`copy::download`].
pub(super) unsafe fn download(
    host: &HostMemory,
    src: Region,
    dst: Region,
    shape: Shape,
    scratch: &mut Vec<u8>,
) -> Result<(), Errno> {
    let written = if undelivered::lacks(dst, shape) {
        Err(Errno::FAULT)
    } else {
        // SAFETY: the caller's.
        unsafe { copy::download(host, src, dst, shape, scratch) }
    };
    let keep = || {
        undelivered::keep(dst, shape, |bytes| {
            let to = Region {
                addr: bytes.as_mut_ptr().expose_provenance() as u64,
                pitch: shape.width,
            };
            // SAFETY: the caller's for the source; the buffer has room for the shape, and nobody else knows it.
            unsafe { copy::move_within(src, to, shape) }
        })
    };
    written.or_else(|error| if keep() { Ok(()) } else { Err(error) })
}
