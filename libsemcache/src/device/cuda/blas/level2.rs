//! The kernels of level 2 with one triangle of a matrix, and rotations.
#![expect(unsafe_code, reason = "calls cuBLAS")]

use cudarc::cublas::sys;

use super::level3::{diag, fill};
use super::{Blas, Element, INVALID, Result, check, int, mat, op as turn, vec};
use crate::base::{Dtype, Value};
use crate::device::api::Kernel;

/// A real scalar.
fn real(re: f64) -> Value {
    Value { re, im: 0.0 }
}

impl Blas {
    pub(super) fn level2(&mut self, kernel: &Kernel) -> Result {
        match kernel {
            Kernel::Symv { .. } => self.symv(kernel),
            Kernel::Syr { .. } | Kernel::Syr2 { .. } => self.syr(kernel),
            _ => self.triangle(kernel),
        }
    }

    fn symv(&mut self, kernel: &Kernel) -> Result {
        let h = self.handle;
        let &Kernel::Symv {
            dtype,
            hermitian,
            uplo,
            n,
            alpha,
            a,
            x,
            beta,
            y,
        } = kernel
        else {
            return Err(INVALID);
        };
        let (uplo, n) = (fill(uplo), int(n)?);
        if hermitian {
            by_type!(dtype, [cublasSsymv_v2, cublasDsymv_v2, cublasChemv_v2, cublasZhemv_v2], T => (
                h, uplo, n, &T::of(alpha), mat::<T>(a)?.0, mat::<T>(a)?.1, vec::<T>(x)?.0, vec::<T>(x)?.1,
                &T::of(beta), vec::<T>(y)?.0, vec::<T>(y)?.1,
            ))
        } else {
            by_type!(dtype, [cublasSsymv_v2, cublasDsymv_v2, cublasCsymv_v2, cublasZsymv_v2], T => (
                h, uplo, n, &T::of(alpha), mat::<T>(a)?.0, mat::<T>(a)?.1, vec::<T>(x)?.0, vec::<T>(x)?.1,
                &T::of(beta), vec::<T>(y)?.0, vec::<T>(y)?.1,
            ))
        }
    }

    fn triangle(&mut self, kernel: &Kernel) -> Result {
        let h = self.handle;
        match *kernel {
            Kernel::Trmv {
                dtype,
                uplo,
                op,
                diag: ones,
                n,
                a,
                x,
            } => {
                by_type!(dtype, [cublasStrmv_v2, cublasDtrmv_v2, cublasCtrmv_v2, cublasZtrmv_v2], T => (
                    h, fill(uplo), turn(op), diag(ones), int(n)?,
                    mat::<T>(a)?.0, mat::<T>(a)?.1, vec::<T>(x)?.0, vec::<T>(x)?.1,
                ))
            }
            Kernel::Trsv {
                dtype,
                uplo,
                op,
                diag: ones,
                n,
                a,
                x,
            } => {
                by_type!(dtype, [cublasStrsv_v2, cublasDtrsv_v2, cublasCtrsv_v2, cublasZtrsv_v2], T => (
                    h, fill(uplo), turn(op), diag(ones), int(n)?,
                    mat::<T>(a)?.0, mat::<T>(a)?.1, vec::<T>(x)?.0, vec::<T>(x)?.1,
                ))
            }
            _ => Err(INVALID),
        }
    }

    fn syr(&mut self, kernel: &Kernel) -> Result {
        let h = self.handle;
        match *kernel {
            Kernel::Syr {
                dtype,
                hermitian: true,
                uplo,
                n,
                alpha,
                x,
                a,
            } => {
                with_reals!(dtype, [cublasSsyr_v2, cublasDsyr_v2, cublasCher_v2, cublasZher_v2], T, R => (
                    h, fill(uplo), int(n)?, &R::of(alpha), vec::<T>(x)?.0, vec::<T>(x)?.1,
                    mat::<T>(a)?.0, mat::<T>(a)?.1,
                ))
            }
            Kernel::Syr {
                dtype,
                uplo,
                n,
                alpha,
                x,
                a,
                ..
            } => {
                by_type!(dtype, [cublasSsyr_v2, cublasDsyr_v2, cublasCsyr_v2, cublasZsyr_v2], T => (
                    h, fill(uplo), int(n)?, &T::of(alpha), vec::<T>(x)?.0, vec::<T>(x)?.1,
                    mat::<T>(a)?.0, mat::<T>(a)?.1,
                ))
            }
            Kernel::Syr2 {
                dtype,
                hermitian: true,
                uplo,
                n,
                alpha,
                x,
                y,
                a,
            } => {
                by_type!(dtype, [cublasSsyr2_v2, cublasDsyr2_v2, cublasCher2_v2, cublasZher2_v2], T => (
                    h, fill(uplo), int(n)?, &T::of(alpha), vec::<T>(x)?.0, vec::<T>(x)?.1,
                    vec::<T>(y)?.0, vec::<T>(y)?.1, mat::<T>(a)?.0, mat::<T>(a)?.1,
                ))
            }
            Kernel::Syr2 {
                dtype,
                uplo,
                n,
                alpha,
                x,
                y,
                a,
                ..
            } => {
                by_type!(dtype, [cublasSsyr2_v2, cublasDsyr2_v2, cublasCsyr2_v2, cublasZsyr2_v2], T => (
                    h, fill(uplo), int(n)?, &T::of(alpha), vec::<T>(x)?.0, vec::<T>(x)?.1,
                    vec::<T>(y)?.0, vec::<T>(y)?.1, mat::<T>(a)?.0, mat::<T>(a)?.1,
                ))
            }
            _ => Err(INVALID),
        }
    }

    /// A rotation. Its numbers are read before the call returns.
    pub(super) fn rotation(&mut self, kernel: &Kernel) -> Result {
        let handle = self.handle;
        match *kernel {
            Kernel::Rot {
                dtype,
                n,
                x,
                y,
                c,
                s,
            } => {
                with_reals!(dtype, [cublasSrot_v2, cublasDrot_v2, cublasCsrot_v2, cublasZdrot_v2], T, R => (
                    handle, int(n)?, vec::<T>(x)?.0, vec::<T>(x)?.1, vec::<T>(y)?.0, vec::<T>(y)?.1,
                    &R::of(real(c)), &R::of(real(s)),
                ))
            }
            Kernel::Rotm { dtype, n, x, y, h } => {
                // The flag of a matrix that is given in full comes first.
                let [h11, h21, h12, h22] = h;
                let param = [-1.0, h11, h21, h12, h22];
                match dtype {
                    Dtype::S => {
                        let param = param.map(|v| f32::of(real(v)));
                        by_type!(@ cublasSrotm_v2(
                            handle, int(n)?, vec::<f32>(x)?.0, vec::<f32>(x)?.1, vec::<f32>(y)?.0, vec::<f32>(y)?.1,
                            param.as_ptr()
                        ))
                    }
                    Dtype::D => by_type!(@ cublasDrotm_v2(
                        handle, int(n)?, vec::<f64>(x)?.0, vec::<f64>(x)?.1, vec::<f64>(y)?.0, vec::<f64>(y)?.1,
                        param.as_ptr()
                    )),
                    Dtype::C | Dtype::Z => Err(INVALID),
                }
            }
            _ => Err(INVALID),
        }
    }
}
