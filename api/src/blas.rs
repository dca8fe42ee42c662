//! The program's BLAS, by its Fortran names, found at run time: so nothing is linked, and a library that was preloaded comes first.

#![expect(unsafe_code, reason = "looks functions up by name")]

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::mem::transmute_copy;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::error::{Error, Result};

/// A flag: a letter.
pub(crate) type Flag = *const u8;

/// A size. The BLAS reads 32 bits, or 64 if it has such integers under the same names: numbers below 2^31 are the same in both, since
/// the lower half comes first.
pub(crate) type Size = *const i64;
const _: () = assert!(cfg!(target_endian = "little"));

/// `gemm`: transposes, m, n, k, alpha, A, B, beta, C, and the lengths of the flags, which Fortran passes behind all other arguments.
pub(crate) type Gemm<T> = unsafe extern "C" fn(
    Flag,
    Flag,
    Size,
    Size,
    Size,
    *const T,
    *const T,
    Size,
    *const T,
    Size,
    *const T,
    *mut T,
    Size,
    usize,
    usize,
);
/// `symm`: side, triangle, m, n, alpha, A, B, beta, C.
pub(crate) type Symm<T> = unsafe extern "C" fn(
    Flag,
    Flag,
    Size,
    Size,
    *const T,
    *const T,
    Size,
    *const T,
    Size,
    *const T,
    *mut T,
    Size,
    usize,
    usize,
);
/// `syrk`: triangle, transpose, n, k, alpha, A, beta, C.
pub(crate) type Syrk<T> = unsafe extern "C" fn(
    Flag,
    Flag,
    Size,
    Size,
    *const T,
    *const T,
    Size,
    *const T,
    *mut T,
    Size,
    usize,
    usize,
);
/// `trmm` and `trsm`: side, triangle, transpose, diagonal, m, n, alpha, A, B.
pub(crate) type Triangular<T> = unsafe extern "C" fn(
    Flag,
    Flag,
    Flag,
    Flag,
    Size,
    Size,
    *const T,
    *const T,
    Size,
    *mut T,
    Size,
    usize,
    usize,
    usize,
    usize,
);

/// The routines for elements of one type.
#[derive(Debug)]
pub struct Routines<T> {
    pub(crate) gemm: Routine<Gemm<T>>,
    pub(crate) symm: Routine<Symm<T>>,
    pub(crate) syrk: Routine<Syrk<T>>,
    pub(crate) trmm: Routine<Triangular<T>>,
    pub(crate) trsm: Routine<Triangular<T>>,
}

/// A routine, whose functions are of type `F`.
#[derive(Debug)]
pub(crate) struct Routine<F> {
    /// With a zero at its end.
    name: &'static str,
    /// Null until it was found: a program may load its BLAS late.
    found: AtomicPtr<c_void>,
    function: PhantomData<F>,
}

impl<F: Copy> Routine<F> {
    pub(crate) const fn new(name: &'static str) -> Self {
        Routine {
            name,
            found: AtomicPtr::new(null_mut()),
            function: PhantomData,
        }
    }

    /// The program's function.
    pub(crate) fn find(&self) -> Result<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            let name =
                CStr::from_bytes_with_nul(self.name.as_bytes()).map_err(|_| Error::Invalid)?;
            // SAFETY: the name ends with a zero.
            found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            if found.is_null() {
                return Err(Error::NoBlas(self.name.trim_end_matches('\0')));
            }
            self.found.store(found, Ordering::Relaxed);
        }
        // SAFETY: `F` is one of the types of functions above, chosen with the name, and the address is not null. The process has one
        // meaning for these names, the BLAS's. A BLAS that is written in C ignores the lengths behind the arguments that it knows: the
        // caller removes them.
        Ok(unsafe { transmute_copy(&found) })
    }
}
