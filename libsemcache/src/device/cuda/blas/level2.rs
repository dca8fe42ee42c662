//! Kernels of level 2 (matrix with vectors), by cuBLAS.
#![expect(unsafe_code, reason = "calls cuBLAS")]

use cudarc::cublas::sys;

use super::args::{Args, Element, INVALID, Result, by_type, call, check};
use super::handle::Blas;
use crate::base::{Dtype, Routine};
use crate::device::api::Kernel;

/// The functions of cuBLAS that are called in this file.
pub(super) const FUNCTIONS: &[&str] = &[
    "cublasSgemv_v2",
    "cublasDgemv_v2",
    "cublasCgemv_v2",
    "cublasZgemv_v2",
    "cublasSger_v2",
    "cublasDger_v2",
    "cublasCgeru_v2",
    "cublasCgerc_v2",
    "cublasZgeru_v2",
    "cublasZgerc_v2",
    "cublasSsymv_v2",
    "cublasDsymv_v2",
    "cublasCsymv_v2",
    "cublasZsymv_v2",
    "cublasChemv_v2",
    "cublasZhemv_v2",
    "cublasStrmv_v2",
    "cublasDtrmv_v2",
    "cublasCtrmv_v2",
    "cublasZtrmv_v2",
    "cublasStrsv_v2",
    "cublasDtrsv_v2",
    "cublasCtrsv_v2",
    "cublasZtrsv_v2",
    "cublasSsyr_v2",
    "cublasDsyr_v2",
    "cublasCsyr_v2",
    "cublasZsyr_v2",
    "cublasCher_v2",
    "cublasZher_v2",
    "cublasSsyr2_v2",
    "cublasDsyr2_v2",
    "cublasCsyr2_v2",
    "cublasZsyr2_v2",
    "cublasCher2_v2",
    "cublasZher2_v2",
];

impl Blas {
    pub(super) fn level2(&mut self, kernel: &Kernel, args: &Args) -> Result {
        let h = self.handle;
        let &Kernel {
            dtype, alpha, beta, ..
        } = kernel;
        let &Args {
            fill,
            diag,
            op_a: op,
            m,
            n,
            at: [(a, lda), (x, incx), (y, incy)],
            ..
        } = args;
        match kernel.routine {
            Routine::Gemv => {
                by_type!(dtype, [cublasSgemv_v2, cublasDgemv_v2, cublasCgemv_v2, cublasZgemv_v2] => (
                    h, op, m, n, &Element::of(alpha), a.cast(), lda, x.cast(), incx, &Element::of(beta), y.cast(), incy
                ))
            }
            Routine::Symv => {
                by_type!(dtype, [cublasSsymv_v2, cublasDsymv_v2, cublasCsymv_v2, cublasZsymv_v2] => (
                    h, fill, n, &Element::of(alpha), a.cast(), lda, x.cast(), incx, &Element::of(beta), y.cast(), incy
                ))
            }
            Routine::Hemv => {
                by_type!(dtype, [cublasSsymv_v2, cublasDsymv_v2, cublasChemv_v2, cublasZhemv_v2] => (
                    h, fill, n, &Element::of(alpha), a.cast(), lda, x.cast(), incx, &Element::of(beta), y.cast(), incy
                ))
            }
            Routine::Trmv => {
                by_type!(dtype, [cublasStrmv_v2, cublasDtrmv_v2, cublasCtrmv_v2, cublasZtrmv_v2] => (
                    h, fill, op, diag, n, a.cast(), lda, x.cast(), incx
                ))
            }
            Routine::Trsv => {
                by_type!(dtype, [cublasStrsv_v2, cublasDtrsv_v2, cublasCtrsv_v2, cublasZtrsv_v2] => (
                    h, fill, op, diag, n, a.cast(), lda, x.cast(), incx
                ))
            }
            Routine::Geadd | Routine::Omatcopy | Routine::Imatcopy => self.matrices(kernel, args),
            _ => self.rank(kernel, args),
        }
    }

    /// Rank-1 and rank-2 updates of a matrix.
    fn rank(&mut self, kernel: &Kernel, args: &Args) -> Result {
        let h = self.handle;
        let &Kernel { dtype, alpha, .. } = kernel;
        let &Args {
            fill,
            m,
            n,
            at: [(x, incx), second, third],
            ..
        } = args;
        // In an update by one vector the matrix is the second operand.
        let ((y, incy), (a, lda)) = match kernel.routine {
            Routine::Syr | Routine::Her => (third, second),
            _ => (second, third),
        };
        match kernel.routine {
            Routine::Ger => {
                by_type!(dtype, [cublasSger_v2, cublasDger_v2, cublasCgeru_v2, cublasZgeru_v2] => (
                    h, m, n, &Element::of(alpha), x.cast(), incx, y.cast(), incy, a.cast(), lda
                ))
            }
            Routine::Gerc => {
                by_type!(dtype, [cublasSger_v2, cublasDger_v2, cublasCgerc_v2, cublasZgerc_v2] => (
                    h, m, n, &Element::of(alpha), x.cast(), incx, y.cast(), incy, a.cast(), lda
                ))
            }
            Routine::Syr => {
                by_type!(dtype, [cublasSsyr_v2, cublasDsyr_v2, cublasCsyr_v2, cublasZsyr_v2] => (
                    h, fill, n, &Element::of(alpha), x.cast(), incx, a.cast(), lda
                ))
            }
            Routine::Her => {
                by_type!(dtype, [cublasSsyr_v2, cublasDsyr_v2, cublasCher_v2, cublasZher_v2] => (
                    h, fill, n, &Element::of(alpha), x.cast(), incx, a.cast(), lda
                ))
            }
            Routine::Syr2 => {
                by_type!(dtype, [cublasSsyr2_v2, cublasDsyr2_v2, cublasCsyr2_v2, cublasZsyr2_v2] => (
                    h, fill, n, &Element::of(alpha), x.cast(), incx, y.cast(), incy, a.cast(), lda
                ))
            }
            Routine::Her2 => {
                by_type!(dtype, [cublasSsyr2_v2, cublasDsyr2_v2, cublasCher2_v2, cublasZher2_v2] => (
                    h, fill, n, &Element::of(alpha), x.cast(), incx, y.cast(), incy, a.cast(), lda
                ))
            }
            _ => Err(INVALID),
        }
    }
}
