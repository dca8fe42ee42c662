//! The simulated machine against the device contract.

#![expect(
    unsafe_code,
    reason = "drives the raw device contract over memory of the tests"
)]

use core::ffi::c_void;
use core::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use semcache_fault::pages::page_size;

use super::*;
use crate::base::{Dtype, Routine, Value};
use crate::device::api::{Backend, Kernel, Lane, Operand, Region, Shape};

mod copies;
mod failures;
mod life;
mod order;
mod random;

const D0: DeviceId = DeviceId(0);
const D1: DeviceId = DeviceId(1);
const D2: DeviceId = DeviceId(2);

fn machine(config: SimConfig) -> SimMachine {
    SimMachine::new(config).expect("machine")
}

fn small(devices: usize) -> SimConfig {
    SimConfig {
        devices,
        memory: 4 << 20,
        ..SimConfig::default()
    }
}

fn late(devices: usize) -> SimConfig {
    SimConfig {
        late: true,
        ..small(devices)
    }
}

fn addr<T>(data: &mut [T]) -> u64 {
    data.as_mut_ptr().expose_provenance() as u64
}

fn run_of(addr: u64, width: usize) -> (Region, Shape) {
    (Region { addr, pitch: width }, Shape { width, count: 1 })
}

fn upload(
    m: &SimMachine,
    d: DeviceId,
    after: &[Ticket],
    from: u64,
    to: u64,
    bytes: usize,
) -> Result<Ticket, DeviceError> {
    let (src, shape) = run_of(from, bytes);
    // SAFETY: tests keep their buffers until the ticket is done.
    unsafe { m.upload(d, after, after, src, run_of(to, bytes).0, shape) }
}

fn download(
    m: &SimMachine,
    d: DeviceId,
    after: &[Ticket],
    from: u64,
    to: u64,
    bytes: usize,
) -> Result<Ticket, DeviceError> {
    let (src, shape) = run_of(from, bytes);
    // SAFETY: tests keep their buffers until the ticket is done.
    unsafe { m.download(d, after, src, run_of(to, bytes).0, shape) }
}

fn peer(
    m: &SimMachine,
    from: DeviceId,
    to: DeviceId,
    after: &[Ticket],
    src: u64,
    dst: u64,
    bytes: usize,
) -> Result<Ticket, DeviceError> {
    let (s, shape) = run_of(src, bytes);
    // SAFETY: device blocks live as long as the machine in the tests.
    unsafe { m.copy_peer(from, to, after, s, run_of(dst, bytes).0, shape) }
}

/// `y := y + alpha x` on contiguous doubles.
fn axpy(
    m: &SimMachine,
    d: DeviceId,
    after: &[Ticket],
    n: usize,
    alpha: f64,
    x: u64,
    y: u64,
) -> Result<Ticket, DeviceError> {
    let [x, y] = [x, y].map(|addr| Operand::vector(addr, 1));
    let kernel = Kernel {
        m: n,
        alpha: Value { re: alpha, im: 0.0 },
        ..Kernel::of(Routine::Axpy, Dtype::D, [x, y])
    };
    // SAFETY: device blocks live as long as the machine in the tests.
    unsafe { m.launch(d, after, &kernel) }
}

fn scal(
    m: &SimMachine,
    d: DeviceId,
    after: &[Ticket],
    n: usize,
    alpha: f64,
    x: u64,
) -> Result<Ticket, DeviceError> {
    let kernel = Kernel {
        m: n,
        alpha: Value { re: alpha, im: 0.0 },
        ..Kernel::of(Routine::Scal, Dtype::D, [Operand::vector(x, 1)])
    };
    // SAFETY: device blocks live as long as the machine in the tests.
    unsafe { m.launch(d, after, &kernel) }
}

/// Pages that a test can make inaccessible.
struct Pages {
    at: NonNull<c_void>,
    len: usize,
}

impl Pages {
    fn new(pages: usize) -> Self {
        let len = pages * page_size();
        // SAFETY: a fresh mapping.
        let at = unsafe {
            mmap_anonymous(
                None,
                len.try_into().expect("pages"),
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_PRIVATE,
            )
        }
        .expect("map");
        Pages { at, len }
    }

    fn protect(&self, flags: ProtFlags) {
        // SAFETY: the mapping is this test's, and the tests hold no reference into it meanwhile.
        unsafe { mprotect(self.at, self.len, flags) }.expect("protect");
    }

    fn close(&self) {
        self.protect(ProtFlags::PROT_NONE);
    }

    fn open(&self) {
        self.protect(ProtFlags::PROT_READ | ProtFlags::PROT_WRITE);
    }

    fn addr(&self) -> u64 {
        self.at.as_ptr().expose_provenance() as u64
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: called while the pages are accessible and no copy is in flight.
        unsafe { core::slice::from_raw_parts_mut(self.at.cast().as_ptr(), self.len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this test's.
        unsafe { munmap(self.at, self.len) }.expect("unmap");
    }
}
