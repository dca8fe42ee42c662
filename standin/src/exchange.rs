//! Stand-in for the `cusolverDn` functions that exchange rows by pivots, by element type and with 32-bit integers. They wait for the
//! stream, to read the pivots, and then queue exchanges of two rows each.

#![expect(
    unsafe_code,
    reason = "the program's pointers, as the C functions take them"
)]

use core::ffi::c_int;

use semcache::base::{Dtype, Routine};
use semcache::device::api::{Kernel, Operand};

use crate::blas;
use crate::dense::{call, matrix};
use crate::misuse::complain;
use crate::names::{Outcome, Status};

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn exchange(
    dtype: Dtype,
    handle: usize,
    n: c_int,
    a: u64,
    lda: c_int,
    k1: c_int,
    k2: c_int,
    pivots: u64,
    increment: c_int,
) -> Outcome {
    let mut call = call(handle)?;
    let cols = blas::size(n)?;
    let (first, last) = (blas::size(k1)?, blas::size(k2)?);
    let a = matrix(a, lda.into(), (last, cols))?;
    if first != 1 || increment != 1 || pivots == 0 || last > a.ld() {
        return Err(Status::InvalidValue);
    }
    let mut bytes = vec![0; last * size_of::<c_int>()];
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { call.state.read_now(call.stream, pivots, &mut bytes)? };
    let (pivots, _) = bytes.as_chunks();
    for (row, pivot) in pivots.iter().enumerate() {
        let pivot = c_int::from_ne_bytes(*pivot);
        let other = usize::try_from(pivot - 1).unwrap_or(usize::MAX);
        if other < row || other >= a.ld() {
            complain(format_args!("pivot {pivot} in row {}", row + 1));
            return Err(Status::LaunchFailed);
        }
        if other == row || cols == 0 {
            continue;
        }
        let at = |row: usize| Operand {
            addr: a.addr + (row * dtype.size()) as u64,
            ..a
        };
        let swap = Kernel {
            m: cols,
            ..Kernel::of(Routine::Swap, dtype, [at(row), at(other)])
        };
        // SAFETY: the program's matrix.
        unsafe { call.launch_one(swap)? };
    }
    Ok(())
}
