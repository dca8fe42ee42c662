//! Kernels of level 3 (matrix with matrix), by cuBLAS.
#![expect(unsafe_code, reason = "calls cuBLAS")]

use cudarc::cublas::sys;

use super::args::{Args, Element, INVALID, Result, at, by_type, call, check, turn};
use super::handle::Blas;
use crate::base::{Dtype, Op, Routine};
use crate::device::api::Kernel;

mod gemmt;

/// The functions of cuBLAS that this file and the files of single routines call.
pub(super) const FUNCTIONS: &[&[&str]] = &[gemmt::FUNCTIONS, OWN];
const OWN: &[&str] = &[
    "cublasSgemm_v2",
    "cublasDgemm_v2",
    "cublasCgemm_v2",
    "cublasZgemm_v2",
    "cublasSsymm_v2",
    "cublasDsymm_v2",
    "cublasCsymm_v2",
    "cublasZsymm_v2",
    "cublasChemm_v2",
    "cublasZhemm_v2",
    "cublasSsyrk_v2",
    "cublasDsyrk_v2",
    "cublasCsyrk_v2",
    "cublasZsyrk_v2",
    "cublasCherk_v2",
    "cublasZherk_v2",
    "cublasSsyr2k_v2",
    "cublasDsyr2k_v2",
    "cublasCsyr2k_v2",
    "cublasZsyr2k_v2",
    "cublasCher2k_v2",
    "cublasZher2k_v2",
    "cublasStrmm_v2",
    "cublasDtrmm_v2",
    "cublasCtrmm_v2",
    "cublasZtrmm_v2",
    "cublasStrsm_v2",
    "cublasDtrsm_v2",
    "cublasCtrsm_v2",
    "cublasZtrsm_v2",
];

/// Products with a triangular matrix of at least this number of rows and columns are not computed in place: with a copy
/// they take a quarter of the time at 1024, and four fifths at 8192 (H200, double precision); below, the copy takes
/// longer.
const OUT_OF_PLACE: usize = 256;

impl Blas {
    pub(super) fn level3(&mut self, kernel: &Kernel, args: &Args) -> Result {
        let h = self.handle;
        let &Kernel {
            dtype, alpha, beta, ..
        } = kernel;
        let &Args {
            side,
            fill,
            diag,
            op_a,
            op_b,
            m,
            n,
            k,
            at: [(a, lda), (b, ldb), (c, ldc)],
        } = args;
        match kernel.routine {
            Routine::Gemm => {
                by_type!(dtype, [cublasSgemm_v2, cublasDgemm_v2, cublasCgemm_v2, cublasZgemm_v2] => (
                    h, op_a, op_b, m, n, k, &Element::of(alpha), a.cast(), lda, b.cast(), ldb,
                    &Element::of(beta), c.cast(), ldc
                ))
            }
            Routine::Gemmt => self.gemmt(kernel, args),
            Routine::Symm => {
                by_type!(dtype, [cublasSsymm_v2, cublasDsymm_v2, cublasCsymm_v2, cublasZsymm_v2] => (
                    h, side, fill, m, n, &Element::of(alpha), a.cast(), lda, b.cast(), ldb,
                    &Element::of(beta), c.cast(), ldc
                ))
            }
            Routine::Hemm => {
                by_type!(dtype, [cublasSsymm_v2, cublasDsymm_v2, cublasChemm_v2, cublasZhemm_v2] => (
                    h, side, fill, m, n, &Element::of(alpha), a.cast(), lda, b.cast(), ldb,
                    &Element::of(beta), c.cast(), ldc
                ))
            }
            Routine::Trmm => {
                // cuBLAS's trmm may read B from another address than it writes the product to.
                let size = (kernel.m, kernel.n);
                let (from, ld) = if size.0.min(size.1) >= OUT_OF_PLACE
                    && let Some(copy) = self.copied_to_scratch(kernel.at[1], size, dtype.size())?
                {
                    at(copy)?
                } else {
                    (b, ldb)
                };
                by_type!(dtype, [cublasStrmm_v2, cublasDtrmm_v2, cublasCtrmm_v2, cublasZtrmm_v2] => (
                    h, side, fill, op_a, diag, m, n, &Element::of(alpha), a.cast(), lda, from.cast(), ld, b.cast(), ldb
                ))
            }
            Routine::Trsm => {
                by_type!(dtype, [cublasStrsm_v2, cublasDtrsm_v2, cublasCtrsm_v2, cublasZtrsm_v2] => (
                    h, side, fill, op_a, diag, m, n, &Element::of(alpha), a.cast(), lda, b.cast(), ldb
                ))
            }
            _ => self.rank_k(kernel, args),
        }
    }

    fn rank_k(&mut self, kernel: &Kernel, args: &Args) -> Result {
        let h = self.handle;
        let &Kernel {
            dtype, alpha, beta, ..
        } = kernel;
        let &Args {
            fill,
            n,
            k,
            at: [(a, lda), (b, ldb), (c, ldc)],
            ..
        } = args;
        // For real matrices cuBLAS wants the conjugate transposition named as a plain one.
        let op = match kernel.op_a {
            Op::ConjTrans if !dtype.is_complex() => turn(Op::Trans),
            other => turn(other),
        };
        match kernel.routine {
            // C is the second operand.
            Routine::Syrk => {
                by_type!(dtype, [cublasSsyrk_v2, cublasDsyrk_v2, cublasCsyrk_v2, cublasZsyrk_v2] => (
                    h, fill, op, n, k, &Element::of(alpha), a.cast(), lda, &Element::of(beta), b.cast(), ldb
                ))
            }
            Routine::Herk => {
                by_type!(dtype, [cublasSsyrk_v2, cublasDsyrk_v2, cublasCherk_v2, cublasZherk_v2] => (
                    h, fill, op, n, k, &Element::of(alpha), a.cast(), lda, &Element::of(beta), b.cast(), ldb
                ))
            }
            Routine::Syr2k => {
                by_type!(dtype, [cublasSsyr2k_v2, cublasDsyr2k_v2, cublasCsyr2k_v2, cublasZsyr2k_v2] => (
                    h, fill, op, n, k, &Element::of(alpha), a.cast(), lda, b.cast(), ldb, &Element::of(beta), c.cast(), ldc
                ))
            }
            Routine::Her2k => {
                by_type!(dtype, [cublasSsyr2k_v2, cublasDsyr2k_v2, cublasCher2k_v2, cublasZher2k_v2] => (
                    h, fill, op, n, k, &Element::of(alpha), a.cast(), lda, b.cast(), ldb, &Element::of(beta), c.cast(), ldc
                ))
            }
            _ => Err(INVALID),
        }
    }
}
