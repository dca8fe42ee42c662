//! Reduction cells: host memory that kernels of a simulated device write and the host reads.

#![expect(unsafe_code, reason = "memory that plays a part of two machines")]

use core::cell::UnsafeCell;

use super::memory::POISON;
use crate::base::DeviceId;
use crate::device::api::{CELL_BYTES, Cell};

/// The number of cells of a device.
const EACH: usize = 64;

#[repr(C, align(16))]
struct Word(UnsafeCell<[u8; CELL_BYTES]>);

// SAFETY: one kernel, which has the cell's address, writes it, and the host reads it when that kernel is done; this
// module only hands out addresses, except for `poison`, whose caller promises that no kernel in flight writes the cell
// and no thread reads it.
unsafe impl Sync for Word {}

/// The cells of all devices.
pub(super) struct Cells(Box<[Word]>);

impl core::fmt::Debug for Cells {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Cells").field(&self.0.len()).finish()
    }
}

impl Cells {
    pub(super) fn new(devices: usize) -> Self {
        let empty = || Word(UnsafeCell::new([POISON; CELL_BYTES]));
        Cells((0..devices * EACH).map(|_| empty()).collect())
    }

    pub(super) fn get(&self, device: DeviceId, index: usize) -> Option<Cell> {
        if index >= EACH {
            return None;
        }
        let word = self.0.get(device.index() * EACH + index)?;
        let host = word.0.get().expose_provenance();
        Some(Cell {
            device: host as u64,
            host,
        })
    }

    /// Whether the bytes lie within one cell of the device.
    pub(super) fn hold(&self, device: DeviceId, addr: u64, bytes: usize) -> bool {
        self.get(device, 0).is_some_and(|first| {
            let offset = addr.wrapping_sub(first.device);
            offset < (EACH * CELL_BYTES) as u64
                && offset % CELL_BYTES as u64 + bytes as u64 <= CELL_BYTES as u64
        })
    }

    /// Overwrites a cell just before its kernel is queued, so that a thread that reads the cell before the kernel is
    /// done reads NaN.
    ///
    /// # Safety
    /// The bytes lie within a cell that is the caller's: no kernel in flight writes it, and no thread reads it.
    pub(super) unsafe fn poison(addr: u64, bytes: usize) {
        let at: *mut u8 = core::ptr::with_exposed_provenance_mut(addr as usize);
        // SAFETY: the caller's promise.
        unsafe { at.write_bytes(POISON, bytes) };
    }
}
