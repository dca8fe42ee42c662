//! Calls of vectors.

#![expect(unsafe_code, reason = "calls the BLAS")]

use num_complex::Complex64;

use super::level3::spread;
use super::{Int, call};
use crate::element::Type;
use crate::reference::Dense;
use crate::world::{Vect, World};

pub(super) fn run(w: &mut World) {
    let mut n = w.size() * w.rng.of(&[1, 1, 7, 90]);
    let which = w.rng.below(9);
    let group = w.group();
    for _ in 0..20 {
        if let Some(slot) = one(w, group, which, n) {
            return w.glance(slot);
        }
        n = n.div_ceil(2);
    }
}

fn apart(y: &Vect, x: &Vect) -> bool {
    World::apart((y.slot, y.elements()), (x.slot, x.elements()))
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
    let z = usize::from(ty.complex());
    let s = spread(ty);
    let unit = Complex64::new(1.0, 0.0);
    match which {
        0 | 1 => {
            let (x, y) = (w.vect(sx, n)?, w.vect(sy, n)?);
            if !apart(&y, &x) {
                return None;
            }
            let bound = move |w: &World| 3.0 * s * w.bound(sx) + w.bound(sy);
            if !w.tame(&[sx, sy], bound) {
                return None;
            }
            let alpha = w.scalar(ty, false, true, &[sy]);
            let ints = [Int::of(n), Int(x.inc), Int(y.inc)];
            w.note = format!("axpy {ty:?} {x:?} {y:?} alpha={}", alpha.value);
            let out = w.column(&x).plus(alpha.value, unit, &w.column(&y));
            call!(AXPY[i]; ints[0].p(), alpha.p(), w.p(sx, x.off), ints[1].p(), w.p(sy, y.off), ints[2].p());
            let bound = bound(w);
            w.put_column(&y, &out);
            w.raise(sy, bound);
        }
        2 | 3 => {
            let (x, y) = (w.vect(sx, n)?, w.vect(sy, n)?);
            if !apart(&y, &x) {
                return None;
            }
            let ints = [Int::of(n), Int(x.inc), Int(y.inc)];
            let (from, to) = (w.column(&x), w.column(&y));
            let both = w.bound(sx).max(w.bound(sy));
            if which == 2 {
                w.note = format!("copy {ty:?} {x:?} {y:?}");
                call!(COPY[i]; ints[0].p(), w.p(sx, x.off), ints[1].p(), w.p(sy, y.off), ints[2].p());
            } else {
                w.note = format!("swap {ty:?} {x:?} {y:?}");
                call!(SWAP[i]; ints[0].p(), w.p(sx, x.off), ints[1].p(), w.p(sy, y.off), ints[2].p());
                w.put_column(&x, &to);
                w.raise(sx, both);
            }
            w.put_column(&y, &from);
            w.raise(sy, both);
        }
        4 => {
            let y = forward(w, sy, n)?;
            let bound = move |w: &World| 3.0 * s * w.bound(sy);
            if !w.tame(&[sy], bound) {
                return None;
            }
            let real = ty.complex() && w.rng.one_in(2);
            let alpha = w.scalar(ty, real, true, &[sy]);
            let ints = [Int::of(n), Int(y.inc)];
            w.note = format!("scal {ty:?} real={real} {y:?} alpha={}", alpha.value);
            let before = w.column(&y);
            let out = before.plus(alpha.value, Complex64::ZERO, &before);
            if real {
                call!(REALSCAL[usize::from(ty == Type::Z)]; ints[0].p(), alpha.p(), w.p(sy, y.off), ints[1].p());
            } else {
                call!(SCAL[i]; ints[0].p(), alpha.p(), w.p(sy, y.off), ints[1].p());
            }
            let bound = bound(w);
            w.put_column(&y, &out);
            w.raise(sy, bound);
        }
        5 => {
            let (x, y) = (w.vect(sx, n)?, w.vect(sy, n)?);
            if !w.tame(&[sx, sy], move |w| s * w.bound(sx) * w.bound(sy) * n as f64) {
                return None;
            }
            let conjugated = ty.complex() && w.rng.one_in(2);
            let k = usize::from(conjugated);
            let ints = [Int::of(n), Int(x.inc), Int(y.inc)];
            w.note = format!("dot {ty:?} conjugated={conjugated} {x:?} {y:?}");
            let turn = if conjugated { b'C' } else { b'T' };
            let product = w.column(&x).op(turn).times(&w.column(&y));
            let (xp, yp) = (w.p(sx, x.off), w.p(sy, y.off));
            let [np, ix, iy] = [ints[0].p(), ints[1].p(), ints[2].p()];
            let got = match ty {
                Type::S => Complex64::new(f64::from(call!(DOT_S[0]; np, xp, ix, yp, iy)), 0.0),
                Type::D => Complex64::new(call!(DOT_D[0]; np, xp, ix, yp, iy), 0.0),
                Type::C => {
                    let c = call!(DOT_C[k]; np, xp, ix, yp, iy);
                    Complex64::new(f64::from(c.0), f64::from(c.1))
                }
                Type::Z => {
                    let c = call!(DOT_Z[k]; np, xp, ix, yp, iy);
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
            let ints = [Int::of(n), Int(x.inc)];
            let sum: f64 = w.column(&x).v.iter().map(|v| v.re.abs() + v.im.abs()).sum();
            w.note = format!("asum {ty:?} {x:?}");
            let (np, xp, ix) = (ints[0].p(), w.p(sx, x.off), ints[1].p());
            let got = if ty.single() {
                f64::from(call!(ASUM_S[z]; np, xp, ix))
            } else {
                call!(ASUM_D[z]; np, xp, ix)
            };
            assert!(got == sum, "{}: {got}, not {sum}", w.note);
        }
        7 => {
            let x = forward(w, sx, n)?;
            let ints = [Int::of(n), Int(x.inc)];
            let (np, xp, ix) = (ints[0].p(), w.p(sx, x.off), ints[1].p());
            let column = w.column(&x);
            let sizes: Vec<f64> = column.v.iter().map(|v| v.re.abs() + v.im.abs()).collect();
            if w.rng.one_in(2) {
                w.note = format!("nrm2 {ty:?} {x:?}");
                let norm = column.v.iter().map(|v| v.norm_sqr()).sum::<f64>().sqrt();
                let got = if ty.single() {
                    f64::from(call!(NRM2_S[z]; np, xp, ix))
                } else {
                    call!(NRM2_D[z]; np, xp, ix)
                };
                let room = norm * if ty.single() { 1e-4 } else { 1e-12 };
                assert!((got - norm).abs() <= room, "{}: {got}, not {norm}", w.note);
            } else {
                w.note = format!("iamax {ty:?} {x:?}");
                let most = sizes.iter().copied().fold(0.0, f64::max);
                let got = usize::try_from(call!(IAMAX[i]; np, xp, ix)).unwrap_or(usize::MAX);
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
            if !apart(&y, &x) {
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
            let ints = [Int::of(n), Int(x.inc), Int(y.inc)];
            w.note = format!("rot {ty:?} {x:?} {y:?} c={} s={}", c.value, sine.value);
            let (xs, ys): (Dense, Dense) = (w.column(&x), w.column(&y));
            let (nx, ny) = (
                xs.plus(c.value, sine.value, &ys),
                ys.plus(c.value, -sine.value, &xs),
            );
            call!(ROT[i]; ints[0].p(), w.p(sx, x.off), ints[1].p(), w.p(sy, y.off), ints[2].p(), c.p(), sine.p());
            let bound = bound(w);
            w.put_column(&x, &nx);
            w.put_column(&y, &ny);
            w.raise(sx, bound);
            w.raise(sy, bound);
        }
    }
    Some(if which == 6 || which == 7 { sx } else { sy })
}
