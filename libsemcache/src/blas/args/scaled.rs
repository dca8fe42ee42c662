//! Scaling of the output by BLAS calls that have no product to compute (alpha or k is zero).

use super::{Stop, locate, operand, sizes};
use crate::base::routine::{Extent, Usage};
use crate::base::{Dtype, Rect, Uplo, Value};
use crate::blas::call::Call;
use crate::plan::Operand;

/// Elements of an output to be multiplied by a factor. If the factor is zero they are set to zero without being read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scaling {
    /// The factor.
    pub factor: Value,
    /// The type of the numbers to scale; the parts of complex elements may be scaled as reals.
    pub dtype: Dtype,
    /// The bytes of the numbers; offsets are addresses.
    pub place: Rect,
}

/// The scalings, in order, of a call for which [`check`](super::check) returns [`NoProduct`](super::Checked::NoProduct).
#[must_use]
pub fn scaled(call: &Call) -> Vec<Scaling> {
    found(call).unwrap_or_default()
}

fn found(call: &Call) -> Result<Vec<Scaling>, Stop> {
    let (routine, dtype) = (call.routine, call.dtype);
    let (Some(slot), Some(at)) = (routine.operands().last(), call.operands().last()) else {
        return Ok(Vec::new());
    };
    let factor = match slot.usage {
        Usage::Accumulate => call.beta,
        Usage::Multiply => call.alpha,
        // An output that is overwritten with zero times a product becomes zero.
        Usage::Overwrite if call.alpha.is_zero() => Value::ZERO,
        Usage::Read | Usage::Update | Usage::Overwrite => return Ok(Vec::new()),
    };
    let sizes = sizes(call)?;
    if sizes.m == 0 || sizes.n == 0 || factor.is_one() {
        return Ok(Vec::new());
    }
    let operand = operand(call, &sizes, *slot, *at)?;
    if let Extent::Triangle(_) = slot.extent {
        let uplo = call.form.uplo;
        return if routine.hermitian() {
            hermitian(dtype, factor, operand, uplo, at.addr)
        } else {
            triangle(dtype, dtype, factor, operand, uplo, at.addr)
        };
    }
    let place = locate(dtype.size(), &operand, at.addr).ok_or(Stop::Host)?;
    Ok(vec![Scaling {
        factor,
        dtype,
        place,
    }])
}

/// Scales one triangle of a square matrix of type `dtype`, as numbers of type `number`.
fn triangle(
    dtype: Dtype,
    number: Dtype,
    factor: Value,
    whole: Operand,
    uplo: Uplo,
    addr: usize,
) -> Result<Vec<Scaling>, Stop> {
    if factor.is_one() {
        return Ok(Vec::new());
    }
    // Checks that the whole matrix lies in the address space.
    locate(dtype.size(), &whole, addr).ok_or(Stop::Host)?;
    let column = |j: usize| {
        let rows = match uplo {
            Uplo::Lower => j..whole.rows,
            Uplo::Upper => 0..j + 1,
        };
        let first = addr + (j * whole.ld + rows.start) * dtype.size();
        Scaling {
            factor,
            dtype: number,
            place: Rect::interval(first, first + rows.len() * dtype.size()),
        }
    };
    Ok((0..whole.cols).map(column).collect())
}

/// As `triangle`, for a Hermitian matrix and a real factor: the imaginary parts of the diagonal become zero.
fn hermitian(
    dtype: Dtype,
    factor: Value,
    whole: Operand,
    uplo: Uplo,
    addr: usize,
) -> Result<Vec<Scaling>, Stop> {
    if !dtype.is_complex() {
        return Err(Stop::Host);
    }
    let real = dtype.real();
    let factor = Value { im: 0.0, ..factor };
    let mut all = triangle(dtype, real, factor, whole, uplo, addr)?;
    if !all.is_empty() {
        let (width, next) = (real.size(), (whole.ld + 1).saturating_mul(dtype.size()));
        all.push(Scaling {
            factor: Value::ZERO,
            dtype: real,
            place: Rect::new(addr + width, width, next, whole.cols),
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Form, Routine};
    use crate::blas::local::compute;
    use crate::blas::{Checked, Outcome, check};

    const N: usize = 3;
    const LD: usize = 5;

    /// Numbers none of which is zero, `parts` for each element.
    fn numbers(parts: usize) -> Vec<f64> {
        (0..LD * N * parts).map(|i| i as f64 + 1.0).collect()
    }

    fn does_nothing_but_scale(call: &Call) {
        assert_eq!(check(call), Checked::NoProduct, "{call:?}");
        assert_eq!(compute(None, call), Outcome::Done(Value::ZERO));
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
        let at = (c.as_mut_ptr().expose_provenance(), LD as i64);
        let input = (0, N as i64);
        let operands = [input, input, at];
        let inputs = routine.operands().len() - 1;
        does_nothing_but_scale(&Call {
            form: Form {
                uplo,
                ..Form::default()
            },
            alpha: value(alpha),
            beta: value(beta),
            ..Call::new(routine, dtype, &[N as i64, k], &operands[2 - inputs..])
        });
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
            let at = (b.as_mut_ptr().expose_provenance(), LD as i64);
            does_nothing_but_scale(&Call {
                alpha: Value::ZERO,
                ..Call::new(routine, Dtype::D, &[2, N as i64], &[(0, 2), at])
            });
            for (i, now) in b.iter().enumerate() {
                assert_eq!(*now == 0.0, i % LD < 2, "{i}");
            }
        }
    }

    #[test]
    fn a_symmetric_product_scales() {
        let mut c = numbers(1);
        let at = (c.as_mut_ptr().expose_provenance(), LD as i64);
        does_nothing_but_scale(&Call {
            alpha: Value::ZERO,
            beta: Value { re: 3.0, im: 0.0 },
            ..Call::new(
                Routine::Symm,
                Dtype::D,
                &[2, N as i64],
                &[(0, 2), (0, 2), at],
            )
        });
        for (i, (now, before)) in c.iter().zip(numbers(1)).enumerate() {
            assert_eq!(*now, if i % LD < 2 { 3.0 * before } else { before });
        }
    }
}
