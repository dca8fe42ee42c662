//! Devices for measuring the runtime's own time, and memory of the program.
#![expect(
    unsafe_code,
    reason = "implements the raw device contract; plays an unmodified program"
)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use semcache::base::{DeviceId, Link};
use semcache::device::api::{
    Backend, CELL_BYTES, Caps, Cell, DeviceError, Kernel, Lane, Region, Shape, Ticket,
};
use semcache::host::heap;

/// Devices whose operations do nothing, with links between all of them. The last operations of each lane count as in flight.
#[derive(Debug)]
pub(crate) struct Null {
    caps: Vec<Caps>,
    next: Vec<[AtomicU64; Lane::ALL.len()]>,
    memory: AtomicU64,
    cells: Box<[[u128; 1]]>,
    in_flight: u64,
}

impl Null {
    /// Of each lane, `in_flight` operations are not complete.
    pub(crate) fn new(devices: usize, in_flight: u64) -> Self {
        let links = |from| {
            (0..devices)
                .map(|to| {
                    if from == to {
                        Link::None
                    } else {
                        Link::Faster(0)
                    }
                })
                .collect()
        };
        Null {
            caps: (0..devices)
                .map(|device| Caps {
                    name: "null".to_owned(),
                    kind: "sim",
                    memory: 16 << 30,
                    links: links(device),
                })
                .collect(),
            next: (0..devices)
                .map(|_| [const { AtomicU64::new(0) }; Lane::ALL.len()])
                .collect(),
            memory: AtomicU64::new(1 << 40),
            cells: vec![[0]; 64].into(),
            in_flight,
        }
    }

    fn ticket(&self, device: DeviceId, lane: Lane) -> Ticket {
        let seq = self.next[device.0 as usize][lane as usize].fetch_add(1, Relaxed) + 1;
        Ticket { device, lane, seq }
    }
}

impl Backend for Null {
    fn devices(&self) -> &[Caps] {
        &self.caps
    }

    fn cell(&self, _: DeviceId, index: usize) -> Option<Cell> {
        let at = self.cells.get(index)?.as_ptr().expose_provenance();
        assert!(at.is_multiple_of(CELL_BYTES));
        Some(Cell {
            device: at as u64,
            host: at,
        })
    }

    fn alloc(&self, _: DeviceId, bytes: usize) -> Result<u64, DeviceError> {
        let bytes = bytes.next_multiple_of(4096) as u64;
        Ok(self.memory.fetch_add(bytes, Relaxed))
    }

    unsafe fn free(&self, _: DeviceId, _: u64) {}

    unsafe fn upload(
        &self,
        device: DeviceId,
        _: &[Ticket],
        _: &[Ticket],
        _: Region,
        _: Region,
        _: Shape,
    ) -> Result<Ticket, DeviceError> {
        Ok(self.ticket(device, Lane::In))
    }

    unsafe fn download(
        &self,
        device: DeviceId,
        _: &[Ticket],
        _: Region,
        _: Region,
        _: Shape,
    ) -> Result<Ticket, DeviceError> {
        Ok(self.ticket(device, Lane::Out))
    }

    unsafe fn copy_peer(
        &self,
        _: DeviceId,
        to: DeviceId,
        _: &[Ticket],
        _: Region,
        _: Region,
        _: Shape,
    ) -> Result<Ticket, DeviceError> {
        Ok(self.ticket(to, Lane::Peer))
    }

    unsafe fn launch(
        &self,
        device: DeviceId,
        _: &[Ticket],
        kernel: &Kernel,
    ) -> Result<Ticket, DeviceError> {
        std::hint::black_box(kernel);
        Ok(self.ticket(device, Lane::Compute))
    }

    fn done(&self, ticket: Ticket) -> Result<bool, DeviceError> {
        let queued = self.next[ticket.device.0 as usize][ticket.lane as usize].load(Relaxed);
        Ok(ticket.seq + self.in_flight <= queued)
    }

    fn wait(&self, _: Ticket) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// A block of the program's memory, written once by the CPU if `touched`.
pub(crate) fn block(elements: usize, touched: bool) -> usize {
    let at = heap::malloc(elements * 8).cast::<f64>();
    assert!(!at.is_null());
    if touched {
        // SAFETY: a fresh block of that size.
        unsafe { at.write_bytes(0, elements) };
    }
    at.expose_provenance()
}
