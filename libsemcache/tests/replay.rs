//! Replayed calls against everything that must end a replay. Every case first makes a call until it is replayed, then
//! disturbs something, then makes the call again.
//!
//! One process per case and configuration.
#![expect(
    unsafe_code,
    reason = "plays an unmodified program: raw memory, raw addresses, fork"
)]
#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test program of its own"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "maps memory and starts threads as a program does"
)]

use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use nix::sys::uio::pread;
use semcache::base::counters::{COUNTERS, on_device};
use semcache::base::{DeviceId, Dtype, Form, Op, Routine, Uplo, Value};
use semcache::blas::{Call, Outcome};
use semcache::cache::Cache;
use semcache::hints::view::View;
use semcache::host::{adopt, heap};
use semcache::runtime::{self, Facts, hints, io::open_for_io};
use testkit::runner::{self, Case};

/// Elements of a vector: several panels of 4 KiB and a part of one.
const N: usize = 1 << 12;

unsafe extern "C" {
    fn __libc_free(p: *mut libc::c_void);
}

/// A vector of the program, and the values that it must hold.
struct Vector {
    at: usize,
    want: Vec<f64>,
}

impl Vector {
    fn new(value: f64) -> Self {
        Vector::of(N, value)
    }

    /// A block of exactly `n` numbers: bytes that share a page with other data are not kept on devices.
    fn of(n: usize, value: f64) -> Self {
        let whole = heap::malloc((n * 8).max(4096));
        // SAFETY: just allocated. From half of the threshold on a block shrinks in place.
        let at = unsafe { heap::realloc(whole, n * 8) };
        Vector::at(at.expose_provenance(), n, value)
    }

    fn at(at: usize, n: usize, value: f64) -> Self {
        assert_ne!(at, 0);
        let mut v = Vector {
            at,
            want: vec![value; n],
        };
        for i in 0..n {
            v.put(i, value + (i % 7) as f64);
        }
        v
    }

    fn put(&mut self, i: usize, value: f64) {
        // SAFETY: inside live memory; an access to an inaccessible page faults and is served.
        unsafe { (self.at as *mut f64).add(i).write_volatile(value) };
        self.want[i] = value;
    }

    fn get(&self, i: usize) -> f64 {
        // SAFETY: as in `put`.
        unsafe { (self.at as *const f64).add(i).read_volatile() }
    }

    #[track_caller]
    fn check(&self) {
        for i in 0..self.want.len() {
            assert_eq!(self.get(i).to_bits(), self.want[i].to_bits(), "element {i}");
        }
    }
}

fn vectors(routine: Routine, alpha: f64, x: usize, y: usize, n: usize) -> Call {
    Call {
        alpha: Value { re: alpha, im: 0.0 },
        ..Call::new(
            routine,
            Dtype::D,
            &[i64::try_from(n).unwrap()],
            &[(x, 1), (y, 1)],
        )
    }
}

fn make(call: &Call) -> Outcome {
    match runtime::call(call, &Facts::default()) {
        Outcome::Host => semcache::blas::local::compute(None, call),
        done => done,
    }
}

/// `y += alpha x`, on a device or on the host.
fn axpy(alpha: f64, x: &Vector, y: &mut Vector) {
    make(&vectors(Routine::Axpy, alpha, x.at, y.at, y.want.len()));
    for (y, x) in y.want.iter_mut().zip(&x.want) {
        *y += alpha * x;
    }
}

#[track_caller]
fn dot(x: &Vector, y: &Vector) {
    let want: f64 = x.want.iter().zip(&y.want).map(|(x, y)| x * y).sum();
    let got = make(&vectors(Routine::Dot, 1.0, x.at, y.at, y.want.len()));
    assert_eq!(got, Outcome::Done(Value { re: want, im: 0.0 }));
}

/// Makes rounds of calls until all `calls` of a round are replayed. The number of rounds depends on time, since copies
/// of earlier rounds may still be under way; that a round is replayed in the end does not.
#[track_caller]
fn until_replayed(calls: u64, mut round: impl FnMut()) {
    for _ in 0..1000 {
        let before = COUNTERS.cache.replayed.get();
        round();
        if COUNTERS.cache.replayed.get() == before + calls {
            return;
        }
    }
    panic!("nothing to forget: never replayed");
}

/// Both calls, until both are replayed.
#[track_caller]
fn warm(x: &Vector, y: &mut Vector) {
    until_replayed(2, || {
        axpy(2.0, x, y);
        dot(x, y);
    });
}

/// Both calls, and a check of all that they must have left.
#[track_caller]
fn hold(x: &Vector, y: &mut Vector) {
    for _ in 0..3 {
        axpy(2.0, x, y);
        dot(x, y);
    }
    y.check();
    x.check();
}

/// A call on resident operands takes the cache's lock five times at most: before the decision, before, with and behind
/// its kernel, and at its end. A replayed call takes the lock once, and once more if bytes of its result were written
/// back to a page that also holds other data.
fn few_locks() {
    let (x, mut y) = (Vector::new(1.0), Vector::new(2.0));
    warm(&x, &mut y);
    let made = |n: usize| {
        let before = (Cache::locks(), COUNTERS.cache.replayed.get());
        let call = vectors(Routine::Axpy, 3.0, x.at, y.at, n);
        let outcome = runtime::call(&call, &Facts::default());
        assert_eq!(outcome, Outcome::Done(Value::ZERO), "on a device");
        let replayed = COUNTERS.cache.replayed.get() > before.1;
        (Cache::locks() - before.0, replayed)
    };
    // If some pages are shared with other data, the first call waits for their bytes in the same way.
    let (locks, replayed) = made(N);
    assert!(replayed, "as those before");
    let edges = u64::from(locks > 1);
    let n = N - 512;
    let each: Vec<(u64, bool)> = (0..4).map(|_| made(n)).collect();
    println!("few locks: {each:?}");
    for (locks, replayed) in &each {
        let most = if *replayed { 1 } else { 5 };
        assert!(*locks <= most + edges, "{each:?}");
    }
    assert!(!each[0].1 && each[3].1, "{each:?}");
    for want in y.want.iter_mut().zip(&x.want).enumerate() {
        let (i, (y, x)) = want;
        *y += x * if i < n { 15.0 } else { 3.0 };
    }
    y.check();
}

const CASES: &[(&str, fn())] = &[
    ("few locks", few_locks),
    ("shared pages", shared_pages),
    ("shared pages, two threads", two_on_shared_pages),
    ("parts", parts),
    ("input written", || pair(|x, _| x.put(700, 50.0))),
    ("output written", || pair(|_, y| y.put(N - 1, 50.0))),
    ("output read", || {
        pair(|_, y| assert_eq!(y.get(3), y.want[3]))
    }),
    ("input read", || {
        pair(|x, _| assert_eq!(x.get(3), x.want[3]))
    }),
    ("all read", || pair(|_, y| y.check())),
    ("input freed and another there", || {
        pair(|x, _| {
            let old = x.at;
            // SAFETY: from `heap::malloc`.
            unsafe { heap::free(old as *mut _) };
            let fresh: Vec<Vector> = (0..64).map(|i| Vector::new(f64::from(i))).collect();
            *x = fresh
                .into_iter()
                .find(|v| v.at == old)
                .expect("the same place");
        });
    }),
    ("output freed and another there", || {
        pair(|_, y| {
            let old = y.at;
            // SAFETY: from `heap::malloc`.
            unsafe { heap::free(old as *mut _) };
            let fresh: Vec<Vector> = (0..64).map(|i| Vector::new(f64::from(i))).collect();
            *y = fresh
                .into_iter()
                .find(|v| v.at == old)
                .expect("the same place");
        });
    }),
    ("realloc", || {
        for bytes in [N * 8 + 8, N * 80, N * 8000] {
            pair(|x, y| {
                for v in [x, y] {
                    // SAFETY: from `heap::malloc`; the old address is not used again.
                    v.at = unsafe { heap::realloc(v.at as *mut _, bytes) }.expose_provenance();
                    v.check();
                }
            });
        }
    }),
    ("unmapped and mapped again", remap),
    ("freed past us", freed_past_us),
    ("forked", || {
        pair(|x, y| {
            // SAFETY: the child computes and leaves by `_exit`.
            let child = unsafe {
                testkit::forked(|| {
                    let before = COUNTERS.cache.replayed.get();
                    x.put(1, -4.0);
                    hold(x, y);
                    assert_eq!(COUNTERS.cache.replayed.get(), before);
                })
            };
            assert!(child.wait().success(), "the child");
        });
    }),
    ("evicted", || {
        pair(|_, _| {
            let before = COUNTERS.cache.evictions.get();
            for i in 0..40 {
                let (a, mut b) = (Vector::new(f64::from(i)), Vector::new(1.0));
                axpy(1.0, &a, &mut b);
                b.check();
                for v in [a, b] {
                    // Half of the blocks stay allocated, so that device memory runs out.
                    if i % 2 == 0 {
                        // SAFETY: from `heap::malloc`, not used again.
                        unsafe { heap::free(v.at as *mut _) };
                    }
                }
            }
            assert!(
                COUNTERS.cache.evictions.get() > before,
                "nothing was evicted"
            );
        });
    }),
    ("false sharing", || {
        // The calls use the first half of a panel, the program uses the second half.
        let (x, mut y) = (Vector::new(1.0), Vector::new(2.0));
        let call = vectors(Routine::Axpy, 2.0, x.at, y.at, 256);
        for i in 0..200 {
            make(&call);
            for (y, x) in y.want.iter_mut().zip(&x.want).take(256) {
                *y += 2.0 * x;
            }
            if i % 3 == 0 {
                y.put(256 + i, f64::from(u32::try_from(i).unwrap()));
            }
            if i % 50 == 0 {
                y.check();
            }
        }
        y.check();
    }),
    ("in use by a system call", || {
        for write in [false, true] {
            pair(|x, y| {
                let held = open_for_io(x.at, 100, write);
                let also = open_for_io(y.at + 8000, 8, write);
                let before = COUNTERS.cache.replayed.get();
                hold(x, y);
                assert_eq!(
                    COUNTERS.cache.replayed.get(),
                    before,
                    "under the kernel's hands"
                );
                if write {
                    x.put(5, 11.0);
                    y.put(1001, 12.0);
                }
                hold(x, y);
                drop((held, also));
            });
        }
    }),
    (
        "read by a system call beside one that is about to write",
        || {
            pair(|x, y| {
                let cache = runtime::get().and_then(|r| r.cache).unwrap();
                axpy(3.0, x, y);
                // Both buffers lie on one page. The second system call has noted its buffer, and does not yet hold the
                // cache's lock.
                let second = cache.open_for_io(y.at + 800, 8, true, || {
                    let _first = open_for_io(y.at, 64, false);
                    assert_eq!(through_the_kernel(y.at), y.want[..8]);
                });
                y.put(100, 33.0);
                semcache::cache::flush::io_done(&second);
            });
        },
    ),
    ("another thread", || {
        pair(|x, y| {
            std::thread::scope(|s| {
                s.spawn(|| {
                    x.put(17, 90.0);
                    for i in 0..5 {
                        make(&vectors(Routine::Scal, 1.0, x.at, x.at, 0));
                        axpy(f64::from(i), x, y);
                        dot(x, y);
                    }
                });
            });
        });
    }),
    ("many threads", threads),
    ("zero and one", scalars),
    ("one triangle", one_triangle),
    ("copies under way", || {
        let (x, mut y) = (Vector::new(1.0), Vector::new(2.0));
        for round in 0..60 {
            warm(&x, &mut y);
            // Panels of one operand or the other are being written back or uploaded.
            for i in (round * 64..N).step_by(1024) {
                assert_eq!(y.get(i).to_bits(), y.want[i].to_bits());
            }
            axpy(2.0, &x, &mut y);
            dot(&x, &y);
        }
        hold(&x, &mut y);
    }),
    ("overlapping views", || {
        let (x, mut y) = (Vector::new(1.0), Vector::new(2.0));
        for i in 0..20 {
            warm(&x, &mut y);
            let (from, n) = (i * 100, 300);
            make(&vectors(Routine::Copy, 1.0, x.at, y.at + from * 8, n));
            let (head, tail) = (&x.want[..n], &mut y.want[from..from + n]);
            tail.copy_from_slice(head);
            hold(&x, &mut y);
        }
    }),
    ("lost", || {
        let (x, mut y) = (Vector::new(1.0), Vector::new(2.0));
        for _ in 0..8 {
            axpy(2.0, &x, &mut y);
            dot(&x, &y);
        }
        y.check();
    }),
];

/// Eight elements as a system call reads them.
#[track_caller]
fn through_the_kernel(at: usize) -> [f64; 8] {
    let file = memfd_create("elements", MFdFlags::MFD_CLOEXEC).unwrap();
    // SAFETY: live memory; only the kernel reads it.
    let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, 64) };
    assert_eq!(nix::unistd::write(&file, bytes), Ok(64));
    let mut copy = [0; 64];
    assert_eq!(pread(&file, &mut copy, 0), Ok(64));
    std::array::from_fn(|i| f64::from_ne_bytes(copy[i * 8..][..8].try_into().unwrap()))
}

/// Disturbs something between two rounds of the same calls, several times.
fn pair(disturb: impl Fn(&mut Vector, &mut Vector)) {
    let (mut x, mut y) = (Vector::new(1.0), Vector::new(2.0));
    for _ in 0..3 {
        warm(&x, &mut y);
        disturb(&mut x, &mut y);
        hold(&x, &mut y);
    }
}

/// A library that is bound to another `free` gives a block back, and then other memory is mapped at its address.
fn freed_past_us() {
    let page = semcache_fault::pages::page_size();
    // With a page before it, or without.
    for before in [0, page] {
        let mut attempts = 0;
        let (x, mut y) = loop {
            attempts += 1;
            assert!(
                attempts < 100,
                "nothing can be mapped where a block was freed"
            );
            let (x, mut y) = (Vector::new(1.0), Vector::new(2.0));
            warm(&x, &mut y);
            // SAFETY: with the header written by this test, free is an munmap.
            unsafe { __libc_free(x.at as *mut _) };
            let (start, len) = (x.at - before, N * 8 + before);
            if map_at(start, len).is_ok_and(|at| at == start) {
                break (x, y);
            }
            // Another thread was faster: this test must not write to that thread's memory.
        };
        let x = Vector::at(x.at, N, 9.0);
        hold(&x, &mut y);
    }
}

const READ_WRITE: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);
const IF_FREE: MapFlags = MapFlags::MAP_PRIVATE.union(MapFlags::MAP_FIXED_NOREPLACE);

/// Maps new memory at an address, if nothing is mapped there.
fn map_at(start: usize, len: usize) -> nix::Result<usize> {
    let (at, len) = (NonZeroUsize::new(start), NonZeroUsize::new(len).unwrap());
    // SAFETY: fails where something is mapped.
    let mapped = unsafe { mmap_anonymous(at, len, READ_WRITE, IF_FREE) }?;
    Ok(mapped.as_ptr().expose_provenance())
}

fn remap() {
    /// An address range in which the kernel maps nothing by its own choice, so that no other thread takes the hole.
    const APART: usize = 0x1000_0000_0000;
    let len = N * 8;
    let map = || {
        assert_eq!(map_at(APART, len), Ok(APART));
        let flags = IF_FREE | MapFlags::MAP_ANONYMOUS;
        adopt::on_mmap(APART, len, READ_WRITE.bits(), flags.bits(), -1);
        APART
    };
    let mut x = Vector::at(map(), N, 1.0);
    let mut y = Vector::new(1.0);
    for round in 0..4 {
        warm(&x, &mut y);
        if adopt::on_munmap(x.at, len) == adopt::Unmap::Proceed {
            // SAFETY: mapped above.
            unsafe { munmap(NonNull::new(x.at as *mut _).unwrap(), len) }.unwrap();
        } else {
            // The freed block is still kept for a device.
            make(&vectors(Routine::Asum, 1.0, y.at, y.at, 1));
            while adopt::on_munmap(x.at, len) == adopt::Unmap::Done {}
        }
        x = Vector::at(map(), N, f64::from(round));
        hold(&x, &mut y);
    }
}

/// Threads make calls on vectors of their own, and read and write them, while one thread reads a vector that all use.
fn threads() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let common = Vector::new(3.0);
    std::thread::scope(|s| {
        let workers: Vec<_> = (0..3)
            .map(|t| {
                let common = &common;
                s.spawn(move || {
                    let mut y = Vector::new(f64::from(t));
                    for i in 0..150 {
                        axpy(1.0 + f64::from(i % 3), common, &mut y);
                        dot(common, &y);
                        if i % 16 == 15 {
                            y.put(usize::try_from(i).unwrap(), 5.0);
                            y.check();
                            // Exact integers stay small.
                            y = Vector::new(f64::from(t));
                        }
                    }
                    y.check();
                })
            })
            .collect();
        s.spawn(|| {
            while !STOP.load(Ordering::Relaxed) {
                common.check();
            }
        });
        for w in workers {
            w.join().unwrap();
        }
        STOP.store(true, Ordering::Relaxed);
    });
    assert!(COUNTERS.cache.replayed.get() > 0);
}

/// Of both vectors two devices hold a part each, long enough that copying them to one device would take longer: each computes its part.
/// The calls are replayed until something disturbs one of the parts. Launches that a device refuses, if the configuration says so,
/// may stop a replay between the parts.
fn parts() {
    const LONG: usize = 1 << 21;
    const CUT: usize = LONG / 2 + 77;
    let refuses = std::env::var("SEMCACHE_SIM").is_ok_and(|mode| mode.contains("launches"));
    let (mut x, mut y) = (Vector::of(LONG, 1.0), Vector::of(LONG, 2.0));
    let spread = |v: &Vector| {
        for (device, part) in [(0, 0..CUT), (1, CUT..LONG)] {
            let view = View {
                addr: v.at + part.start * 8,
                rows: part.len(),
                cols: 1,
                ld: part.len(),
                element: 8,
            };
            hints::prefetch(&view, device, false).unwrap();
        }
    };
    let both = |x: &Vector, y: &mut Vector| {
        axpy(2.0, x, y);
        dot(x, y);
    };
    let tasks = || [0, 1].map(|id| on_device(DeviceId(id)).tasks.get());
    for round in 0..8 {
        spread(&x);
        spread(&y);
        if refuses {
            (0..12).for_each(|_| both(&x, &mut y));
        } else {
            until_replayed(2, || both(&x, &mut y));
            let before = tasks();
            both(&x, &mut y);
            let done = tasks().iter().zip(before).all(|(now, old)| *now >= old + 2);
            assert!(
                done,
                "both devices computed a part of both calls: {before:?}, {:?}",
                tasks()
            );
        }
        match round {
            0 => x.put(5, 9.0),
            1 => y.put(LONG - 1, 9.0),
            2 => assert_eq!(y.get(CUT - 1), y.want[CUT - 1]),
            3 => hints::evict(&whole(&x), 1).unwrap(),
            4.. => {
                // Each device copies what lies beside its part, as products of sparse matrices do. The next call writes these bytes: the
                // copies are outdated, and the call is replayed all the same.
                let beside = |v: &Vector, device: i32, from: usize| {
                    let view = View {
                        addr: v.at + from * 8,
                        rows: 50,
                        cols: 1,
                        ld: 50,
                        element: 8,
                    };
                    hints::prefetch(&view, device, false).unwrap();
                };
                beside(&y, 1, CUT - 50);
                beside(&y, 0, CUT);
                let before = COUNTERS.cache.replayed.get();
                axpy(-1.0, &x, &mut y);
                assert!(refuses || COUNTERS.cache.replayed.get() == before + 1);
                // What is copied once more are the newest bytes.
                beside(&y, 1, CUT - 50);
                beside(&y, 0, CUT);
                dot(&x, &y);
            }
            _ => {}
        }
        both(&x, &mut y);
        if round % 2 == 1 {
            y.check();
            x.check();
        }
    }
    assert!(COUNTERS.cache.replayed.get() > 0);
}

/// All of a vector, as hints name it.
fn whole(v: &Vector) -> View {
    let rows = v.want.len();
    View {
        addr: v.at,
        rows,
        cols: 1,
        ld: rows,
        element: 8,
    }
}

/// A scalar of zero or one makes another call.
fn scalars() {
    const M: usize = 256;
    let (a, x) = (Vector::of(M * M, 1.0), Vector::of(M, 2.0));
    let mut y = Vector::of(M, 3.0);
    let gemv = |alpha: f64, beta: f64, y: &mut Vector| {
        let call = Call {
            op_a: Op::None,
            alpha: Value { re: alpha, im: 0.0 },
            beta: Value { re: beta, im: 0.0 },
            ..Call::new(
                Routine::Gemv,
                Dtype::D,
                &[i64::try_from(M).unwrap(), i64::try_from(M).unwrap()],
                &[(a.at, i64::try_from(M).unwrap()), (x.at, 1), (y.at, 1)],
            )
        };
        make(&call);
        for i in 0..M {
            let sum: f64 = (0..M).map(|j| a.want[j * M + i] * x.want[j]).sum();
            let old = if beta == 0.0 { 0.0 } else { beta * y.want[i] };
            y.want[i] = old + if alpha == 0.0 { 0.0 } else { alpha * sum };
        }
    };
    for _ in 0..3 {
        for (alpha, beta) in [(2.0, 1.0), (1.0, 0.0), (2.0, 0.0), (-3.0, 2.0)] {
            // No beta is larger than two: values stay whole numbers that a double holds exactly.
            until_replayed(1, || gemv(alpha, beta, &mut y));
            gemv(if alpha == 1.0 { alpha } else { alpha - 3.0 }, beta, &mut y);
            y.check();
            // Data that the call overwrites may have any value.
            y.put(1, f64::NAN);
            gemv(alpha, 0.0, &mut y);
            y.check();
            gemv(0.0, 2.0, &mut y);
            y.check();
            gemv(0.0, 0.0, &mut y);
            y.check();
        }
    }
    let (x, mut y) = (Vector::new(2.0), Vector::new(3.0));
    warm(&x, &mut y);
    axpy(0.0, &x, &mut y);
    axpy(1.0, &x, &mut y);
    axpy(-7.0, &x, &mut y);
    y.check();
}

/// A matrix of which one triangle is on the device, in several pieces, while the CPU writes either triangle; and
/// rotations by different numbers.
fn one_triangle() {
    const M: usize = 300;
    let a = heap::malloc(M * M * 8).cast::<f64>();
    // SAFETY: within the block; an access to an inaccessible page faults and is served.
    let set = |r: usize, c: usize, v: f64| unsafe { a.add(r + c * M).write_volatile(v) };
    // SAFETY: as above.
    let get = |r: usize, c: usize| unsafe { a.add(r + c * M).read_volatile() };
    let (x, mut y) = (Vector::of(M, 2.0), Vector::of(M, 3.0));
    let mut want = vec![0.0; M * M];
    for (c, r) in (0..M).flat_map(|c| (0..M).map(move |r| (c, r))) {
        want[r + c * M] = if r >= c {
            ((r + c * 3) % 5) as f64
        } else {
            1e9
        };
        set(r, c, want[r + c * M]);
    }
    let number = |re| Value { re, im: 0.0 };
    let (uplo, n, lda) = (Uplo::Lower, 300, 300);
    let symv = |alpha: f64, want: &[f64], y: &mut Vector| {
        make(&Call {
            form: Form {
                uplo,
                ..Form::default()
            },
            alpha: number(alpha),
            beta: number(0.0),
            ..Call::new(
                Routine::Symv,
                Dtype::D,
                &[n],
                &[(a as usize, lda), (x.at, 1), (y.at, 1)],
            )
        });
        for i in 0..M {
            let stored = |j: usize| want[i.max(j) + i.min(j) * M];
            let sum: f64 = (0..M).map(|j| stored(j) * x.want[j]).sum();
            y.want[i] = alpha * sum;
        }
    };
    for round in 0..4 {
        until_replayed(1, || symv(2.0, &want, &mut y));
        symv(-1.0 - round as f64, &want, &mut y);
        y.check();
        // symv does not read this triangle.
        set(round, 200, -1e9);
        want[round + 200 * M] = -1e9;
        symv(3.0, &want, &mut y);
        y.check();
        set(200, round, 7.0);
        want[200 + round * M] = 7.0;
        symv(3.0, &want, &mut y);
        y.check();
        let before = COUNTERS.cache.replayed.get();
        for _ in 0..1000 {
            make(&Call {
                form: Form {
                    uplo,
                    ..Form::default()
                },
                alpha: number(1.0),
                ..Call::new(
                    Routine::Syr,
                    Dtype::D,
                    &[n],
                    &[(x.at, 1), (a as usize, lda)],
                )
            });
            for (c, r) in (0..M).flat_map(|c| (c..M).map(move |r| (c, r))) {
                want[r + c * M] += x.want[r] * x.want[c];
            }
            if COUNTERS.cache.replayed.get() > before {
                break;
            }
        }
        assert!(
            COUNTERS.cache.replayed.get() > before,
            "an update is never replayed"
        );
        for (c, r) in [
            (0, 0),
            (0, M - 1),
            (round, 200),
            (M - 1, M - 1),
            (200, round),
        ] {
            assert_eq!(get(r, c).to_bits(), want[r + c * M].to_bits(), "({r}, {c})");
        }
    }
    let (mut u, mut v) = (Vector::new(1.0), Vector::new(2.0));
    let rot = |c: f64, s: f64, u: &mut Vector, v: &mut Vector| {
        make(&Call {
            alpha: number(c),
            beta: number(s),
            ..Call::new(
                Routine::Rot,
                Dtype::D,
                &[i64::try_from(N).unwrap()],
                &[(u.at, 1), (v.at, 1)],
            )
        });
        for (p, q) in u.want.iter_mut().zip(&mut v.want) {
            (*p, *q) = (c * *p + s * *q, c * *q - s * *p);
        }
    };
    // By a quarter of a turn at a time.
    for _ in 0..4 {
        let mut sign = 1.0;
        until_replayed(2, || {
            rot(0.0, sign, &mut u, &mut v);
            sign = -sign;
            // A scalar of one makes another call.
            rot(0.0, -1.0, &mut u, &mut v);
        });
        u.check();
        v.check();
    }
}

/// Vectors that share their first and last page with each other and with other data of the program.
fn shared_pages() {
    let block = heap::malloc(3 * N * 8).expose_provenance();
    let mut x = Vector::at(block + 24, N, 2.0);
    let mut y = Vector::at(block + 24 + N * 8 + 64, N, 3.0);
    // SAFETY: within the block, between and behind the vectors; these pages stay accessible.
    let beside = |at: usize, v: f64| unsafe { (at as *mut f64).write_volatile(v) };
    let after_y = y.at + N * 8;
    dot(&x, &y);
    let watched = COUNTERS.gate.scans.get() > 0 || {
        dot(&x, &y);
        COUNTERS.gate.scans.get() > 0
    };
    if !watched {
        eprintln!(
            "this kernel has no asynchronous write protection: what lies on shared pages is sent at each call"
        );
    }
    for round in 0..20 {
        let last = N - 1 - round % 3;
        for (which, i) in [(0, 0), (0, last), (1, 0), (1, last)] {
            if watched {
                until_replayed(1, || dot(&x, &y));
                let misses = COUNTERS.cache.misses.get();
                dot(&x, &y);
                assert_eq!(
                    COUNTERS.cache.misses.get(),
                    misses,
                    "sent again though nothing was written"
                );
            }
            let value = (round + i % 5) as f64;
            match which {
                0 => x.put(i, value),
                _ => y.put(i, value),
            }
            dot(&x, &y);
        }
        beside(after_y, round as f64);
        beside(x.at + N * 8, round as f64);
        dot(&x, &y);
        axpy(1.0, &x, &mut y);
        beside(x.at + N * 8 + 8, -1.0);
        dot(&x, &y);
        if watched {
            // On shared pages the result of a replayed call is written back when the call returns, however often it is
            // made.
            let misses = COUNTERS.cache.misses.get();
            let mut sign = 1.0;
            until_replayed(3, || {
                for _ in 0..3 {
                    axpy(sign, &x, &mut y);
                    assert_eq!((y.get(0), y.get(N - 1)), (y.want[0], y.want[N - 1]));
                }
                sign = -sign;
            });
            assert!(
                COUNTERS.cache.misses.get() <= misses + 2,
                "a result is sent again"
            );
            dot(&x, &y);
        }
        // Written back when the call returns: a result beside another operand, and that operand as the result.
        axpy(2.0, &x, &mut y);
        assert_eq!((y.get(0), y.get(N - 1)), (y.want[0], y.want[N - 1]));
        axpy(-1.0, &y, &mut x);
        assert_eq!((x.get(0), x.get(N - 1)), (x.want[0], x.want[N - 1]));
        dot(&x, &y);
        // Small numbers again: sums stay exact.
        for i in 0..N {
            x.put(i, (i % 7) as f64);
            y.put(i, (i % 5) as f64);
        }
    }
    assert!(!watched || COUNTERS.gate.written.get() > 0);
    x.check();
    y.check();
}

/// One thread's results are written back to a page over and over, while another thread writes an input of its own calls
/// on the same page.
fn two_on_shared_pages() {
    let block = heap::malloc(3 * N * 8).expose_provenance();
    let x = Vector::new(1.0);
    let mut result = Vector::at(block + 24, N, 2.0);
    // The first elements of the input lie on the last page of the result.
    let mut written = Vector::at(block + 24 + N * 8, N, 3.0);
    let (ended, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let right = std::thread::scope(|threads| {
        let other = threads.spawn(|| {
            let ones = Vector::of(N, 0.0);
            for round in 0..400_u32 {
                for i in 0..8 {
                    written.put(i, f64::from(round % 97));
                }
                // Some of these writes happen during a call of the first thread, which ends before they are read.
                let call = calls.load(Ordering::Relaxed);
                while calls.load(Ordering::Relaxed) < call + 2 && !ended.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                dot(&ones, &written);
            }
        });
        let (mut sign, mut right) = (1.0, true);
        while right && !other.is_finished() {
            axpy(sign, &x, &mut result);
            calls.fetch_add(1, Ordering::Relaxed);
            let last = N - 1;
            right = result.get(last).to_bits() == result.want[last].to_bits();
            sign = -sign;
        }
        ended.store(true, Ordering::Relaxed);
        right
    });
    assert!(
        right,
        "the last element is not on the host when the call returns"
    );
    result.check();
    written.check();
    x.check();
}

/// One case under one configuration.
fn case(name: &str, body: fn(), devices: &str, mode: &str) -> Case {
    let process = move || {
        heap::configure(4096);
        adopt::configure(4096);
        body();
    };
    let memory = if name == "evicted" { "512KiB" } else { "64MiB" };
    Case::new(format!("{name}, {devices}, mode '{mode}'"), process)
        .set("SEMCACHE_DEVICES", devices)
        .set("SEMCACHE_SIM", mode)
        .set("SEMCACHE_MEMORY", memory)
        .set("SEMCACHE_PANEL", "4KiB")
        .set("SEMCACHE_OFFLOAD", "always")
}

fn main() {
    let mut cases = Vec::new();
    for &(name, body) in CASES {
        let devices: &[&str] = match name {
            "parts" => &["sim:2"],
            _ => &["sim:1", "sim:2"],
        };
        for devices in devices {
            for mode in ["", "late", "poison", "late,poison", "poison,seed=5"] {
                cases.push(case(name, body, devices, mode));
            }
        }
        if name == "parts" {
            for n in [7, 8, 10, 16] {
                let refused = format!("fail=launches:{n},poison,late");
                cases.push(case(name, body, "sim:2", &refused));
            }
        }
        if name == "lost" {
            for n in 1..40 {
                let (lost, refused) = (
                    format!("fail=lost:{n},poison"),
                    format!("fail=refuse:{n},late"),
                );
                cases.push(case(name, body, "sim:1", &lost).may_lose());
                cases.push(case(name, body, "sim:1", &refused));
            }
        }
    }
    runner::main(cases, |_| ());
}
