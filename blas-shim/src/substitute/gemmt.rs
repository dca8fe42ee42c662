//! Substitute for gemmt (one triangle of a matrix product), computed by the host BLAS's gemm.

#![expect(unsafe_code, reason = "adds to a triangle of the program's")]

use semcache::base::{Form, Op, Routine, Scalar, Uplo, Value};
use semcache::blas::{Call, Checked, Pointer, check};
use semcache::with_dtype;

use super::gemm::HostGemm;

/// Order of the squares on the diagonal, whose product is written to the stack.
const SQUARE: usize = 32;

/// Computes C in column panels of `SQUARE` columns: gemm writes the rectangle above or below the diagonal square in
/// place; the square's product is written to the stack, and its triangle is added to C.
pub(super) fn gemmt(gemm: HostGemm, call: &Call) {
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
        // gemm reports the illegal argument.
        gemm.call(&whole);
        return;
    }
    let idle = k == 0 || alpha.is_zero();
    if idle && beta.is_one() {
        return;
    }
    let size = call.dtype.size();
    // The part of a matrix that begins at an element.
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
        // The product of rows `i ..` of op(A) and `len` columns `j ..` of op(B).
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
        gemm.call(&part(i, rows, beta, from(c, i, j)));
        if !idle {
            let square = Pointer {
                addr: room.expose_provenance(),
                ld: len,
            };
            gemm.call(&part(j, len, Value::ZERO, square));
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
