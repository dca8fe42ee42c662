//! Calls of the functions of `semcache.h` with arbitrary arguments, drawn from the fuzzer's bytes: sizes, pointers, devices, events, holds,
//! structures of other versions. Between them BLAS calls on the same memory, whose results must be right: hints change nothing.

#![no_main]

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

#[repr(C)]
struct Matrix {
    size: u32,
    element: u32,
    data: *const c_void,
    rows: i64,
    cols: i64,
    ld: i64,
}

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

#[repr(C)]
struct DeviceMatrix {
    size: u32,
    device: i32,
    address: u64,
    ld: i64,
    hold: u64,
    context: *mut c_void,
}

#[repr(C)]
struct Csr {
    size: u32,
    kind: u32,
    index_bytes: u32,
    base: u32,
    rows: i64,
    cols: i64,
    row_offsets: *const u8,
    columns: *const u8,
    values: *const u8,
}

type Address = usize;
type Multiply = unsafe extern "C" fn(
    *const Csr,
    c_int,
    *const f64,
    *const Matrix,
    *const f64,
    *const Matrix,
) -> c_int;

#[repr(C)]
struct Interface {
    size: usize,
    devices: extern "C" fn() -> c_int,
    prefetch: unsafe extern "C" fn(Address, c_int, *mut u64) -> c_int,
    coherent: unsafe extern "C" fn(Address, *mut u64) -> c_int,
    to_cpu: unsafe extern "C" fn(Address, c_int) -> c_int,
    evict: unsafe extern "C" fn(Address, c_int) -> c_int,
    residency: unsafe extern "C" fn(Address, c_int, *mut i64) -> c_int,
    wait: unsafe extern "C" fn(*const u64, c_int) -> c_int,
    statistics: unsafe extern "C" fn(*mut u64) -> c_int,
    section: unsafe extern "C" fn(c_int, *mut u64) -> c_int,
    distribute: unsafe extern "C" fn(Address, *const Distribution, *mut u64) -> c_int,
    pin: unsafe extern "C" fn(Address, c_int, c_int, *mut u64) -> c_int,
    to_gpu: unsafe extern "C" fn(Address, c_int, c_int, *mut DeviceMatrix) -> c_int,
    release: extern "C" fn(u64) -> c_int,
    name: unsafe extern "C" fn(Address, *const c_char) -> c_int,
    range: unsafe extern "C" fn(*const c_char) -> c_int,
    rates: unsafe extern "C" fn(c_int, *mut u64) -> c_int,
    predict: unsafe extern "C" fn(*const c_char, *const i64, c_int, *mut u64) -> c_int,
    csr_multiply: Multiply,
}

fn table() -> &'static Interface {
    static FOUND: OnceLock<usize> = OnceLock::new();
    let found = *FOUND.get_or_init(|| {
        // SAFETY: a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"semcache_interface_1".as_ptr()) };
        found.expose_provenance()
    });
    assert!(found != 0, "the library is not preloaded");
    // SAFETY: the table of that name, which is never unloaded.
    unsafe { &*std::ptr::with_exposed_provenance(found) }
}

/// The fuzzer's bytes; zeros when they have been used up.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let (&first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        first
    }

    fn below(&mut self, n: u8) -> u8 {
        self.byte() % n
    }

    /// Mostly small, at times any number.
    fn number(&mut self) -> i64 {
        match self.byte() {
            0 => i64::MAX,
            1 => i64::MIN,
            2 => -1,
            3 => 1 << (self.byte() % 63),
            4 => i64::from_le_bytes([(); 8].map(|()| self.byte())),
            small => i64::from(small) - 5,
        }
    }

    fn small(&mut self) -> i32 {
        self.number().clamp(i32::MIN.into(), i32::MAX.into()) as i32
    }
}

const N: usize = 48;

/// Memory of a program: matrices of N x N doubles, one block each.
struct Memory([Vec<f64>; 3]);

impl Memory {
    fn new() -> Memory {
        let entry = |seed: usize| move |i: usize| ((i * 7 + seed) % 11) as f64 - 5.0;
        Memory([0, 1, 2].map(|seed| (0..N * N).map(entry(seed)).collect()))
    }

    /// The third is the product of the others.
    fn product(&mut self) {
        type Gemm = unsafe extern "C" fn(
            *const c_char,
            *const c_char,
            *const i32,
            *const i32,
            *const i32,
            *const f64,
            *const f64,
            *const i32,
            *const f64,
            *const i32,
            *const f64,
            *mut f64,
            *const i32,
        );
        // SAFETY: a C string.
        let dgemm = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"dgemm_".as_ptr()) };
        assert!(!dgemm.is_null());
        // SAFETY: the BLAS's function of this name has this type.
        let dgemm: Gemm = unsafe { std::mem::transmute(dgemm) };
        let [a, b, c] = &mut self.0;
        let (n, one, zero) = (N as i32, 1.0, 0.0);
        // SAFETY: matrices of N x N elements.
        unsafe {
            dgemm(
                c"N".as_ptr(),
                c"N".as_ptr(),
                &n,
                &n,
                &n,
                &one,
                a.as_ptr(),
                &n,
                b.as_ptr(),
                &n,
                &zero,
                c.as_mut_ptr(),
                &n,
            );
        }
        // A row and a column, by hand.
        for t in 0..N {
            for (i, j) in [(t, 5), (7, t)] {
                let sum: f64 = (0..N).map(|k| a[i + k * N] * b[k + j * N]).sum();
                assert_eq!(c[i + j * N], sum, "a hint changed a result");
            }
        }
    }
}

/// Integers of an array, whose bytes the library reads.
fn integers(numbers: &[i64], index_bytes: u32) -> Vec<u8> {
    let each = numbers.iter().map(|i| i.to_le_bytes());
    each.flat_map(|all| all[..if index_bytes == 8 { 8 } else { 4 }].to_vec())
        .collect()
}

/// A product of a sparse matrix with a column of the first matrix, that adds to one of the third: with arguments that are not valid, row
/// offsets and columns among them. No number of entries is larger than the arrays, and nothing is computed of what is not valid.
fn sparse(multiply: Multiply, bytes: &mut Bytes, memory: &mut Memory) -> c_int {
    const ENTRIES: usize = 64;
    let rows = N - usize::from(bytes.below(N as u8 + 1));
    let index_bytes = if bytes.below(20) < 19 {
        4 << bytes.below(2)
    } else {
        bytes.byte().into()
    };
    let base = if bytes.below(20) < 19 {
        bytes.below(2).into()
    } else {
        u32::from(bytes.byte())
    };
    let (step, spread) = (usize::from(bytes.below(60)) + 5, usize::from(bytes.byte()));
    let mut ends: Vec<i64> = (0..rows)
        .map(|i| (i * step % (ENTRIES + 1)) as i64)
        .collect();
    ends.sort_unstable();
    let mut offsets: Vec<i64> = [0]
        .into_iter()
        .chain(ends)
        .map(|end| end + i64::from(base))
        .collect();
    let mut columns: Vec<i64> = (0..ENTRIES)
        .map(|i| (i * spread % N) as i64 + i64::from(base))
        .collect();
    // All but the last offset, which says how many entries the arrays have.
    if rows > 0 && bytes.below(4) == 3 {
        offsets[usize::from(bytes.byte()) % rows] = bytes.small().into();
    }
    if bytes.below(4) == 3 {
        columns[usize::from(bytes.byte()) % ENTRIES] = bytes.small().into();
    }
    let values: Vec<f64> = (0..2 * ENTRIES).map(|i| (i % 5) as f64 - 2.0).collect();
    let [of_offsets, of_columns] = [&offsets, &columns].map(|all| integers(all, index_bytes));
    let given = |bytes: &mut Bytes, right: usize| match bytes.below(30) {
        29 => [-1, i64::MIN, i64::MAX][usize::from(bytes.below(3))],
        _ => right as i64,
    };
    let or_null = |bytes: &mut Bytes, at: *const u8| {
        if bytes.below(40) < 39 {
            at
        } else {
            std::ptr::null()
        }
    };
    let csr = Csr {
        size: if bytes.below(20) < 19 {
            size_of::<Csr>() as u32
        } else {
            bytes.byte().into()
        },
        kind: if bytes.below(20) < 19 {
            b'd'.into()
        } else {
            bytes.byte().into()
        },
        index_bytes,
        base,
        rows: given(bytes, rows),
        cols: given(bytes, N),
        row_offsets: or_null(bytes, of_offsets.as_ptr()),
        columns: or_null(bytes, of_columns.as_ptr()),
        values: or_null(bytes, values.as_ptr().cast()),
    };
    let [x, _, c] = &mut memory.0;
    let before = c[..2 * N].to_vec();
    let vector = |bytes: &mut Bytes, at: *const f64, rows: usize| Matrix {
        size: if bytes.below(20) < 19 {
            size_of::<Matrix>() as u32
        } else {
            bytes.byte().into()
        },
        element: if bytes.below(20) < 19 {
            8
        } else {
            bytes.byte().into()
        },
        data: at.cast(),
        rows: given(bytes, rows),
        cols: given(bytes, 1),
        ld: given(bytes, N),
    };
    let (op, from_here) = (
        if bytes.below(20) < 19 {
            b'N'
        } else {
            bytes.byte()
        },
        bytes.below(20) == 19,
    );
    let of_x = vector(bytes, if from_here { c.as_ptr() } else { x.as_ptr() }, N);
    let of_y = vector(bytes, c.as_mut_ptr(), rows);
    let one = [1.0, 0.0];
    // SAFETY: arrays with as many elements as the structures say, unless these are not valid.
    let status = unsafe { multiply(&csr, op.into(), one.as_ptr(), &of_x, one.as_ptr(), &of_y) };
    if csr.kind != u32::from(b'd') {
        // Numbers of another type; the next product is exact with integers.
        c[..2 * N].copy_from_slice(&before);
        return status;
    }
    // What a transposed matrix multiplies has as many rows as it, so it is valid if it is square.
    let mut wanted = before;
    if status == 0 {
        for row in 0..rows {
            for k in offsets[row] - i64::from(base)..offsets[row + 1] - i64::from(base) {
                let (k, column) = (k as usize, (columns[k as usize] - i64::from(base)) as usize);
                let (to, from) = if op.eq_ignore_ascii_case(&b'N') {
                    (row, column)
                } else {
                    (column, row)
                };
                wanted[to] += values[k] * x[from];
            }
        }
    }
    assert_eq!(c[..2 * N], wanted, "status {status}, {}", op.escape_ascii());
    status
}

extern "C" fn owner(i: i64, j: i64, user: *mut c_void) -> i32 {
    i32::try_from((i ^ j) & 3).unwrap_or(0) + user.addr() as i32
}

fuzz_target!(|data: &[u8]| {
    let (table, mut bytes, mut memory) = (table(), Bytes(data), Memory::new());
    let (mut events, mut holds) = (vec![0_u64], vec![0_u64]);
    while !bytes.0.is_empty() {
        let which = usize::from(bytes.below(4));
        let here = [0.0_f64; 16];
        let base = memory
            .0
            .get(which)
            .map_or(here.as_ptr().expose_provenance(), |m| {
                m.as_ptr().expose_provenance()
            });
        let shift = if bytes.below(4) == 0 {
            bytes.number()
        } else {
            0
        };
        let usual = bytes.below(3) > 0;
        let n = N as i64;
        let side = |bytes: &mut Bytes| if usual { n } else { bytes.number() };
        let view = Matrix {
            size: if bytes.below(9) > 0 {
                size_of::<Matrix>() as u32
            } else {
                u32::from(bytes.byte())
            },
            element: if bytes.below(9) > 0 {
                8
            } else {
                u32::from(bytes.byte())
            },
            data: std::ptr::without_provenance(base.wrapping_add_signed(shift as isize)),
            rows: side(&mut bytes),
            cols: side(&mut bytes),
            ld: side(&mut bytes),
        };
        let view = if bytes.below(30) > 0 {
            (&raw const view).expose_provenance()
        } else {
            0
        };
        let device = if bytes.below(3) > 0 {
            i32::from(bytes.below(4)) - 1
        } else {
            bytes.small()
        };
        let mut event = 0_u64;
        let with_event = if bytes.below(2) == 0 {
            &raw mut event
        } else {
            std::ptr::null_mut()
        };
        let mut words = [u64::from(bytes.byte()) * 8; 16];
        let mut there = DeviceMatrix {
            size: if bytes.below(9) > 0 {
                size_of::<DeviceMatrix>() as u32
            } else {
                3
            },
            device: 0,
            address: 0,
            ld: 0,
            hold: 0,
            context: std::ptr::null_mut(),
        };
        let of = Distribution {
            size: size_of::<Distribution>() as u32,
            kind: u32::from(bytes.below(8)),
            mb: bytes.number(),
            nb: bytes.number(),
            p: bytes.small(),
            q: bytes.small(),
            owner: (bytes.below(5) > 0).then_some(owner),
            user: std::ptr::without_provenance_mut(usize::from(bytes.below(3))),
        };
        let known = |all: &[u64], at: u8| all[usize::from(at) % all.len()];
        // SAFETY: structures as the header says, of which some lie about what they describe; the functions touch no byte of a matrix
        // that the program may not.
        let status = unsafe {
            match bytes.below(22) {
                0 | 1 => (table.prefetch)(view, device, with_event),
                2 => (table.coherent)(view, with_event),
                3 => (table.to_cpu)(view, bytes.small()),
                4 => (table.evict)(view, device),
                5 => (table.residency)(view, device, words.as_mut_ptr().cast()),
                6 => (table.wait)(&known(&events, bytes.byte()), 1),
                7 => (table.wait)(&bytes.number().cast_unsigned(), bytes.small()),
                8 => (table.statistics)(words.as_mut_ptr()),
                9 => (table.section)(1, std::ptr::null_mut()),
                10 => (table.section)(0, with_event),
                11 | 12 => (table.distribute)(view, &of, with_event),
                13 => (table.pin)(view, device, bytes.small(), with_event),
                14 => {
                    let status =
                        (table.to_gpu)(view, device, i32::from(bytes.below(2)), &raw mut there);
                    if status == 0 {
                        holds.push(there.hold);
                    }
                    // What may be written is released at once: the program may not use the matrix meanwhile.
                    (table.release)(there.hold);
                    status
                }
                15 => (table.release)(known(&holds, bytes.byte()))
                    .max((table.release)(bytes.number().cast_unsigned())),
                16 => (table.name)(view, c"A".as_ptr()),
                17 => (table.range)(if bytes.below(2) == 0 {
                    c"r".as_ptr()
                } else {
                    std::ptr::null()
                }),
                18 => {
                    let sizes = [bytes.number(), bytes.number(), bytes.number()];
                    let names = [
                        c"dgemm", c"ztrsm", c"daxpy", c"?", c"ssyr2k", c"cgemv", c"dgemmt",
                    ];
                    let name = names[usize::from(bytes.byte()) % names.len()];
                    (table.predict)(
                        name.as_ptr(),
                        sizes.as_ptr(),
                        bytes.small(),
                        words.as_mut_ptr(),
                    );
                    (table.rates)(device, words.as_mut_ptr())
                }
                19 | 20 => sparse(table.csr_multiply, &mut bytes, &mut memory),
                _ => {
                    memory.product();
                    if bytes.below(4) == 0 {
                        memory.0[2] = vec![0.0; N * N];
                    }
                    0
                }
            }
        };
        assert!((0..10).contains(&status), "status {status}");
        events.push(event);
    }
    // SAFETY: as above; whatever is open ends here.
    unsafe {
        while (table.section)(0, std::ptr::null_mut()) == 0 {}
        while (table.range)(std::ptr::null()) == 0 {}
    }
    memory.product();
    assert!((table.devices)() >= 0);
});
