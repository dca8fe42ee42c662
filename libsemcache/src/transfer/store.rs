//! Layout of a replica: where the bytes of an allocation lie in its device memory.

use super::ops::Ops;
use super::pool::{ALIGN, Range};
use crate::base::{DeviceId, Rect};
use crate::device::api::Region;

/// The device memory of one replica.
///
/// A *flat* replica mirrors one interval of the allocation byte by byte, so that any view inside it keeps
/// its own leading dimension. A *compact* one holds the runs of a strided rectangle `pitch` bytes apart;
/// views with the allocation's stride, and single runs, have a leading dimension there too.
#[derive(Debug)]
pub struct Store {
    /// The device whose memory it is.
    pub device: DeviceId,
    /// The bytes of the allocation that the replica can hold.
    pub rect: Rect,
    /// The replica's device memory.
    pub range: Range,
    /// Distance between runs on the device; equals `rect.stride` for a flat replica.
    pub pitch: usize,
    /// Operations in flight over the replica.
    pub ops: Ops,
    /// When the replica was last used (a counter that grows with every use).
    pub stamp: u64,
    /// How many times kernels of the program may use the replica now. It stays where it is meanwhile, and so do its bytes, valid or not.
    pub held: u32,
}

impl Store {
    /// Bytes of device memory that a replica of `rect` needs, and its pitch.
    #[must_use]
    pub fn layout(rect: &Rect) -> (usize, usize) {
        if rect.count <= 1 {
            return (rect.width, rect.stride);
        }
        // Columns start at multiples of [`ALIGN`], for the device's memory transactions; runs of a few bytes (a strided
        // vector) are only aligned to the largest element.
        let pitch = if rect.width >= ALIGN {
            rect.width.next_multiple_of(ALIGN)
        } else {
            rect.width.next_multiple_of(16)
        };
        (pitch.saturating_mul(rect.count), pitch)
    }

    /// Whether the replica mirrors one interval of the allocation byte by byte.
    #[must_use]
    pub fn flat(&self) -> bool {
        self.rect.count == 1
    }

    /// Whether a kernel can use `view` in this replica: all bytes of the view are inside, at one regular distance.
    #[must_use]
    pub fn covers(&self, view: &Rect) -> bool {
        self.rect.contains(view)
            && (self.flat() || view.count == 1 || view.stride == self.rect.stride)
    }

    /// Device address of the byte at `offset`, which must lie inside the replica.
    #[must_use]
    pub fn addr(&self, offset: usize) -> u64 {
        let rel = offset - self.rect.start;
        let byte = if self.flat() {
            rel
        } else {
            rel / self.rect.stride * self.pitch + rel % self.rect.stride
        };
        self.range.addr + byte as u64
    }

    /// Device address and pitch of `view`, which must satisfy [`Store::covers`].
    #[must_use]
    pub fn region(&self, view: &Rect) -> Region {
        Region {
            addr: self.addr(view.start),
            pitch: if self.flat() { view.stride } else { self.pitch },
        }
    }
}
