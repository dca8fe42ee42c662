//! One triangle of a product, which cuBLAS does not have.
//!
//! The whole square is computed aside, and its triangle copied: cuBLAS packs a triangle (`trttp`) and unpacks one
//! (`tpttr`), which writes nothing else. All of it is queued on the one compute stream of the device, so the memory
//! aside is one kernel's at a time. C is written by the last function only: a refusal of any has changed nothing.
#![expect(unsafe_code, reason = "calls cuBLAS and the driver")]

use cudarc::cublas::sys;

use super::level3::fill;
use super::{Blas, INVALID, Result, Status, check, driver, int, mat, ptr_of};
use crate::base::Dtype;
use crate::device::api::{DevMat, GEMMT_MOST, Kernel, Shape};

/// Device memory for a square and its triangle. It stays.
#[derive(Debug)]
pub(super) struct Aside {
    addr: u64,
    bytes: usize,
}

impl Blas {
    /// Memory aside for a square of order `n`, at most 24 MB.
    fn aside(&mut self, n: usize, element: usize) -> core::result::Result<u64, Status> {
        let n = n.next_power_of_two();
        let bytes = (n * n + n * (n + 1) / 2) * element;
        match self.aside.take() {
            Some(enough) if enough.bytes >= bytes => {
                return Ok(self.aside.insert(enough).addr);
            }
            Some(small) => {
                driver::stream_wait(self.stream)?;
                // SAFETY: all that used it is through.
                unsafe { driver::free(small.addr) }?;
            }
            None => {}
        }
        let addr = driver::alloc(bytes)?;
        Ok(self.aside.insert(Aside { addr, bytes }).addr)
    }

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
            addr: self.aside(n, size)?,
            ld: n,
        };
        let packed = square.addr + (n * n * size) as u64;
        if !beta.is_zero() {
            let shape = Shape {
                width: n * size,
                count: n,
            };
            let at = |m: DevMat| (driver::End::Device(m.addr), m.ld * size);
            // SAFETY: the caller vouches for C; the square lies in memory of this device that is ours.
            unsafe { driver::copy(at(square), at(c), shape, self.stream) }?;
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
