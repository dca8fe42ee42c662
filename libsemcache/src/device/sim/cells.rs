//! Memory that kernels of a simulated device write and the host reads.

#![expect(unsafe_code, reason = "memory that plays a part of two machines")]

use core::cell::UnsafeCell;

use super::memory::POISON;
use crate::base::DeviceId;
use crate::device::api::{CELL_BYTES, Cell};

/// Cells of a device.
const EACH: usize = 64;

#[repr(C, align(16))]
struct Word(UnsafeCell<[u8; CELL_BYTES]>);

// SAFETY: a cell is written by the one kernel that has its address and read by the host when that is done; here
// only addresses are made of it, but for `poison`, whose caller vouches for that.
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

    /// Overwrites a cell whose kernel is about to be queued: who reads it too early finds nothing there.
    ///
    /// # Safety
    /// The bytes lie within a cell, which is the caller's: no kernel in flight writes it, nobody reads it.
    pub(super) unsafe fn poison(addr: u64, bytes: usize) {
        let at: *mut u8 = core::ptr::with_exposed_provenance_mut(addr as usize);
        // SAFETY: the caller's promise.
        unsafe { at.write_bytes(POISON, bytes) };
    }
}
