//! Reduction results: cells of page-locked memory that a kernel writes a value to and the host reads it from, with no
//! copy.
#![expect(unsafe_code, reason = "reads what a device wrote")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Cache;
use crate::base::DeviceId;
use crate::device::api::{Backend, CELL_BYTES, Cell, DeviceError, Ticket};

/// The most cells that are used of each device, one bit each in a word.
const MOST: usize = 64;

/// The cells of all devices.
#[derive(Debug)]
pub(crate) struct Cells(Vec<OfDevice>);

#[derive(Debug)]
struct OfDevice {
    /// Empty until the device has cells.
    all: OnceLock<Vec<Cell>>,
    /// One bit for each cell that is free.
    free: AtomicU64,
}

/// A cell that one call uses. A cell that is not given back, because its device is lost and may write to it at any
/// time, is never used again.
#[derive(Debug)]
#[must_use = "a cell that is dropped is never used again"]
pub struct Taken {
    device: DeviceId,
    index: usize,
    cell: Cell,
}

impl Taken {
    /// The cell's device address, for kernels.
    #[must_use]
    pub fn addr(&self) -> u64 {
        self.cell.device
    }
}

impl Cells {
    pub(super) fn new(backend: &dyn Backend) -> Self {
        let none = |_| OfDevice {
            all: OnceLock::new(),
            free: AtomicU64::new(u64::MAX),
        };
        Self(backend.devices().iter().map(none).collect())
    }
}

impl OfDevice {
    fn all(&self, backend: &dyn Backend, device: DeviceId) -> Option<&[Cell]> {
        if let Some(all) = self.all.get() {
            return Some(all);
        }
        let found: Vec<Cell> = (0..MOST).map_while(|i| backend.cell(device, i)).collect();
        if found.is_empty() {
            // The device has no cells yet: it may still be coming up.
            return None;
        }
        Some(self.all.get_or_init(|| found))
    }
}

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
