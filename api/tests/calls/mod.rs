//! All calls of a scope, on whole numbers, against the oracle.

use num_complex::{Complex, Complex64};
use semcache_api::{Diag, Error, Pending, Scalar, Side, Transpose, Uplo, View, ViewMut, scope};
use testkit::Rng;
use testkit::oracle::Dense;

/// An element type and its numbers.
pub(crate) trait Number: Scalar {
    fn of(value: Complex64) -> Self;
    fn value(self) -> Complex64;
}

macro_rules! numbers {
    ($($t:ty)*) => {$(
        impl Number for $t {
            #[allow(clippy::cast_possible_truncation, reason = "one macro serves f32 and f64; whole numbers")]
            fn of(value: Complex64) -> Self {
                value.re as $t
            }
            fn value(self) -> Complex64 {
                Complex64::new(self.into(), 0.0)
            }
        }
        impl Number for Complex<$t> {
            fn of(value: Complex64) -> Self {
                Complex::new(value.re as $t, value.im as $t)
            }
            fn value(self) -> Complex64 {
                Complex64::new(self.re.into(), self.im.into())
            }
        }
    )*};
}
numbers!(f32 f64);

/// A matrix in memory, with gaps between its columns.
struct Filled<T> {
    memory: Vec<T>,
    rows: usize,
    cols: usize,
}

const GAP: usize = 3;
const IN_GAPS: f64 = -77.0;

impl<T: Number> Filled<T> {
    fn new(rows: usize, cols: usize, mut at: impl FnMut(usize, usize) -> Complex64) -> Self {
        let mut memory = Vec::new();
        for j in 0..cols {
            memory.extend((0..rows).map(|i| T::of(at(i, j))));
            memory.extend([T::of(IN_GAPS.into()); GAP]);
        }
        Filled { memory, rows, cols }
    }

    fn random(rng: &mut Rng, rows: usize, cols: usize) -> Self {
        Filled::new(rows, cols, |_, _| {
            Complex64::new(rng.element(), rng.element())
        })
    }

    fn view(&self) -> View<'_, T> {
        View::new(&self.memory, self.rows, self.cols, self.rows + GAP).unwrap()
    }

    fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::new(&mut self.memory, self.rows, self.cols, self.rows + GAP).unwrap()
    }

    fn dense(&self) -> Dense {
        let ld = self.rows + GAP;
        Dense::of(self.rows, self.cols, |i, j| self.memory[j * ld + i].value())
    }

    fn is(&self, what: &str, expected: &Dense) {
        let found = self.dense();
        assert_eq!((found.rows, found.cols), (expected.rows, expected.cols));
        assert!(
            found.v == expected.v,
            "{what} of {} x {}",
            self.rows,
            self.cols
        );
        let gaps = self
            .memory
            .chunks(self.rows + GAP)
            .flat_map(|column| &column[self.rows..]);
        assert!(
            gaps.into_iter().all(|gap| gap.value() == IN_GAPS.into()),
            "{what}: a gap"
        );
    }
}

/// A step of a blocked algorithm with all routines, each of which uses results of those before. Of order `n`.
fn all_calls<T: Number>(n: usize) -> Result<(), Error> {
    let (rng, m) = (&mut Rng::new(n as u64), n / 2 + 1);
    let (a, b) = (
        Filled::<T>::random(rng, m, n),
        Filled::<T>::random(rng, n, m),
    );
    // A unit lower triangle of few elements, so that solutions stay small.
    let mut triangle = Filled::<T>::random(rng, n, n);
    for (j, column) in triangle.view_mut().columns_mut().enumerate() {
        for (i, element) in column.iter_mut().enumerate() {
            if i > j && i != j + n / 2 {
                *element = T::of(0.0.into());
            }
        }
    }
    let symmetric = Filled::<T>::random(rng, m, m);
    let mut x = Filled::new(n, m, |i, j| b.dense().at(i, j));
    let mut c = Filled::<T>::random(rng, m, m);
    let mut d = Filled::<T>::random(rng, m, m);
    let mut e = Filled::<T>::random(rng, m, m);
    let mut f = Filled::<T>::random(rng, n, m);
    let before = [c.dense(), d.dense(), e.dense(), f.dense()];
    let number = |re: f64, im: f64| T::of(Complex64::new(re, im));
    let (one, alpha) = (number(1.0, 0.0), number(-1.0, 2.0));
    // What the transpose does to complex numbers shows, too.
    let turned = Transpose::Conjugate;

    scope(|s| {
        let (a, triangle, symmetric) = (a.view(), triangle.view(), symmetric.view());
        let x = s.trsm(
            Side::Left,
            Uplo::Lower,
            Transpose::No,
            Diag::Unit,
            one,
            triangle,
            x.view_mut(),
        )?;
        let c = s.gemm(Transpose::No, Transpose::No, alpha, a, x, one, c.view_mut())?;
        let d = s.symm(
            Side::Right,
            Uplo::Upper,
            one,
            symmetric,
            b.view().block(..m, ..)?,
            alpha,
            d.view_mut(),
        )?;
        s.gemm(turned, Transpose::Yes, one, symmetric, symmetric, one, d)?;
        s.syrk(
            Uplo::Lower,
            Transpose::Yes,
            one,
            b.view(),
            alpha,
            e.view_mut(),
        )?;
        // The left half of a result, times a triangle, beside the right half that an earlier call wrote.
        let f = Pending::from(f.view_mut());
        let (left, right) = (f.block(.., ..m / 2)?, f.block(.., m / 2..)?);
        s.gemm(
            Transpose::No,
            Transpose::No,
            one,
            b.view(),
            symmetric.block(.., m / 2..)?,
            number(0.0, 0.0),
            right,
        )?;
        s.trmm(
            Side::Left,
            Uplo::Lower,
            turned,
            Diag::NonUnit,
            alpha,
            triangle,
            left,
        )?;
        assert_eq!(
            s.gemm(Transpose::No, Transpose::No, one, c, c, one, c)
                .unwrap_err(),
            Error::Overlap
        );
        assert_eq!(
            s.trmm(Side::Left, Uplo::Lower, turned, Diag::Unit, one, d, d)
                .unwrap_err(),
            Error::Overlap
        );
        Ok(())
    })?;

    let [c0, d0, e0, f0] = before;
    let (a, b, symmetric, triangle) = (a.dense(), b.dense(), symmetric.dense(), triangle.dense());
    let (one, alpha) = (one.value(), alpha.value());
    let solved = b.solved(&triangle.triangle(b'L', b'U'), true);
    x.is("trsm", &solved);
    c.is("gemm", &a.times(&solved).plus(alpha, one, &c0));
    let upper = Dense::of(m, m, |i, j| b.at(i, j));
    let product = upper
        .times(&symmetric.mirrored(b'U', false))
        .plus(one, alpha, &d0);
    d.is(
        "symm",
        &symmetric
            .op(b'C')
            .times(&symmetric.op(b'T'))
            .plus(one, one, &product),
    );
    let updated = e0.updated(&b.op(b'T'), None, false, (one, alpha));
    e.is(
        "syrk",
        &Dense::of(m, m, |i, j| {
            if i >= j {
                updated.at(i, j)
            } else {
                e0.at(i, j)
            }
        }),
    );
    let left = triangle.triangle(b'L', b'N').op(b'C').times(&f0);
    let right = b.times(&symmetric);
    f.is(
        "trmm",
        &Dense::of(n, m, |i, j| {
            if j < m / 2 {
                alpha * left.at(i, j)
            } else {
                right.at(i, j)
            }
        }),
    );
    Ok(())
}

/// Steps of these orders in all four types.
pub(crate) fn are_right(orders: &[usize]) -> Result<(), Error> {
    for &n in orders {
        all_calls::<f32>(n)?;
        all_calls::<f64>(n)?;
        all_calls::<Complex<f32>>(n)?;
        all_calls::<Complex<f64>>(n)?;
    }
    Ok(())
}
