//! Where reductions leave their values: cells that a kernel writes and the host reads, without a copy.
#![expect(unsafe_code, reason = "reads what a device wrote")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Cache;
use crate::base::DeviceId;
use crate::device::api::{Backend, CELL_BYTES, Cell, DeviceError, Ticket};

/// Cells that are used of each device: one bit each.
const MOST: usize = 64;

/// The cells of all devices.
#[derive(Debug)]
pub(crate) struct Cells(Vec<OfDevice>);

#[derive(Debug)]
struct OfDevice {
    /// Empty until the device has been seen to have some.
    all: OnceLock<Vec<Cell>>,
    /// One bit for each that nobody uses.
    free: AtomicU64,
}

/// A cell in use: nobody else has it. One that is not given back, because its device is lost and may write it
/// at any time, is never used again.
#[derive(Debug)]
#[must_use = "a cell that is dropped is never used again"]
pub struct Taken {
    device: DeviceId,
    index: usize,
    cell: Cell,
}

impl Taken {
    /// Its address for kernels.
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
            // None yet: the device may still be coming up.
            return None;
        }
        Some(self.all.get_or_init(|| found))
    }
}

impl Cache {
    /// A cell of a device, unless it has none that is free.
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
            // Bits beyond the last cell are used up once, by nobody.
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

    /// Waits for the kernel that writes a cell, and gives the cell back.
    ///
    /// # Errors
    /// A device is lost, and the value with it.
    pub fn collect(&self, taken: Taken, kernel: Ticket) -> Result<[u8; CELL_BYTES], DeviceError> {
        self.backend.wait(kernel)?;
        let at: *const [u8; CELL_BYTES] = std::ptr::with_exposed_provenance(taken.cell.host);
        // SAFETY: by the backend's contract the cell is readable host memory of this size; the one kernel that
        // writes it is complete, and nobody else has the cell.
        let value = unsafe { at.read_volatile() };
        self.give_cell(taken);
        Ok(value)
    }
}
