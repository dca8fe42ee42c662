//! Calls of vectors.

#![expect(unsafe_code, reason = "calls the BLAS")]

use num_complex::Complex64;

use super::level3::{spread, turn, z};
use crate::call::call;
use crate::element::Type;
use crate::fortran;
use crate::world::{Operand, Vect, World};

pub(super) fn run(w: &mut World) {
    let mut n = w.size() * w.rng.of(&[1, 1, 7, 90]);
    let which = w.rng.below(10);
    let group = w.group();
    for _ in 0..20 {
        if let Some(slot) = one(w, group, which, n) {
            return w.sometimes_check(slot);
        }
        n = n.div_ceil(2);
    }
}

/// A vector with a positive increment.
fn forward(w: &mut World, slot: usize, n: usize) -> Option<Vect> {
    w.vect(slot, n).map(|v| Vect {
        inc: v.inc.abs(),
        ..v
    })
}

/// Two vectors without a common element.
fn two(w: &mut World, sx: usize, sy: usize, n: usize) -> Option<(Vect, Vect)> {
    let (x, y) = (w.vect(sx, n)?, w.vect(sy, n)?);
    y.apart(&x).then_some((x, y))
}

/// One call, if its vectors fit; the block to look at.
fn one(w: &mut World, group: (usize, usize), which: usize, n: usize) -> Option<usize> {
    let (sx, sy) = (w.pick(group), w.pick(group));
    match which {
        0 | 1 => axpy(w, sx, sy, n),
        2 => copy(w, sx, sy, n),
        3 => swap(w, sx, sy, n),
        4 => scal(w, sy, n),
        5 => dot(w, sx, sy, n),
        6 => asum(w, sx, n),
        7 => {
            let x = forward(w, sx, n)?;
            if w.rng.one_in(2) {
                nrm2(w, &x)
            } else {
                iamax(w, &x)
            }
        }
        9 => axpby(w, sx, sy, n),
        _ => rot(w, sx, sy, n),
    }
}

fn axpy(w: &mut World, sx: usize, sy: usize, n: usize) -> Option<usize> {
    let (x, y) = two(w, sx, sy, n)?;
    let ty = w.ty(sx);
    let s = spread(ty);
    let bound = move |w: &World| 3.0 * s * w.bound(sx) + w.bound(sy);
    if !w.tame(&[sx, sy], bound) {
        return None;
    }
    let alpha = w.scalar(ty, false, true, &[sy]);
    w.note = format!("axpy {ty:?} {x:?} {y:?} alpha={}", alpha.value);
    let unit = Complex64::new(1.0, 0.0);
    let out = w.dense(&x).plus(alpha.value, unit, &w.dense(&y));
    call!(fortran::AXPY[ty as usize]; n, &alpha, w.p(&x), x.inc, w.p(&y), y.inc);
    w.put_all(&y, &out, bound(w));
    Some(sy)
}

fn axpby(w: &mut World, sx: usize, sy: usize, n: usize) -> Option<usize> {
    let ty = w.ty(sx);
    let axpby = fortran::axpby(ty as usize)?;
    let (x, y) = two(w, sx, sy, n)?;
    let s = spread(ty);
    let bound = move |w: &World| 3.0 * s * (w.bound(sx) + w.bound(sy));
    if !w.tame(&[sx, sy], bound) {
        return None;
    }
    let (alpha, beta) = w.scalars(ty, &[sy]);
    w.note = format!(
        "axpby {ty:?} {x:?} {y:?} alpha={} beta={}",
        alpha.value, beta.value
    );
    let out = w.dense(&x).plus(alpha.value, beta.value, &w.dense(&y));
    call!(axpby; n, &alpha, w.p(&x), x.inc, &beta, w.p(&y), y.inc);
    w.put_all(&y, &out, bound(w));
    Some(sy)
}

fn copy(w: &mut World, sx: usize, sy: usize, n: usize) -> Option<usize> {
    let (x, y) = two(w, sx, sy, n)?;
    let ty = w.ty(sx);
    w.note = format!("copy {ty:?} {x:?} {y:?}");
    call!(fortran::COPY[ty as usize]; n, w.p(&x), x.inc, w.p(&y), y.inc);
    w.put_all(&y, &w.dense(&x), w.bound(sx));
    Some(sy)
}

fn swap(w: &mut World, sx: usize, sy: usize, n: usize) -> Option<usize> {
    let (x, y) = two(w, sx, sy, n)?;
    let ty = w.ty(sx);
    let (xs, ys) = (w.dense(&x), w.dense(&y));
    w.note = format!("swap {ty:?} {x:?} {y:?}");
    call!(fortran::SWAP[ty as usize]; n, w.p(&x), x.inc, w.p(&y), y.inc);
    let both = w.bound(sx).max(w.bound(sy));
    w.put_all(&x, &ys, both);
    w.put_all(&y, &xs, both);
    Some(sy)
}

fn scal(w: &mut World, sy: usize, n: usize) -> Option<usize> {
    let y = forward(w, sy, n)?;
    let ty = w.ty(sy);
    let s = spread(ty);
    let bound = move |w: &World| 3.0 * s * w.bound(sy);
    if !w.tame(&[sy], bound) {
        return None;
    }
    let real = ty.complex() && w.rng.one_in(2);
    let alpha = w.scalar(ty, real, true, &[sy]);
    w.note = format!("scal {ty:?} real={real} {y:?} alpha={}", alpha.value);
    let before = w.dense(&y);
    let out = before.plus(alpha.value, Complex64::ZERO, &before);
    if real {
        call!(fortran::REALSCAL[z(ty)]; n, &alpha, w.p(&y), y.inc);
    } else {
        call!(fortran::SCAL[ty as usize]; n, &alpha, w.p(&y), y.inc);
    }
    w.put_all(&y, &out, bound(w));
    Some(sy)
}

fn dot(w: &mut World, sx: usize, sy: usize, n: usize) -> Option<usize> {
    let (x, y) = (w.vect(sx, n)?, w.vect(sy, n)?);
    let ty = w.ty(sx);
    // OpenBLAS 0.3.21 loads one more complex element of x and of y, an increment beyond their last, unless both increments
    // are one: with either vector at an end of a mapping, the program would crash in the host BLAS.
    let unit = x.inc == 1 && y.inc == 1;
    if ty.complex() && !unit && !(w.continues(&x) && w.continues(&y)) {
        return None;
    }
    let s = spread(ty);
    if !w.tame(&[sx, sy], move |w| s * w.bound(sx) * w.bound(sy) * n as f64) {
        return None;
    }
    let conjugated = ty.complex() && w.rng.one_in(2);
    let k = usize::from(conjugated);
    w.note = format!("dot {ty:?} conjugated={conjugated} {x:?} {y:?}");
    let product = w.dense(&x).op(turn(conjugated)).times(&w.dense(&y));
    let (re, im) = match ty {
        Type::S => {
            let re = call!(fortran::DOT_S[0]; n, w.p(&x), x.inc, w.p(&y), y.inc);
            (f64::from(re), 0.0)
        }
        Type::D => {
            let re = call!(fortran::DOT_D[0]; n, w.p(&x), x.inc, w.p(&y), y.inc);
            (re, 0.0)
        }
        Type::C => {
            let c = call!(fortran::DOT_C[k]; n, w.p(&x), x.inc, w.p(&y), y.inc);
            (f64::from(c.0), f64::from(c.1))
        }
        Type::Z => {
            let c = call!(fortran::DOT_Z[k]; n, w.p(&x), x.inc, w.p(&y), y.inc);
            (c.0, c.1)
        }
        Type::I | Type::L => return None,
    };
    let got = Complex64::new(re, im);
    assert_eq!(got, product.at(0, 0), "{}", w.note);
    Some(sy)
}

/// The sum of the two parts of each element, without their signs.
fn sizes(w: &World, x: &Vect) -> Vec<f64> {
    let elements = w.dense(x).v;
    elements.iter().map(|v| v.re.abs() + v.im.abs()).collect()
}

fn asum(w: &mut World, sx: usize, n: usize) -> Option<usize> {
    let x = forward(w, sx, n)?;
    let ty = w.ty(sx);
    if !w.tame(&[sx], move |w| 2.0 * w.bound(sx) * n as f64) {
        return None;
    }
    let sum: f64 = sizes(w, &x).iter().sum();
    w.note = format!("asum {ty:?} {x:?}");
    let complex = usize::from(ty.complex());
    let got = if ty.single() {
        f64::from(call!(fortran::ASUM_S[complex]; n, w.p(&x), x.inc))
    } else {
        call!(fortran::ASUM_D[complex]; n, w.p(&x), x.inc)
    };
    assert!(got == sum, "{}: {got}, not {sum}", w.note);
    Some(sx)
}

fn nrm2(w: &mut World, x: &Vect) -> Option<usize> {
    let ty = w.ty(x.slot);
    w.note = format!("nrm2 {ty:?} {x:?}");
    let elements = w.dense(x).v;
    let norm = elements.iter().map(|v| v.norm_sqr()).sum::<f64>().sqrt();
    let complex = usize::from(ty.complex());
    let got = if ty.single() {
        f64::from(call!(fortran::NRM2_S[complex]; x.n, w.p(x), x.inc))
    } else {
        call!(fortran::NRM2_D[complex]; x.n, w.p(x), x.inc)
    };
    let room = norm * if ty.single() { 1e-4 } else { 1e-12 };
    assert!((got - norm).abs() <= room, "{}: {got}, not {norm}", w.note);
    Some(x.slot)
}

fn iamax(w: &mut World, x: &Vect) -> Option<usize> {
    let (ty, n) = (w.ty(x.slot), x.n);
    w.note = format!("iamax {ty:?} {x:?}");
    let sizes = sizes(w, x);
    let most = sizes.iter().copied().fold(0.0, f64::max);
    let got = call!(fortran::IAMAX[ty as usize]; n, w.p(x), x.inc);
    let got = usize::try_from(got).unwrap_or(usize::MAX);
    // Some BLAS implementations do not say which of several equal elements they return.
    let right = if n == 0 {
        got == 0
    } else {
        (1..=n).contains(&got) && sizes[got - 1] == most
    };
    assert!(right, "{}: {got}, the largest is {most}", w.note);
    Some(x.slot)
}

fn rot(w: &mut World, sx: usize, sy: usize, n: usize) -> Option<usize> {
    let (x, y) = two(w, sx, sy, n)?;
    let ty = w.ty(sx);
    let bound = move |w: &World| 3.0 * (w.bound(sx) + w.bound(sy));
    if !w.tame(&[sx, sy], bound) {
        return None;
    }
    let (c, s) = (
        w.scalar(ty, true, true, &[sx, sy]),
        w.scalar(ty, true, true, &[sx, sy]),
    );
    w.note = format!("rot {ty:?} {x:?} {y:?} c={} s={}", c.value, s.value);
    let (xs, ys) = (w.dense(&x), w.dense(&y));
    let (nx, ny) = (
        xs.plus(c.value, s.value, &ys),
        ys.plus(c.value, -s.value, &xs),
    );
    call!(fortran::ROT[ty as usize]; n, w.p(&x), x.inc, w.p(&y), y.inc, &c, &s);
    let bound = bound(w);
    w.put_all(&x, &nx, bound);
    w.put_all(&y, &ny, bound);
    Some(sy)
}
