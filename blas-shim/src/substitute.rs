//! Substitutes for routines that the host BLAS lacks, computed by the host BLAS's gemm.
//!
//! A program can call such a routine nevertheless: it looked the name up at run time and found this library's, or it
//! was built with another BLAS. (Where the library has the operation under another name, [`resolve`](crate::resolve)
//! finds that.) No lock is held and nothing is allocated while gemm runs: gemm may report an illegal argument to a
//! handler of the program's that does not return.

#![expect(unsafe_code, reason = "calls the host's gemm by its address")]

use core::ffi::c_void;
use core::mem::transmute;

use semcache::base::{Dtype, Op, Routine, Scalar, Value};
use semcache::blas::batch::Batch;
use semcache::blas::{Call, Checked, check};
use semcache::with_dtype;

use crate::decode::batch::is_batch;
use crate::symbols::Class;

mod gemmt;

/// A function that computes a call by calling the host BLAS's gemm.
type Substitute = fn(HostGemm, &Call);

/// The routines that have a substitute, besides the batches.
const SUBSTITUTES: &[(Routine, Substitute)] = &[(Routine::Gemmt, gemmt::gemmt)];

fn substitute(routine: Routine) -> Option<Substitute> {
    let mut all = SUBSTITUTES.iter();
    Some(all.find(|(of, _)| *of == routine)?.1)
}

/// Whether a substitute exists for calls of this class.
pub(crate) fn is_made_of_gemm(class: Class) -> bool {
    is_batch(class) || class.routine().and_then(substitute).is_some()
}

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
    fn call(self, call: &Call) {
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

    /// Computes a call of a routine that has a substitute.
    pub(crate) fn run(self, call: &Call) {
        if let Some(substitute) = substitute(call.routine) {
            substitute(self, call);
        }
    }

    /// Computes the products of a batch from index `from` on. If one of them has illegal arguments, only that product
    /// is passed to gemm, which reports it.
    pub(crate) fn batch(self, batch: &Batch, from: usize) {
        let rest = batch.calls.get(from..).unwrap_or_default();
        if let Some(bad) = rest.iter().find(|call| check(call) == Checked::Bad) {
            self.call(bad);
            return;
        }
        for call in rest {
            self.call(call);
        }
    }
}

/// A scalar in memory, stored as its element type.
#[repr(C, align(16))]
struct Stored([u8; 16]);

impl Stored {
    fn new(dtype: Dtype, value: Value) -> Stored {
        let mut stored = Stored([0; 16]);
        // SAFETY: 16 bytes hold the largest type.
        with_dtype!(dtype, T => unsafe {
            stored.0.as_mut_ptr().cast::<T>().write(T::from_value(value));
        });
        stored
    }

    fn at(&self) -> *const c_void {
        self.0.as_ptr().cast()
    }
}
