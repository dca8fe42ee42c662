//! Hints of semcache.h, which must change nothing, whatever they say. Without the library none is given.

#![expect(unsafe_code, reason = "plays a C program that includes semcache.h")]

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::world::World;

/// `semcache_matrix`.
#[repr(C)]
pub(super) struct Matrix {
    pub(super) size: u32,
    pub(super) element: u32,
    pub(super) data: *const c_void,
    pub(super) rows: i64,
    pub(super) cols: i64,
    pub(super) ld: i64,
}

/// `semcache_distribution`.
#[repr(C)]
struct Distribution {
    size: u32,
    kind: u32,
    mb: i64,
    nb: i64,
    p: i32,
    q: i32,
    owner: Option<extern "C" fn(i64, i64, *mut c_void) -> i32>,
    user: *mut c_void,
}

/// `semcache_device_matrix`.
#[repr(C)]
struct DeviceMatrix {
    size: u32,
    device: i32,
    address: u64,
    ld: i64,
    hold: u64,
    context: *mut c_void,
}

/// `semcache_csr`.
#[repr(C)]
pub(super) struct Csr {
    pub(super) size: u32,
    pub(super) kind: u32,
    pub(super) index_bytes: u32,
    pub(super) base: u32,
    pub(super) rows: i64,
    pub(super) cols: i64,
    pub(super) row_offsets: *const c_void,
    pub(super) columns: *const c_void,
    pub(super) values: *const c_void,
}

/// `semcache_csr_multiply`.
type CsrMultiply = unsafe extern "C" fn(
    *const Csr,
    c_int,
    *const c_void,
    *const Matrix,
    *const c_void,
    *const Matrix,
) -> c_int;

/// `semcache_interface`.
#[repr(C)]
pub(super) struct Interface {
    size: usize,
    devices: extern "C" fn() -> c_int,
    prefetch: unsafe extern "C" fn(*const Matrix, c_int, *mut u64) -> c_int,
    coherent: unsafe extern "C" fn(*const Matrix, *mut u64) -> c_int,
    to_cpu: unsafe extern "C" fn(*const Matrix, c_int) -> c_int,
    evict: unsafe extern "C" fn(*const Matrix, c_int) -> c_int,
    residency: unsafe extern "C" fn(*const Matrix, c_int, *mut i64) -> c_int,
    wait: unsafe extern "C" fn(*const u64, c_int) -> c_int,
    statistics: usize,
    section: unsafe extern "C" fn(c_int, *mut u64) -> c_int,
    distribute: unsafe extern "C" fn(*const Matrix, *const Distribution, *mut u64) -> c_int,
    pin: unsafe extern "C" fn(*const Matrix, c_int, c_int, *mut u64) -> c_int,
    to_gpu: unsafe extern "C" fn(*const Matrix, c_int, c_int, *mut DeviceMatrix) -> c_int,
    release: extern "C" fn(u64) -> c_int,
    name: unsafe extern "C" fn(*const Matrix, *const c_char) -> c_int,
    range: unsafe extern "C" fn(*const c_char) -> c_int,
    rates: usize,
    predict: usize,
    pub(super) csr_multiply: CsrMultiply,
}

pub(super) fn library() -> Option<&'static Interface> {
    static FOUND: OnceLock<usize> = OnceLock::new();
    let found = *FOUND.get_or_init(|| {
        // SAFETY: a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"semcache_interface_1".as_ptr()) };
        found.expose_provenance()
    });
    // SAFETY: the table of that name, which is never unloaded, has these functions first.
    (found != 0).then(|| unsafe { &*std::ptr::with_exposed_provenance(found) })
}

std::thread_local! {
    /// Events that were not waited for.
    static EVENTS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    /// Matrices on devices that were not released.
    static HOLDS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// A function of the program that says who owns a block, and lies at times.
extern "C" fn owner(i: i64, j: i64, _user: *mut c_void) -> i32 {
    i32::try_from((i * 3 + j) % 5 % 3).unwrap()
}

/// A distribution, at times a nonsensical one.
fn distribution(w: &mut World) -> Distribution {
    let mut side = || i64::try_from(w.rng.below(40)).unwrap();
    let (mb, nb) = (side(), side());
    let mut number = |most| i32::try_from(w.rng.below(most)).unwrap();
    let (p, q) = (number(3), number(3));
    Distribution {
        size: u32::try_from(size_of::<Distribution>()).unwrap(),
        kind: u32::try_from(number(7)).unwrap(),
        mb,
        nb,
        p,
        q,
        owner: Some(owner),
        user: std::ptr::null_mut(),
    }
}

/// Numbers that no matrix has.
const ABSURD: [i64; 6] = [-1, 0, i64::MAX, i64::MIN, 1 << 40, 1 << 62];

pub(super) fn run(w: &mut World) {
    let slot = w.any();
    let (from, n) = w.slots[slot].span(&mut w.rng);
    let (rows, gap) = (1 + w.rng.below(n), w.rng.below(3));
    let ld = rows + gap;
    let mut view = Matrix {
        size: u32::try_from(size_of::<Matrix>()).unwrap(),
        element: u32::try_from(w.slots[slot].unit()).unwrap(),
        data: w.slots[slot].addr(from).cast_const().cast(),
        rows: i64::try_from(rows).unwrap(),
        cols: i64::try_from((n - rows) / ld + 1).unwrap(),
        ld: i64::try_from(ld).unwrap(),
    };
    if w.rng.one_in(12) {
        let absurd = ABSURD[w.rng.below(ABSURD.len())];
        match w.rng.below(4) {
            0 => view.rows = absurd,
            1 => view.cols = absurd,
            2 => view.ld = absurd,
            _ => view.element = u32::try_from(w.rng.below(40)).unwrap(),
        }
    }
    let what = w.rng.below(18);
    let of = distribution(w);
    let device = i32::try_from(w.rng.below(6)).unwrap() - 2;
    let with_event = w.rng.one_in(2);
    w.note = format!(
        "hint {what} on {} x {} at {from} of {slot}, ld {}, device {device}",
        view.rows, view.cols, view.ld
    );
    let Some(library) = library() else {
        return;
    };
    let mut number = 0;
    let event = if with_event {
        &raw mut number
    } else {
        std::ptr::null_mut()
    };
    let mut bytes = 0;
    let mut there = DeviceMatrix {
        size: u32::try_from(size_of::<DeviceMatrix>()).unwrap(),
        device: 0,
        address: 0,
        ld: 0,
        hold: 0,
        context: std::ptr::null_mut(),
    };
    // SAFETY: the structures are as in `semcache.h`; a hint reads and writes no more of the block than the program may.
    unsafe {
        match what {
            0 | 1 => _ = (library.prefetch)(&raw const view, device, event),
            2 => _ = (library.coherent)(&raw const view, event),
            3 => _ = (library.to_cpu)(&raw const view, 0),
            4 => _ = (library.to_cpu)(&raw const view, 1),
            5 => _ = (library.evict)(&raw const view, device),
            6 => _ = (library.residency)(&raw const view, device, &raw mut bytes),
            8 => _ = (library.section)(1, std::ptr::null_mut()),
            9 => _ = (library.section)(0, event),
            10 | 11 => _ = (library.distribute)(&raw const view, &raw const of, event),
            12 => _ = (library.pin)(&raw const view, device, 1, event),
            13 => _ = (library.pin)(&raw const view, device, 0, std::ptr::null_mut()),
            // A kernel that reads the matrix until it is released, later and maybe never.
            14 if (library.to_gpu)(&raw const view, device, 0, &raw mut there) == 0 => {
                HOLDS.with_borrow_mut(|holds| holds.push(there.hold));
            }
            // A kernel that writes what is there.
            15 if (library.to_gpu)(&raw const view, device, 1, &raw mut there) == 0 => {
                (library.release)(there.hold);
            }
            16 => HOLDS.with_borrow_mut(|holds| {
                for hold in holds.drain(..) {
                    (library.release)(hold);
                }
            }),
            17 => {
                (library.name)(&raw const view, c"a matrix".as_ptr());
                (library.range)(
                    with_event
                        .then_some(c"a range")
                        .map_or(std::ptr::null(), |name| name.as_ptr()),
                );
            }
            _ => EVENTS.with_borrow_mut(|events| {
                for known in events.drain(..) {
                    (library.wait)(&raw const known, 1);
                }
            }),
        }
    }
    if number != 0 {
        EVENTS.with_borrow_mut(|events| events.push(number));
    }
}
