//! Kernels of level 1 (vectors), by cuBLAS.
#![expect(unsafe_code, reason = "calls cuBLAS")]

use cudarc::cublas::sys;

use super::super::driver;
use super::args::{Args, Element, INVALID, Result, by_type, call, check, ptr_of};
use super::handle::Blas;
use crate::base::{Dtype, Routine};
use crate::device::api::Kernel;

/// The functions of cuBLAS that are called in this file.
pub(super) const FUNCTIONS: &[&str] = &[
    "cublasSaxpy_v2",
    "cublasDaxpy_v2",
    "cublasCaxpy_v2",
    "cublasZaxpy_v2",
    "cublasSscal_v2",
    "cublasDscal_v2",
    "cublasCscal_v2",
    "cublasZscal_v2",
    "cublasCsscal_v2",
    "cublasZdscal_v2",
    "cublasScopy_v2",
    "cublasDcopy_v2",
    "cublasCcopy_v2",
    "cublasZcopy_v2",
    "cublasSswap_v2",
    "cublasDswap_v2",
    "cublasCswap_v2",
    "cublasZswap_v2",
    "cublasSrot_v2",
    "cublasDrot_v2",
    "cublasCsrot_v2",
    "cublasZdrot_v2",
    "cublasSrotm_v2",
    "cublasDrotm_v2",
    "cublasSdot_v2",
    "cublasDdot_v2",
    "cublasCdotu_v2",
    "cublasCdotc_v2",
    "cublasZdotu_v2",
    "cublasZdotc_v2",
    "cublasSnrm2_v2",
    "cublasDnrm2_v2",
    "cublasScnrm2_v2",
    "cublasDznrm2_v2",
    "cublasSasum_v2",
    "cublasDasum_v2",
    "cublasScasum_v2",
    "cublasDzasum_v2",
    "cublasIsamax_v2",
    "cublasIdamax_v2",
    "cublasIcamax_v2",
    "cublasIzamax_v2",
];

impl Blas {
    pub(super) fn level1(&mut self, kernel: &Kernel, args: &Args) -> Result {
        let h = self.handle;
        let &Kernel {
            dtype, alpha, beta, ..
        } = kernel;
        let &Args {
            m: n,
            at: [(x, incx), (y, incy), _],
            ..
        } = args;
        let out = ptr_of(kernel.out);
        match kernel.routine {
            Routine::Axpby => self.axpby(kernel, args),
            Routine::Axpy => {
                by_type!(dtype, [cublasSaxpy_v2, cublasDaxpy_v2, cublasCaxpy_v2, cublasZaxpy_v2] => (
                    h, n, &Element::of(alpha), x.cast(), incx, y.cast(), incy
                ))
            }
            // A scalar without imaginary part scales real and imaginary parts separately: a zero imaginary part times
            // Inf would give NaN.
            Routine::Scal | Routine::RealScal if alpha.im == 0.0 => {
                by_type!(dtype, [cublasSscal_v2, cublasDscal_v2, cublasCsscal_v2, cublasZdscal_v2] => (
                    h, n, &Element::of(alpha), x.cast(), incx
                ))
            }
            Routine::Scal | Routine::RealScal => {
                by_type!(dtype, [cublasSscal_v2, cublasDscal_v2, cublasCscal_v2, cublasZscal_v2] => (
                    h, n, &Element::of(alpha), x.cast(), incx
                ))
            }
            Routine::Copy => {
                by_type!(dtype, [cublasScopy_v2, cublasDcopy_v2, cublasCcopy_v2, cublasZcopy_v2] => (
                    h, n, x.cast(), incx, y.cast(), incy
                ))
            }
            Routine::Swap => {
                by_type!(dtype, [cublasSswap_v2, cublasDswap_v2, cublasCswap_v2, cublasZswap_v2] => (
                    h, n, x.cast(), incx, y.cast(), incy
                ))
            }
            Routine::Rot => {
                by_type!(dtype, [cublasSrot_v2, cublasDrot_v2, cublasCsrot_v2, cublasZdrot_v2] => (
                    h, n, x.cast(), incx, y.cast(), incy, &Element::of(alpha), &Element::of(beta)
                ))
            }
            Routine::Rotm => {
                // rotm's first parameter is the flag; -1 says that the matrix is given in full.
                let param = [-1.0, alpha.re, alpha.im, beta.re, beta.im];
                match dtype {
                    Dtype::S => {
                        let param = param.map(|v| v as f32);
                        call!(cublasSrotm_v2 => (h, n, x.cast(), incx, y.cast(), incy, param.as_ptr()))
                    }
                    Dtype::D => {
                        call!(cublasDrotm_v2 => (h, n, x.cast(), incx, y.cast(), incy, param.as_ptr()))
                    }
                    Dtype::C | Dtype::Z => Err(INVALID),
                }
            }
            Routine::Dot => {
                by_type!(dtype, [cublasSdot_v2, cublasDdot_v2, cublasCdotu_v2, cublasZdotu_v2] => (
                    h, n, x.cast(), incx, y.cast(), incy, out.cast()
                ))
            }
            Routine::Dotc => {
                by_type!(dtype, [cublasSdot_v2, cublasDdot_v2, cublasCdotc_v2, cublasZdotc_v2] => (
                    h, n, x.cast(), incx, y.cast(), incy, out.cast()
                ))
            }
            Routine::Nrm2 => {
                by_type!(dtype, [cublasSnrm2_v2, cublasDnrm2_v2, cublasScnrm2_v2, cublasDznrm2_v2] => (
                    h, n, x.cast(), incx, out.cast()
                ))
            }
            Routine::Asum => {
                by_type!(dtype, [cublasSasum_v2, cublasDasum_v2, cublasScasum_v2, cublasDzasum_v2] => (
                    h, n, x.cast(), incx, out.cast()
                ))
            }
            Routine::Iamax => {
                // cuBLAS writes only 32 bits of the 64-bit index, so all eight bytes are cleared first.
                // SAFETY: the caller vouches for the eight bytes at `out`.
                unsafe { driver::clear(kernel.out, size_of::<i64>(), self.stream) }?;
                by_type!(dtype, [cublasIsamax_v2, cublasIdamax_v2, cublasIcamax_v2, cublasIzamax_v2] => (
                    h, n, x.cast(), incx, out.cast()
                ))
            }
            _ => Err(INVALID),
        }
    }
}
