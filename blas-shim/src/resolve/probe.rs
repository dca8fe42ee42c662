//! Probes the calling conventions of a BLAS library by calling some of its functions.
//!
//! Names do not say which conventions a library has: `isamax_` takes 32-bit integers in one library and 64-bit integers
//! in another; a complex result comes back in registers or through a hidden pointer; a single-precision result as a
//! float or, by the rules of f2c, as a double. Each probe passes arguments that are harmless under every convention and
//! whose results differ.

#![expect(unsafe_code, reason = "probes call functions by address")]

use core::ffi::{c_int, c_void};
use core::mem::transmute;
use std::ffi::CString;

use num_complex::Complex;

use super::objects::{self, Object};
use crate::symbols::{Spelling, Width};
use crate::thread;
use semcache::base::{Dtype, Solver};

/// How a Fortran function of the library returns a result that is not an integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Convention {
    /// As C functions do: in registers.
    Registers,
    /// Through a hidden first argument.
    Hidden,
    /// The probe's result fits none of the conventions above.
    Unknown,
}

/// Marks, while it lives, that the calling thread probes a library: BLAS calls that the probed function makes are not
/// calls of the program.
struct Probing;

impl Probing {
    fn begin() -> Probing {
        let probing = &thread::state().probing;
        probing.set(probing.get() + 1);
        Probing
    }
}

impl Drop for Probing {
    fn drop(&mut self) {
        let probing = &thread::state().probing;
        probing.set(probing.get() - 1);
    }
}

/// The library's own definition of a routine in one of its spellings.
pub(crate) fn find(library: &Object, routine: &str, spelling: Spelling) -> Option<usize> {
    let (before, after) = spelling.affixes();
    let name = CString::new(format!("{before}{routine}{after}")).ok()?;
    let handle = library.open()?;
    handle
        .symbol(&name)
        .filter(|address| library.contains(*address))
}

/// The width of the library's integers behind its unsuffixed names: `i?amax` of three ascending numbers, with a length
/// whose low half is three and which is negative as 64 bits.
pub(crate) fn width(library: &Object) -> Option<Width> {
    let length = 0xffff_ffff_0000_0003_u64 as i64;
    let _probing = Probing::begin();
    let one = 1i64;
    // Only the low half of an integer result is defined under LP64.
    let index = if let Some(address) = find(library, "isamax", Spelling::Under) {
        // SAFETY: `isamax_` by its name; it reads at most three numbers.
        unsafe {
            let call: extern "C" fn(*const i64, *const f32, *const i64) -> c_int =
                transmute(address);
            call(
                &raw const length,
                [1.0f32, 2.0, 3.0].as_ptr(),
                &raw const one,
            )
        }
    } else if let Some(address) = find(library, "idamax", Spelling::Under) {
        // SAFETY: `idamax_` by its name; it reads at most three numbers.
        unsafe {
            let call: extern "C" fn(*const i64, *const f64, *const i64) -> c_int =
                transmute(address);
            call(
                &raw const length,
                [1.0f64, 2.0, 3.0].as_ptr(),
                &raw const one,
            )
        }
    } else {
        let address = find(library, "isamax", Spelling::Cblas)?;
        // SAFETY: `cblas_isamax` by its name; it reads at most three numbers. The C interface counts from zero.
        unsafe {
            let call: extern "C" fn(i64, *const f32, i64) -> c_int = transmute(address);
            call(length, [1.0f32, 2.0, 3.0].as_ptr(), one) + 1
        }
    };
    match index {
        3 => Some(Width::Bits32),
        0 | 1 => Some(Width::Bits64),
        _ => None,
    }
}

/// The width of the integers of a library's LAPACK: xpotrf of the matrix (1), whose INFO is zero as an integer of either width; the half
/// behind a narrow one stays as it was.
pub(crate) fn lapack_width(library: &Object, dtype: Dtype, spelling: Spelling) -> Option<Width> {
    type Potrf = extern "C" fn(*const u8, *const i64, *mut c_void, *const i64, *mut i64, usize);
    let address = find(library, Solver::Potrf.name(dtype), spelling)?;
    let _probing = Probing::begin();
    let (lower, one, mut info) = (b'L', 1i64, -1i64);
    // The largest element: a complex number of two doubles.
    let mut a = [0u8; 16];
    match dtype {
        Dtype::S | Dtype::C => a[..4].copy_from_slice(&1f32.to_ne_bytes()),
        Dtype::D | Dtype::Z => a[..8].copy_from_slice(&1f64.to_ne_bytes()),
    }
    // SAFETY: xpotrf by its name; it reads and writes one element, and writes INFO.
    unsafe {
        let call: Potrf = transmute(address);
        call(
            &raw const lower,
            &raw const one,
            a.as_mut_ptr().cast(),
            &raw const one,
            &raw mut info,
            1,
        );
    }
    match info {
        0 => Some(Width::Bits64),
        narrow if narrow as u32 == 0 => Some(Width::Bits32),
        _ => None,
    }
}

/// How the library returns a complex number. The probe calls `f(a0 .. a5)` with `*a0 = 1`, `*a1 = -2 - 2i`. If the
/// result comes back in registers, it is the product of one pair of elements. If `a0` is where the result goes, `a1` is
/// the length, negative as an integer of either width: then no element is read and zero is stored.
pub(crate) fn complex(library: &Object, spelling: Spelling) -> Convention {
    let _probing = Probing::begin();
    let mut length = [1i64, 0];
    let one = 1i64;
    let x = [Complex::<f32>::new(-2.0, -2.0); 2];
    let y = [Complex::<f32>::new(3.0, 0.0); 2];
    let result = if let Some(address) = find(library, "cdotu", spelling) {
        type Dot = extern "C" fn(
            *mut i64,
            *const Complex<f32>,
            *const i64,
            *const Complex<f32>,
            *const i64,
            *const i64,
        ) -> Packed;
        // SAFETY: `cdotu` by its name; harmless under both conventions as said above.
        let packed = unsafe {
            let call: Dot = transmute(address);
            let (x, y) = (x.as_ptr(), y.as_ptr());
            call(
                length.as_mut_ptr(),
                x,
                &raw const one,
                y,
                &raw const one,
                &raw const one,
            )
        };
        [f64::from(packed.re), f64::from(packed.im)]
    } else {
        let Some(address) = find(library, "zdotu", spelling) else {
            return Convention::Unknown;
        };
        type Dot = extern "C" fn(
            *mut i64,
            *const Complex<f64>,
            *const i64,
            *const Complex<f64>,
            *const i64,
            *const i64,
        ) -> Pair;
        // The low half of -2.0 is zero and its sign is set: no length of either width.
        let x = [Complex::new(-2.0f64, -2.0); 2];
        let y = [Complex::new(3.0f64, 0.0); 2];
        // SAFETY: `zdotu` by its name; harmless under both conventions, as the function's documentation says.
        let pair = unsafe {
            let call: Dot = transmute(address);
            let (x, y) = (x.as_ptr(), y.as_ptr());
            call(
                length.as_mut_ptr(),
                x,
                &raw const one,
                y,
                &raw const one,
                &raw const one,
            )
        };
        [pair.re, pair.im]
    };
    if length[0] == 0 {
        Convention::Hidden
    } else if length[0] == 1 && result == [-6.0, -6.0] {
        Convention::Registers
    } else {
        Convention::Unknown
    }
}

/// A complex float as C returns it: both halves in xmm0.
#[repr(C)]
struct Packed {
    re: f32,
    im: f32,
}

/// A complex double as C returns it: xmm0 and xmm1.
#[repr(C)]
struct Pair {
    re: f64,
    im: f64,
}

/// Whether the library returns a single-precision number as a float: `sdot` of (2) and (3).
pub(crate) fn single(library: &Object, spelling: Spelling) -> Convention {
    let _probing = Probing::begin();
    let Some(address) = find(library, "sdot", spelling) else {
        return Convention::Unknown;
    };
    let (one, x, y) = (1i64, 2.0f32, 3.0f32);
    type Dot = extern "C" fn(*const i64, *const f32, *const i64, *const f32, *const i64) -> f32;
    // SAFETY: `sdot` by its name, one element.
    let result = unsafe {
        let call: Dot = transmute(address);
        call(
            &raw const one,
            &raw const x,
            &raw const one,
            &raw const y,
            &raw const one,
        )
    };
    // f2c's double 6.0 has zeros in its low half.
    if result == 6.0 {
        Convention::Registers
    } else {
        Convention::Unknown
    }
}

/// The object of a library that was opened by handle: the object that defines one of the routines that every BLAS has.
pub(crate) fn library_of(objects: &[Object], handle: *mut core::ffi::c_void) -> Option<&Object> {
    [
        c"dgemm_",
        c"cblas_dgemm",
        c"isamax_",
        c"dgemm_64_",
        c"scipy_dgemm_",
        c"scipy_dgemm_64_",
    ]
    .into_iter()
    .find_map(|name| objects::symbol(handle, name))
    .and_then(|address| objects::of(objects, address))
}
