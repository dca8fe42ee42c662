//! Routines that the host BLAS does not have, from the one that every BLAS has: its gemm.
//!
//! A program can call such a routine nevertheless: it looked the name up at run time and found it here, or was built
//! with another library. (For gemmt and gemmtr, which are one operation, the library's other name is called, and for
//! gemm3m its gemm; that is [`resolve`](crate::resolve)'s.) No lock is held here and nothing is allocated: gemm may
//! report an argument to a handler of the program's that does not return.

#![expect(unsafe_code, reason = "calls the host's gemm by its address")]

use core::ffi::c_void;
use core::mem::transmute;

use num_complex::Complex;
use semcache::base::{Dtype, Op, Routine, Scalar, Uplo, Value};
use semcache::blas::batch::Batch;
use semcache::blas::{Args, Call, Checked, check};
use semcache::with_dtype;

/// Order of the squares on the diagonal, whose product goes to the stack.
const SQUARE: usize = 32;

/// The gemm of a host BLAS. Integers are passed as 64 bits, of which a library with 32-bit ones takes the lower half.
#[derive(Clone, Copy)]
pub(crate) struct HostGemm {
    pub(crate) address: *const c_void,
    /// By the C interface rather than Fortran's.
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
    /// Calls it; anything but the arguments of a gemm does nothing.
    fn call(self, dtype: Dtype, args: &Args) {
        let &Args::Gemm {
            op_a,
            op_b,
            m,
            n,
            k,
            alpha,
            a,
            lda,
            b,
            ldb,
            beta,
            c,
            ldc,
        } = args
        else {
            return;
        };
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

    /// The products of a batch from one on; of a batch with illegal arguments only a product with such, to report it.
    pub(crate) fn batch(self, batch: &Batch, from: usize) {
        let rest = batch.calls.get(from..).unwrap_or_default();
        if let Some(bad) = rest.iter().find(|call| check(call) == Checked::Bad) {
            self.call(batch.dtype, &bad.args);
            return;
        }
        for call in rest {
            self.call(batch.dtype, &call.args);
        }
    }

    /// A gemmt, by columns of squares: what lies beside the diagonal at once, the triangle by way of the stack.
    pub(crate) fn gemmt(self, call: &Call) {
        let &Args::Gemmt {
            uplo,
            op_a,
            op_b,
            n,
            k,
            alpha,
            a,
            lda,
            b,
            ldb,
            beta,
            c,
            ldc,
        } = &call.args
        else {
            return;
        };
        let whole = Args::Gemm {
            op_a,
            op_b,
            m: n,
            n,
            k,
            alpha,
            a,
            lda,
            b,
            ldb,
            beta,
            c,
            ldc,
        };
        let as_gemm = Call {
            routine: Routine::Gemm,
            dtype: call.dtype,
            args: whole,
        };
        if check(&as_gemm) == Checked::Bad {
            // It reports what is wrong.
            self.call(call.dtype, &whole);
            return;
        }
        let idle = k == 0 || alpha.is_zero();
        if idle && beta.is_one() {
            return;
        }
        let size = call.dtype.size();
        let at = |base: usize, ld: i64, row: i64, col: i64| {
            base.wrapping_add((row + col * ld) as usize * size)
        };
        let mut room = [0.0f64; 2 * SQUARE * SQUARE];
        let room = room.as_mut_ptr();
        let mut j = 0;
        while j < n {
            let len = (n - j).min(SQUARE as i64);
            // Rows `i ..` of op(A) and columns `j ..` of op(B).
            let part = |i: i64, rows: i64, beta: Value, c: usize, ldc: i64| Args::Gemm {
                op_a,
                op_b,
                m: rows,
                n: len,
                k,
                alpha,
                a: if op_a == Op::None {
                    at(a, lda, i, 0)
                } else {
                    at(a, lda, 0, i)
                },
                lda,
                b: if op_b == Op::None {
                    at(b, ldb, 0, j)
                } else {
                    at(b, ldb, j, 0)
                },
                ldb,
                beta,
                c,
                ldc,
            };
            let (i, rows) = match uplo {
                Uplo::Lower => (j + len, n - j - len),
                Uplo::Upper => (0, j),
            };
            self.call(call.dtype, &part(i, rows, beta, at(c, ldc, i, j), ldc));
            if !idle {
                let square = part(j, len, Value::ZERO, room.expose_provenance(), len);
                self.call(call.dtype, &square);
            }
            // SAFETY: the triangle is the program's; the room holds a square of any type.
            with_dtype!(call.dtype, T => unsafe {
                let c = at(c, ldc, j, j) as *mut T;
                let product = (!idle).then_some(room.cast::<T>().cast_const());
                triangle(c, ldc as usize, len as usize, uplo, T::from_value(beta), product);
            });
            j += len;
        }
    }
}

/// `C := product + beta C`, in one triangle of a square.
///
/// # Safety
/// The triangle is readable, unless `beta` is zero, and writable, and the product has the same order.
unsafe fn triangle<T: Scalar>(
    c: *mut T,
    ld: usize,
    n: usize,
    uplo: Uplo,
    beta: T,
    product: Option<*const T>,
) {
    let zero = beta.to_value().is_zero();
    for col in 0..n {
        let rows = match uplo {
            Uplo::Lower => col..n,
            Uplo::Upper => 0..col + 1,
        };
        for row in rows {
            // SAFETY: an element of the triangle, and of the product.
            unsafe {
                let to = c.add(row + col * ld);
                let new = product.map(|p| p.add(row + col * n).read());
                let old = (!zero).then(|| beta * to.read_unaligned());
                to.write_unaligned(match (new, old) {
                    (Some(x), Some(y)) => x + y,
                    (Some(x), None) | (None, Some(x)) => x,
                    (None, None) => T::from_value(Value::ZERO),
                });
            }
        }
    }
}

/// A scalar in memory, as its element type.
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

// `with_dtype!` names it by path.
const _: Option<Complex<f32>> = None;
