//! Mapped host memory that a kernel writes a result to and the host reads it from, with no copy: cells for the values of
//! reductions, buffers for small vectors and matrices.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::DeviceId;
use crate::device::api::{BUFFER_BYTES, Backend, Cell};

/// The most cells, and the most buffers, that are used of each device, one bit each in a word.
const MOST: usize = 64;

/// What a piece of mapped memory is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The value of a reduction.
    Cell,
    /// A vector or a matrix.
    Buffer,
}

/// A device with less memory than this gets none for inputs that pass through buffers.
const LEAST_MEMORY: usize = 64 << 20;

/// The cells and buffers of all devices.
#[derive(Debug)]
pub(crate) struct Cells(Vec<OfDevice>);

#[derive(Debug)]
struct OfDevice {
    pieces: [Pieces; 2],
    /// Device memory for inputs that are uploaded from buffers, [`BUFFER_BYTES`] for each buffer; `None`: there is none.
    inputs: OnceLock<Option<u64>>,
}

/// Those of one device and kind.
#[derive(Debug)]
struct Pieces {
    /// Empty until the device has some.
    all: OnceLock<Vec<Cell>>,
    /// One bit for each that is free.
    free: AtomicU64,
}

/// A cell or a buffer that one call uses. If it is not given back, because its device is lost and may write to it at any
/// time, or because a handler of the program left the call by a jump, it is never used again.
#[derive(Debug)]
#[must_use = "what is dropped is never used again"]
pub struct Taken {
    device: DeviceId,
    kind: Kind,
    index: usize,
    pub(super) cell: Cell,
}

impl Taken {
    /// The device address, for kernels.
    #[must_use]
    pub fn addr(&self) -> u64 {
        self.cell.device
    }

    /// The device whose kernels write it.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// The address for the host.
    #[must_use]
    pub fn host(&self) -> usize {
        self.cell.host
    }
}

impl Cells {
    pub(super) fn new(backend: &dyn Backend) -> Self {
        let none = || Pieces {
            all: OnceLock::new(),
            free: AtomicU64::new(u64::MAX),
        };
        let of_device = |_| OfDevice {
            pieces: [none(), none()],
            inputs: OnceLock::new(),
        };
        Self(backend.devices().iter().map(of_device).collect())
    }

    /// The device memory that an input in this buffer is uploaded to; `None` if there is none.
    pub(super) fn input(&self, backend: &dyn Backend, taken: &Taken) -> Option<u64> {
        let base = self.inputs(backend, taken.device)?;
        Some(base + (taken.index * BUFFER_BYTES) as u64)
    }

    /// Where the device memory for inputs begins.
    pub(super) fn inputs(&self, backend: &dyn Backend, device: DeviceId) -> Option<u64> {
        let own = self.0.get(device.index())?;
        let buffers = own.pieces[Kind::Buffer as usize].all(backend, device, Kind::Buffer)?;
        let large = backend.devices()[device.index()].memory >= LEAST_MEMORY;
        let alloc = || backend.alloc(device, buffers.len() * BUFFER_BYTES).ok();
        *own.inputs.get_or_init(|| large.then(alloc).flatten())
    }

    /// Takes one of a device that is free; `None` if there is none.
    pub(super) fn take(
        &self,
        backend: &dyn Backend,
        device: DeviceId,
        kind: Kind,
    ) -> Option<Taken> {
        let own = &self.0.get(device.index())?.pieces[kind as usize];
        let all = own.all(backend, device, kind)?;
        let take = |free: u64| Some(free & free.wrapping_sub(1)).filter(|_| free != 0);
        loop {
            let before = own
                .free
                .fetch_update(Ordering::Acquire, Ordering::Relaxed, take)
                .ok()?;
            let index = before.trailing_zeros() as usize;
            // A bit beyond the last one is cleared here once and stands for none.
            if let Some(&cell) = all.get(index) {
                return Some(Taken {
                    device,
                    kind,
                    index,
                    cell,
                });
            }
        }
    }

    /// Gives one back that no kernel in flight writes.
    pub(super) fn give(&self, taken: &Taken) {
        if let Some(own) = self.0.get(taken.device.index()) {
            let free = &own.pieces[taken.kind as usize].free;
            free.fetch_or(1 << taken.index, Ordering::Release);
        }
    }
}

impl Pieces {
    fn all(&self, backend: &dyn Backend, device: DeviceId, kind: Kind) -> Option<&[Cell]> {
        if let Some(all) = self.all.get() {
            return Some(all);
        }
        let of = |i| match kind {
            Kind::Cell => backend.cell(device, i),
            Kind::Buffer => backend.buffer(device, i),
        };
        let found: Vec<Cell> = (0..MOST).map_while(of).collect();
        if found.is_empty() {
            // The device has none yet: it may still be coming up.
            return None;
        }
        Some(self.all.get_or_init(|| found))
    }
}
