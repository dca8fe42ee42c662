//! What the examples with sparse matrices share: a matrix, its product by a loop and by the library, and vectors by BLAS. The library's
//! call is `by_library`.

use std::ffi::{CStr, c_void};

use semcache_api::{Csr, Error, Result, Transpose, View, ViewMut};

use crate::common::{Meter, checksum};

/// A matrix in compressed rows.
pub(crate) struct Matrix {
    pub(crate) offsets: Vec<i32>,
    pub(crate) columns: Vec<i32>,
    pub(crate) values: Vec<f64>,
}

/// The 27-point stencil on a cube of `k`^3 points: 26 on the diagonal and -1 beside it, with zeros behind the boundary. A wind, which blows
/// along all three axes, makes the matrix unsymmetric: its neighbours upwind weigh more.
///
/// # Errors
/// It has more entries than 32 bits count.
pub(crate) fn stencil(k: usize, wind: f64) -> Result<Matrix> {
    if k > 430 {
        return Err(Error::Invalid);
    }
    let beside = |at: usize| at.saturating_sub(1)..=(at + 1).min(k - 1);
    let (mut offsets, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in 0..k.pow(3) {
        let (x, y, z) = (row % k, row / k % k, row / k / k);
        for c in beside(z) {
            for b in beside(y) {
                for a in beside(x) {
                    let column = (c * k + b) * k + a;
                    let apart = a.abs_diff(x) + b.abs_diff(y) + c.abs_diff(z);
                    columns.push(column as i32);
                    values.push(match apart {
                        0 => 26.0 + 3.0 * wind,
                        1 if column < row => -1.0 - wind,
                        _ => -1.0,
                    });
                }
            }
        }
        offsets.push(columns.len() as i32);
    }
    Ok(Matrix {
        offsets,
        columns,
        values,
    })
}

impl Matrix {
    pub(crate) fn rows(&self) -> usize {
        self.offsets.len() - 1
    }
}

/// y = A x, by a way that a program calls for it.
pub(crate) type Product = fn(&Matrix, &[f64], &mut [f64]) -> Result<()>;

/// Both ways.
pub(crate) const PRODUCTS: [(&str, Product); 2] = [("plain", by_loop), ("library", by_library)];

/// By a loop.
fn by_loop(a: &Matrix, x: &[f64], y: &mut [f64]) -> Result<()> {
    for (y, ends) in y.iter_mut().zip(a.offsets.windows(2)) {
        let row = ends[0] as usize..ends[1] as usize;
        let entries = a.columns[row.clone()].iter().zip(&a.values[row]);
        *y = entries.fold(0.0, |sum, (&column, value)| {
            sum + value * x[column as usize]
        });
    }
    Ok(())
}

/// By the library; where the program runs without it, by the loop. Pays if A stays as it is for several products, and if x and y are used
/// by BLAS calls in between: then A, x and y stay on devices.
fn by_library(a: &Matrix, x: &[f64], y: &mut [f64]) -> Result<()> {
    let n = a.rows();
    let csr = Csr::new(n, n, &a.offsets, &a.columns, &a.values)?;
    let (from, to) = (View::new(x, n, 1, n)?, ViewMut::new(y, n, 1, n)?);
    match csr.multiply(Transpose::No, 1.0, from, 0.0, to) {
        Err(Error::Absent) => by_loop(a, x, y),
        done => done,
    }
}

type Dot = unsafe extern "C" fn(*const i64, *const f64, *const i64, *const f64, *const i64) -> f64;
type Axpy =
    unsafe extern "C" fn(*const i64, *const f64, *const f64, *const i64, *mut f64, *const i64);
type Scal = unsafe extern "C" fn(*const i64, *const f64, *mut f64, *const i64);
type Copy = unsafe extern "C" fn(*const i64, *const f64, *const i64, *mut f64, *const i64);

/// Vectors, which BLAS calls leave on devices.
pub(crate) struct Blas {
    dot: Dot,
    axpy: Axpy,
    scal: Scal,
    copy: Copy,
}

const STEP: i64 = 1;

/// A length. The BLAS reads 32 bits, or 64: numbers below 2^31 are the same in both.
fn length(x: &[f64], y: &[f64]) -> i64 {
    assert_eq!(x.len(), y.len());
    i64::from(i32::try_from(x.len()).expect("at most 430^3 elements"))
}

#[expect(
    unsafe_code,
    reason = "looks functions of the BLAS up by name, and calls them"
)]
impl Blas {
    /// The process's BLAS, under its Fortran names.
    ///
    /// # Errors
    /// It has none.
    pub(crate) fn new() -> Result<Self> {
        fn found(name: &'static CStr) -> Result<*mut c_void> {
            // SAFETY: the name ends with a zero.
            let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            match at.is_null() {
                true => Err(Error::NoBlas(name.to_str().unwrap_or("?"))),
                false => Ok(at),
            }
        }
        // SAFETY: the addresses are not null, and the process has one meaning for these names, the BLAS's.
        unsafe {
            Ok(Blas {
                dot: std::mem::transmute::<*mut c_void, Dot>(found(c"ddot_")?),
                axpy: std::mem::transmute::<*mut c_void, Axpy>(found(c"daxpy_")?),
                scal: std::mem::transmute::<*mut c_void, Scal>(found(c"dscal_")?),
                copy: std::mem::transmute::<*mut c_void, Copy>(found(c"dcopy_")?),
            })
        }
    }

    pub(crate) fn dot(&self, x: &[f64], y: &[f64]) -> f64 {
        let n = length(x, y);
        // SAFETY: both vectors have n elements, which are borrowed.
        unsafe { (self.dot)(&n, x.as_ptr(), &STEP, y.as_ptr(), &STEP) }
    }

    /// y = a x + y
    #[allow(dead_code, reason = "not in all examples")]
    pub(crate) fn add(&self, a: f64, x: &[f64], y: &mut [f64]) {
        let n = length(x, y);
        // SAFETY: both vectors have n elements, which are borrowed, y's mutably.
        unsafe { (self.axpy)(&n, &a, x.as_ptr(), &STEP, y.as_mut_ptr(), &STEP) }
    }

    /// x = a x
    pub(crate) fn scale(&self, a: f64, x: &mut [f64]) {
        let n = length(x, x);
        // SAFETY: the vector has n elements, which are borrowed mutably.
        unsafe { (self.scal)(&n, &a, x.as_mut_ptr(), &STEP) }
    }

    /// A copy of x.
    #[allow(dead_code, reason = "not in all examples")]
    pub(crate) fn copy(&self, x: &[f64]) -> Vec<f64> {
        let mut y = vec![0.0; x.len()];
        let n = length(x, &y);
        // SAFETY: both vectors have n elements, which are borrowed, y's mutably.
        unsafe { (self.copy)(&n, x.as_ptr(), &STEP, y.as_mut_ptr(), &STEP) };
        y
    }
}

/// For a line of the output.
pub(crate) fn yes(condition: bool) -> &'static str {
    if condition { "yes" } else { "NO" }
}

/// |b - A x| / |b|, by loops.
fn residual(a: &Matrix, b: &[f64], x: &[f64]) -> Result<f64> {
    let mut y = vec![0.0; b.len()];
    by_loop(a, x, &mut y)?;
    let apart: f64 = b.iter().zip(&y).map(|(b, y)| (b - y).powi(2)).sum();
    Ok((apart / b.iter().map(|b| b * b).sum::<f64>()).sqrt())
}

/// Solves A x = b: the solution, and the number of steps.
#[allow(dead_code, reason = "not in all examples")]
pub(crate) type Solver = fn(&Blas, &Matrix, &[f64], Product) -> Result<(Vec<f64>, usize)>;

/// Solves a system with products by the loop, and again with products by the library. Its solution is a vector of small integers.
#[allow(dead_code, reason = "not in all examples")]
#[expect(clippy::print_stdout, reason = "a program's")]
pub(crate) fn compare(name: &str, a: &Matrix, solve: Solver) -> Result<()> {
    let blas = Blas::new()?;
    let wanted: Vec<f64> = (0..a.rows()).map(|i| (i % 5 + 1) as f64).collect();
    let mut b = vec![0.0; a.rows()];
    by_loop(a, &wanted, &mut b)?;
    let mut found = Vec::new();
    for (way, product) in PRODUCTS {
        let meter = Meter::new();
        let (x, steps) = solve(&blas, a, &b, product)?;
        meter.report(way);
        println!(
            "RESULT {name} {way}: {steps} steps, checksum {:.3}, residual below 1e-9: {}",
            checksum(&x),
            yes(residual(a, &b, &x)? < 1e-9)
        );
        found.push((x, steps));
    }
    // Devices may add in another order.
    let agree = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-7;
    println!(
        "RESULT {name}: as many steps: {}; solutions agree within 1e-7: {}",
        yes(found[0].1.abs_diff(found[1].1) <= 1),
        yes(found[0].0.iter().zip(&found[1].0).all(agree))
    );
    Ok(())
}
