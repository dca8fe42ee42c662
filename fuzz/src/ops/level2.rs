//! Calls of a matrix and vectors.

#![expect(unsafe_code, reason = "calls the BLAS")]

use num_complex::Complex64;

use super::level3::{second, solvable, spread, turn, z};
use crate::call::call;
use crate::fortran;
use crate::world::{Mat, Operand, World};

pub(super) fn run(w: &mut World) {
    let mut sizes = [w.size(), w.size()];
    let which = w.rng.below(9);
    let group = w.group();
    for _ in 0..14 {
        let done = match which {
            0 | 1 => gemv(w, group, sizes),
            2 => ger(w, group, sizes),
            3 => symv(w, group, sizes),
            4 => syr(w, group, sizes),
            5 => syr2(w, group, sizes),
            7 => geadd(w, group, sizes),
            8 => copied(w, group, sizes),
            _ => triangular(w, group, sizes),
        };
        if let Some(slot) = done {
            return w.sometimes_check(slot);
        }
        sizes = sizes.map(|s| s.div_ceil(2));
    }
}

fn gemv(w: &mut World, group: (usize, usize), [m, n]: [usize; 2]) -> Option<usize> {
    let (sa, sx, sy) = (w.pick(group), w.pick(group), w.pick(group));
    let ty = w.ty(sa);
    let trans = w.rng.of(b"NNTC");
    let (nx, ny) = if trans == b'N' { (n, m) } else { (m, n) };
    let (a, x, y) = (w.mat(sa, m, n)?, w.vect(sx, nx)?, w.vect(sy, ny)?);
    let s = spread(ty);
    let bound =
        move |w: &World| 3.0 * s * (s * w.bound(sa) * w.bound(sx) * nx as f64 + w.bound(sy));
    if !y.apart(&a) || !y.apart(&x) || !w.tame(&[sa, sx, sy], bound) {
        return None;
    }
    let (alpha, beta) = w.scalars(ty, &[sy]);
    // A reference BLAS returns at once if the matrix is empty, whatever beta.
    if m == 0 || n == 0 {
        return None;
    }
    w.note = format!(
        "gemv {ty:?} {} {a:?} {x:?} {y:?} alpha={} beta={}",
        trans as char, alpha.value, beta.value
    );
    let out = w
        .dense(&a)
        .op(trans)
        .times(&w.dense(&x))
        .plus(alpha.value, beta.value, &w.dense(&y));
    call!(fortran::GEMV[ty as usize]; trans, m, n, &alpha, w.p(&a), a.ld, w.p(&x), x.inc, &beta, w.p(&y), y.inc);
    w.put_all(&y, &out, bound(w));
    Some(sy)
}

fn ger(w: &mut World, group: (usize, usize), [m, n]: [usize; 2]) -> Option<usize> {
    let (sa, sx, sy) = (w.pick(group), w.pick(group), w.pick(group));
    let ty = w.ty(sa);
    let (a, x, y) = (w.mat(sa, m, n)?, w.vect(sx, m)?, w.vect(sy, n)?);
    let s = spread(ty);
    let bound = move |w: &World| 3.0 * s * s * w.bound(sx) * w.bound(sy) + w.bound(sa);
    if !a.apart(&x) || !a.apart(&y) || !w.tame(&[sa, sx, sy], bound) {
        return None;
    }
    let alpha = w.scalar(ty, false, true, &[sa]);
    let conjugated = ty.complex() && w.rng.one_in(2);
    w.note = format!(
        "ger {ty:?} conjugated={conjugated} {a:?} {x:?} {y:?} alpha={}",
        alpha.value
    );
    let row = w.dense(&y).op(turn(conjugated));
    let out = w
        .dense(&x)
        .times(&row)
        .plus(alpha.value, Complex64::new(1.0, 0.0), &w.dense(&a));
    let f = if conjugated {
        fortran::GERC[z(ty)]
    } else {
        fortran::GER[ty as usize]
    };
    call!(f; m, n, &alpha, w.p(&x), x.inc, w.p(&y), y.inc, w.p(&a), a.ld);
    w.put_all(&a, &out, bound(w));
    Some(sa)
}

fn geadd(w: &mut World, group: (usize, usize), [m, n]: [usize; 2]) -> Option<usize> {
    let (sa, sc) = (w.pick(group), w.pick(group));
    let ty = w.ty(sa);
    let f = fortran::geadd(ty as usize)?;
    let (a, c) = (w.mat(sa, m, n)?, w.mat(sc, m, n)?);
    let s = spread(ty);
    let bound = move |w: &World| 3.0 * s * (w.bound(sa) + w.bound(sc));
    if !c.apart(&a) || !w.tame(&[sa, sc], bound) {
        return None;
    }
    let (alpha, beta) = w.scalars(ty, &[sc]);
    w.note = format!(
        "geadd {ty:?} {a:?} {c:?} alpha={} beta={}",
        alpha.value, beta.value
    );
    let out = w.dense(&a).plus(alpha.value, beta.value, &w.dense(&c));
    call!(f; m, n, &alpha, w.p(&a), a.ld, &beta, w.p(&c), c.ld);
    w.put_all(&c, &out, bound(w));
    Some(sc)
}

/// omatcopy and imatcopy, by columns and by rows. A matrix stored by rows is treated as its transpose, stored by
/// columns.
fn copied(w: &mut World, group: (usize, usize), [m, n]: [usize; 2]) -> Option<usize> {
    let in_place = w.rng.one_in(2);
    let (sa, sb) = (w.pick(group), w.pick(group));
    let ty = w.ty(sa);
    let (order, trans) = (w.rng.of(b"CR"), w.rng.of(b"NTC"));
    // An empty matrix is an error to some BLAS. In place, a matrix that is not square would need memory beyond it.
    let m = if in_place && trans != b'N' { n } else { m };
    if m == 0 || n == 0 {
        return None;
    }
    let a = w.mat(sa, m, n)?;
    // OpenBLAS 0.3.21 writes past the end of its own buffer in this case.
    if in_place && m != n && a.ld < n {
        return None;
    }
    let s = spread(ty);
    let b = if in_place {
        a
    } else {
        w.turned(sb, trans, m, n)?
    };
    let bound = move |w: &World| 3.0 * s * w.bound(sa);
    if !(in_place || b.apart(&a)) || !w.tame(&[sa], bound) {
        return None;
    }
    let alpha = w.scalar(ty, false, true, &[b.slot]);
    w.note = format!(
        "copy {ty:?} {} {} {a:?} {b:?} alpha={}",
        order as char, trans as char, alpha.value
    );
    let turned = w.dense(&a).op(trans);
    let out = turned.plus(alpha.value, Complex64::ZERO, &turned);
    let (rows, cols) = if order == b'C' { (m, n) } else { (n, m) };
    if in_place {
        let f = fortran::imatcopy(ty as usize)?;
        call!(f; order, trans, rows, cols, &alpha, w.p(&a), a.ld, a.ld);
    } else {
        let f = fortran::omatcopy(ty as usize)?;
        call!(f; order, trans, rows, cols, &alpha, w.p(&a), a.ld, w.p(&b), b.ld);
    }
    w.put_all(&b, &out, bound(w));
    Some(b.slot)
}

fn symv(w: &mut World, group: (usize, usize), [n, _]: [usize; 2]) -> Option<usize> {
    let (sa, sx, sy) = (w.pick(group), w.pick(group), w.pick(group));
    let ty = w.ty(sa);
    let uplo = w.rng.of(b"UL");
    let (a, x, y) = (w.mat(sa, n, n)?, w.vect(sx, n)?, w.vect(sy, n)?);
    let s = spread(ty);
    let bound = move |w: &World| 3.0 * s * (s * w.bound(sa) * w.bound(sx) * n as f64 + w.bound(sy));
    if !y.apart(&a) || !y.apart(&x) || !w.tame(&[sa, sx, sy], bound) {
        return None;
    }
    let (alpha, beta) = w.scalars(ty, &[sy]);
    w.note = format!(
        "symv or hemv {ty:?} {} {a:?} {x:?} {y:?} alpha={} beta={}",
        uplo as char, alpha.value, beta.value
    );
    let full = w.dense(&a).mirrored(uplo, ty.complex());
    let out = full
        .times(&w.dense(&x))
        .plus(alpha.value, beta.value, &w.dense(&y));
    call!(fortran::MV[ty as usize]; uplo, n, &alpha, w.p(&a), a.ld, w.p(&x), x.inc, &beta, w.p(&y), y.inc);
    w.put_all(&y, &out, bound(w));
    Some(sy)
}

/// Makes a diagonal real, by the CPU: BLAS implementations differ in what they do with its imaginary parts if a vector
/// is zero.
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
    let s = spread(ty);
    let bound = move |w: &World| 3.0 * s * w.bound(sx) * w.bound(sx) + w.bound(sa);
    if !a.apart(&x) || !w.tame(&[sa, sx], bound) {
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
    let column = w.dense(&x);
    let row = column.op(turn(ty.complex()));
    let out = column
        .times(&row)
        .plus(alpha.value, Complex64::new(1.0, 0.0), &w.dense(&a));
    call!(fortran::R[ty as usize]; uplo, n, &alpha, w.p(&x), x.inc, w.p(&a), a.ld);
    w.put_triangle(&a, out, bound(w), uplo, ty.complex());
    Some(sa)
}

fn syr2(w: &mut World, group: (usize, usize), [n, _]: [usize; 2]) -> Option<usize> {
    let (sa, sx, sy) = (w.pick(group), w.pick(group), w.pick(group));
    let ty = w.ty(sa);
    let uplo = w.rng.of(b"UL");
    let (a, x, y) = (w.mat(sa, n, n)?, w.vect(sx, n)?, w.vect(sy, n)?);
    let s = spread(ty);
    let bound = move |w: &World| 6.0 * s * s * w.bound(sx) * w.bound(sy) + w.bound(sa);
    if !a.apart(&x) || !a.apart(&y) || !w.tame(&[sa, sx, sy], bound) {
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
    let turn = turn(ty.complex());
    let second = second(alpha.value, ty.complex());
    let (xs, ys) = (w.dense(&x), w.dense(&y));
    let one = Complex64::new(1.0, 0.0);
    let out = xs.times(&ys.op(turn)).plus(alpha.value, one, &w.dense(&a));
    let out = ys.times(&xs.op(turn)).plus(second, one, &out);
    call!(fortran::R2[ty as usize]; uplo, n, &alpha, w.p(&x), x.inc, w.p(&y), y.inc, w.p(&a), a.ld);
    w.put_triangle(&a, out, bound(w), uplo, ty.complex());
    Some(sa)
}

fn triangular(w: &mut World, group: (usize, usize), [n, _]: [usize; 2]) -> Option<usize> {
    let (sa, sx) = (w.pick(group), w.pick(group));
    let ty = w.ty(sa);
    let solve = w.rng.one_in(2);
    let (uplo, trans, diag) = (w.rng.of(b"UL"), w.rng.of(b"NTC"), w.rng.of(b"NU"));
    let (a, x) = (w.mat(sa, n, n)?, w.vect(sx, n)?);
    let s = spread(ty);
    let bound = move |w: &World| {
        if solve {
            9.0 * w.bound(sx)
        } else {
            s * w.bound(sa).max(1.0) * w.bound(sx) * n.max(1) as f64
        }
    };
    if !x.apart(&a) || !w.tame(&[sa, sx], bound) {
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
    let column = w.dense(&x);
    let out = if solve {
        column.solved(&t, (uplo == b'L') == (trans == b'N'))
    } else {
        t.times(&column)
    };
    let f = if solve {
        fortran::TRSV[ty as usize]
    } else {
        fortran::TRMV[ty as usize]
    };
    call!(f; uplo, trans, diag, n, w.p(&a), a.ld, w.p(&x), x.inc);
    w.put_all(&x, &out, bound(w));
    Some(sx)
}
