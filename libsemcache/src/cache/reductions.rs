//! Values of reductions: a cell is taken before the kernel that writes it, and read after it.
#![expect(unsafe_code, reason = "reads what a device wrote")]

use std::sync::atomic::Ordering;

use super::Cache;
use super::cells::Taken;
use crate::base::DeviceId;
use crate::device::api::{CELL_BYTES, DeviceError, Ticket};

impl Cache {
    /// Takes a free cell of a device; `None` if there is none.
    pub fn take_cell(&self, device: DeviceId) -> Option<Taken> {
        let own = self.cells.0.get(device.index())?;
        let all = own.all(self.backend, device)?;
        let take = |free: u64| Some(free & free.wrapping_sub(1)).filter(|_| free != 0);
        loop {
            let before = own
                .free
                .fetch_update(Ordering::Acquire, Ordering::Relaxed, take)
                .ok()?;
            let index = before.trailing_zeros() as usize;
            // A bit beyond the last cell is cleared here once and stands for no cell.
            if let Some(&cell) = all.get(index) {
                return Some(Taken {
                    device,
                    index,
                    cell,
                });
            }
        }
    }

    /// Gives a cell back that no kernel in flight writes.
    pub fn give_cell(&self, taken: Taken) {
        if let Some(own) = self.cells.0.get(taken.device.index()) {
            own.free.fetch_or(1 << taken.index, Ordering::Release);
        }
    }

    /// Waits for the kernel that writes a cell, reads the value, and gives the cell back.
    ///
    /// # Errors
    /// A device is lost, and the value with it.
    pub fn collect(&self, taken: Taken, kernel: Ticket) -> Result<[u8; CELL_BYTES], DeviceError> {
        self.backend.wait(kernel)?;
        let at: *const [u8; CELL_BYTES] = std::ptr::with_exposed_provenance(taken.cell.host);
        // SAFETY: by the backend's contract the cell is readable host memory of this size; the one kernel that writes
        // it is complete, and until `give_cell` below no other call uses the cell.
        let value = unsafe { at.read_volatile() };
        self.give_cell(taken);
        Ok(value)
    }
}
