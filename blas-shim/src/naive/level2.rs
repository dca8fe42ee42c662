//! Triangles and vectors, by their definitions, and rotations.

use semcache::base::{Routine, Scalar, Value};
use semcache::blas::{Args, Call, Outcome};

use super::level3::{mirrored, real, solve, stored, triangular};
use super::{element, scaled, zero};

/// # Safety
/// As [`super::run`].
pub(super) unsafe fn run<T: Scalar>(call: &Call) -> Outcome {
    let hermitian = matches!(call.routine, Routine::Hemv | Routine::Her | Routine::Her2);
    // SAFETY: all accesses are inside the operands that the call describes.
    unsafe {
        match call.args {
            Args::Symv {
                uplo,
                n,
                alpha,
                a,
                lda,
                x,
                incx,
                beta,
                y,
                incy,
            } => {
                if n < 0 || lda < n || incx == 0 || incy == 0 {
                    return Outcome::Host;
                }
                for i in 0..n {
                    let mut sum: T = zero();
                    for j in 0..n {
                        sum = sum
                            + mirrored::<T>(a, lda, uplo, hermitian, i, j)
                                * element::<T>(x, n, incx, j).read();
                    }
                    let to = element::<T>(y, n, incy, i);
                    to.write(T::from_value(alpha) * sum + scaled(beta, to));
                }
            }
            Args::Trmv {
                form,
                op,
                n,
                a,
                lda,
                x,
                incx,
            } => {
                if n < 0 || lda < n || incx == 0 {
                    return Outcome::Host;
                }
                let factor = |i, j| triangular::<T>(a, lda, (form.uplo, form.diag, op), i, j);
                let old: Vec<T> = (0..n).map(|i| element::<T>(x, n, incx, i).read()).collect();
                let new: Vec<T> = if call.routine == Routine::Trsv {
                    solve(&old, factor)
                } else {
                    let row = |i| {
                        let terms = (0..n).zip(&old).map(|(j, x)| factor(i, j) * *x);
                        terms.fold(zero(), |sum: T, term| sum + term)
                    };
                    (0..n).map(row).collect()
                };
                for (i, value) in (0..n).zip(new) {
                    element::<T>(x, n, incx, i).write(value);
                }
            }
            Args::Syr {
                uplo,
                n,
                alpha,
                x,
                incx,
                y,
                incy,
                a,
                lda,
            } => {
                let two = matches!(call.routine, Routine::Syr2 | Routine::Her2);
                if n < 0 || lda < n || incx == 0 || (two && incy == 0) {
                    return Outcome::Host;
                }
                let other = |value: T| if hermitian { value.conj() } else { value };
                let alpha = T::from_value(alpha);
                let x = |i| element::<T>(x, n, incx, i).read();
                let y = |i| element::<T>(y, n, incy, i).read();
                for j in 0..n {
                    for i in (0..n).filter(|&i| stored(uplo, i, j)) {
                        let sum = if two {
                            alpha * x(i) * other(y(j)) + other(alpha) * y(i) * other(x(j))
                        } else {
                            alpha * x(i) * other(x(j))
                        };
                        let to = (a as *mut T).offset((i + j * lda) as isize);
                        let value = to.read() + sum;
                        to.write(if hermitian && i == j {
                            real(value)
                        } else {
                            value
                        });
                    }
                }
            }
            Args::Rotation {
                n,
                alpha,
                beta,
                x,
                incx,
                y,
                incy,
            } => {
                let h = if call.routine == Routine::Rot {
                    [alpha.re, -beta.re, beta.re, alpha.re]
                } else {
                    [alpha.re, alpha.im, beta.re, beta.im]
                };
                let h = h.map(|re| T::from_value(Value { re, im: 0.0 }));
                for i in 0..n {
                    let (px, py) = (element::<T>(x, n, incx, i), element::<T>(y, n, incy, i));
                    let (a, b) = (px.read(), py.read());
                    px.write(h[0] * a + h[2] * b);
                    py.write(h[1] * a + h[3] * b);
                }
            }
            _ => return Outcome::Host,
        }
    }
    Outcome::Done(Value::ZERO)
}
