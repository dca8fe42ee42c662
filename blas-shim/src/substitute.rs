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
use semcache::base::{Dtype, Form, Op, Routine, Scalar, Uplo, Value};
use semcache::blas::batch::Batch;
use semcache::blas::{Call, Checked, Pointer, check};
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
    /// Calls it with the arguments of a gemm.
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

    /// The products of a batch from one on; of a batch with illegal arguments only a product with such, to report it.
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

    /// A gemmt, by columns of squares: what lies beside the diagonal at once, the triangle by way of the stack.
    pub(crate) fn gemmt(self, call: &Call) {
        let Call {
            form: Form { uplo, .. },
            op_a,
            op_b,
            n,
            k,
            alpha,
            beta,
            at: [a, b, c],
            ..
        } = *call;
        let whole = Call {
            routine: Routine::Gemm,
            m: n,
            ..*call
        };
        if check(&whole) == Checked::Bad {
            // It reports what is wrong.
            self.call(&whole);
            return;
        }
        let idle = k == 0 || alpha.is_zero();
        if idle && beta.is_one() {
            return;
        }
        let size = call.dtype.size();
        // The part of a matrix from an element on.
        let from = |matrix: Pointer, row: i64, col: i64| {
            let elements = (row + col * matrix.ld) as usize;
            let addr = matrix.addr.wrapping_add(elements * size);
            Pointer { addr, ..matrix }
        };
        let mut room = [0.0f64; 2 * SQUARE * SQUARE];
        let room = room.as_mut_ptr();
        let mut j = 0;
        while j < n {
            let len = (n - j).min(SQUARE as i64);
            // Rows `i ..` of op(A) and columns `j ..` of op(B).
            let part = |i: i64, rows: i64, beta: Value, c: Pointer| {
                let (row_a, col_a) = if op_a == Op::None { (i, 0) } else { (0, i) };
                let (row_b, col_b) = if op_b == Op::None { (0, j) } else { (j, 0) };
                Call {
                    m: rows,
                    n: len,
                    beta,
                    at: [from(a, row_a, col_a), from(b, row_b, col_b), c],
                    ..whole
                }
            };
            let (i, rows) = match uplo {
                Uplo::Lower => (j + len, n - j - len),
                Uplo::Upper => (0, j),
            };
            self.call(&part(i, rows, beta, from(c, i, j)));
            if !idle {
                let square = Pointer {
                    addr: room.expose_provenance(),
                    ld: len,
                };
                self.call(&part(j, len, Value::ZERO, square));
            }
            // SAFETY: the triangle is the program's; the room holds a square of any type.
            with_dtype!(call.dtype, T => unsafe {
                let to = from(c, j, j).addr as *mut T;
                let product = (!idle).then_some(room.cast::<T>().cast_const());
                triangle(to, c.ld as usize, len as usize, uplo, T::from_value(beta), product);
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
