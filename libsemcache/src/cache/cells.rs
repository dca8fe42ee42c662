//! Reduction results: cells of page-locked memory that a kernel writes a value to and the host reads it from, with no
//! copy.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use crate::base::DeviceId;
use crate::device::api::{Backend, Cell};

/// The most cells that are used of each device, one bit each in a word.
const MOST: usize = 64;

/// The cells of all devices.
#[derive(Debug)]
pub(crate) struct Cells(pub(super) Vec<OfDevice>);

#[derive(Debug)]
pub(super) struct OfDevice {
    /// Empty until the device has cells.
    pub(super) all: OnceLock<Vec<Cell>>,
    /// One bit for each cell that is free.
    pub(super) free: AtomicU64,
}

/// A cell that one call uses. A cell that is not given back, because its device is lost and may write to it at any
/// time, is never used again.
#[derive(Debug)]
#[must_use = "a cell that is dropped is never used again"]
pub struct Taken {
    pub(super) device: DeviceId,
    pub(super) index: usize,
    pub(super) cell: Cell,
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
    pub(super) fn all(&self, backend: &dyn Backend, device: DeviceId) -> Option<&[Cell]> {
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
