//! Calls of vectors.

#![expect(unsafe_code, reason = "calls the BLAS")]

use num_complex::Complex64;

use super::call;
use super::level3::{spread, turn, z};
use crate::element::Type;
use crate::fortran;
use crate::world::{Operand, Vect, World};

pub(super) fn run(w: &mut World) {
    let mut n = w.size() * w.rng.of(&[1, 1, 7, 90]);
    let which = w.rng.below(10);
    let group = w.group();
    for _ in 0..20 {
        if let Some(slot) = one(w, group, which, n) {
            return w.glance(slot);
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

fn one(w: &mut World, group: (usize, usize), which: usize, n: usize) -> Option<usize> {
    let (sx, sy) = (w.pick(group), w.pick(group));
    let ty = w.ty(sx);
    let i = ty as usize;
    let complex = usize::from(ty.complex());
    let s = spread(ty);
    let unit = Complex64::new(1.0, 0.0);
    match which {
        0 | 1 => {
            let (x, y) = (w.vect(sx, n)?, w.vect(sy, n)?);
            if !y.apart(&x) {
                return None;
            }
            let bound = move |w: &World| 3.0 * s * w.bound(sx) + w.bound(sy);
            if !w.tame(&[sx, sy], bound) {
                return None;
            }
            let alpha = w.scalar(ty, false, true, &[sy]);
            w.note = format!("axpy {ty:?} {x:?} {y:?} alpha={}", alpha.value);
            let out = w.dense(&x).plus(alpha.value, unit, &w.dense(&y));
            call!(fortran::AXPY[i]; n, &alpha, w.p(&x), x.inc, w.p(&y), y.inc);
            w.put_all(&y, &out, bound(w));
        }
        2 | 3 => {
            let (x, y) = (w.vect(sx, n)?, w.vect(sy, n)?);
            if !y.apart(&x) {
                return None;
            }
            let (from, to) = (w.dense(&x), w.dense(&y));
            let both = w.bound(sx).max(w.bound(sy));
            if which == 2 {
                w.note = format!("copy {ty:?} {x:?} {y:?}");
                call!(fortran::COPY[i]; n, w.p(&x), x.inc, w.p(&y), y.inc);
            } else {
                w.note = format!("swap {ty:?} {x:?} {y:?}");
                call!(fortran::SWAP[i]; n, w.p(&x), x.inc, w.p(&y), y.inc);
                w.put_all(&x, &to, both);
            }
            w.put_all(&y, &from, both);
        }
        9 => {
            let axpby = fortran::axpby(i)?;
            let (x, y) = (w.vect(sx, n)?, w.vect(sy, n)?);
            if !y.apart(&x) {
                return None;
            }
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
        }
        4 => {
            let y = forward(w, sy, n)?;
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
                call!(fortran::SCAL[i]; n, &alpha, w.p(&y), y.inc);
            }
            w.put_all(&y, &out, bound(w));
        }
        5 => {
            let (x, y) = (w.vect(sx, n)?, w.vect(sy, n)?);
            if !w.tame(&[sx, sy], move |w| s * w.bound(sx) * w.bound(sy) * n as f64) {
                return None;
            }
            let conjugated = ty.complex() && w.rng.one_in(2);
            let k = usize::from(conjugated);
            w.note = format!("dot {ty:?} conjugated={conjugated} {x:?} {y:?}");
            let product = w.dense(&x).op(turn(conjugated)).times(&w.dense(&y));
            let got = match ty {
                Type::S => Complex64::new(
                    f64::from(call!(fortran::DOT_S[0]; n, w.p(&x), x.inc, w.p(&y), y.inc)),
                    0.0,
                ),
                Type::D => Complex64::new(
                    call!(fortran::DOT_D[0]; n, w.p(&x), x.inc, w.p(&y), y.inc),
                    0.0,
                ),
                Type::C => {
                    let c = call!(fortran::DOT_C[k]; n, w.p(&x), x.inc, w.p(&y), y.inc);
                    Complex64::new(f64::from(c.0), f64::from(c.1))
                }
                Type::Z => {
                    let c = call!(fortran::DOT_Z[k]; n, w.p(&x), x.inc, w.p(&y), y.inc);
                    Complex64::new(c.0, c.1)
                }
            };
            assert_eq!(got, product.at(0, 0), "{}", w.note);
        }
        6 => {
            let x = forward(w, sx, n)?;
            if !w.tame(&[sx], move |w| 2.0 * w.bound(sx) * n as f64) {
                return None;
            }
            let sum: f64 = w.dense(&x).v.iter().map(|v| v.re.abs() + v.im.abs()).sum();
            w.note = format!("asum {ty:?} {x:?}");
            let got = if ty.single() {
                f64::from(call!(fortran::ASUM_S[complex]; n, w.p(&x), x.inc))
            } else {
                call!(fortran::ASUM_D[complex]; n, w.p(&x), x.inc)
            };
            assert!(got == sum, "{}: {got}, not {sum}", w.note);
        }
        7 => {
            let x = forward(w, sx, n)?;
            let column = w.dense(&x);
            let sizes: Vec<f64> = column.v.iter().map(|v| v.re.abs() + v.im.abs()).collect();
            if w.rng.one_in(2) {
                w.note = format!("nrm2 {ty:?} {x:?}");
                let norm = column.v.iter().map(|v| v.norm_sqr()).sum::<f64>().sqrt();
                let got = if ty.single() {
                    f64::from(call!(fortran::NRM2_S[complex]; n, w.p(&x), x.inc))
                } else {
                    call!(fortran::NRM2_D[complex]; n, w.p(&x), x.inc)
                };
                let room = norm * if ty.single() { 1e-4 } else { 1e-12 };
                assert!((got - norm).abs() <= room, "{}: {got}, not {norm}", w.note);
            } else {
                w.note = format!("iamax {ty:?} {x:?}");
                let most = sizes.iter().copied().fold(0.0, f64::max);
                let got = usize::try_from(call!(fortran::IAMAX[i]; n, w.p(&x), x.inc))
                    .unwrap_or(usize::MAX);
                // Which of several, some BLAS do not say.
                let right = if n == 0 {
                    got == 0
                } else {
                    (1..=n).contains(&got) && sizes[got - 1] == most
                };
                assert!(right, "{}: {got}, the largest is {most}", w.note);
            }
        }
        _ => {
            let (x, y) = (w.vect(sx, n)?, w.vect(sy, n)?);
            if !y.apart(&x) {
                return None;
            }
            let bound = move |w: &World| 3.0 * (w.bound(sx) + w.bound(sy));
            if !w.tame(&[sx, sy], bound) {
                return None;
            }
            let (c, sine) = (
                w.scalar(ty, true, true, &[sx, sy]),
                w.scalar(ty, true, true, &[sx, sy]),
            );
            w.note = format!("rot {ty:?} {x:?} {y:?} c={} s={}", c.value, sine.value);
            let (xs, ys) = (w.dense(&x), w.dense(&y));
            let (nx, ny) = (
                xs.plus(c.value, sine.value, &ys),
                ys.plus(c.value, -sine.value, &xs),
            );
            call!(fortran::ROT[i]; n, w.p(&x), x.inc, w.p(&y), y.inc, &c, &sine);
            let bound = bound(w);
            w.put_all(&x, &nx, bound);
            w.put_all(&y, &ny, bound);
        }
    }
    Some(if which == 6 || which == 7 { sx } else { sy })
}
