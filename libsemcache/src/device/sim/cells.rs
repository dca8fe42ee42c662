//! Host memory that kernels of a simulated device write and the host reads: cells for the values of reductions, and buffers for
//! small results.

#![expect(unsafe_code, reason = "memory that plays a part of two machines")]

use core::cell::UnsafeCell;
use std::sync::OnceLock;

use super::memory::POISON;
use crate::base::DeviceId;
use crate::device::api::{BUFFER_BYTES, CELL_BYTES, Cell};

/// The number of cells and of buffers of a device.
const EACH: usize = 64;
const BUFFERS: usize = 8;

#[repr(C, align(16))]
struct Word(UnsafeCell<[u8; CELL_BYTES]>);

// SAFETY: one kernel, which has the cell's or the buffer's address, writes it, and the host reads it when that kernel is done;
// this module only hands out addresses, except for `poison`, whose caller promises that no kernel in flight writes there
// and no thread reads it.
unsafe impl Sync for Word {}

/// Pieces of this number of bytes each.
struct Pieces {
    words: Box<[Word]>,
    bytes: usize,
}

impl Pieces {
    fn new(count: usize, bytes: usize) -> Pieces {
        let empty = || Word(UnsafeCell::new([POISON; CELL_BYTES]));
        let words = (0..count * bytes / CELL_BYTES).map(|_| empty()).collect();
        Pieces { words, bytes }
    }

    fn get(&self, index: usize) -> Option<Cell> {
        let word = self.words.get(index * (self.bytes / CELL_BYTES))?;
        let host = word.0.get().expose_provenance();
        Some(Cell {
            device: host as u64,
            host,
        })
    }

    /// Whether the bytes lie within one piece.
    fn hold(&self, addr: u64, bytes: usize) -> bool {
        self.get(0).is_some_and(|first| {
            let offset = addr.wrapping_sub(first.device);
            offset < (self.words.len() * CELL_BYTES) as u64
                && offset % self.bytes as u64 + bytes as u64 <= self.bytes as u64
        })
    }
}

/// The cells and buffers of a device. Buffers get their memory when the first of them is asked for.
struct OfDevice {
    cells: Pieces,
    buffers: OnceLock<Pieces>,
}

/// The cells and buffers of all devices.
pub(super) struct Cells(Box<[OfDevice]>);

impl core::fmt::Debug for Cells {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Cells").field(&self.0.len()).finish()
    }
}

impl Cells {
    pub(super) fn new(devices: usize) -> Self {
        let of_device = || OfDevice {
            cells: Pieces::new(EACH, CELL_BYTES),
            buffers: OnceLock::new(),
        };
        Cells((0..devices).map(|_| of_device()).collect())
    }

    pub(super) fn get(&self, device: DeviceId, index: usize) -> Option<Cell> {
        self.0.get(device.index())?.cells.get(index)
    }

    pub(super) fn buffer(&self, device: DeviceId, index: usize) -> Option<Cell> {
        let buffers = &self.0.get(device.index())?.buffers;
        let new = || Pieces::new(BUFFERS, BUFFER_BYTES);
        buffers.get_or_init(new).get(index)
    }

    /// Whether the bytes lie within one cell or buffer of the device.
    pub(super) fn hold(&self, device: DeviceId, addr: u64, bytes: usize) -> bool {
        self.0.get(device.index()).is_some_and(|own| {
            let mut all = core::iter::once(&own.cells).chain(own.buffers.get());
            all.any(|pieces| pieces.hold(addr, bytes))
        })
    }

    /// Overwrites a cell or buffer just before its kernel is queued, so that a thread that reads there before the kernel is
    /// done reads NaN.
    ///
    /// # Safety
    /// The bytes lie within a cell or buffer that is the caller's: no kernel in flight writes it, and no thread reads it.
    pub(super) unsafe fn poison(addr: u64, bytes: usize) {
        let at: *mut u8 = core::ptr::with_exposed_provenance_mut(addr as usize);
        // SAFETY: the caller's promise.
        unsafe { at.write_bytes(POISON, bytes) };
    }
}
