//! gemmt: one triangle of a product, which cuBLAS does not have.
//!
//! The whole square is computed in scratch memory, and its triangle is copied to C: cuBLAS packs a triangle (`trttp`)
//! and unpacks one (`tpttr`), which writes nothing but the triangle. Only the last function writes C: a refusal of any
//! leaves C unchanged.
#![expect(unsafe_code, reason = "calls cuBLAS")]

use cudarc::cublas::sys;

use super::super::args::{Args, INVALID, Result, at, by_type, call, check, ptr_of};
use super::super::handle::Blas;
use crate::base::{Dtype, Routine};
use crate::device::api::{Kernel, Operand, Shape};

/// The functions of cuBLAS that are called in this file, besides gemm.
pub(super) const FUNCTIONS: &[&str] = &[
    "cublasStrttp",
    "cublasDtrttp",
    "cublasCtrttp",
    "cublasZtrttp",
    "cublasStpttr",
    "cublasDtpttr",
    "cublasCtpttr",
    "cublasZtpttr",
];

impl Blas {
    pub(super) fn gemmt(&mut self, kernel: &Kernel, args: &Args) -> Result {
        let &Kernel {
            dtype,
            n,
            at: [a, b, c],
            ..
        } = kernel;
        if n > kernel.routine.record().signature.most_order {
            return Err(INVALID);
        }
        if n == 0 {
            return Ok(());
        }
        let size = dtype.size();
        // Scratch of at most 32 MiB.
        let scratch = self.scratch((n * n + n * (n + 1) / 2) * size)?;
        let square = Operand::matrix(scratch, n);
        let packed = ptr_of(scratch + (n * n * size) as u64);
        if !kernel.beta.is_zero() {
            let shape = Shape {
                width: n * size,
                count: n,
            };
            self.copy(square, c, shape, size)?;
        }
        let product = Kernel {
            routine: Routine::Gemm,
            m: n,
            at: [a, b, square],
            ..*kernel
        };
        self.level3(&product, &Args::of(&product)?)?;
        let (
            h,
            &Args {
                fill,
                n,
                at: [_, _, (c, ldc)],
                ..
            },
        ) = (self.handle, args);
        let (square, ld) = at(square)?;
        by_type!(dtype, [cublasStrttp, cublasDtrttp, cublasCtrttp, cublasZtrttp] => (
            h, fill, n, square.cast(), ld, packed.cast()
        ))?;
        by_type!(dtype, [cublasStpttr, cublasDtpttr, cublasCtpttr, cublasZtpttr] => (
            h, fill, n, packed.cast(), c.cast(), ldc
        ))
    }
}
