//! Results in mapped host memory: a cell or a buffer is taken before the kernel that writes it, and read after it.
#![expect(unsafe_code, reason = "reads what a device wrote")]

use super::Cache;
use super::cells::{Kind, Taken};
use crate::base::DeviceId;
use crate::device::api::{CELL_BYTES, DeviceError, Ticket};

impl Cache {
    /// Takes a free cell of a device; `None` if there is none.
    pub fn take_cell(&self, device: DeviceId) -> Option<Taken> {
        self.cells.take(self.backend, device, Kind::Cell)
    }

    /// Takes a free buffer of a device; `None` if there is none.
    pub fn take_buffer(&self, device: DeviceId) -> Option<Taken> {
        self.cells.take(self.backend, device, Kind::Buffer)
    }

    /// Gives a cell or a buffer back that no kernel in flight writes.
    #[expect(clippy::needless_pass_by_value, reason = "nobody uses it any more")]
    pub fn give_cell(&self, taken: Taken) {
        self.cells.give(&taken);
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
