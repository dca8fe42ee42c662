//! Calls the host BLAS's gemm with the arguments of a decoded call.

#![expect(unsafe_code, reason = "calls the host's gemm by its address")]

use core::ffi::c_void;
use core::mem::transmute;

use semcache::base::{Dtype, Op, Scalar};
use semcache::blas::Call;

use crate::core::changed;
use crate::stored::Stored;

/// The gemm of a host BLAS. Integers are passed as 64 bits; a library with 32-bit integers reads the lower half.
#[derive(Clone, Copy)]
pub(crate) struct HostGemm {
    pub(crate) address: *const c_void,
    /// Whether `address` is that of the C interface's gemm rather than Fortran's.
    pub(crate) cblas: bool,
}

type Fortran = extern "C" fn(
    *const u8,
    *const u8,
    *const i64,
    *const i64,
    *const i64,
    *const c_void,
    usize,
    *const i64,
    usize,
    *const i64,
    *const c_void,
    usize,
    *const i64,
    usize,
    usize,
);

type Cblas<T> =
    extern "C" fn(i32, i32, i32, i64, i64, i64, T, usize, i64, usize, i64, T, usize, i64);

impl HostGemm {
    /// Calls the host BLAS's gemm with the arguments of `call`.
    pub(super) fn call(self, call: &Call) {
        let Call {
            dtype,
            op_a,
            op_b,
            m,
            n,
            k,
            alpha,
            beta,
            at: [a, b, c],
            ..
        } = *call;
        let (a, lda, b, ldb, c, ldc) = (a.addr, a.ld, b.addr, b.ld, c.addr, c.ld);
        let (x, y) = (Stored::new(dtype, alpha), Stored::new(dtype, beta));
        changed::begun(c);
        // SAFETY: the host's gemm of this type and interface, by its name.
        unsafe {
            if !self.cblas {
                let letter = |op| match op {
                    Op::None => b"N",
                    Op::Trans => b"T",
                    Op::ConjTrans => b"C",
                };
                transmute::<*const c_void, Fortran>(self.address)(
                    letter(op_a).as_ptr(),
                    letter(op_b).as_ptr(),
                    &raw const m,
                    &raw const n,
                    &raw const k,
                    x.at(),
                    a,
                    &raw const lda,
                    b,
                    &raw const ldb,
                    y.at(),
                    c,
                    &raw const ldc,
                    1,
                    1,
                );
                return;
            }
            let code = |op| match op {
                Op::None => 111,
                Op::Trans => 112,
                Op::ConjTrans => 113,
            };
            let (ta, tb) = (code(op_a), code(op_b));
            match dtype {
                Dtype::S => transmute::<*const c_void, Cblas<f32>>(self.address)(
                    102,
                    ta,
                    tb,
                    m,
                    n,
                    k,
                    f32::from_value(alpha),
                    a,
                    lda,
                    b,
                    ldb,
                    f32::from_value(beta),
                    c,
                    ldc,
                ),
                Dtype::D => transmute::<*const c_void, Cblas<f64>>(self.address)(
                    102, ta, tb, m, n, k, alpha.re, a, lda, b, ldb, beta.re, c, ldc,
                ),
                Dtype::C | Dtype::Z => {
                    transmute::<*const c_void, Cblas<*const c_void>>(self.address)(
                        102,
                        ta,
                        tb,
                        m,
                        n,
                        k,
                        x.at(),
                        a,
                        lda,
                        b,
                        ldb,
                        y.at(),
                        c,
                        ldc,
                    );
                }
            }
        }
    }
}
