//! Calls of a matrix and vectors.

#![expect(unsafe_code, reason = "calls the BLAS")]

use num_complex::Complex64;

use super::level3::{solvable, spread};
use super::{Int, call, ch};
use crate::element::Type;
use crate::reference::Dense;
use crate::world::{Mat, Vect, World};

pub(super) fn run(w: &mut World) {
    let mut sizes = [w.size(), w.size()];
    let which = w.rng.below(7);
    let group = w.group();
    for _ in 0..14 {
        let done = match which {
            0 | 1 => gemv(w, group, sizes),
            2 => ger(w, group, sizes),
            3 => symv(w, group, sizes),
            4 => syr(w, group, sizes),
            5 => syr2(w, group, sizes),
            _ => triangular(w, group, sizes),
        };
        if let Some(slot) = done {
            return w.glance(slot);
        }
        sizes = sizes.map(|s| s.div_ceil(2));
    }
}

fn matrix_apart(out: &Mat, input: &Vect) -> bool {
    World::apart((out.slot, out.elements()), (input.slot, input.elements()))
}

fn vector_apart(out: &Vect, a: &Mat) -> bool {
    World::apart((out.slot, out.elements()), (a.slot, a.elements()))
}

fn vectors_apart(out: &Vect, x: &Vect) -> bool {
    World::apart((out.slot, out.elements()), (x.slot, x.elements()))
}

fn gemv(w: &mut World, group: (usize, usize), [m, n]: [usize; 2]) -> Option<usize> {
    let (sa, sx, sy) = (w.pick(group), w.pick(group), w.pick(group));
    let ty = w.ty(sa);
    let trans = w.rng.of(b"NNTC");
    let (nx, ny) = if trans == b'N' { (n, m) } else { (m, n) };
    let (a, x, y) = (w.mat(sa, m, n)?, w.vect(sx, nx)?, w.vect(sy, ny)?);
    if !vector_apart(&y, &a) || !vectors_apart(&y, &x) {
        return None;
    }
    let s = spread(ty);
    let bound =
        move |w: &World| 3.0 * s * (s * w.bound(sa) * w.bound(sx) * nx as f64 + w.bound(sy));
    if !w.tame(&[sa, sx, sy], bound) {
        return None;
    }
    let (alpha, beta) = (
        w.scalar(ty, false, true, &[sy]),
        w.scalar(ty, false, true, &[sy]),
    );
    // A reference BLAS returns at once if the matrix is empty, whatever beta.
    if m == 0 || n == 0 {
        return None;
    }
    w.note = format!(
        "gemv {ty:?} {} {a:?} {x:?} {y:?} alpha={} beta={}",
        trans as char, alpha.value, beta.value
    );
    let out =
        w.dense(&a)
            .op(trans)
            .times(&w.column(&x))
            .plus(alpha.value, beta.value, &w.column(&y));
    let ints = [
        Int::of(m),
        Int::of(n),
        Int::of(a.ld),
        Int(x.inc),
        Int(y.inc),
    ];
    call!(GEMV[ty as usize]; ch(trans), ints[0].p(), ints[1].p(), alpha.p(), w.p(sa, a.off), ints[2].p(), w.p(sx, x.off),
        ints[3].p(), beta.p(), w.p(sy, y.off), ints[4].p());
    let bound = bound(w);
    w.put_column(&y, &out);
    w.raise(sy, bound);
    Some(sy)
}

fn ger(w: &mut World, group: (usize, usize), [m, n]: [usize; 2]) -> Option<usize> {
    let (sa, sx, sy) = (w.pick(group), w.pick(group), w.pick(group));
    let ty = w.ty(sa);
    let (a, x, y) = (w.mat(sa, m, n)?, w.vect(sx, m)?, w.vect(sy, n)?);
    if !matrix_apart(&a, &x) || !matrix_apart(&a, &y) {
        return None;
    }
    let s = spread(ty);
    let bound = move |w: &World| 3.0 * s * s * w.bound(sx) * w.bound(sy) + w.bound(sa);
    if !w.tame(&[sa, sx, sy], bound) {
        return None;
    }
    let alpha = w.scalar(ty, false, true, &[sa]);
    let conjugated = ty.complex() && w.rng.one_in(2);
    w.note = format!(
        "ger {ty:?} conjugated={conjugated} {a:?} {x:?} {y:?} alpha={}",
        alpha.value
    );
    let row = w.column(&y).op(if conjugated { b'C' } else { b'T' });
    let out = w
        .column(&x)
        .times(&row)
        .plus(alpha.value, Complex64::new(1.0, 0.0), &w.dense(&a));
    let ints = [
        Int::of(m),
        Int::of(n),
        Int(x.inc),
        Int(y.inc),
        Int::of(a.ld),
    ];
    let f = if conjugated {
        crate::fortran::GERC[usize::from(ty == Type::Z)]
    } else {
        crate::fortran::GER[ty as usize]
    };
    // SAFETY: as for `call!`.
    unsafe {
        f(
            ints[0].p(),
            ints[1].p(),
            alpha.p(),
            w.p(sx, x.off),
            ints[2].p(),
            w.p(sy, y.off),
            ints[3].p(),
            w.p(sa, a.off),
            ints[4].p(),
        );
    }
    let bound = bound(w);
    w.put(&a, &out, |_, _| false);
    w.raise(sa, bound);
    Some(sa)
}

fn symv(w: &mut World, group: (usize, usize), [n, _]: [usize; 2]) -> Option<usize> {
    let (sa, sx, sy) = (w.pick(group), w.pick(group), w.pick(group));
    let ty = w.ty(sa);
    let uplo = w.rng.of(b"UL");
    let (a, x, y) = (w.mat(sa, n, n)?, w.vect(sx, n)?, w.vect(sy, n)?);
    if !vector_apart(&y, &a) || !vectors_apart(&y, &x) {
        return None;
    }
    let s = spread(ty);
    let bound = move |w: &World| 3.0 * s * (s * w.bound(sa) * w.bound(sx) * n as f64 + w.bound(sy));
    if !w.tame(&[sa, sx, sy], bound) {
        return None;
    }
    let (alpha, beta) = (
        w.scalar(ty, false, true, &[sy]),
        w.scalar(ty, false, true, &[sy]),
    );
    w.note = format!(
        "symv or hemv {ty:?} {} {a:?} {x:?} {y:?} alpha={} beta={}",
        uplo as char, alpha.value, beta.value
    );
    let full = w.dense(&a).mirrored(uplo, ty.complex());
    let out = full
        .times(&w.column(&x))
        .plus(alpha.value, beta.value, &w.column(&y));
    let ints = [Int::of(n), Int::of(a.ld), Int(x.inc), Int(y.inc)];
    call!(MV[ty as usize]; ch(uplo), ints[0].p(), alpha.p(), w.p(sa, a.off), ints[1].p(), w.p(sx, x.off), ints[2].p(),
        beta.p(), w.p(sy, y.off), ints[3].p());
    let bound = bound(w);
    w.put_column(&y, &out);
    w.raise(sy, bound);
    Some(sy)
}

/// Stores one triangle, with a real diagonal if that is what the routine does.
fn put_triangle(w: &mut World, a: &Mat, mut out: Dense, uplo: u8, hermitian: bool) {
    for i in 0..out.rows {
        if hermitian {
            out.at_mut(i, i).im = 0.0;
        }
    }
    w.put(a, &out, |i, j| i != j && (uplo == b'U') != (i < j));
}

/// Makes a diagonal real, by the CPU: what becomes of its imaginary parts where a vector is zero, BLAS do not agree on.
fn make_real(w: &mut World, a: &Mat) {
    for i in 0..a.rows {
        let at = a.off + i * a.ld + i;
        let value = w.slots[a.slot].get(at);
        if value.im != 0.0 {
            w.slots[a.slot].poke(at, Complex64::new(value.re, 0.0));
        }
    }
}

fn syr(w: &mut World, group: (usize, usize), [n, _]: [usize; 2]) -> Option<usize> {
    let (sa, sx) = (w.pick(group), w.pick(group));
    let ty = w.ty(sa);
    let uplo = w.rng.of(b"UL");
    let (a, x) = (w.mat(sa, n, n)?, w.vect(sx, n)?);
    if !matrix_apart(&a, &x) {
        return None;
    }
    let s = spread(ty);
    let bound = move |w: &World| 3.0 * s * w.bound(sx) * w.bound(sx) + w.bound(sa);
    if !w.tame(&[sa, sx], bound) {
        return None;
    }
    if ty.complex() {
        make_real(w, &a);
    }
    let alpha = w.scalar(ty, true, false, &[sa]);
    w.note = format!(
        "syr or her {ty:?} {} {a:?} {x:?} alpha={}",
        uplo as char, alpha.value
    );
    let column = w.column(&x);
    let row = column.op(if ty.complex() { b'C' } else { b'T' });
    let out = column
        .times(&row)
        .plus(alpha.value, Complex64::new(1.0, 0.0), &w.dense(&a));
    let ints = [Int::of(n), Int(x.inc), Int::of(a.ld)];
    call!(R[ty as usize]; ch(uplo), ints[0].p(), alpha.p(), w.p(sx, x.off), ints[1].p(), w.p(sa, a.off), ints[2].p());
    let bound = bound(w);
    put_triangle(w, &a, out, uplo, ty.complex());
    w.raise(sa, bound);
    Some(sa)
}

fn syr2(w: &mut World, group: (usize, usize), [n, _]: [usize; 2]) -> Option<usize> {
    let (sa, sx, sy) = (w.pick(group), w.pick(group), w.pick(group));
    let ty = w.ty(sa);
    let uplo = w.rng.of(b"UL");
    let (a, x, y) = (w.mat(sa, n, n)?, w.vect(sx, n)?, w.vect(sy, n)?);
    if !matrix_apart(&a, &x) || !matrix_apart(&a, &y) {
        return None;
    }
    let s = spread(ty);
    let bound = move |w: &World| 6.0 * s * s * w.bound(sx) * w.bound(sy) + w.bound(sa);
    if !w.tame(&[sa, sx, sy], bound) {
        return None;
    }
    if ty.complex() {
        make_real(w, &a);
    }
    let alpha = w.scalar(ty, false, false, &[sa]);
    w.note = format!(
        "syr2 or her2 {ty:?} {} {a:?} {x:?} {y:?} alpha={}",
        uplo as char, alpha.value
    );
    let turn = if ty.complex() { b'C' } else { b'T' };
    let second = if ty.complex() {
        alpha.value.conj()
    } else {
        alpha.value
    };
    let (xs, ys) = (w.column(&x), w.column(&y));
    let one = Complex64::new(1.0, 0.0);
    let out = xs.times(&ys.op(turn)).plus(alpha.value, one, &w.dense(&a));
    let out = ys.times(&xs.op(turn)).plus(second, one, &out);
    let ints = [Int::of(n), Int(x.inc), Int(y.inc), Int::of(a.ld)];
    call!(R2[ty as usize]; ch(uplo), ints[0].p(), alpha.p(), w.p(sx, x.off), ints[1].p(), w.p(sy, y.off), ints[2].p(),
        w.p(sa, a.off), ints[3].p());
    let bound = bound(w);
    put_triangle(w, &a, out, uplo, ty.complex());
    w.raise(sa, bound);
    Some(sa)
}

fn triangular(w: &mut World, group: (usize, usize), [n, _]: [usize; 2]) -> Option<usize> {
    let (sa, sx) = (w.pick(group), w.pick(group));
    let ty = w.ty(sa);
    let solve = w.rng.one_in(2);
    let (uplo, trans, diag) = (w.rng.of(b"UL"), w.rng.of(b"NTC"), w.rng.of(b"NU"));
    let (a, x) = (w.mat(sa, n, n)?, w.vect(sx, n)?);
    if !vector_apart(&x, &a) {
        return None;
    }
    let s = spread(ty);
    let bound = move |w: &World| {
        if solve {
            9.0 * w.bound(sx)
        } else {
            s * w.bound(sa).max(1.0) * w.bound(sx) * n.max(1) as f64
        }
    };
    if !w.tame(&[sa, sx], bound) {
        return None;
    }
    if solve {
        solvable(w, &a, uplo);
    }
    w.note = format!(
        "{} {ty:?} {}{}{} {a:?} {x:?}",
        if solve { "trsv" } else { "trmv" },
        uplo as char,
        trans as char,
        diag as char
    );
    let t = w.dense(&a).triangle(uplo, diag).op(trans);
    let column = w.column(&x);
    let out = if solve {
        column.solved(&t, (uplo == b'L') == (trans == b'N'))
    } else {
        t.times(&column)
    };
    let ints = [Int::of(n), Int::of(a.ld), Int(x.inc)];
    let f = if solve {
        crate::fortran::TRSV[ty as usize]
    } else {
        crate::fortran::TRMV[ty as usize]
    };
    // SAFETY: as for `call!`.
    unsafe {
        f(
            ch(uplo),
            ch(trans),
            ch(diag),
            ints[0].p(),
            w.p(sa, a.off),
            ints[1].p(),
            w.p(sx, x.off),
            ints[2].p(),
        );
    }
    let bound = bound(w);
    w.put_column(&x, &out);
    w.raise(sx, bound);
    Some(sx)
}
