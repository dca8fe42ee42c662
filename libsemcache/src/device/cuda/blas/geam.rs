//! Sums, copies and transpositions of matrices, and sums of vectors, by cuBLAS's geam: `C := alpha op(A) + beta op(B)`,
//! where C may be B if B is not transposed. geam does not read an operand whose factor is zero.
#![expect(unsafe_code, reason = "calls cuBLAS")]

use core::ffi::{c_int, c_void};

use cudarc::cublas::sys;

use super::args::{Args, Element, Result, at, by_type, call, check, int, ptr_of, turn};
use super::handle::Blas;
use crate::base::{Dtype, Op, Routine, Value};
use crate::device::api::{Kernel, Operand, Shape};

/// The functions of cuBLAS that are called in this file, besides copy.
pub(super) const FUNCTIONS: &[&str] = &["cublasSgeam", "cublasDgeam", "cublasCgeam", "cublasZgeam"];

/// Address and leading dimension of a matrix.
type At = (*mut c_void, c_int);

impl Blas {
    /// `C := alpha op(A) + beta C`; rows and columns are those of C.
    fn geam(
        &self,
        dtype: Dtype,
        op: Op,
        (rows, cols): (c_int, c_int),
        (alpha, (a, lda)): (Value, At),
        (beta, (c, ldc)): (Value, At),
    ) -> Result {
        let (h, op, none) = (self.handle, turn(op), turn(Op::None));
        by_type!(dtype, [cublasSgeam, cublasDgeam, cublasCgeam, cublasZgeam] => (
            h, op, none, rows, cols, &Element::of(alpha), a.cast(), lda, &Element::of(beta), c.cast(), ldc, c.cast(), ldc
        ))
    }

    /// geadd, omatcopy, imatcopy.
    pub(super) fn matrices(&mut self, kernel: &Kernel, args: &Args) -> Result {
        let &Kernel {
            dtype, alpha, op_a, ..
        } = kernel;
        let &Args {
            m,
            n,
            at: [a, c, _],
            ..
        } = args;
        let size = if op_a == Op::None { (m, n) } else { (n, m) };
        match kernel.routine {
            Routine::Geadd => self.geam(dtype, op_a, size, (alpha, a), (kernel.beta, c)),
            Routine::Omatcopy => self.geam(dtype, op_a, size, (alpha, a), (Value::ZERO, c)),
            // `A := 0 A + alpha A`
            _ if op_a == Op::None => self.geam(dtype, op_a, size, (Value::ZERO, a), (alpha, a)),
            // Transposes from a copy in scratch memory: the kernel that writes A is the last one, so that a refusal of
            // any leaves A unchanged.
            _ => {
                let element = dtype.size();
                let shape = Shape {
                    width: kernel.m * element,
                    count: kernel.n,
                };
                let copy = Operand::matrix(self.scratch(shape.width * shape.count)?, kernel.m);
                self.copy(copy, kernel.at[0], shape, element)?;
                self.geam(dtype, op_a, size, (alpha, at(copy)?), (Value::ZERO, a))
            }
        }
    }

    /// `y := alpha x + beta y`. A vector is taken for the row of a matrix whose leading dimension is the vector's
    /// increment, or for a column if the increment is one. If one increment is negative, x is first copied to scratch
    /// memory, in the order of y's elements.
    pub(super) fn axpby(&mut self, kernel: &Kernel, args: &Args) -> Result {
        let &Kernel {
            dtype, alpha, beta, ..
        } = kernel;
        let &Args {
            m: n,
            at: [mut x, y, _],
            ..
        } = args;
        if n == 0 {
            return Ok(());
        }
        if x.1.signum() != y.1.signum() {
            let (h, (from, incx)) = (self.handle, x);
            let copy = ptr_of(self.scratch(kernel.m * dtype.size())?);
            let inc = y.1.signum();
            by_type!(dtype, [cublasScopy_v2, cublasDcopy_v2, cublasCcopy_v2, cublasZcopy_v2] => (
                h, n, from.cast(), incx, copy.cast(), inc
            ))?;
            x = (copy, inc);
        }
        let (size, x, y) = if (x.1.abs(), y.1.abs()) == (1, 1) {
            ((n, 1), (x.0, n), (y.0, n))
        } else {
            let ld = |at: At| Ok((at.0, int(at.1.unsigned_abs())?));
            ((1, n), ld(x)?, ld(y)?)
        };
        self.geam(dtype, Op::None, size, (alpha, x), (beta, y))
    }
}
