//! What a product with nothing to multiply still does with its output.

use super::{Placed, Stop, leading, locate, size, vector};
use crate::base::{Dtype, Op, Routine, Uplo, Value};
use crate::blas::call::{Args, Call};
use crate::plan::Operand;

/// Numbers that are multiplied by a factor, or set to zero without being read if that is zero.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scaling {
    /// The factor.
    pub factor: Value,
    /// What the numbers are; the components of complex ones may be scaled as reals.
    pub dtype: Dtype,
    /// Where they are.
    pub place: Placed,
}

/// What a call of which [`check`](super::check) says [`Nothing`](super::Checked::Nothing) does, in order.
#[must_use]
pub fn scaled(call: &Call) -> Vec<Scaling> {
    found(call).unwrap_or_default()
}

fn found(call: &Call) -> Result<Vec<Scaling>, Stop> {
    let dtype = call.dtype;
    let (factor, operand, addr) = match call.args {
        Args::Gemm {
            m, n, beta, c, ldc, ..
        }
        | Args::Symm {
            m, n, beta, c, ldc, ..
        } => (beta, matrix(m, n, ldc)?, c),
        Args::Triangular {
            m,
            n,
            alpha,
            b,
            ldb,
            ..
        } => (alpha, matrix(m, n, ldb)?, b),
        Args::Gemv {
            op,
            m,
            n,
            beta,
            y,
            incy,
            ..
        } if m > 0 && n > 0 && incy != 0 => {
            let len = size(if op == Op::None { m } else { n })?;
            (beta, vector(len, incy)?, y)
        }
        Args::Symv {
            n, beta, y, incy, ..
        } if n > 0 && incy != 0 => (beta, vector(size(n)?, incy)?, y),
        Args::RankK {
            uplo,
            n,
            beta,
            c,
            ldc,
            ..
        }
        | Args::Gemmt {
            uplo,
            n,
            beta,
            c,
            ldc,
            ..
        } => {
            let whole = matrix(n, n, ldc)?;
            return if matches!(call.routine, Routine::Herk | Routine::Her2k) {
                hermitian(dtype, beta, whole, uplo, c)
            } else {
                triangle(dtype, dtype, beta, whole, uplo, c)
            };
        }
        _ => return Ok(Vec::new()),
    };
    if is_empty(&operand) || factor.is_one() {
        return Ok(Vec::new());
    }
    let place = locate(dtype.size(), &operand, addr).ok_or(Stop::Host)?;
    Ok(vec![Scaling {
        factor,
        dtype,
        place,
    }])
}

fn matrix(m: i64, n: i64, ld: i64) -> Result<Operand, Stop> {
    let (m, n) = (size(m)?, size(n)?);
    Ok(Operand::matrix(m, n, leading(ld, m)?))
}

fn is_empty(operand: &Operand) -> bool {
    operand.rows == 0 || operand.cols == 0
}

/// A triangle of a square matrix of `dtype`, whose numbers are scaled as those of type `number`.
fn triangle(
    dtype: Dtype,
    number: Dtype,
    factor: Value,
    whole: Operand,
    uplo: Uplo,
    addr: usize,
) -> Result<Vec<Scaling>, Stop> {
    if is_empty(&whole) || factor.is_one() {
        return Ok(Vec::new());
    }
    // All of it lies in the address space.
    let all = locate(dtype.size(), &whole, addr).ok_or(Stop::Host)?;
    let column = |j: usize| {
        let rows = match uplo {
            Uplo::Lower => j..whole.rows,
            Uplo::Upper => 0..j + 1,
        };
        let width = rows.len() * dtype.size();
        Scaling {
            factor,
            dtype: number,
            place: Placed {
                addr: addr + j * all.stride + rows.start * dtype.size(),
                width,
                stride: width,
                count: 1,
            },
        }
    };
    Ok((0..whole.cols).map(column).collect())
}

/// The same by a real factor, which makes the diagonal real.
fn hermitian(
    dtype: Dtype,
    factor: Value,
    whole: Operand,
    uplo: Uplo,
    addr: usize,
) -> Result<Vec<Scaling>, Stop> {
    let real = match dtype {
        Dtype::C => Dtype::S,
        Dtype::Z => Dtype::D,
        Dtype::S | Dtype::D => return Err(Stop::Host),
    };
    let factor = Value { im: 0.0, ..factor };
    let mut all = triangle(dtype, real, factor, whole, uplo, addr)?;
    if !all.is_empty() {
        let width = real.size();
        all.push(Scaling {
            factor: Value::ZERO,
            dtype: real,
            place: Placed {
                addr: addr + width,
                width,
                stride: if whole.cols == 1 {
                    width
                } else {
                    (whole.ld + 1) * dtype.size()
                },
                count: whole.cols,
            },
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Form;
    use crate::blas::run::run_here;
    use crate::blas::{Checked, Outcome, check};

    const N: usize = 3;
    const LD: usize = 5;

    /// Numbers of which none is zero, `parts` in each element.
    fn numbers(parts: usize) -> Vec<f64> {
        (0..LD * N * parts).map(|i| i as f64 + 1.0).collect()
    }

    fn does_nothing_but_scale(routine: Routine, dtype: Dtype, args: Args) {
        let call = Call {
            routine,
            dtype,
            args,
        };
        assert_eq!(check(&call), Checked::Nothing, "{call:?}");
        assert_eq!(run_here(None, &call), Outcome::Done(Value::ZERO));
    }

    fn rank_k(
        routine: Routine,
        dtype: Dtype,
        uplo: Uplo,
        (alpha, k): (f64, i64),
        beta: f64,
    ) -> Vec<f64> {
        let mut c = numbers(if dtype.is_complex() { 2 } else { 1 });
        let value = |re| Value { re, im: 0.0 };
        let args = Args::RankK {
            uplo,
            op: Op::None,
            n: N as i64,
            k,
            alpha: value(alpha),
            a: 0,
            lda: N as i64,
            b: 0,
            ldb: N as i64,
            beta: value(beta),
            c: c.as_mut_ptr().expose_provenance(),
            ldc: LD as i64,
        };
        does_nothing_but_scale(routine, dtype, args);
        c
    }

    #[test]
    fn a_triangle_is_scaled() {
        for uplo in [Uplo::Lower, Uplo::Upper] {
            for routine in [Routine::Syrk, Routine::Syr2k] {
                for nothing in [(0.0, 4), (1.0, 0)] {
                    for beta in [0.0, 1.0, 3.0] {
                        let c = rank_k(routine, Dtype::D, uplo, nothing, beta);
                        for (i, (now, before)) in c.iter().zip(numbers(1)).enumerate() {
                            let (row, col) = (i % LD, i / LD);
                            let inside = row < N
                                && if uplo == Uplo::Lower {
                                    row >= col
                                } else {
                                    row <= col
                                };
                            assert_eq!(*now, if inside { beta * before } else { before });
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_hermitian_diagonal_becomes_real() {
        for uplo in [Uplo::Lower, Uplo::Upper] {
            for routine in [Routine::Herk, Routine::Her2k] {
                for beta in [0.0, 1.0, 3.0] {
                    let c = rank_k(routine, Dtype::Z, uplo, (0.0, 4), beta);
                    for (i, (now, before)) in c.iter().zip(numbers(2)).enumerate() {
                        let (row, col) = (i / 2 % LD, i / 2 / LD);
                        let inside = row < N
                            && if uplo == Uplo::Lower {
                                row >= col
                            } else {
                                row <= col
                            };
                        let imaginary = row == col && i % 2 == 1 && beta != 1.0;
                        let expected = match (inside, imaginary) {
                            (false, _) => before,
                            (true, true) => 0.0,
                            (true, false) => beta * before,
                        };
                        assert_eq!(*now, expected, "{uplo:?} {row} {col} {beta}");
                    }
                }
            }
        }
    }

    #[test]
    fn triangular_products_with_zero_are_zero() {
        for routine in [Routine::Trmm, Routine::Trsm] {
            let mut b = vec![f64::NAN; LD * N];
            let args = Args::Triangular {
                form: Form::default(),
                op: Op::None,
                m: 2,
                n: N as i64,
                alpha: Value::ZERO,
                a: 0,
                lda: 2,
                b: b.as_mut_ptr().expose_provenance(),
                ldb: LD as i64,
            };
            does_nothing_but_scale(routine, Dtype::D, args);
            for (i, now) in b.iter().enumerate() {
                assert_eq!(*now == 0.0, i % LD < 2, "{i}");
            }
        }
    }

    #[test]
    fn a_symmetric_product_scales() {
        let mut c = numbers(1);
        let args = Args::Symm {
            form: Form::default(),
            m: 2,
            n: N as i64,
            alpha: Value::ZERO,
            a: 0,
            lda: 2,
            b: 0,
            ldb: 2,
            beta: Value { re: 3.0, im: 0.0 },
            c: c.as_mut_ptr().expose_provenance(),
            ldc: LD as i64,
        };
        does_nothing_but_scale(Routine::Symm, Dtype::D, args);
        for (i, (now, before)) in c.iter().zip(numbers(1)).enumerate() {
            assert_eq!(*now, if i % LD < 2 { 3.0 * before } else { before });
        }
    }
}
