//! Stand-in for `geam`, for the forms that one kernel computes: all but sums of which neither part is stored where the
//! result is.

#![expect(
    unsafe_code,
    reason = "the program's pointers, as the C functions take them"
)]

use core::ffi::{c_int, c_void};

use semcache::base::{Dtype, Op, Routine, Value};
use semcache::device::api::{Kernel, Operand};

use crate::blas::{Call, matrix, op, size};
use crate::misuse::complain;
use crate::names::{Outcome, Status};

/// `C := alpha op(A) + beta op(B)`. C may be A, or B, if that matrix is not transposed and has the same leading
/// dimension.
#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn geam(
    dtype: Dtype,
    handle: usize,
    op_a: c_int,
    op_b: c_int,
    m: c_int,
    n: c_int,
    alpha: *const c_void,
    a: u64,
    lda: c_int,
    beta: *const c_void,
    b: u64,
    ldb: c_int,
    c: u64,
    ldc: c_int,
) -> Outcome {
    let mut call = Call::new(handle)?;
    let (op_a, op_b) = (op(op_a)?, op(op_b)?);
    let (m, n) = (size(m)?, size(n)?);
    let rows = |op| if op == Op::None { m } else { n };
    let (a, b) = (matrix(a, lda, rows(op_a))?, matrix(b, ldb, rows(op_b))?);
    let c = matrix(c, ldc, m)?;
    if m == 0 || n == 0 {
        return Ok(());
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    let (alpha, beta) = unsafe { (call.scalar(dtype, alpha)?, call.scalar(dtype, beta)?) };
    let (first, second) = ((op_a, alpha, a), (op_b, beta, b));
    // A part that is multiplied by zero is not read, and may hold any bytes.
    let parts = [first, second].into_iter().filter(|p| !p.1.is_zero());
    let mut parts: Vec<_> = parts.collect();
    for (op, _, part) in &parts {
        if part.addr == c.addr && (*op != Op::None || part.step != c.step) {
            return Err(Status::InvalidValue);
        }
    }
    // The part that is stored where the result is comes last.
    parts.sort_by_key(|p| p.2.addr == c.addr);
    let kernel = match parts[..] {
        [] => copied(dtype, (m, n), Op::None, Value::ZERO, [c, c]),
        [(op, by, part)] => copied(dtype, (m, n), op, by, [part, c]),
        [(Op::None, alpha, part), (_, beta, last)] if last.addr == c.addr => Kernel {
            m,
            n,
            alpha,
            beta,
            ..Kernel::of(Routine::Geadd, dtype, [part, c])
        },
        _ => {
            complain(format_args!("a geam that the stand-in does not have"));
            return Err(Status::NotSupported);
        }
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { call.launch(kernel) }
}

/// `C := alpha op(A)`; `(rows, cols)` is the size of C.
fn copied(
    dtype: Dtype,
    (rows, cols): (usize, usize),
    op_a: Op,
    alpha: Value,
    [a, c]: [Operand; 2],
) -> Kernel {
    let (m, n) = if op_a == Op::None {
        (rows, cols)
    } else {
        (cols, rows)
    };
    let kernel = if a.addr == c.addr {
        Kernel::of(Routine::Imatcopy, dtype, [c])
    } else {
        Kernel::of(Routine::Omatcopy, dtype, [a, c])
    };
    Kernel {
        op_a,
        m,
        n,
        alpha,
        ..kernel
    }
}
