//! Plain loops for every decoded call, for the tests of the decoding (feature `naive-core`).

#![expect(unsafe_code, reason = "works on the program's own arrays")]

mod level2;
mod level3;

use core::sync::atomic::{AtomicU64, Ordering};

use num_complex::Complex;
use semcache::base::{Dtype, Op, Routine, Scalar, Value};
use semcache::blas::batch::{Batch, Batched};
use semcache::blas::{Args, Call, Outcome};
use semcache::with_dtype;

use crate::core::Facts;
use crate::counts;

static CALLS: AtomicU64 = AtomicU64::new(0);

/// Calls that came here, for the tests' clients.
#[unsafe(no_mangle)]
extern "C" fn semcache_test_naive_calls() -> u64 {
    CALLS.load(Ordering::Relaxed)
}

/// Calls that the shim sent to the host for the `reason`th of its reasons, for the tests' clients.
#[unsafe(no_mangle)]
extern "C" fn semcache_test_host_calls(reason: i32) -> u64 {
    let name = usize::try_from(reason).map_or("", |r| counts::REASONS[r % counts::REASONS.len()].1);
    counts::snapshot_all()
        .into_iter()
        .filter(|(_, reason, _)| *reason == name)
        .map(|(_, _, calls)| calls)
        .sum()
}

/// Computes a call, if its sizes are valid.
pub(crate) fn call(call: &Call, _facts: &Facts) -> Outcome {
    CALLS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the program vouches for its arguments as for those of any BLAS call.
    with_dtype!(call.dtype, T => unsafe { run::<T>(call) })
}

/// Computes the products of a batch; counts as one call.
pub(crate) fn batch(batch: &Batch, _facts: &Facts) -> Batched {
    if batch.doubtful || semcache::blas::batch::check(batch).is_err() {
        return Batched::Host;
    }
    CALLS.fetch_add(1, Ordering::Relaxed);
    for call in &batch.calls {
        // SAFETY: the program vouches for its arguments as for those of any BLAS call.
        let _ = with_dtype!(call.dtype, T => unsafe { run::<T>(call) });
    }
    Batched::Done
}

/// Element `(i, j)` of a matrix stored by columns.
unsafe fn at<T: Scalar>(a: usize, ld: i64, i: i64, j: i64, op: Op) -> T {
    let (row, column) = if op == Op::None { (i, j) } else { (j, i) };
    // SAFETY: inside the matrix, by the sizes of the call.
    let value = unsafe { (a as *const T).offset((row + column * ld) as isize).read() };
    if op == Op::ConjTrans {
        value.conj()
    } else {
        value
    }
}

/// Element `i` of a vector of `n`.
fn element<T>(x: usize, n: i64, inc: i64, i: i64) -> *mut T {
    let first = if inc < 0 { (1 - n) * inc } else { 0 };
    (x as *mut T).wrapping_offset((first + i * inc) as isize)
}

fn zero<T: Scalar>() -> T {
    T::from_value(Value::ZERO)
}

/// `beta * y`, which does not read `y` where `beta` is zero.
unsafe fn scaled<T: Scalar>(beta: Value, y: *const T) -> T {
    if beta.is_zero() {
        zero()
    } else {
        // SAFETY: the caller's.
        T::from_value(beta) * unsafe { y.read() }
    }
}

fn modulus<T: Scalar>(value: T) -> f64 {
    let value = value.to_value();
    value.re.abs() + value.im.abs()
}

/// # Safety
/// The arguments must describe the program's arrays.
unsafe fn run<T: Scalar>(call: &Call) -> Outcome {
    let zeroed = Outcome::Done(Value::ZERO);
    // SAFETY: all accesses are inside the operands that the call describes.
    unsafe {
        match call.args {
            Args::Gemm {
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
            } => {
                let rows_a = if op_a == Op::None { m } else { k };
                let rows_b = if op_b == Op::None { k } else { n };
                if m < 0 || n < 0 || k < 0 || lda < rows_a || ldb < rows_b || ldc < m {
                    return Outcome::Host;
                }
                for j in 0..n {
                    for i in 0..m {
                        let mut sum: T = zero();
                        for p in 0..k {
                            sum = sum + at::<T>(a, lda, i, p, op_a) * at::<T>(b, ldb, p, j, op_b);
                        }
                        let to = (c as *mut T).offset((i + j * ldc) as isize);
                        to.write(T::from_value(alpha) * sum + scaled(beta, to));
                    }
                }
                zeroed
            }
            Args::Symm { .. }
            | Args::RankK { .. }
            | Args::Triangular { .. }
            | Args::Gemmt { .. } => level3::run::<T>(call),
            Args::Symv { .. } | Args::Trmv { .. } | Args::Syr { .. } | Args::Rotation { .. } => {
                level2::run::<T>(call)
            }
            Args::Gemv {
                op,
                m,
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
                if m < 0 || n < 0 || lda < m || incx == 0 || incy == 0 {
                    return Outcome::Host;
                }
                let (rows, columns) = if op == Op::None { (m, n) } else { (n, m) };
                // An empty matrix leaves y as it is, whatever beta.
                let rows = if columns == 0 { 0 } else { rows };
                for i in 0..rows {
                    let mut sum: T = zero();
                    for j in 0..columns {
                        sum = sum
                            + at::<T>(a, lda, i, j, op) * element::<T>(x, columns, incx, j).read();
                    }
                    let to = element::<T>(y, rows, incy, i);
                    to.write(T::from_value(alpha) * sum + scaled(beta, to));
                }
                zeroed
            }
            Args::Ger {
                m,
                n,
                alpha,
                x,
                incx,
                y,
                incy,
                a,
                lda,
            } => {
                if m < 0 || n < 0 || lda < m || incx == 0 || incy == 0 {
                    return Outcome::Host;
                }
                for j in 0..n {
                    let mut right = element::<T>(y, n, incy, j).read();
                    if call.routine == Routine::Gerc {
                        right = right.conj();
                    }
                    for i in 0..m {
                        let to = (a as *mut T).offset((i + j * lda) as isize);
                        let left = element::<T>(x, m, incx, i).read();
                        to.write(to.read() + T::from_value(alpha) * left * right);
                    }
                }
                zeroed
            }
            Args::One { n, alpha, x, incx } => one::<T>(call, n, alpha, x, incx),
            Args::Two {
                n,
                alpha,
                x,
                incx,
                y,
                incy,
            } => {
                let mut sum: T = zero();
                for i in 0..n {
                    let (px, py) = (element::<T>(x, n, incx, i), element::<T>(y, n, incy, i));
                    match call.routine {
                        Routine::Axpy => py.write(py.read() + T::from_value(alpha) * px.read()),
                        Routine::Copy => py.write(px.read()),
                        Routine::Swap => core::ptr::swap(px, py),
                        Routine::Dot => sum = sum + px.read() * py.read(),
                        Routine::Dotc => sum = sum + px.read().conj() * py.read(),
                        _ => return Outcome::Host,
                    }
                }
                Outcome::Done(sum.to_value())
            }
        }
    }
}

/// # Safety
/// As [`run`].
unsafe fn one<T: Scalar>(call: &Call, n: i64, alpha: Value, x: usize, incx: i64) -> Outcome {
    if incx <= 0 {
        return Outcome::Host;
    }
    let (mut sum, mut best, mut index) = (0.0, -1.0, 0);
    for i in 0..n {
        let at = element::<T>(x, n, incx, i);
        // SAFETY: inside the vector.
        let value = unsafe { at.read() };
        match call.routine {
            Routine::Scal | Routine::RealScal => {
                // SAFETY: inside the vector.
                unsafe { at.write(T::from_value(alpha) * value) };
            }
            Routine::Nrm2 => {
                let value = value.to_value();
                sum += value.re * value.re + value.im * value.im;
            }
            Routine::Asum => sum += modulus(value),
            Routine::Iamax if modulus(value) > best => {
                best = modulus(value);
                index = i + 1;
            }
            _ => {}
        }
    }
    match call.routine {
        Routine::Iamax => Outcome::Index(index),
        Routine::Nrm2 => Outcome::Done(Value {
            re: f64::sqrt(sum),
            im: 0.0,
        }),
        Routine::Asum => Outcome::Done(Value { re: sum, im: 0.0 }),
        _ => Outcome::Done(Value::ZERO),
    }
}

// `with_dtype!` names these by path.
const _: (Dtype, Option<Complex<f32>>) = (Dtype::S, None);
