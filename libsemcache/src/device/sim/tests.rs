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

#[test]
fn a_vector_is_uploaded_and_written_back() {
    let m = machine(small(1));
    let mut x = vec![1.0f64, 2.0, 3.0];
    let mut y = vec![0.0f64; 3];
    let d = m.alloc(D0, 24).expect("alloc");
    let up = upload(&m, D0, &[], addr(&mut x), d, 24).expect("upload");
    let k = scal(&m, D0, &[up], 3, 2.0, d).expect("launch");
    let down = download(&m, D0, &[k], d, addr(&mut y), 24).expect("download");
    m.wait(down).expect("wait");
    assert_eq!(y, [2.0, 4.0, 6.0]);
    assert_eq!(m.done(up), Ok(true));
    assert_eq!(
        (up.seq, up.lane, k.lane, down.lane),
        (1, Lane::In, Lane::Compute, Lane::Out)
    );
}

#[test]
fn closed_pages_are_read_and_written_in_place() {
    let m = machine(small(1));
    let mut pages = Pages::new(5);
    let len = pages.len;
    for (i, b) in pages.bytes().iter_mut().enumerate() {
        *b = (i % 251) as u8;
    }
    pages.close();
    let d = m.alloc(D0, len).expect("alloc");
    let up = upload(&m, D0, &[], pages.addr(), d, len).expect("upload");
    // Downloads the bytes one byte further, across page ends.
    let down = download(&m, D0, &[up], d, pages.addr() + 1, len - 1).expect("download");
    m.wait(down).expect("wait");
    pages.protect(ProtFlags::PROT_READ);
    let down = download(&m, D0, &[], d + 3, pages.addr() + 3, 1).expect("download");
    m.wait(down).expect("read-only pages too");
    pages.open();
    let got = pages.bytes().to_vec();
    for (i, b) in got.iter().enumerate() {
        let from = if i == 0 || i == 3 { i } else { i - 1 };
        assert_eq!(*b, (from % 251) as u8, "{i}");
    }
}

/// Strided copies in both directions: all combinations of dense and strided regions, narrow and wide runs.
#[test]
fn strided_copies_move_runs_and_nothing_else() {
    let m = machine(small(1));
    let shapes = [
        (8, 5),
        (8, 1),
        (1, 7),
        (24, 300),
        (4096, 3),
        (40_000, 3),
        (0, 4),
        (4, 0),
        (16, 1000),
    ];
    for (width, count) in shapes {
        for host_gap in [0, 1, 8, 3 * width + 5, 5000] {
            for dev_gap in [0, 16, 700] {
                let shape = Shape { width, count };
                let (hp, dp) = (width + host_gap, width + dev_gap);
                let mut from: Vec<u8> = (0..hp * count + 1).map(|i| (i * 7 % 253) as u8).collect();
                let mut to = vec![0xAAu8; hp * count + 1];
                let block = m.alloc(D0, dp * count + 1).expect("alloc");
                let dev = Region {
                    addr: block,
                    pitch: dp,
                };
                let src = Region {
                    addr: addr(&mut from),
                    pitch: hp,
                };
                let dst = Region {
                    addr: addr(&mut to),
                    pitch: hp,
                };
                // SAFETY: the buffers outlive the wait.
                let down = unsafe {
                    let up = m.upload(D0, &[], &[], src, dev, shape).expect("upload");
                    m.download(D0, &[up], dev, dst, shape).expect("download")
                };
                m.wait(down).expect("wait");
                for (i, b) in to.iter().enumerate() {
                    let inside = hp > 0 && i / hp < count && i % hp < width;
                    let want = if inside { from[i] } else { 0xAA };
                    assert_eq!(
                        *b, want,
                        "byte {i} of {width} x {count} gaps {host_gap} {dev_gap}"
                    );
                }
                // SAFETY: all operations on it are done.
                unsafe { m.free(D0, block) };
            }
        }
    }
}

/// A gap between two runs that is not mapped: the runs still arrive.
#[test]
fn unmapped_gaps_do_not_matter() {
    let m = machine(small(1));
    let mut pages = Pages::new(3);
    let page = page_size();
    pages.bytes()[page - 8..page].fill(1);
    pages.bytes()[2 * page..2 * page + 8].fill(2);
    // SAFETY: the middle page is this test's and unused; from here on no code unmaps it a second time.
    unsafe { munmap(pages.at.byte_add(page), page) }.expect("unmap");
    let d = m.alloc(D0, 16).expect("alloc");
    let src = Region {
        addr: pages.addr() + page as u64 - 8,
        pitch: page + 8,
    };
    let mut got = [0u8; 16];
    // SAFETY: the runs are mapped until the wait.
    let up = unsafe {
        m.upload(
            D0,
            &[],
            &[],
            src,
            Region { addr: d, pitch: 8 },
            Shape { width: 8, count: 2 },
        )
    }
    .expect("upload");
    m.wait(download(&m, D0, &[up], d, addr(&mut got), 16).expect("download"))
        .expect("wait");
    assert_eq!(got, [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2]);
    // SAFETY: the outer pages are this test's; `Pages` must not unmap the middle one, which another thread may have
    // mapped again.
    unsafe {
        munmap(pages.at, page).expect("unmap");
        munmap(pages.at.byte_add(2 * page), page).expect("unmap");
    }
    core::mem::forget(pages);
}

#[test]
fn a_copy_of_unmapped_memory_fails_alone() {
    for late in [false, true] {
        let m = machine(SimConfig { late, ..small(1) });
        let page = page_size();
        let pages = Pages::new(3);
        let mut got = vec![0u8; 3 * page];
        let bytes = got.len();
        let d = m.alloc(D0, bytes).expect("alloc");
        got.fill(7);
        let up = upload(&m, D0, &[], addr(&mut got), d, bytes).expect("upload");
        // A copy that was queued before the unmapping has the bytes that were mapped then.
        let read = upload(&m, D0, &[up], pages.addr(), d, 8).expect("upload");
        // SAFETY: the middle page is this test's and unused.
        unsafe { munmap(pages.at.byte_add(page), page) }.expect("unmap");
        assert_eq!(
            upload(&m, D0, &[read], pages.addr(), d, bytes),
            Err(DeviceError::Unreadable { device: D0 })
        );
        let down = download(&m, D0, &[read], d, pages.addr(), bytes).expect("download");
        m.wait(down).expect("the device goes on");
        // The mapped pages have been written; the bytes of the unmapped one are kept as undelivered.
        let rect = |at: usize| {
            let start = usize::try_from(pages.addr()).expect("an address") + at;
            crate::base::Rect::interval(start, start + page)
        };
        use crate::device::api::undelivered::take;
        assert!(take(&rect(0)).is_empty() && take(&rect(2 * page)).is_empty());
        let last = download(&m, D0, &[], d, addr(&mut got), bytes).expect("download");
        got.fill(0);
        m.wait(last).expect("wait");
        assert!(got[8..].iter().all(|b| *b == 7));
        assert_eq!(take(&rect(page)).len(), 1);
        // SAFETY: the outer pages are this test's; `Pages` must not unmap the middle one, which another thread may have
        // mapped again.
        unsafe {
            assert!(
                core::slice::from_raw_parts(
                    pages.at.byte_add(2 * page).cast::<u8>().as_ptr(),
                    page
                ) == &got[2 * page..]
            );
            munmap(pages.at, page).expect("unmap");
            munmap(pages.at.byte_add(2 * page), page).expect("unmap");
        }
        core::mem::forget(pages);
    }
}

#[test]
fn a_stream_keeps_its_order() {
    let m = machine(SimConfig {
        seed: 7,
        ..small(1)
    });
    let mut x = vec![1.0f64];
    let d = m.alloc(D0, 8).expect("alloc");
    let up = upload(&m, D0, &[], addr(&mut x), d, 8).expect("upload");
    let mut last = up;
    for i in 0..200 {
        let after = if i == 0 { vec![up] } else { vec![] };
        last = scal(
            &m,
            D0,
            &after,
            1,
            if i % 2 == 0 { 3.0 } else { 1.0 / 3.0 },
            d,
        )
        .expect("launch");
        if i % 2 == 1 {
            axpy(&m, D0, &[], 1, 1.0, d, d).expect("double it");
            last = scal(&m, D0, &[], 1, 0.5, d).expect("halve it");
        }
    }
    m.wait(download(&m, D0, &[last], d, addr(&mut x), 8).expect("download"))
        .expect("wait");
    assert!((x[0] - 1.0).abs() < 1e-12);
    assert_eq!(last.seq, 400);
}

#[test]
fn tickets_order_streams_of_different_devices() {
    for seed in 0..5 {
        let m = machine(SimConfig {
            seed,
            late: seed % 2 == 1,
            ..small(3)
        });
        let n = 64;
        let mut x: Vec<f64> = (0..n).map(|i| i as f64).collect();
        let blocks: Vec<u64> = [D0, D1, D2]
            .iter()
            .map(|d| m.alloc(*d, n * 8).expect("alloc"))
            .collect();
        let mut t = upload(&m, D0, &[], addr(&mut x), blocks[0], n * 8).expect("upload");
        for lap in 0..12 {
            let (from, to) = (lap % 3, (lap + 1) % 3);
            let (df, dt) = (DeviceId(from as u8), DeviceId(to as u8));
            t = scal(&m, df, &[t], n, 2.0, blocks[from]).expect("launch");
            t = peer(&m, df, dt, &[t], blocks[from], blocks[to], n * 8).expect("peer");
        }
        let mut y = vec![0.0f64; n];
        m.wait(download(&m, D0, &[t], blocks[0], addr(&mut y), n * 8).expect("download"))
            .expect("wait");
        assert!(y.iter().enumerate().all(|(i, v)| *v == i as f64 * 4096.0));
    }
}

#[test]
fn late_mode_touches_nothing_until_somebody_waits() {
    let m = machine(late(2));
    let mut x = vec![1.0f64];
    let mut y = vec![-1.0f64];
    let mut other = vec![-1.0f64];
    let d = m.alloc(D0, 16).expect("alloc");
    let e = m.alloc(D1, 8).expect("alloc");
    let up = upload(&m, D0, &[], addr(&mut x), d, 8).expect("upload");
    let k = scal(&m, D0, &[up], 1, 3.0, d).expect("launch");
    let p = peer(&m, D0, D1, &[k], d, e, 8).expect("peer");
    let down = download(&m, D1, &[p], e, addr(&mut y), 8).expect("download");
    let unrelated = download(&m, D0, &[up], d, addr(&mut other), 8).expect("download");
    std::thread::sleep(Duration::from_millis(20));
    for t in [up, k, p, down] {
        assert_eq!(m.done(t), Ok(false));
    }
    // The upload is executed only now: it reads the value written after it was queued.
    x[0] = 5.0;
    assert_eq!(y[0], -1.0);
    m.wait(down).expect("wait");
    assert_eq!(y[0], 15.0);
    for t in [up, k, p, down] {
        assert_eq!(m.done(t), Ok(true));
    }
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!((m.done(unrelated), other[0]), (Ok(false), -1.0));
    // Stream order demands the operations before, even if no ticket names them.
    let mut z = vec![0.0f64];
    let after = download(&m, D0, &[], d, addr(&mut z), 8).expect("download");
    m.wait(after).expect("wait");
    assert_eq!((m.done(unrelated), other[0], z[0]), (Ok(true), 15.0, 15.0));
}

#[test]
fn an_upload_waits_on_the_host_only_for_downloads_of_the_bytes_that_it_reads() {
    let m = machine(late(1));
    let d = m.alloc(D0, 16).expect("alloc");
    let (mut x, mut y, mut z) = ([1.0], [2.0], [3.0]);
    let up = upload(&m, D0, &[], addr(&mut x), d, 8).expect("upload");
    let down = download(&m, D0, &[up], d, addr(&mut y), 8).expect("download");
    // It overwrites the device bytes that the download reads.
    let (src, shape) = run_of(addr(&mut z), 8);
    // SAFETY: the buffers live until the tickets are done.
    let over = unsafe { m.upload(D0, &[down], &[], src, run_of(d, 8).0, shape) }.expect("upload");
    assert_eq!((m.done(down), y[0]), (Ok(false), 2.0));
    let back = upload(&m, D0, &[down, over], addr(&mut y), d + 8, 8).expect("upload");
    assert_eq!((m.done(down), y[0]), (Ok(true), 1.0));
    let mut got = [0.0; 2];
    m.wait(download(&m, D0, &[back], d, addr(&mut got), 16).expect("download"))
        .expect("wait");
    assert_eq!(got, [3.0, 1.0]);
}

#[test]
fn late_mode_is_bounded() {
    let m = machine(late(1));
    let d = m.alloc(D0, 8).expect("alloc");
    let mut x = [1.0f64];
    let up = upload(&m, D0, &[], addr(&mut x), d, 8).expect("upload");
    let first = scal(&m, D0, &[up], 1, 1.0, d).expect("launch");
    let mut last = first;
    for _ in 0..queue::LATE_LIMIT + 100 {
        last = scal(&m, D0, &[], 1, 1.0, d).expect("launch");
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while m.done(first) != Ok(true) {
        assert!(Instant::now() < deadline, "the oldest runs by itself");
        std::thread::yield_now();
    }
    assert_eq!(m.done(last), Ok(false));
    m.wait(last).expect("wait");
}

#[test]
fn poison_shows() {
    let m = machine(SimConfig {
        poison: true,
        ..small(1)
    });
    let d = m.alloc(D0, 64).expect("alloc");
    let mut x = vec![0.0f64; 8];
    m.wait(download(&m, D0, &[], d, addr(&mut x), 64).expect("download"))
        .expect("wait");
    assert!(x.iter().all(|v| v.is_nan()));
    x.fill(1.0);
    let up = upload(&m, D0, &[], addr(&mut x), d, 64).expect("upload");
    let shape = Shape { width: 8, count: 4 };
    // SAFETY: no other operation uses the block.
    let p = unsafe { m.poison(D0, &[up], Region { addr: d, pitch: 16 }, shape) }.expect("ticket");
    assert_eq!(p.lane, Lane::Compute);
    m.wait(download(&m, D0, &[p], d, addr(&mut x), 64).expect("download"))
        .expect("wait");
    for (i, v) in x.iter().enumerate() {
        assert_eq!(v.is_nan(), i % 2 == 0, "{i}");
    }
    let plain = machine(small(1));
    let d = plain.alloc(D0, 64).expect("alloc");
    // SAFETY: no other operation uses the block.
    let none = unsafe {
        plain.poison(
            D0,
            &[],
            Region { addr: d, pitch: 64 },
            Shape {
                width: 64,
                count: 1,
            },
        )
    };
    assert_eq!(none, None);
}

#[test]
fn capacity_is_honoured() {
    let m = machine(SimConfig {
        memory: 1 << 20,
        ..small(2)
    });
    assert_eq!(m.devices()[0].memory, 1 << 20);
    let full = DeviceError::OutOfMemory {
        device: D0,
        bytes: 1,
    };
    let a = m.alloc(D0, (1 << 20) - 256).expect("fits");
    assert_eq!(a % 256, 0);
    let b = m.alloc(D0, 200).expect("fits");
    assert_eq!(m.alloc(D0, 1), Err(full));
    m.alloc(D1, 1 << 20).expect("devices do not share");
    // SAFETY: no operation uses the block.
    unsafe { m.free(D0, b) };
    assert_eq!(m.alloc(D0, 256), Ok(b));
    assert!(matches!(
        m.alloc(D1, 1),
        Err(DeviceError::OutOfMemory { .. })
    ));
}

/// One fixed program on two devices; returns the error of the call that fails.
fn program(m: &SimMachine, x: &mut [f64], y: &mut [f64]) -> Result<(), DeviceError> {
    let bytes = x.len() * 8;
    let a = m.alloc(D0, bytes)?;
    let b = m.alloc(D1, bytes)?;
    let up = upload(m, D0, &[], addr(x), a, bytes)?;
    let k = scal(m, D0, &[up], x.len(), 2.0, a)?;
    let p = peer(m, D0, D1, &[k], a, b, bytes)?;
    let k = axpy(m, D1, &[p], x.len(), 1.0, b, b)?;
    let down = download(m, D1, &[k], b, addr(y), bytes)?;
    m.wait(down)
}

#[test]
fn a_refused_call_changes_nothing_and_may_be_repeated() {
    for late in [false, true] {
        for n in 1..=7 {
            let m = machine(SimConfig {
                fail: Some(Fail::Refuse(n)),
                late,
                ..small(2)
            });
            let mut x = vec![1.0f64; 100];
            let mut y = vec![-1.0f64; 100];
            let refused = program(&m, &mut x, &mut y);
            assert!(
                matches!(refused, Err(DeviceError::Refused { code: 0, .. })),
                "{n}: {refused:?}"
            );
            assert!(y.iter().all(|v| *v == -1.0));
            program(&m, &mut x, &mut y).expect("only one call was refused");
            assert!(y.iter().all(|v| *v == 4.0));
        }
        let m = machine(SimConfig {
            fail: Some(Fail::Refuse(3)),
            late,
            ..small(1)
        });
        let d = m.alloc(D0, 8).expect("first");
        let k = scal(&m, D0, &[], 1, 1.0, d).expect("second");
        assert!(scal(&m, D0, &[], 1, 1.0, d).is_err());
        let next = scal(&m, D0, &[k], 1, 1.0, d).expect("fourth");
        assert_eq!(next.seq, 2, "the refused call has no ticket");
    }
}

#[test]
fn every_second_launch_is_refused() {
    let m = machine(SimConfig {
        fail: Some(Fail::Launches(2)),
        ..small(1)
    });
    let d = m.alloc(D0, 8).expect("no launch");
    for _ in 0..3 {
        let k = scal(&m, D0, &[], 1, 1.0, d).expect("an odd one");
        m.wait(k).expect("no device is lost");
        let refused = scal(&m, D0, &[], 1, 1.0, d);
        assert!(matches!(refused, Err(DeviceError::Refused { code: 0, .. })));
    }
}

#[test]
fn a_lost_device_never_hangs_anybody() {
    for late in [false, true] {
        for seed in [0, 3] {
            for n in 1..=8 {
                let m = machine(SimConfig {
                    fail: Some(Fail::Lost(n)),
                    late,
                    seed,
                    ..small(2)
                });
                let mut x = vec![1.0f64; 100];
                let mut y = vec![-1.0f64; 100];
                let result = program(&m, &mut x, &mut y);
                if n == 8 {
                    assert_eq!(result, Ok(()));
                } else {
                    let device = if [2, 5, 6, 7].contains(&n) { D1 } else { D0 };
                    assert_eq!(result, Err(DeviceError::Lost { device }), "{n}");
                    assert_eq!(m.alloc(device, 8), Err(DeviceError::Lost { device }));
                    // The other device still works.
                    let other = DeviceId(1 - device.0);
                    let b = m.alloc(other, 8).expect("alloc");
                    let k = scal(&m, other, &[], 1, 1.0, b).expect("launch");
                    assert_eq!(m.wait(k), Ok(()));
                }
            }
        }
    }
}

#[test]
fn loss_travels_along_tickets_and_streams() {
    // In late mode all operations are still queued when the tenth call loses the device.
    let m = machine(SimConfig {
        fail: Some(Fail::Lost(10)),
        ..late(3)
    });
    let (a, b, c) = (
        m.alloc(D0, 8).expect("a"),
        m.alloc(D1, 8).expect("b"),
        m.alloc(D2, 8).expect("c"),
    );
    let finished = scal(&m, D0, &[], 1, 1.0, a).expect("4");
    m.wait(finished).expect("done before the loss");
    let early = scal(&m, D1, &[], 1, 1.0, b).expect("5");
    let doomed = scal(&m, D0, &[], 1, 1.0, a).expect("6");
    let victim = scal(&m, D1, &[doomed], 1, 1.0, b).expect("7");
    let behind = scal(&m, D1, &[], 1, 1.0, b).expect("8");
    let far = peer(&m, D1, D2, &[behind], b, c, 8).expect("9");
    let lost = DeviceError::Lost { device: D0 };
    assert_eq!(scal(&m, D0, &[], 1, 1.0, a), Err(lost));
    assert_eq!(m.wait(finished), Ok(()));
    for t in [doomed, victim, behind, far] {
        assert_eq!(m.wait(t), Err(lost));
        assert_eq!(m.done(t), Err(lost));
    }
    assert_eq!(m.wait(early), Ok(()), "queued before, independent");
    assert_eq!(
        scal(&m, D2, &[far], 1, 1.0, c),
        Err(lost),
        "naming a failed ticket"
    );
    assert_eq!(
        peer(&m, D0, D2, &[], a, c, 8),
        Err(lost),
        "reading a lost device"
    );
    let again = scal(&m, D1, &[early], 1, 1.0, b).expect("living devices go on");
    assert_eq!(m.wait(again), Ok(()));
    let up = peer(&m, D1, D2, &[again], b, c, 8).expect("and their streams");
    assert_eq!(m.wait(up), Ok(()));
}

/// Many threads wait on tickets that fail when their device is lost, while an upload executes: that upload completes.
#[test]
fn waiters_are_released_by_a_loss() {
    // A worker that does not get a CPU in time has not begun the second upload when the device is lost.
    assert!((0..50).any(|_| lose_under_waiters() > 1));
}

/// Loses a device under waiting threads; returns how many uploads completed.
fn lose_under_waiters() -> usize {
    const UPLOADS: usize = 60;
    let m = machine(SimConfig {
        link_gbs: Some(0.001),
        // The call after the allocation and the uploads.
        fail: Some(Fail::Lost(UPLOADS as u64 + 2)),
        ..small(1)
    });
    let d = m.alloc(D0, 100_000).expect("alloc");
    let mut x = vec![1.0f64; 12_500];
    let from = addr(&mut x);
    // Each upload takes 100 ms.
    let ups: Vec<Ticket> = (0..UPLOADS)
        .map(|_| upload(&m, D0, &[], from, d, 100_000).expect("upload"))
        .collect();
    std::thread::scope(|s| {
        let waits: Vec<_> = ups.iter().map(|t| s.spawn(|| m.wait(*t))).collect();
        m.wait(ups[0]).expect("upload");
        std::thread::sleep(Duration::from_millis(10));
        assert!(scal(&m, D0, &[], 1, 1.0, d).is_err());
        let results: Vec<_> = waits
            .into_iter()
            .map(|w| w.join().expect("no panic"))
            .collect();
        let lost = Err(DeviceError::Lost { device: D0 });
        let completed = results.iter().take_while(|r| r.is_ok()).count();
        assert!(completed < UPLOADS, "none was lost");
        assert!(results[completed..].iter().all(|r| *r == lost));
        completed
    })
}

#[test]
fn a_slow_link_takes_its_time() {
    let m = machine(SimConfig {
        link_gbs: Some(0.01),
        ..small(1)
    });
    let d = m.alloc(D0, 400_000).expect("alloc");
    let mut x = vec![1u8; 400_000];
    let start = Instant::now();
    m.wait(upload(&m, D0, &[], addr(&mut x), d, 400_000).expect("upload"))
        .expect("wait");
    assert!(
        start.elapsed() >= Duration::from_millis(40),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn nonsense_is_refused() {
    let m = machine(small(1));
    let d = m.alloc(D0, 64).expect("alloc");
    let mut x = [0.0f64; 8];
    let refused = |what| {
        Err(DeviceError::Refused {
            device: D0,
            what,
            code: BAD_ADDRESS,
        })
    };
    assert_eq!(upload(&m, D0, &[], addr(&mut x), d, 257), refused("copy"));
    assert_eq!(download(&m, D0, &[], addr(&mut x), d, 8), refused("copy"));
    assert_eq!(scal(&m, D0, &[], 8, 1.0, addr(&mut x)), refused("launch"));
    let never = Ticket {
        device: D0,
        lane: Lane::In,
        seq: 1,
    };
    assert!(matches!(
        m.wait(never),
        Err(DeviceError::Refused { what: "ticket", .. })
    ));
    assert!(m.done(never).is_err());
    assert!(scal(&m, D0, &[never], 8, 1.0, d).is_err());
    let nowhere = Ticket {
        device: DeviceId(9),
        ..never
    };
    assert!(m.wait(nowhere).is_err());
    assert!(m.alloc(DeviceId(9), 1).is_err());
    assert!(scal(&m, DeviceId(9), &[], 1, 1.0, d).is_err());
    // SAFETY: no operation uses the block.
    unsafe { m.free(D0, d) };
    assert_eq!(scal(&m, D0, &[], 8, 1.0, d), refused("launch"));
    assert_eq!(SimMachine::new(small(0)).err(), Some(SimError::Devices(0)));
    assert_eq!(
        SimMachine::new(small(65)).err(),
        Some(SimError::Devices(65))
    );
}

#[test]
fn shutdown_releases_and_does_not_wait() {
    let m = machine(late(1));
    let d = m.alloc(D0, 8).expect("alloc");
    let k = scal(&m, D0, &[], 1, 1.0, d).expect("launch");
    m.shutdown();
    assert!(m.wait(k).is_err());
    assert!(scal(&m, D0, &[], 1, 1.0, d).is_err());
    m.shutdown();
}

static STARTED: AtomicUsize = AtomicUsize::new(0);

#[test]
fn threads_start_late_and_tell() {
    let on_thread_start: fn() = || {
        assert_eq!(std::thread::current().name(), Some("semcache-sim"));
        STARTED.fetch_add(1, Ordering::SeqCst);
    };
    let m = machine(SimConfig {
        on_thread_start: Some(on_thread_start),
        // A seeded machine leaves all operations to its threads; otherwise the waiting thread executes small ones.
        seed: 1,
        ..small(4)
    });
    let d = m.alloc(D0, 8).expect("alloc");
    assert_eq!(STARTED.load(Ordering::SeqCst), 0);
    m.wait(scal(&m, D0, &[], 1, 1.0, d).expect("launch"))
        .expect("wait");
    m.wait(scal(&m, D0, &[], 1, 1.0, d).expect("launch"))
        .expect("wait");
    // Only the three threads of the device that was used; those that have run so far.
    let started = STARTED.load(Ordering::SeqCst);
    assert!((1..=3).contains(&started), "{started}");
}

#[test]
fn presets_make_machines() {
    let config = SimConfig::preset("dgx1").expect("dgx1");
    assert_eq!(config.devices, 8);
    let m = machine(config);
    assert!(m.devices()[3].name.contains("V100"));
    assert_eq!(m.devices()[0].peers.len(), 7);
    let everest = machine(SimConfig::preset("everest").expect("everest"));
    assert_eq!(everest.devices()[0].peers, []);
    assert_eq!(everest.devices()[2].peers, [D1]);
    assert_eq!(everest.topology().map(Topology::devices), Some(3));
    assert!(SimConfig::preset("dgx").is_none());
}

/// The descriptor of the host's memory has a high number, out of the program's way, and is not inherited.
#[test]
fn descriptors_are_high_and_close_on_exec() {
    let _m = machine(SimConfig {
        poison: true,
        ..small(1)
    });
    let mut seen = 0;
    for entry in std::fs::read_dir("/proc/self/fd").expect("proc").flatten() {
        let Ok(target) = std::fs::read_link(entry.path()) else {
            continue;
        };
        let target = target.to_string_lossy().into_owned();
        if target.ends_with("/mem") || target.contains("semcache-poison") {
            let number: i32 = entry.file_name().to_string_lossy().parse().expect("number");
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}"));
            // The machine of another test may have closed the descriptor by now.
            let Ok(info) = info else { continue };
            let flags = info
                .lines()
                .find_map(|l| l.strip_prefix("flags:"))
                .expect("flags");
            assert_eq!(
                i64::from_str_radix(flags.trim(), 8).expect("octal") & 0o2_000_000,
                0o2_000_000
            );
            seen += i32::from(number >= 900);
        }
    }
    assert!(seen >= 2);
}

#[test]
fn a_cell_has_its_value_after_the_wait_and_not_before() {
    let config = SimConfig {
        poison: true,
        ..late(2)
    };
    let m = machine(config);
    let cell = m.cell(D1, 3).expect("a cell");
    assert!(cell.host.is_multiple_of(16));
    assert_ne!(Some(cell), m.cell(D0, 3));
    assert_eq!((m.cell(D1, 64), m.cell(D2, 0)), (None, None));
    let mut data = [3.0_f64, 4.0];
    let x = m.alloc(D1, 16).expect("memory");
    let up = upload(&m, D1, &[], addr(&mut data), x, 16).expect("queued");
    let asum = |out: u64| {
        let sum = Kernel {
            m: 2,
            out,
            ..Kernel::of(Routine::Asum, Dtype::D, [Operand::vector(x, 1)])
        };
        // SAFETY: the addresses were allocated above, or the launch is refused.
        unsafe { m.launch(D1, &[up], &sum) }
    };
    let value: *const f64 = core::ptr::with_exposed_provenance(cell.host);
    for _ in 0..2 {
        let t = asum(cell.device).expect("queued");
        // SAFETY: a cell; late mode executes nothing before a thread waits for it.
        assert!(unsafe { value.read_volatile() }.is_nan());
        m.wait(t).expect("done");
        // SAFETY: the kernel is done.
        assert_eq!(unsafe { value.read_volatile() }, 7.0);
    }
    let other = m.cell(D0, 3).expect("a cell").device;
    let last = m.cell(D1, 63).expect("a cell").device;
    for wrong in [other, cell.device + 12, last + 16] {
        let refused = DeviceError::Refused {
            device: D1,
            what: "launch",
            code: BAD_ADDRESS,
        };
        assert_eq!(asum(wrong), Err(refused));
    }
}
