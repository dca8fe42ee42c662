//! Reference arithmetic of every [`Kernel`] on memory of this process: simulated devices compute with it, and it
//! finishes a call on the host when the devices cannot.
//!
//! Semantics are those of the reference BLAS (3.12), element type by element type:
//!
//! * A zero `beta` writes the output without reading it; a zero `alpha` or an empty inner dimension reads no input.
//!   Otherwise NaN and Inf propagate: a zero element of one input does not hide a NaN of another, as in OpenBLAS (the
//!   reference skips zeros in some places).
//! * Of a symmetric, Hermitian or triangular matrix the other triangle is neither read nor written, nor is a unit
//!   diagonal read; the imaginary part of a Hermitian diagonal is not read, and written as zero.
//! * Negative increments: the vector's memory is the same, read from the highest address down. As in the reference,
//!   `scal` changes nothing then, `asum` gives 0 and `iamax` gives 0; `nrm2` gives the same value as for a positive
//!   one.
//! * `scal` by one leaves x alone; `scal` by zero keeps NaN. A complex vector times a scalar without imaginary part is
//!   scaled component by component (`csscal`, `zdscal`, and OpenBLAS's `cscal`, `zscal`).
//! * `axpby`, `geadd` and the copies of matrices follow OpenBLAS: with a zero `alpha` they read no input, with a zero
//!   `beta` they do not read the output.
//! * `iamax` finds the first largest |re| + |im| by `>`: a NaN never replaces a maximum, and a leading NaN is never
//!   replaced (the result is 1).
//! * `nrm2` neither overflows nor underflows on the way to a representable result.
//!
//! Sums are formed in several partial sums, so results differ from a left-to-right loop by rounding; they are the same
//! at every run. Operands need not be aligned to their element.

#![expect(
    unsafe_code,
    reason = "kernels name raw addresses; the caller vouches for their extents"
)]

mod by_column;
mod dense;
mod indefinite;
mod level1;
mod level2;
mod level2_half;
mod matrices;
mod product;
mod rank_k;
mod rotation;
mod span;
mod sparse;
mod symmetric;
#[cfg(test)]
mod tests;
mod triangular;
mod vector;

use super::api::Kernel;
use crate::base::{Routine, Scalar};
use crate::with_dtype;

pub use dense::solve;
pub use span::{Span, spans};
pub use sparse::multiply;
use vector::{Vector, pointer, single};

/// Executes `kernel`, taking its addresses as addresses of this process.
///
/// # Safety
/// Every operand that the kernel reads is readable memory of the extent that the operation implies, every output is
/// writable, no other thread writes them meanwhile, and an output does not overlap another operand (`axpy`, `axpby`,
/// `copy` and `swap` also allow `x` and `y` to be the same vector).
pub unsafe fn run(kernel: &Kernel) {
    // SAFETY: the caller's promise; `T` is the kernel's element type.
    with_dtype!(kernel.dtype, T => unsafe { run_of::<T>(kernel) });
}

/// # Safety
/// As [`run`]; `T` is the element type of the kernel.
unsafe fn run_of<T: Scalar>(kernel: &Kernel) {
    let &Kernel {
        routine,
        alpha,
        beta,
        m,
        at,
        out,
        ..
    } = kernel;
    // The vectors of a level-1 routine.
    let (x, y) = (Vector::<T>::new(at[0], m), Vector::<T>::new(at[1], m));
    // SAFETY: each routine touches exactly the extents of its operands; the caller vouches for those.
    unsafe {
        match routine {
            Routine::Gemm | Routine::GemmBatch => product::gemm::<T>(kernel),
            Routine::Symm | Routine::Hemm => symmetric::symm::<T>(kernel),
            Routine::Syrk | Routine::Herk | Routine::Syr2k | Routine::Her2k | Routine::Gemmt => {
                rank_k::update::<T>(kernel)
            }
            Routine::Trmm | Routine::Trsm => triangular::triangular::<T>(kernel),
            Routine::Gemv => level2::gemv::<T>(kernel),
            Routine::Ger | Routine::Gerc => level2::ger::<T>(kernel),
            Routine::Symv | Routine::Hemv => level2_half::symv::<T>(kernel),
            Routine::Trmv | Routine::Trsv => level2_half::triangular::<T>(kernel),
            Routine::Syr | Routine::Her => level2_half::syr::<T>(kernel),
            Routine::Syr2 | Routine::Her2 => level2_half::syr2::<T>(kernel),
            Routine::Rot => {
                let (c, s) = (alpha.re, beta.re);
                rotation::rotate([c, -s, s, c], x, y);
            }
            Routine::Rotm => rotation::rotate([alpha.re, alpha.im, beta.re, beta.im], x, y),
            Routine::Geadd => matrices::geadd::<T>(kernel),
            Routine::Omatcopy => matrices::omatcopy::<T>(kernel),
            Routine::Imatcopy => matrices::imatcopy::<T>(kernel),
            Routine::Axpby => level1::axpby(alpha, x, beta, y),
            Routine::Axpy => level1::axpy(T::from_value(alpha), x, y),
            Routine::Scal | Routine::RealScal => level1::scal(alpha, x),
            Routine::Copy => level1::copy(x, y),
            Routine::Swap => level1::swap(x, y),
            Routine::Dot | Routine::Dotc => {
                let sum = level1::dot(routine == Routine::Dotc, x, y);
                pointer::<T>(out).write_unaligned(sum);
            }
            Routine::Nrm2 => write_real::<T>(out, level1::nrm2(x)),
            Routine::Asum => write_real::<T>(out, level1::asum(x)),
            Routine::Iamax => pointer::<i64>(out).write_unaligned(level1::iamax(x)),
        }
    }
}

/// Writes a real number of the precision of `T`.
///
/// # Safety
/// `out` is writable for a real number of that precision.
#[expect(
    clippy::cast_possible_truncation,
    reason = "narrowing to the result type is the point"
)]
unsafe fn write_real<T: Scalar>(out: u64, value: f64) {
    // SAFETY: the caller vouches for `out`.
    unsafe {
        if single::<T>() {
            pointer::<f32>(out).write_unaligned(value as f32);
        } else {
            pointer::<f64>(out).write_unaligned(value);
        }
    }
}
