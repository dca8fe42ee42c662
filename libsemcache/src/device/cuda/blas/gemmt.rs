//! One triangle of a product, which cuBLAS does not have.
//!
//! The whole square is computed aside, and its triangle copied: cuBLAS packs a triangle (`trttp`) and unpacks one
//! (`tpttr`), which writes nothing else. C is written by the last function only: a refusal of any has changed nothing.
#![expect(unsafe_code, reason = "calls cuBLAS")]

use cudarc::cublas::sys;

use super::level3::fill;
use super::{Blas, INVALID, Result, check, int, mat, ptr_of};
use crate::base::Dtype;
use crate::device::api::{DevMat, GEMMT_MOST, Kernel, Shape};

impl Blas {
    pub(super) fn gemmt(&mut self, kernel: &Kernel) -> Result {
        let &Kernel::Gemmt {
            dtype,
            uplo,
            op_a,
            op_b,
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
        if n > GEMMT_MOST {
            return Err(INVALID);
        }
        if n == 0 {
            return Ok(());
        }
        let size = dtype.size();
        let square = DevMat {
            // At most 32 MiB.
            addr: self.aside((n * n + n * (n + 1) / 2) * size)?,
            ld: n,
        };
        let packed = square.addr + (n * n * size) as u64;
        if !beta.is_zero() {
            let shape = Shape {
                width: n * size,
                count: n,
            };
            self.copy(square, c, shape, size)?;
        }
        self.matrix(&Kernel::Gemm {
            dtype,
            op_a,
            op_b,
            m: n,
            n,
            k,
            alpha,
            a,
            b,
            beta,
            c: square,
        })?;
        let (h, uplo, order) = (self.handle, fill(uplo), int(n)?);
        by_type!(dtype, [cublasStrttp, cublasDtrttp, cublasCtrttp, cublasZtrttp], T => (
            h, uplo, order, mat::<T>(square)?.0, mat::<T>(square)?.1, ptr_of(packed),
        ))?;
        by_type!(dtype, [cublasStpttr, cublasDtpttr, cublasCtpttr, cublasZtpttr], T => (
            h, uplo, order, ptr_of(packed), mat::<T>(c)?.0, mat::<T>(c)?.1,
        ))
    }
}
