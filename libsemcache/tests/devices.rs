//! The device contract on one machine: copies of every kind of host memory and shape, order between streams,
//! kernels against the arithmetic of the simulated devices.
//!
//! On a simulated machine by default; `SEMCACHE_TEST_DEVICES=cuda` (or `cuda:0,1`) takes the real one, and fails
//! without it.
#![expect(unsafe_code, reason = "drives the raw device contract")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test program, not the library in a user's process"
)]

#[path = "devices/dense.rs"]
mod dense;
#[path = "devices/kernels.rs"]
mod kernels;
#[path = "devices/level2.rs"]
mod level2;
#[path = "devices/level3.rs"]
mod level3;
#[path = "devices/machine.rs"]
mod machine;
#[path = "devices/sparse.rs"]
mod sparse;
#[path = "devices/times.rs"]
mod times;

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use semcache::base::{DeviceId, Dtype, Routine, Value};
use semcache::device::api::{BUFFER_BYTES, Backend, Kernel, Lane, Operand, Region, Shape, Ticket};
use testkit::Rng;
use testkit::runner::{self, Case};

const D0: DeviceId = DeviceId(0);

type Test = (&'static str, fn(&dyn Backend));

const TESTS: &[Test] = &[
    ("copies", copies),
    ("closed_pages", closed_pages),
    ("order", order),
    ("peers", peers),
    ("cells", cells),
    ("buffers", buffers),
    ("kernels", kernels::all),
    ("level2", level3::level2),
    ("level3", level3::run),
    ("large products", level3::large),
    ("sparse", sparse::all),
    ("dense", dense::all),
    ("special_values", kernels::special_values),
    ("pins", pins),
    ("times", times::all),
    ("costs", costs),
];

fn main() {
    let case = |&(name, test): &Test| {
        let case = Case::new(name, move || test(machine::open()));
        if name == "costs" {
            case.on_demand().alone()
        } else {
            case
        }
    };
    runner::main(TESTS.iter().map(case).collect(), |_| ());
}

/// Pages that may be read and written.
const OPEN: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);

/// Page-aligned private memory, unmapped when the value is dropped.
struct Pages {
    at: *mut u8,
    len: usize,
}

impl Pages {
    fn new(len: usize) -> Pages {
        let size = NonZeroUsize::new(len).unwrap();
        // SAFETY: a fresh mapping.
        let at = unsafe { mmap_anonymous(None, size, OPEN, MapFlags::MAP_PRIVATE) }.unwrap();
        Pages {
            at: at.as_ptr().cast(),
            len,
        }
    }
    #[expect(
        clippy::mut_from_ref,
        reason = "raw memory that the test synchronises by tickets"
    )]
    fn bytes(&self) -> &mut [u8] {
        // SAFETY: mapped; the tests wait for copies before they look.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }
    fn addr(&self) -> u64 {
        self.at.expose_provenance() as u64
    }
    fn memory(&self) -> NonNull<c_void> {
        NonNull::new(self.at.cast()).unwrap()
    }
    fn protect(&self, prot: ProtFlags) {
        // The page table of the fault path tells the backend which pages it may touch.
        let access = match prot {
            ProtFlags::PROT_NONE => Some(semcache::base::Access::None),
            ProtFlags::PROT_READ => Some(semcache::base::Access::Read),
            _ => None,
        };
        let start = self.at.expose_provenance();
        semcache_fault::pages::set(start, self.len, access).unwrap();
        // SAFETY: this test's own pages.
        unsafe { mprotect(self.memory(), self.len, prot) }.unwrap();
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this test's own mapping; the tests waited for all operations.
        unsafe { munmap(self.memory(), self.len) }.unwrap();
    }
}

fn region(addr: u64, pitch: usize) -> Region {
    Region { addr, pitch }
}

/// Copies to the device and from there to other memory, in all kinds of shapes; the bytes between the runs stay.
fn copies(b: &dyn Backend) {
    const LEN: usize = 24 << 20;
    let (from, to) = (Pages::new(LEN), Pages::new(LEN));
    let mut rng = Rng::new(7);
    from.bytes().iter_mut().for_each(|x| *x = rng.draw() as u8);
    let dev = b.alloc(D0, LEN).unwrap();
    for pinned in [false, true] {
        if pinned {
            b.pin(from.at.expose_provenance(), LEN).unwrap();
            b.pin(to.at.expose_provenance(), LEN).unwrap();
        }
        let shapes = [
            (1, 1, 1, 1),
            (8, 1, 8, 8),
            (8, 1000, 24, 16),
            (4096, 1, 4096, 4096),
            (24 << 10, 1, 24 << 10, 24 << 10),
            (32 << 10, 1, 32 << 10, 32 << 10),
            (100, 1000, 777, 112),
            (100, 1000, 100, 100),
            (16384, 2, 20000, 16384),
            (16384, 1000, 20000, 17000),
            (12 << 20, 1, 12 << 20, 12 << 20),
            (9 << 20, 2, 10 << 20, 11 << 20),
            (LEN, 1, LEN, LEN),
        ];
        for (i, &(width, count, host_pitch, dev_pitch)) in shapes.iter().enumerate() {
            let odd = if width == LEN { 0 } else { i * 3 };
            to.bytes().fill(0xEE);
            let shape = Shape { width, count };
            // SAFETY: all regions lie within the three blocks.
            let down = unsafe {
                let host = region(from.addr() + odd as u64, host_pitch);
                let up = b.upload(D0, &[], &[], host, region(dev, dev_pitch), shape);
                let up = up.unwrap();
                let back = region(to.addr() + odd as u64, host_pitch);
                b.download(D0, &[up], region(dev, dev_pitch), back, shape)
            };
            b.wait(down.unwrap()).unwrap();
            assert!(b.done(down.unwrap()).unwrap());
            let mut want = vec![0xEE; LEN];
            for run in 0..count {
                let at = odd + run * host_pitch;
                want[at..at + width].copy_from_slice(&from.bytes()[at..at + width]);
            }
            assert!(to.bytes() == want, "{width} x {count}, pinned {pinned}");
        }
    }
    b.unpin(from.at.expose_provenance(), LEN);
    b.unpin(to.at.expose_provenance(), LEN);
    // SAFETY: nothing is in flight.
    unsafe { b.free(D0, dev) };
}

/// Copies from and to inaccessible pages raise no signal, pinned or not: no handler is installed, so a signal would end
/// the process.
fn closed_pages(b: &dyn Backend) {
    const LEN: usize = 4 << 20;
    let dev = b.alloc(D0, LEN).unwrap();
    for pinned in [true, false] {
        let (from, to) = (Pages::new(LEN), Pages::new(LEN));
        let mut rng = Rng::new(9);
        from.bytes().iter_mut().for_each(|x| *x = rng.draw() as u8);
        to.bytes().fill(1);
        let want = from.bytes().to_vec();
        if pinned {
            b.pin(from.at.expose_provenance(), LEN).unwrap();
            b.pin(to.at.expose_provenance(), LEN).unwrap();
        }
        for prot in [ProtFlags::PROT_NONE, ProtFlags::PROT_READ] {
            for (width, count, pitch) in [
                (8, 1, 8),
                (64, 2, 8192),
                (4096, 1, 4096),
                (16384, 1, 16384),
                (24 << 10, 1, 24 << 10),
                (32 << 10, 1, 32 << 10),
                (1 << 20, 1, 1 << 20),
                (8, 300, 4096),
                (64, 300, 4096),
                (2048, 1000, 4096),
                (LEN, 1, LEN),
            ] {
                from.protect(prot);
                to.protect(prot);
                let shape = Shape { width, count };
                // SAFETY: as in `copies`.
                let down = unsafe {
                    let at = region(dev, width);
                    let up = b
                        .upload(D0, &[], &[], region(from.addr(), pitch), at, shape)
                        .unwrap();
                    b.download(D0, &[up], at, region(to.addr(), pitch), shape)
                };
                b.wait(down.unwrap()).unwrap();
                from.protect(OPEN);
                to.protect(OPEN);
                for run in 0..count {
                    let at = run * pitch;
                    assert!(
                        to.bytes()[at..at + width] == want[at..at + width],
                        "{width} x {count}, pinned {pinned}, {prot:?}"
                    );
                }
            }
        }
        if pinned {
            b.unpin(from.at.expose_provenance(), LEN);
            b.unpin(to.at.expose_provenance(), LEN);
        }
    }
    // SAFETY: nothing is in flight.
    unsafe { b.free(D0, dev) };
}

/// A chain across all streams: each link overwrites what the one before read or wrote.
fn order(b: &dyn Backend) {
    const N: usize = 1 << 18;
    let host = Pages::new(N * 8);
    b.pin(host.at.expose_provenance(), N * 8).unwrap();
    // SAFETY: aligned, mapped.
    let values = unsafe { std::slice::from_raw_parts_mut(host.at.cast::<f64>(), N) };
    values.fill(1.0);
    let dev = b.alloc(D0, N * 8).unwrap();
    let shape = Shape {
        width: N * 8,
        count: 1,
    };
    let (h, d) = (region(host.addr(), N * 8), region(dev, N * 8));
    let mut last: Option<Ticket> = None;
    let mut tickets = Vec::new();
    for _ in 0..40 {
        let after: Vec<Ticket> = last.into_iter().collect();
        let scal = Kernel {
            m: N,
            alpha: Value { re: -2.0, im: 0.0 },
            ..Kernel::of(Routine::Scal, Dtype::D, [Operand::vector(dev, 1)])
        };
        // SAFETY: the block holds N elements.
        unsafe {
            let up = b.upload(D0, &after, &after, h, d, shape).unwrap();
            let run = b.launch(D0, &[up], &scal).unwrap();
            let down = b.download(D0, &[run], d, h, shape).unwrap();
            assert_eq!(
                (up.lane, run.lane, down.lane),
                (Lane::In, Lane::Compute, Lane::Out)
            );
            last = Some(down);
            tickets.extend([up, run, down]);
        }
    }
    b.wait(last.unwrap()).unwrap();
    for t in tickets {
        assert!(b.done(t).unwrap(), "{t:?}");
    }
    let want = 2f64.powi(40);
    assert!(values.iter().all(|&v| v == want), "{} {want}", values[0]);
    b.unpin(host.at.expose_provenance(), N * 8);
    // SAFETY: nothing is in flight.
    unsafe { b.free(D0, dev) };
}

fn peers(b: &dyn Backend) {
    const LEN: usize = 1 << 20;
    let host = Pages::new(LEN);
    let back = Pages::new(LEN);
    let mut rng = Rng::new(3);
    host.bytes().iter_mut().for_each(|x| *x = rng.draw() as u8);
    for i in 0..b.devices().len() {
        for j in 0..b.devices().len() {
            let (from, to) = (DeviceId(i as u8), DeviceId(j as u8));
            let (x, y) = (b.alloc(from, LEN).unwrap(), b.alloc(to, LEN).unwrap());
            for (width, count, sp, dp) in [
                (LEN, 1, LEN, LEN),
                (1000, 500, 1024, 2000),
                (8, 4096, 16, 8),
            ] {
                back.bytes().fill(0);
                let whole = Shape {
                    width: LEN,
                    count: 1,
                };
                let shape = Shape { width, count };
                // SAFETY: blocks of LEN bytes each.
                let down = unsafe {
                    let up = b
                        .upload(
                            from,
                            &[],
                            &[],
                            region(host.addr(), LEN),
                            region(x, LEN),
                            whole,
                        )
                        .unwrap();
                    let peer = b
                        .copy_peer(from, to, &[up], region(x, sp), region(y, dp), shape)
                        .unwrap();
                    b.download(to, &[peer], region(y, dp), region(back.addr(), dp), shape)
                        .unwrap()
                };
                b.wait(down).unwrap();
                for run in 0..count {
                    let (s, d) = (run * sp, run * dp);
                    assert!(
                        host.bytes()[s..s + width] == back.bytes()[d..d + width],
                        "{i} -> {j}: {width} x {count}, run {run}"
                    );
                }
            }
            // SAFETY: nothing is in flight.
            unsafe {
                b.free(from, x);
                b.free(to, y);
            }
        }
    }
}

/// Device memory with a copy of `x`, and the copy's ticket.
fn uploaded(b: &dyn Backend, x: &[f64]) -> (u64, Ticket) {
    let bytes = size_of_val(x);
    let dev = b.alloc(D0, bytes).unwrap();
    let (from, to) = (region(x.as_ptr().addr() as u64, bytes), region(dev, bytes));
    let shape = Shape {
        width: bytes,
        count: 1,
    };
    // SAFETY: as many bytes on both sides; the callers wait for a kernel after the copy before `x` ends.
    let up = unsafe { b.upload(D0, &[], &[], from, to, shape) };
    (dev, up.unwrap())
}

/// Reductions leave their values in host memory without a copy.
fn cells(b: &dyn Backend) {
    let Some(first) = b.cell(D0, 0) else {
        println!("this machine has no cells");
        return;
    };
    assert!(first.device % 16 == 0);
    let x: Vec<f64> = (0..512).map(f64::from).collect();
    let (dev, up) = uploaded(b, &x);
    for i in 0..64 {
        let cell = b.cell(D0, i).unwrap();
        let sum = Kernel {
            m: 512 - i,
            out: cell.device,
            ..Kernel::of(Routine::Asum, Dtype::D, [Operand::vector(dev, 1)])
        };
        // SAFETY: as above.
        let t = unsafe { b.launch(D0, &[up], &sum) }.unwrap();
        b.wait(t).unwrap();
        // SAFETY: a cell of the machine; the kernel is done.
        let got = unsafe { std::ptr::with_exposed_provenance::<f64>(cell.host).read_volatile() };
        let n = (512 - i) as f64;
        assert_eq!(got, n * (n - 1.0) / 2.0);
        // A value of another width, in a cell that holds bytes of the last value.
        let largest = Kernel {
            m: 512 - i,
            out: cell.device,
            ..Kernel::of(Routine::Iamax, Dtype::D, [Operand::vector(dev, 1)])
        };
        // SAFETY: as above.
        let t = unsafe { b.launch(D0, &[up], &largest) }.unwrap();
        b.wait(t).unwrap();
        // SAFETY: as above.
        let got = unsafe { std::ptr::with_exposed_provenance::<i64>(cell.host).read_volatile() };
        assert_eq!(got, (512 - i) as i64);
    }
    // SAFETY: nothing is in flight.
    unsafe { b.free(D0, dev) };
}

/// Kernels leave small results in host memory without a copy.
fn buffers(b: &dyn Backend) {
    let Some(first) = b.buffer(D0, 0) else {
        println!("this machine has no buffers");
        return;
    };
    assert!(first.device % 16 == 0);
    const N: usize = BUFFER_BYTES / 8;
    let x: Vec<f64> = (0..N).map(|i| i as f64).collect();
    let (dev, up) = uploaded(b, &x);
    let mut i = 0;
    while let Some(buffer) = b.buffer(D0, i) {
        // The first element of the buffer is that of index i of x, and the buffer's last element is written, too.
        let vector = |at: u64| Operand::vector(at, 1);
        let copy = Kernel {
            m: N - i,
            ..Kernel::of(
                Routine::Copy,
                Dtype::D,
                [
                    vector(dev + 8 * i as u64),
                    vector(buffer.device + 8 * i as u64),
                ],
            )
        };
        // SAFETY: both vectors lie within their memory.
        let t = unsafe { b.launch(D0, &[up], &copy) }.unwrap();
        b.wait(t).unwrap();
        for at in [i, N / 2, N - 1] {
            // SAFETY: a buffer of the machine; the kernel is done.
            let got = unsafe {
                std::ptr::with_exposed_provenance::<f64>(buffer.host + 8 * at).read_volatile()
            };
            assert_eq!(got, at as f64);
        }
        i += 1;
    }
    assert!(i > 1);
    // SAFETY: nothing is in flight.
    unsafe { b.free(D0, dev) };
}

/// The time that queuing an operation costs the caller: only with `--ignored`, and seen with `--nocapture`.
fn costs(b: &dyn Backend) {
    const N: usize = 1 << 17;
    let dev = b.alloc(D0, 2 * N * 8).unwrap();
    let host = Pages::new(N * 8);
    b.pin(host.at.expose_provenance(), N * 8).unwrap();
    let x = Operand::vector(dev, 1);
    let y = Operand::vector(dev + (N * 8) as u64, 1);
    let one = Value { re: 1.0, im: 0.0 };
    let axpy = Kernel {
        m: N,
        alpha: one,
        ..Kernel::of(Routine::Axpy, Dtype::D, [x, y])
    };
    let time = |what: &str, each: &mut dyn FnMut() -> Ticket| {
        const TIMES: u32 = 5000;
        b.wait(each()).unwrap();
        let began = std::time::Instant::now();
        let mut last = None;
        for _ in 0..TIMES {
            last = Some(each());
        }
        let queued = began.elapsed() / TIMES;
        b.wait(last.unwrap()).unwrap();
        println!(
            "{what}: {queued:?} queued, {:?} in all",
            began.elapsed() / TIMES
        );
    };
    let shape = |bytes| Shape {
        width: bytes,
        count: 1,
    };
    let h = region(host.addr(), N * 8);
    // SAFETY: the blocks hold N elements per operand.
    unsafe {
        time("axpy 1 MiB", &mut || b.launch(D0, &[], &axpy).unwrap());
        for bytes in [64, 32 << 10, 256 << 10, 1 << 20] {
            time(&format!("upload {bytes}"), &mut || {
                b.upload(D0, &[], &[], h, region(dev, bytes), shape(bytes))
                    .unwrap()
            });
            time(&format!("upload {bytes} and wait"), &mut || {
                let t = b
                    .upload(D0, &[], &[], h, region(dev, bytes), shape(bytes))
                    .unwrap();
                b.wait(t).unwrap();
                t
            });
            time(&format!("download {bytes} and wait"), &mut || {
                let t = b
                    .download(D0, &[], region(dev, bytes), h, shape(bytes))
                    .unwrap();
                b.wait(t).unwrap();
                t
            });
        }
        if let Some(cell) = b.cell(D0, 0) {
            let dot = Kernel {
                m: N,
                out: cell.device,
                ..Kernel::of(Routine::Dot, Dtype::D, [x, y])
            };
            time("dot 1 MiB and wait", &mut || {
                let t = b.launch(D0, &[], &dot).unwrap();
                b.wait(t).unwrap();
                t
            });
        }
    }
    let loose = Pages::new(N * 8);
    let l = region(loose.addr(), N * 8);
    // SAFETY: as above.
    unsafe {
        for bytes in [64, 256 << 10, 1 << 20] {
            time(&format!("staged upload {bytes} and wait"), &mut || {
                let t = b
                    .upload(D0, &[], &[], l, region(dev, bytes), shape(bytes))
                    .unwrap();
                b.wait(t).unwrap();
                t
            });
            time(&format!("staged download {bytes} and wait"), &mut || {
                let t = b
                    .download(D0, &[], region(dev, bytes), l, shape(bytes))
                    .unwrap();
                b.wait(t).unwrap();
                t
            });
        }
    }
    b.unpin(host.at.expose_provenance(), N * 8);
    // SAFETY: nothing is in flight.
    unsafe { b.free(D0, dev) };
}

/// A range can be pinned again after it was unpinned.
fn pins(b: &dyn Backend) {
    let p = Pages::new(1 << 20);
    let at = p.at.expose_provenance();
    for _ in 0..3 {
        b.pin(at, 1 << 20).unwrap();
        b.unpin(at, 1 << 20);
    }
    // Unpinning pages that are not pinned is ignored.
    b.unpin(at, 1 << 20);
}
