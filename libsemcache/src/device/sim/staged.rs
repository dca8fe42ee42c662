//! Staged uploads to a simulated device: the bytes are read from host memory when the upload is queued. If they cannot
//! be read, the upload fails before any operation uses it.
//!
//! A machine that misbehaves on purpose (late, or seeded) reads the bytes once more when the upload is executed, as the
//! copy engines of a GPU read page-locked memory: so a write by the CPU before the upload is done changes the numbers,
//! and tests notice. If the bytes cannot be read then, those read first are used.

#![expect(unsafe_code, reason = "moves raw bytes that the caller vouches for")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::copy;
use crate::device::api::{Region, Shape, undelivered};
use crate::device::host_memory::HostMemory;

/// A larger copy is queued in pieces of this size.
pub(super) const PIECE: usize = 8 << 20;

/// The most bytes of queued uploads that may have been read from host memory and not yet been written to a simulated
/// device. A thread that queues an upload beyond that waits until earlier ones are written.
const MOST: usize = 32 << 20;

/// Bytes that were read from host memory for one upload, run behind run.
#[derive(Debug)]
pub(super) struct Staged {
    bytes: Vec<u8>,
    shape: Shape,
    again: Option<Region>,
    /// The bytes of all staged uploads of the machine together.
    total: Arc<AtomicUsize>,
}

impl Drop for Staged {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// Why the bytes of an upload could not be staged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Failed {
    Unreadable,
    NoMemory,
}

impl Staged {
    /// Reads the host's bytes; they count as part of `total` until they are dropped. They are read `again` when the copy is
    /// made.
    pub(super) fn read(
        host: &HostMemory,
        src: Region,
        shape: Shape,
        total: &Arc<AtomicUsize>,
        again: bool,
    ) -> Result<Staged, Failed> {
        if undelivered::lacks(src, shape) {
            return Err(Failed::Unreadable);
        }
        let mut bytes: Vec<u8> = Vec::new();
        bytes
            .try_reserve_exact(shape.bytes())
            .map_err(|_| Failed::NoMemory)?;
        let to = Region {
            addr: bytes.as_mut_ptr().expose_provenance() as u64,
            pitch: shape.width,
        };
        // SAFETY: the buffer has room for the shape, all of which has been written when this succeeds.
        unsafe {
            copy::upload(host, src, to, shape, &mut Vec::new()).map_err(|_| Failed::Unreadable)?;
            bytes.set_len(shape.bytes());
        }
        total.fetch_add(bytes.len(), Ordering::Relaxed);
        Ok(Staged {
            bytes,
            shape,
            again: again.then_some(src),
            total: Arc::clone(total),
        })
    }

    /// An upload of a machine that moves nothing.
    pub(super) fn hollow(shape: Shape, total: &Arc<AtomicUsize>) -> Staged {
        Staged {
            bytes: Vec::new(),
            shape,
            again: None,
            total: Arc::clone(total),
        }
    }

    /// Whether the staged bytes exceed [`MOST`], so that the queueing thread waits for its upload.
    pub(super) fn too_much(total: &AtomicUsize) -> bool {
        total.load(Ordering::Relaxed) > MOST
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Copies the bytes to the device.
    ///
    /// # Safety
    /// The device region is writable and no other thread uses it meanwhile.
    pub(super) unsafe fn arrive(&self, host: &HostMemory, dst: Region, scratch: &mut Vec<u8>) {
        // SAFETY: the caller's promise; the buffer holds the shape.
        unsafe {
            if let Some(src) = self.again
                && !undelivered::lacks(src, self.shape)
                && copy::upload(host, src, dst, self.shape, scratch).is_ok()
            {
                return;
            }
            let from = Region {
                addr: self.bytes.as_ptr().expose_provenance() as u64,
                pitch: self.shape.width,
            };
            copy::move_within(from, dst, self.shape);
        }
    }
}

/// One of the pieces in which a long upload is queued. The last piece has the ticket of the whole upload, whose time
/// begins with the first piece.
#[derive(Clone, Debug, Default)]
pub(super) struct Piece {
    /// When the first piece began; 0 before that.
    began: Arc<AtomicU64>,
    /// In the last piece, the bytes of the whole upload.
    whole: Option<usize>,
}

impl Piece {
    /// The last piece of the same upload.
    pub(super) fn last(&self, bytes: usize) -> Piece {
        Piece {
            began: Arc::clone(&self.began),
            whole: Some(bytes),
        }
    }

    /// The piece was executed from `start` on. If it is the last one: when the upload began, and its bytes.
    pub(super) fn executed(&self, start: u64) -> Option<(u64, usize)> {
        let relaxed = Ordering::Relaxed;
        let _ = self.began.compare_exchange(0, start, relaxed, relaxed);
        Some((self.began.load(relaxed), self.whole?))
    }
}
