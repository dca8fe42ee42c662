//! Results in mapped host memory: a cell or a buffer is taken before the kernel that writes it, and read after it.
#![expect(
    unsafe_code,
    reason = "reads what a device wrote, and has a device copy"
)]

use super::Cache;
use super::cells::{Kind, Taken};
use crate::base::DeviceId;
use crate::base::counters::{COUNTERS, on_device};
use crate::device::api::{CELL_BYTES, DeviceError, Region, Shape, Ticket};

impl Cache {
    /// Takes a free cell of a device; `None` if there is none.
    pub fn take_cell(&self, device: DeviceId) -> Option<Taken> {
        self.cells.take(self.backend, device, Kind::Cell)
    }

    /// Takes a free buffer of a device; `None` if there is none.
    pub fn take_buffer(&self, device: DeviceId) -> Option<Taken> {
        self.cells.take(self.backend, device, Kind::Buffer)
    }

    /// Whether a device has memory for inputs that are uploaded from buffers.
    #[must_use]
    pub fn takes_inputs(&self, device: DeviceId) -> bool {
        self.cells.inputs(self.backend, device).is_some()
    }

    /// Queues the upload of the first `bytes` bytes of a buffer; returns the address there, and the copy's ticket. `None` if the device
    /// has no memory for that, or refuses.
    #[must_use]
    pub fn upload_buffer(&self, taken: &Taken, bytes: usize) -> Option<(u64, Ticket)> {
        let to = self.cells.input(self.backend, taken)?;
        let region = |addr| Region { addr, pitch: bytes };
        let shape = Shape {
            width: bytes,
            count: 1,
        };
        let (from, to_region) = (region(taken.host() as u64), region(to));
        // SAFETY: the call has the buffer and the device memory that belongs to it for itself, until the kernel that reads that memory
        // is complete; `bytes` are at most those of a buffer.
        let ticket = unsafe {
            self.backend
                .upload(taken.device(), &[], &[], from, to_region, shape)
        };
        let ticket = ticket.ok()?;
        COUNTERS.bytes.h2d.add(bytes as u64);
        on_device(taken.device()).h2d.add(bytes as u64);
        Some((to, ticket))
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
