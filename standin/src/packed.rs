//! Stand-in for `trttp` and `tpttr`, which copy a triangle of a matrix to packed storage and back, by one copy for each
//! column.

#![expect(
    unsafe_code,
    reason = "the program's pointers, as the C functions take them"
)]

use core::ffi::c_int;

use semcache::base::{Dtype, Routine, Uplo};
use semcache::device::api::{Kernel, Operand};

use crate::blas::{Call, matrix, size};
use crate::level3::uplo;
use crate::names::Outcome;

pub(crate) unsafe fn pack(
    dtype: Dtype,
    handle: usize,
    fill: c_int,
    n: c_int,
    a: u64,
    lda: c_int,
    packed: u64,
) -> Outcome {
    // SAFETY: the caller keeps this function's contract.
    unsafe {
        columns(
            dtype,
            handle,
            fill,
            n,
            (a, lda),
            |square, column| [square, column],
            packed,
        )
    }
}

pub(crate) unsafe fn unpack(
    dtype: Dtype,
    handle: usize,
    fill: c_int,
    n: c_int,
    packed: u64,
    a: u64,
    lda: c_int,
) -> Outcome {
    // SAFETY: the caller keeps this function's contract.
    unsafe {
        columns(
            dtype,
            handle,
            fill,
            n,
            (a, lda),
            |square, column| [column, square],
            packed,
        )
    }
}

/// Copies each column of the triangle; `turn` returns the source and the destination, given the column in the square
/// and in packed storage.
unsafe fn columns(
    dtype: Dtype,
    handle: usize,
    fill: c_int,
    n: c_int,
    (a, lda): (u64, c_int),
    turn: fn(Operand, Operand) -> [Operand; 2],
    packed: u64,
) -> Outcome {
    let mut call = Call::new(handle)?;
    let (fill, n) = (uplo(fill)?, size(n)?);
    let a = matrix(a, lda, n)?;
    let at = |base: u64, element: usize| Operand::vector(base + (element * dtype.size()) as u64, 1);
    let mut before = 0;
    for j in 0..n {
        let (first, len) = match fill {
            Uplo::Lower => (j, n - j),
            Uplo::Upper => (0, j + 1),
        };
        let from_to = turn(at(a.addr, j * a.ld() + first), at(packed, before));
        before += len;
        // SAFETY: the program's arguments, which keep the contract of the C function.
        unsafe {
            call.launch_one(Kernel {
                m: len,
                ..Kernel::of(Routine::Copy, dtype, from_to)
            })?;
        }
    }
    Ok(())
}
