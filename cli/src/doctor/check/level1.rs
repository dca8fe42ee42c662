//! Checks of the routines of level 1 (vectors).

use num_complex::Complex64;
use semcache::base::Dtype;

use super::call::{Wrong, real_of};
use super::trial::Trial;

/// Lengths and increments of the calls: every length up to 70, for which kernels may have special code, lengths around
/// powers of two, and one length for which OpenBLAS uses several threads.
pub(super) fn cases<T: Copy>(increments: &[T]) -> impl Iterator<Item = (usize, T)> {
    let few = (0..=70).chain([95, 96, 97, 127, 128, 129, 191, 255, 256, 257, 512, 1023]);
    let all = few.flat_map(|n| increments.iter().map(move |&inc| (n, inc)));
    all.chain(increments.iter().take(1).map(|&inc| (12011, inc)))
}

/// Increments for routines with one vector. Libraries differ in how they handle negative ones.
const ONE: [i64; 3] = [1, 2, 3];
/// Increments of routines of two vectors.
pub(super) const TWO: [(i64, i64); 6] = [(1, 1), (2, 1), (1, 3), (-1, 1), (1, -1), (-2, -3)];

/// Whether a result that contains a root or a quotient is right up to rounding.
fn close(dtype: Dtype, got: f64, expected: f64) -> bool {
    let single = real_of(dtype) == Dtype::S;
    (got - expected).abs() <= expected.abs().max(1.0) * if single { 1e-4 } else { 1e-11 }
}

/// axpy, copy, swap and their kin: `new` computes the new elements of both vectors from alpha and the old elements.
pub(super) fn two(
    t: &mut Trial<'_>,
    new: impl Fn(Complex64, Complex64, Complex64) -> [Complex64; 2],
    scaled: bool,
) -> Result<(), Wrong> {
    for (n, (incx, incy)) in cases(&TWO) {
        let x = t.draw.vector(t.dtype, n, incx);
        let y = t.draw.vector(t.dtype, n, incy);
        let alpha = t.draw.value(t.dtype);
        let mut call = t.call();
        call.int(n as i64);
        if scaled {
            call.scalar(alpha);
        }
        call.vector(&x).vector(&y).run();
        let (mut new_x, mut new_y) = (x.clone(), y.clone());
        for i in 0..n {
            [*new_x.at_mut(i), *new_y.at_mut(i)] = new(alpha, x.at(i), y.at(i));
        }
        call.must_hold(1 + usize::from(scaled), &new_x.v)?;
        call.must_hold(3 + usize::from(scaled), &new_y.v)?;
    }
    Ok(())
}

/// scal, and csscal and zdscal, whose scalar is `real`.
pub(super) fn scal(t: &mut Trial<'_>, real: bool) -> Result<(), Wrong> {
    for (n, inc) in cases(&ONE) {
        let mut x = t.draw.vector(t.dtype, n, inc);
        let mut alpha = t.draw.value(t.dtype);
        let mut call = t.call();
        call.int(n as i64);
        call.scalar_or_real(&mut alpha, real).vector(&x).run();
        for i in 0..n {
            *x.at_mut(i) *= alpha;
        }
        call.must_hold(2, &x.v)?;
    }
    Ok(())
}

/// rot, by a real sine and cosine.
pub(super) fn rot(t: &mut Trial<'_>) -> Result<(), Wrong> {
    for (n, (incx, incy)) in cases(&TWO) {
        let mut x = t.draw.vector(t.dtype, n, incx);
        let mut y = t.draw.vector(t.dtype, n, incy);
        let (c, s) = (t.draw.real(), t.draw.real());
        let mut call = t.call();
        call.int(n as i64)
            .vector(&x)
            .vector(&y)
            .real(c)
            .real(s)
            .run();
        for i in 0..n {
            let (a, b) = (x.at(i), y.at(i));
            (*x.at_mut(i), *y.at_mut(i)) = (a * c + b * s, b * c - a * s);
        }
        call.must_hold(1, &x.v)?;
        call.must_hold(3, &y.v)?;
    }
    Ok(())
}

/// rotm, with each of its four flags.
pub(super) fn rotm(t: &mut Trial<'_>) -> Result<(), Wrong> {
    for (n, (incx, incy)) in cases(&TWO) {
        let mut x = t.draw.vector(t.dtype, n, incx);
        let mut y = t.draw.vector(t.dtype, n, incy);
        let flag = t.draw.one_of(&[-2.0, -1.0, 0.0, 1.0]);
        let [h11, h21, h12, h22] = [(); 4].map(|()| t.draw.real());
        let mut call = t.call();
        call.int(n as i64)
            .vector(&x)
            .vector(&y)
            .reals(&[flag, h11, h21, h12, h22])
            .run();
        let (h11, h21, h12, h22) = match flag {
            -2.0 => (1.0, 0.0, 0.0, 1.0),
            -1.0 => (h11, h21, h12, h22),
            0.0 => (1.0, h21, h12, 1.0),
            _ => (h11, -1.0, 1.0, h22),
        };
        for i in 0..n {
            let (a, b) = (x.at(i), y.at(i));
            (*x.at_mut(i), *y.at_mut(i)) = (a * h11 + b * h12, a * h21 + b * h22);
        }
        call.must_hold(1, &x.v)?;
        call.must_hold(3, &y.v)?;
    }
    Ok(())
}

/// dot and its kin. `conjugated`: the first vector is conjugated; `added`: the result is added to a number that is an
/// argument (sdsdot); `value`: the type of the result.
pub(super) fn dot(
    t: &mut Trial<'_>,
    conjugated: bool,
    added: bool,
    value: Dtype,
) -> Result<(), Wrong> {
    for (n, (incx, incy)) in cases(&TWO) {
        let x = t.draw.vector(t.dtype, n, incx);
        let y = t.draw.vector(t.dtype, n, incy);
        let mut sum = Complex64::ZERO;
        let mut call = t.call();
        call.int(n as i64);
        if added {
            sum = t.draw.real().into();
            call.scalar(sum);
        }
        for i in 0..n {
            sum += if conjugated { x.at(i).conj() } else { x.at(i) } * y.at(i);
        }
        let got = call.vector(&x).vector(&y).value(value);
        call.must(got == sum, got, sum)?;
    }
    Ok(())
}

fn cabs1(v: Complex64) -> f64 {
    v.re.abs() + v.im.abs()
}

/// What a function of one vector returns: the sum of the magnitudes, the sum of all real and imaginary parts, the norm,
/// the largest or the smallest magnitude.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Of {
    Magnitudes,
    Parts,
    Norm,
    Largest,
    Smallest,
}

/// asum, nrm2 and their kin.
pub(super) fn sum(t: &mut Trial<'_>, of: Of) -> Result<(), Wrong> {
    for (n, inc) in cases(&ONE) {
        let x = t.draw.vector(t.dtype, n, inc);
        let all = (0..n).map(|i| x.at(i));
        let expected = match of {
            Of::Magnitudes => all.map(cabs1).sum(),
            Of::Parts => all.map(|v| v.re + v.im).sum(),
            Of::Norm => all.map(|v| v.norm_sqr()).sum::<f64>().sqrt(),
            Of::Largest => all.map(cabs1).fold(0.0, f64::max),
            Of::Smallest => all.map(cabs1).reduce(f64::min).unwrap_or(0.0),
        };
        let mut call = t.call();
        let got = call.int(n as i64).vector(&x).value(real_of(t.dtype));
        let fine = if of == Of::Norm {
            close(t.dtype, got.re, expected)
        } else {
            got.re == expected
        };
        call.must(fine, got.re.into(), expected.into())?;
    }
    Ok(())
}

/// iamax and iamin: the index of the first element of the largest, or the smallest, magnitude.
#[expect(clippy::cast_precision_loss, reason = "a small integer")]
pub(super) fn index(t: &mut Trial<'_>, largest: bool) -> Result<(), Wrong> {
    for (n, inc) in cases(&ONE) {
        let mut x = t.draw.vector(t.dtype, n, inc);
        if largest && n > 0 {
            // One element is larger than all other elements, at a random position.
            let at = t.draw.below(n as u64) as usize;
            *x.at_mut(at) = (-9.0).into();
        }
        let mut expected = 0;
        for i in 0..n {
            let before = |at: usize| cabs1(x.at(at - 1));
            let here = cabs1(x.at(i));
            if expected == 0
                || (largest && here > before(expected))
                || (!largest && here < before(expected))
            {
                expected = i + 1;
            }
        }
        let mut call = t.call();
        let got = call.int(n as i64).vector(&x).index();
        call.must(
            got == expected as i64,
            (got as f64).into(),
            (expected as f64).into(),
        )?;
    }
    Ok(())
}

/// scabs1 and dcabs1: |re| + |im| of one number.
pub(super) fn magnitude(t: &mut Trial<'_>) -> Result<(), Wrong> {
    for _ in 0..20 {
        let x = t.draw.value(t.dtype);
        let mut call = t.call();
        let got = call.scalar(x).value(real_of(t.dtype));
        call.must(got.re == cabs1(x), got, cabs1(x).into())?;
    }
    Ok(())
}

/// rotg: the rotation must turn the second number into zero and preserve lengths; any such rotation is accepted.
pub(super) fn rotg(t: &mut Trial<'_>) -> Result<(), Wrong> {
    for _ in 0..50 {
        let (a, b) = (t.draw.value(t.dtype), t.draw.value(t.dtype));
        let mut call = t.call();
        call.scalar(a)
            .scalar(b)
            .real(0.0)
            .scalar(Complex64::ZERO)
            .run();
        let (r, c, s) = (call.now(0)[0], call.reals_now(2)[0], call.now(3)[0]);
        let turned = a * c + s * b;
        let rest = b * c - s.conj() * a;
        let fine = |got: f64, expected| close(t.dtype, got, expected);
        call.must(fine(turned.re, r.re) && fine(turned.im, r.im), turned, r)?;
        call.must(
            fine(rest.re, 0.0) && fine(rest.im, 0.0),
            rest,
            Complex64::ZERO,
        )?;
        let length = c * c + s.norm_sqr();
        call.must(fine(length, 1.0), length.into(), Complex64::ONE)?;
    }
    Ok(())
}

/// rotmg: two cases with known results, one for each of its usual flags.
pub(super) fn rotmg(t: &mut Trial<'_>) -> Result<(), Wrong> {
    // The arguments d1, d2, x1, y1; then the expected d1, d2, x1, the flag, and the elements of the matrix that the
    // flag does not determine.
    type Case = ([f64; 4], [f64; 3], f64, [(usize, f64); 2]);
    let cases: [Case; 2] = [
        (
            [4.0, 2.0, 2.0, 2.0],
            [8.0 / 3.0, 4.0 / 3.0, 3.0],
            0.0,
            [(2, -1.0), (3, 0.5)],
        ),
        (
            [2.0, 4.0, 2.0, 2.0],
            [8.0 / 3.0, 4.0 / 3.0, 3.0],
            1.0,
            [(1, 0.5), (4, 1.0)],
        ),
    ];
    for (given, [d1, d2, x1], flag, h) in cases {
        let mut call = t.call();
        call.real(given[0])
            .real(given[1])
            .real(given[2])
            .real(given[3])
            .reals(&[0.0; 5])
            .run();
        let param = call.reals_now(4);
        let got = [
            call.reals_now(0)[0],
            call.reals_now(1)[0],
            call.reals_now(2)[0],
            param[0],
            param[h[0].0],
            param[h[1].0],
        ];
        for (got, expected) in got.into_iter().zip([d1, d2, x1, flag, h[0].1, h[1].1]) {
            call.must(close(t.dtype, got, expected), got.into(), expected.into())?;
        }
    }
    Ok(())
}
