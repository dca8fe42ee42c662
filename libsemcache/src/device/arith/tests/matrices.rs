//! Sums, copies and transpositions of matrices.

use super::*;

const SIZES: [(usize, usize); 6] = [(0, 3), (3, 0), (1, 1), (1, 9), (17, 4), (33, 33)];

fn sums<T: Scalar>((m, n): (usize, usize), alpha: Value, beta: Value) {
    let (mut a, mut c) = (Matrix::<T>::new(1, m, n, 2), Matrix::<T>::new(2, m, n, 3));
    let want = |i: usize, j: usize| {
        z(alpha) * number::<T>(1, i + j * 31) + z(beta) * number::<T>(2, i + j * 31)
    };
    if alpha.is_zero() {
        a = a.all_nan();
    }
    if beta.is_zero() {
        c = c.all_nan();
    }
    let at = [a.dev(), c.dev()];
    go(&Kernel {
        m,
        n,
        alpha,
        beta,
        ..Kernel::of(Routine::Geadd, T::DTYPE, at)
    });
    c.check("geadd", want);
}

fn copies<T: Scalar>(op: Op, (m, n): (usize, usize), alpha: Value) {
    let turned = op != Op::None;
    let (rows, cols) = if turned { (n, m) } else { (m, n) };
    let whole = Matrix::<T>::new(3, m, n, 1);
    let mut a = Matrix::<T>::new(3, m, n, 1);
    let want = |i, j| {
        if alpha.is_zero() {
            return Z::ZERO;
        }
        z(alpha) * whole.op(op, i, j)
    };
    if alpha.is_zero() {
        a = a.all_nan();
    }
    let of = |routine, at: &[Operand]| Kernel {
        op_a: op,
        m,
        n,
        alpha,
        ..Kernel::of(routine, T::DTYPE, [at[0], at[at.len() - 1]])
    };
    let mut b = Matrix::<T>::new(4, rows, cols, 2).all_nan();
    go(&of(Routine::Omatcopy, &[a.dev(), b.dev()]));
    b.check("omatcopy", want);
    if !turned || m == n {
        let at = [a.dev()];
        go(&of(Routine::Imatcopy, &at));
        a.check("imatcopy", want);
    }
}

#[test]
fn sums_and_copies_are_exact_on_integers() {
    for dtype in Dtype::ALL {
        with_dtype!(dtype, T => {
            for size in SIZES {
                for alpha in SCALARS.map(fit_value::<T>) {
                    for beta in SCALARS.map(fit_value::<T>) {
                        sums::<T>(size, alpha, beta);
                    }
                    for op in OPS {
                        copies::<T>(op, size, alpha);
                    }
                }
            }
        });
    }
}
