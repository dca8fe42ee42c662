//! The kernels with a symmetric, Hermitian or triangular matrix.
#![expect(unsafe_code, reason = "calls cuBLAS")]

use cudarc::cublas::sys::{
    self, cublasDiagType_t, cublasFillMode_t, cublasOperation_t, cublasSideMode_t,
};

use super::{Blas, Element, INVALID, Result, check, int, mat, op as turn};
use crate::base::{Diag, Dtype, Op, Side, Uplo};
use crate::device::api::Kernel;

/// Products with a triangular matrix of at least so many rows and columns are not computed in place: with a copy they take
/// a quarter of the time at 1024, and four fifths at 8192 (H200, double precision); below, the copy takes longer.
const OUT_OF_PLACE: usize = 256;

fn side(side: Side) -> cublasSideMode_t {
    match side {
        Side::Left => cublasSideMode_t::CUBLAS_SIDE_LEFT,
        Side::Right => cublasSideMode_t::CUBLAS_SIDE_RIGHT,
    }
}

pub(super) fn fill(uplo: Uplo) -> cublasFillMode_t {
    match uplo {
        Uplo::Lower => cublasFillMode_t::CUBLAS_FILL_MODE_LOWER,
        Uplo::Upper => cublasFillMode_t::CUBLAS_FILL_MODE_UPPER,
    }
}

/// The transposition of a rank-k update: the one of real matrices by its own name.
fn of_rank_k(op: Op, dtype: Dtype) -> cublasOperation_t {
    match op {
        Op::ConjTrans if !dtype.is_complex() => turn(Op::Trans),
        other => turn(other),
    }
}

pub(super) fn diag(diag: Diag) -> cublasDiagType_t {
    match diag {
        Diag::NonUnit => cublasDiagType_t::CUBLAS_DIAG_NON_UNIT,
        Diag::Unit => cublasDiagType_t::CUBLAS_DIAG_UNIT,
    }
}

impl Blas {
    pub(super) fn level3(&mut self, kernel: &Kernel) -> Result {
        match kernel {
            Kernel::Symm { .. } => self.symm(kernel),
            Kernel::Syrk { .. } => self.syrk(kernel),
            Kernel::Syr2k { .. } => self.syr2k(kernel),
            _ => self.triangular(kernel),
        }
    }

    fn symm(&mut self, kernel: &Kernel) -> Result {
        let h = self.handle;
        let &Kernel::Symm {
            dtype,
            hermitian,
            side: at,
            uplo,
            m,
            n,
            alpha,
            a,
            b,
            beta,
            c,
        } = kernel
        else {
            return Err(INVALID);
        };
        let (at, uplo, m, n) = (side(at), fill(uplo), int(m)?, int(n)?);
        if hermitian {
            by_type!(dtype, [cublasSsymm_v2, cublasDsymm_v2, cublasChemm_v2, cublasZhemm_v2], T => (
                h, at, uplo, m, n, &T::of(alpha), mat::<T>(a)?.0, mat::<T>(a)?.1, mat::<T>(b)?.0, mat::<T>(b)?.1,
                &T::of(beta), mat::<T>(c)?.0, mat::<T>(c)?.1,
            ))
        } else {
            by_type!(dtype, [cublasSsymm_v2, cublasDsymm_v2, cublasCsymm_v2, cublasZsymm_v2], T => (
                h, at, uplo, m, n, &T::of(alpha), mat::<T>(a)?.0, mat::<T>(a)?.1, mat::<T>(b)?.0, mat::<T>(b)?.1,
                &T::of(beta), mat::<T>(c)?.0, mat::<T>(c)?.1,
            ))
        }
    }

    fn syrk(&mut self, kernel: &Kernel) -> Result {
        let h = self.handle;
        let &Kernel::Syrk {
            dtype,
            hermitian,
            uplo,
            op,
            n,
            k,
            alpha,
            a,
            beta,
            c,
        } = kernel
        else {
            return Err(INVALID);
        };
        let (uplo, op, n, k) = (fill(uplo), of_rank_k(op, dtype), int(n)?, int(k)?);
        if hermitian {
            with_reals!(dtype, [cublasSsyrk_v2, cublasDsyrk_v2, cublasCherk_v2, cublasZherk_v2], T, R => (
                h, uplo, op, n, k, &R::of(alpha), mat::<T>(a)?.0, mat::<T>(a)?.1,
                &R::of(beta), mat::<T>(c)?.0, mat::<T>(c)?.1,
            ))
        } else {
            by_type!(dtype, [cublasSsyrk_v2, cublasDsyrk_v2, cublasCsyrk_v2, cublasZsyrk_v2], T => (
                h, uplo, op, n, k, &T::of(alpha), mat::<T>(a)?.0, mat::<T>(a)?.1,
                &T::of(beta), mat::<T>(c)?.0, mat::<T>(c)?.1,
            ))
        }
    }

    fn syr2k(&mut self, kernel: &Kernel) -> Result {
        let h = self.handle;
        let &Kernel::Syr2k {
            dtype,
            hermitian,
            uplo,
            op,
            n,
            k,
            alpha,
            a,
            b,
            beta,
            c,
        } = kernel
        else {
            return Err(INVALID);
        };
        let (uplo, op, n, k) = (fill(uplo), of_rank_k(op, dtype), int(n)?, int(k)?);
        if hermitian {
            with_reals!(dtype, [cublasSsyr2k_v2, cublasDsyr2k_v2, cublasCher2k_v2, cublasZher2k_v2], T, R => (
                h, uplo, op, n, k, &T::of(alpha), mat::<T>(a)?.0, mat::<T>(a)?.1, mat::<T>(b)?.0, mat::<T>(b)?.1,
                &R::of(beta), mat::<T>(c)?.0, mat::<T>(c)?.1,
            ))
        } else {
            by_type!(dtype, [cublasSsyr2k_v2, cublasDsyr2k_v2, cublasCsyr2k_v2, cublasZsyr2k_v2], T => (
                h, uplo, op, n, k, &T::of(alpha), mat::<T>(a)?.0, mat::<T>(a)?.1, mat::<T>(b)?.0, mat::<T>(b)?.1,
                &T::of(beta), mat::<T>(c)?.0, mat::<T>(c)?.1,
            ))
        }
    }

    fn triangular(&mut self, kernel: &Kernel) -> Result {
        let h = self.handle;
        match *kernel {
            Kernel::Trmm {
                dtype,
                side: at,
                uplo,
                op,
                diag: ones,
                m,
                n,
                alpha,
                a,
                b,
            } => {
                // The product may have a place of its own.
                let from = if m.min(n) >= OUT_OF_PLACE {
                    self.copied_aside(b, (m, n), dtype.size())?.unwrap_or(b)
                } else {
                    b
                };
                let (m, n) = (int(m)?, int(n)?);
                by_type!(dtype, [cublasStrmm_v2, cublasDtrmm_v2, cublasCtrmm_v2, cublasZtrmm_v2], T => (
                    h, side(at), fill(uplo), turn(op), diag(ones), m, n, &T::of(alpha),
                    mat::<T>(a)?.0, mat::<T>(a)?.1, mat::<T>(from)?.0, mat::<T>(from)?.1, mat::<T>(b)?.0, mat::<T>(b)?.1,
                ))
            }
            Kernel::Trsm {
                dtype,
                side: at,
                uplo,
                op,
                diag: ones,
                m,
                n,
                alpha,
                a,
                b,
            } => {
                let (m, n) = (int(m)?, int(n)?);
                by_type!(dtype, [cublasStrsm_v2, cublasDtrsm_v2, cublasCtrsm_v2, cublasZtrsm_v2], T => (
                    h, side(at), fill(uplo), turn(op), diag(ones), m, n, &T::of(alpha),
                    mat::<T>(a)?.0, mat::<T>(a)?.1, mat::<T>(b)?.0, mat::<T>(b)?.1,
                ))
            }
            _ => Err(INVALID),
        }
    }
}
