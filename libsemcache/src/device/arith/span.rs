//! Which memory a kernel touches, as address ranges.

use crate::base::{Dtype, Op, Side};
use crate::device::api::{DevMat, DevVec, Kernel};

/// A range of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// First byte.
    pub addr: u64,
    /// Length in bytes, not zero.
    pub bytes: usize,
}

/// The ranges from the first to the last byte of each operand and result that `kernel` may touch. Operands
/// that it does not read (zero `alpha`, empty dimensions) are absent. An extent beyond `usize` saturates.
#[must_use]
pub fn spans(kernel: &Kernel) -> [Option<Span>; 3] {
    match *kernel {
        Kernel::Gemm {
            dtype,
            op_a,
            op_b,
            m,
            n,
            k,
            alpha,
            a,
            b,
            c,
            ..
        } => {
            let inputs = !alpha.is_zero() && m > 0 && n > 0;
            let read = |mat, op, rows, cols| {
                let (rows, cols) = if op == Op::None {
                    (rows, cols)
                } else {
                    (cols, rows)
                };
                inputs.then(|| matrix(dtype, mat, rows, cols)).flatten()
            };
            [
                read(a, op_a, m, k),
                read(b, op_b, k, n),
                matrix(dtype, c, m, n),
            ]
        }
        Kernel::Symm {
            dtype,
            side,
            m,
            n,
            alpha,
            a,
            b,
            c,
            ..
        } => {
            let c = matrix(dtype, c, m, n);
            if alpha.is_zero() || c.is_none() {
                return [None, None, c];
            }
            let order = if side == Side::Left { m } else { n };
            [square(dtype, a, order), matrix(dtype, b, m, n), c]
        }
        Kernel::Syrk {
            dtype,
            op,
            n,
            k,
            alpha,
            a,
            c,
            ..
        } => {
            if alpha.is_zero() {
                return [None, None, square(dtype, c, n)];
            }
            [factor(dtype, a, op, n, k), None, square(dtype, c, n)]
        }
        Kernel::Syr2k {
            dtype,
            op,
            n,
            k,
            alpha,
            a,
            b,
            c,
            ..
        } => {
            if alpha.is_zero() {
                return [None, None, square(dtype, c, n)];
            }
            [
                factor(dtype, a, op, n, k),
                factor(dtype, b, op, n, k),
                square(dtype, c, n),
            ]
        }
        Kernel::Gemmt {
            dtype,
            op_a,
            op_b,
            n,
            k,
            alpha,
            a,
            b,
            c,
            ..
        } => {
            let c = square(dtype, c, n);
            if alpha.is_zero() || c.is_none() {
                return [None, None, c];
            }
            let turned = if op_b == Op::None {
                Op::Trans
            } else {
                Op::None
            };
            [
                factor(dtype, a, op_a, n, k),
                factor(dtype, b, turned, n, k),
                c,
            ]
        }
        Kernel::Trmm {
            dtype,
            side,
            m,
            n,
            alpha,
            a,
            b,
            ..
        }
        | Kernel::Trsm {
            dtype,
            side,
            m,
            n,
            alpha,
            a,
            b,
            ..
        } => {
            let b = matrix(dtype, b, m, n);
            if alpha.is_zero() || b.is_none() {
                return [None, b, None];
            }
            let order = if side == Side::Left { m } else { n };
            [square(dtype, a, order), b, None]
        }
        Kernel::Gemv {
            dtype,
            op,
            m,
            n,
            alpha,
            a,
            x,
            y,
            ..
        } => {
            if m == 0 || n == 0 {
                return [None; 3];
            }
            let (rows, cols) = if op == Op::None { (m, n) } else { (n, m) };
            let y = vector(dtype, y, rows);
            if alpha.is_zero() {
                return [None, None, y];
            }
            [matrix(dtype, a, m, n), vector(dtype, x, cols), y]
        }
        Kernel::Ger {
            dtype,
            m,
            n,
            alpha,
            x,
            y,
            a,
            ..
        } => {
            if m == 0 || n == 0 || alpha.is_zero() {
                return [None; 3];
            }
            [
                vector(dtype, x, m),
                vector(dtype, y, n),
                matrix(dtype, a, m, n),
            ]
        }
        Kernel::Symv {
            dtype,
            n,
            alpha,
            a,
            x,
            y,
            ..
        } => {
            let y = vector(dtype, y, n);
            if alpha.is_zero() {
                return [None, None, y];
            }
            [square(dtype, a, n), vector(dtype, x, n), y]
        }
        Kernel::Trmv { dtype, n, a, x, .. } | Kernel::Trsv { dtype, n, a, x, .. } => {
            [square(dtype, a, n), vector(dtype, x, n), None]
        }
        Kernel::Syr { alpha, .. } | Kernel::Syr2 { alpha, .. } if alpha.is_zero() => [None; 3],
        Kernel::Syr { dtype, n, x, a, .. } => [vector(dtype, x, n), None, square(dtype, a, n)],
        Kernel::Syr2 {
            dtype, n, x, y, a, ..
        } => [
            vector(dtype, x, n),
            vector(dtype, y, n),
            square(dtype, a, n),
        ],
        Kernel::Axpy { alpha, .. } if alpha.is_zero() => [None; 3],
        Kernel::Axpy { dtype, n, x, y, .. }
        | Kernel::Copy { dtype, n, x, y }
        | Kernel::Swap { dtype, n, x, y }
        | Kernel::Rot { dtype, n, x, y, .. }
        | Kernel::Rotm { dtype, n, x, y, .. } => [vector(dtype, x, n), vector(dtype, y, n), None],
        Kernel::Scal { dtype, n, x, .. } => [vector(dtype, x, n), None, None],
        Kernel::Dot {
            dtype,
            n,
            x,
            y,
            out,
            ..
        } => [
            vector(dtype, x, n),
            vector(dtype, y, n),
            result(out, dtype.size()),
        ],
        Kernel::Nrm2 { dtype, n, x, out } | Kernel::Asum { dtype, n, x, out } => {
            let real = dtype.size() / if dtype.is_complex() { 2 } else { 1 };
            [vector(dtype, x, n), None, result(out, real)]
        }
        Kernel::Iamax { dtype, n, x, out } => [vector(dtype, x, n), None, result(out, 8)],
    }
}

fn result(addr: u64, bytes: usize) -> Option<Span> {
    Some(Span { addr, bytes })
}

fn matrix(dtype: Dtype, m: DevMat, rows: usize, cols: usize) -> Option<Span> {
    if rows == 0 || cols == 0 {
        return None;
    }
    let elements = (cols - 1).saturating_mul(m.ld).saturating_add(rows);
    result(m.addr, elements.saturating_mul(dtype.size()))
}

/// A matrix of which one triangle is touched: that has the first and the last element, as the square has.
fn square(dtype: Dtype, m: DevMat, order: usize) -> Option<Span> {
    matrix(dtype, m, order, order)
}

/// An input of a rank-k update: `op` of it is n x k.
fn factor(dtype: Dtype, m: DevMat, op: Op, n: usize, k: usize) -> Option<Span> {
    if op == Op::None {
        matrix(dtype, m, n, k)
    } else {
        matrix(dtype, m, k, n)
    }
}

fn vector(dtype: Dtype, v: DevVec, n: usize) -> Option<Span> {
    if n == 0 {
        return None;
    }
    let elements = (n - 1)
        .saturating_mul(v.inc.unsigned_abs())
        .saturating_add(1);
    result(v.addr, elements.saturating_mul(dtype.size()))
}
