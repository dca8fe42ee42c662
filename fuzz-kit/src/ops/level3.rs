//! Calls of matrices.

#![expect(unsafe_code, reason = "calls the BLAS")]

use num_complex::Complex64;

use super::{Int, call, ch};
use crate::element::Type;
use crate::reference::Dense;
use crate::world::{Mat, World};

/// The table's row of routines that exist for complex elements only.
fn z(ty: Type) -> usize {
    usize::from(ty == Type::Z)
}

/// How much larger a product of two elements is than the product of their bounds.
pub(super) fn spread(ty: Type) -> f64 {
    if ty.complex() { 2.0 } else { 1.0 }
}

pub(super) fn run(w: &mut World) {
    let mut sizes = [w.size(), w.size(), w.size()];
    // One large product now and then is enough.
    if sizes.iter().product::<usize>() > 500_000 && !w.rng.one_in(6) {
        sizes[2] = sizes[2].min(20);
    }
    let which = w.rng.below(8);
    let group = w.group();
    for _ in 0..14 {
        let done = match which {
            0..=2 => gemm(w, group, sizes),
            3 => symm(w, group, sizes),
            4 => rank_k(w, group, sizes),
            5 => rank_2k(w, group, sizes),
            6 => trmm(w, group, sizes),
            _ => trsm(w, group, sizes),
        };
        if let Some(slot) = done {
            return w.glance(slot);
        }
        sizes = sizes.map(|s| s.div_ceil(2));
    }
}

fn apart(out: &Mat, input: &Mat) -> bool {
    World::apart((out.slot, out.elements()), (input.slot, input.elements()))
}

fn gemm(w: &mut World, group: (usize, usize), [m, n, k]: [usize; 3]) -> Option<usize> {
    let (sa, sb, sc) = (w.pick(group), w.pick(group), w.pick(group));
    let ty = w.ty(sc);
    let (ta, tb) = (w.rng.of(b"NNTC"), w.rng.of(b"NNTC"));
    let a = if ta == b'N' {
        w.mat(sa, m, k)?
    } else {
        w.mat(sa, k, m)?
    };
    let b = if tb == b'N' {
        w.mat(sb, k, n)?
    } else {
        w.mat(sb, n, k)?
    };
    let c = w.mat(sc, m, n)?;
    if !apart(&c, &a) || !apart(&c, &b) {
        return None;
    }
    let s = spread(ty);
    let bound = move |w: &World| 3.0 * s * (s * w.bound(sa) * w.bound(sb) * k as f64 + w.bound(sc));
    if !w.tame(&[sa, sb, sc], bound) {
        return None;
    }
    let (alpha, beta) = (
        w.scalar(ty, false, true, &[sc]),
        w.scalar(ty, false, true, &[sc]),
    );
    let (alpha_v, beta_v) = (alpha.value, beta.value);
    w.note = format!(
        "gemm {ty:?} {}{} m={m} n={n} k={k} alpha={alpha_v} {a:?} {b:?} beta={beta_v} {c:?}",
        ta as char, tb as char
    );
    let out = w
        .dense(&a)
        .op(ta)
        .times(&w.dense(&b).op(tb))
        .plus(alpha_v, beta_v, &w.dense(&c));
    let ints = [m, n, k, a.ld, b.ld, c.ld].map(Int::of);
    call!(GEMM[ty as usize]; ch(ta), ch(tb), ints[0].p(), ints[1].p(), ints[2].p(), alpha.p(), w.p(sa, a.off), ints[3].p(),
        w.p(sb, b.off), ints[4].p(), beta.p(), w.p(sc, c.off), ints[5].p());
    let bound = bound(w);
    w.put(&c, &out, |_, _| false);
    w.raise(sc, bound);
    Some(sc)
}

/// A product into a matrix that overlaps an input: what comes out is nobody's promise, but it stays inside.
pub(super) fn overlap(w: &mut World) {
    let group = w.group();
    let (sa, sb) = (w.pick(group), w.pick(group));
    let ty = w.ty(sa);
    let n = 1 + w.rng.below(40);
    let (Some(a), Some(b), Some(c)) = (w.mat(sa, n, n), w.mat(sb, n, n), w.mat(sa, n, n)) else {
        return;
    };
    let one = w.scalar(ty, true, false, &[]);
    let ints = [n, a.ld, b.ld, c.ld].map(Int::of);
    w.note = format!("gemm {ty:?} n={n} {a:?} {b:?} overlapped by {c:?}");
    call!(GEMM[ty as usize]; ch(b'N'), ch(b'N'), ints[0].p(), ints[0].p(), ints[0].p(), one.p(), w.p(sa, a.off), ints[1].p(),
        w.p(sb, b.off), ints[2].p(), one.p(), w.p(sa, c.off), ints[3].p());
    for i in c.elements() {
        w.slots[sa].poke(i, Complex64::new(1.0, 0.0));
    }
    let note = w.note.clone();
    w.slots[sa].check_all(&note);
}

fn symm(w: &mut World, group: (usize, usize), [m, n, _]: [usize; 3]) -> Option<usize> {
    let (sa, sb, sc) = (w.pick(group), w.pick(group), w.pick(group));
    let ty = w.ty(sc);
    let (side, uplo) = (w.rng.of(b"LR"), w.rng.of(b"UL"));
    let hermitian = ty.complex() && w.rng.one_in(2);
    let order = if side == b'L' { m } else { n };
    let (a, b, c) = (w.mat(sa, order, order)?, w.mat(sb, m, n)?, w.mat(sc, m, n)?);
    if !apart(&c, &a) || !apart(&c, &b) {
        return None;
    }
    let s = spread(ty);
    let bound =
        move |w: &World| 3.0 * s * (s * w.bound(sa) * w.bound(sb) * order as f64 + w.bound(sc));
    if !w.tame(&[sa, sb, sc], bound) {
        return None;
    }
    let (alpha, beta) = (
        w.scalar(ty, false, true, &[sc]),
        w.scalar(ty, false, true, &[sc]),
    );
    w.note = format!(
        "symm {ty:?} hermitian={hermitian} {}{} {a:?} {b:?} {c:?} alpha={} beta={}",
        side as char, uplo as char, alpha.value, beta.value
    );
    let (full, other) = (w.dense(&a).mirrored(uplo, hermitian), w.dense(&b));
    let product = if side == b'L' {
        full.times(&other)
    } else {
        other.times(&full)
    };
    let out = product.plus(alpha.value, beta.value, &w.dense(&c));
    let ints = [m, n, a.ld, b.ld, c.ld].map(Int::of);
    let f = if hermitian {
        crate::fortran::HEMM[z(ty)]
    } else {
        crate::fortran::SYMM[ty as usize]
    };
    // SAFETY: as for `call!`.
    unsafe {
        f(
            ch(side),
            ch(uplo),
            ints[0].p(),
            ints[1].p(),
            alpha.p(),
            w.p(sa, a.off),
            ints[2].p(),
            w.p(sb, b.off),
            ints[3].p(),
            beta.p(),
            w.p(sc, c.off),
            ints[4].p(),
        );
    }
    let bound = bound(w);
    w.put(&c, &out, |_, _| false);
    w.raise(sc, bound);
    Some(sc)
}

/// Makes a Hermitian result's diagonal real.
fn real_diagonal(d: &mut Dense) {
    for i in 0..d.rows {
        d.at_mut(i, i).im = 0.0;
    }
}

fn rank_k(w: &mut World, group: (usize, usize), [n, k, _]: [usize; 3]) -> Option<usize> {
    let (sa, sc) = (w.pick(group), w.pick(group));
    let ty = w.ty(sc);
    let k = k.max(1);
    let hermitian = ty.complex() && w.rng.one_in(2);
    let uplo = w.rng.of(b"UL");
    let trans = if w.rng.one_in(2) {
        b'N'
    } else if hermitian {
        b'C'
    } else {
        b'T'
    };
    let a = if trans == b'N' {
        w.mat(sa, n, k)?
    } else {
        w.mat(sa, k, n)?
    };
    let c = w.mat(sc, n, n)?;
    if !apart(&c, &a) {
        return None;
    }
    let s = spread(ty);
    let bound = move |w: &World| 3.0 * s * (s * w.bound(sa) * w.bound(sa) * k as f64 + w.bound(sc));
    if !w.tame(&[sa, sc], bound) {
        return None;
    }
    let (alpha, beta) = (
        w.scalar(ty, hermitian, false, &[sc]),
        w.scalar(ty, hermitian, true, &[sc]),
    );
    w.note = format!(
        "rank_k {ty:?} hermitian={hermitian} {}{} {a:?} {c:?} alpha={} beta={}",
        uplo as char, trans as char, alpha.value, beta.value
    );
    let left = w.dense(&a).op(trans);
    let right = left.op(if hermitian { b'C' } else { b'T' });
    let mut out = left
        .times(&right)
        .plus(alpha.value, beta.value, &w.dense(&c));
    if hermitian {
        real_diagonal(&mut out);
    }
    let ints = [n, k, a.ld, c.ld].map(Int::of);
    let f = if hermitian {
        crate::fortran::HERK[z(ty)]
    } else {
        crate::fortran::SYRK[ty as usize]
    };
    // SAFETY: as for `call!`.
    unsafe {
        f(
            ch(uplo),
            ch(trans),
            ints[0].p(),
            ints[1].p(),
            alpha.p(),
            w.p(sa, a.off),
            ints[2].p(),
            beta.p(),
            w.p(sc, c.off),
            ints[3].p(),
        );
    }
    let bound = bound(w);
    w.put(&c, &out, |i, j| i != j && (uplo == b'U') != (i < j));
    w.raise(sc, bound);
    Some(sc)
}

fn rank_2k(w: &mut World, group: (usize, usize), [n, k, _]: [usize; 3]) -> Option<usize> {
    let (sa, sb, sc) = (w.pick(group), w.pick(group), w.pick(group));
    let ty = w.ty(sc);
    let k = k.max(1);
    let hermitian = ty.complex() && w.rng.one_in(2);
    let uplo = w.rng.of(b"UL");
    let trans = if w.rng.one_in(2) {
        b'N'
    } else if hermitian {
        b'C'
    } else {
        b'T'
    };
    let (r, q) = if trans == b'N' { (n, k) } else { (k, n) };
    let (a, b, c) = (w.mat(sa, r, q)?, w.mat(sb, r, q)?, w.mat(sc, n, n)?);
    if !apart(&c, &a) || !apart(&c, &b) {
        return None;
    }
    let s = spread(ty);
    let bound =
        move |w: &World| 3.0 * s * (2.0 * s * w.bound(sa) * w.bound(sb) * k as f64 + w.bound(sc));
    if !w.tame(&[sa, sb, sc], bound) {
        return None;
    }
    let (alpha, beta) = (
        w.scalar(ty, false, false, &[sc]),
        w.scalar(ty, hermitian, true, &[sc]),
    );
    w.note = format!(
        "rank_2k {ty:?} hermitian={hermitian} {}{} {a:?} {b:?} {c:?} alpha={} beta={}",
        uplo as char, trans as char, alpha.value, beta.value
    );
    let (x, y) = (w.dense(&a).op(trans), w.dense(&b).op(trans));
    let turn = if hermitian { b'C' } else { b'T' };
    let second = if hermitian {
        alpha.value.conj()
    } else {
        alpha.value
    };
    let mut out = x
        .times(&y.op(turn))
        .plus(alpha.value, beta.value, &w.dense(&c));
    out = y
        .times(&x.op(turn))
        .plus(second, Complex64::new(1.0, 0.0), &out);
    if hermitian {
        // What was imaginary on C's diagonal is not looked at, and the two products' cancel.
        real_diagonal(&mut out);
    }
    let ints = [n, k, a.ld, b.ld, c.ld].map(Int::of);
    let f = if hermitian {
        crate::fortran::HER2K[z(ty)]
    } else {
        crate::fortran::SYR2K[ty as usize]
    };
    // SAFETY: as for `call!`.
    unsafe {
        f(
            ch(uplo),
            ch(trans),
            ints[0].p(),
            ints[1].p(),
            alpha.p(),
            w.p(sa, a.off),
            ints[2].p(),
            w.p(sb, b.off),
            ints[3].p(),
            beta.p(),
            w.p(sc, c.off),
            ints[4].p(),
        );
    }
    let bound = bound(w);
    w.put(&c, &out, |i, j| i != j && (uplo == b'U') != (i < j));
    w.raise(sc, bound);
    Some(sc)
}

fn trmm(w: &mut World, group: (usize, usize), [m, n, _]: [usize; 3]) -> Option<usize> {
    let (sa, sb) = (w.pick(group), w.pick(group));
    let ty = w.ty(sb);
    let (side, uplo, trans, diag) = (
        w.rng.of(b"LR"),
        w.rng.of(b"UL"),
        w.rng.of(b"NTC"),
        w.rng.of(b"NU"),
    );
    let order = if side == b'L' { m } else { n };
    let (a, b) = (w.mat(sa, order, order)?, w.mat(sb, m, n)?);
    if !apart(&b, &a) {
        return None;
    }
    let s = spread(ty);
    let bound = move |w: &World| 3.0 * s * s * w.bound(sa).max(1.0) * w.bound(sb) * order as f64;
    if !w.tame(&[sa, sb], bound) {
        return None;
    }
    let alpha = w.scalar(ty, false, true, &[sb]);
    w.note = format!(
        "trmm {ty:?} {}{}{}{} {a:?} {b:?} alpha={}",
        side as char, uplo as char, trans as char, diag as char, alpha.value
    );
    let (t, x) = (w.dense(&a).triangle(uplo, diag).op(trans), w.dense(&b));
    let product = if side == b'L' {
        t.times(&x)
    } else {
        x.times(&t)
    };
    let out = product.plus(alpha.value, Complex64::ZERO, &product);
    let ints = [m, n, a.ld, b.ld].map(Int::of);
    call!(TRMM[ty as usize]; ch(side), ch(uplo), ch(trans), ch(diag), ints[0].p(), ints[1].p(), alpha.p(), w.p(sa, a.off),
        ints[2].p(), w.p(sb, b.off), ints[3].p());
    let bound = bound(w);
    w.put(&b, &out, |_, _| false);
    w.raise(sb, bound);
    Some(sb)
}

/// Writes a triangle whose inverse has few and small elements: its square, less the diagonal, is zero. Returns the
/// largest sum of a row's or a column's off-diagonal elements.
#[expect(
    clippy::needless_range_loop,
    reason = "rows and columns, as in a formula"
)]
pub(super) fn solvable(w: &mut World, a: &Mat, uplo: u8) -> f64 {
    let n = a.rows;
    let (mut rows, mut cols) = (vec![0.0; n], vec![0.0; n]);
    for j in 0..n {
        for i in 0..n {
            let inside = (uplo == b'U') == (i < j);
            let value = if i == j {
                w.rng.of(&[1.0, -1.0])
            } else if !inside {
                continue;
            } else if i % 2 == 1 && j % 2 == 0 && w.rng.one_in(8) && rows[i] < 6.0 && cols[j] < 6.0
            {
                rows[i] += 2.0;
                cols[j] += 2.0;
                w.rng.of(&[-2.0, 1.0, 2.0])
            } else {
                0.0
            };
            w.slots[a.slot].poke(a.off + j * a.ld + i, Complex64::new(value, 0.0));
        }
    }
    w.raise(a.slot, 2.0);
    rows.into_iter().chain(cols).fold(0.0, f64::max)
}

fn trsm(w: &mut World, group: (usize, usize), [m, n, _]: [usize; 3]) -> Option<usize> {
    let (sa, sb) = (w.pick(group), w.pick(group));
    let ty = w.ty(sb);
    let (side, uplo, trans, diag) = (
        w.rng.of(b"LR"),
        w.rng.of(b"UL"),
        w.rng.of(b"NTC"),
        w.rng.of(b"NU"),
    );
    let order = if side == b'L' { m } else { n };
    let (a, b) = (w.mat(sa, order, order)?, w.mat(sb, m, n)?);
    if !apart(&b, &a) {
        return None;
    }
    let s = spread(ty);
    let bound = move |w: &World| 3.0 * s * w.bound(sb) * 9.0;
    if !w.tame(&[sa, sb], bound) {
        return None;
    }
    solvable(w, &a, uplo);
    let alpha = w.scalar(ty, false, true, &[sa, sb]);
    w.note = format!(
        "trsm {ty:?} {}{}{}{} {a:?} {b:?} alpha={}",
        side as char, uplo as char, trans as char, diag as char, alpha.value
    );
    let t = w.dense(&a).triangle(uplo, diag).op(trans);
    let x = w.dense(&b);
    let x = x.plus(alpha.value, Complex64::ZERO, &x);
    let lower = (uplo == b'L') == (trans == b'N');
    let out = if side == b'L' {
        x.solved(&t, lower)
    } else {
        x.op(b'T').solved(&t.op(b'T'), !lower).op(b'T')
    };
    let ints = [m, n, a.ld, b.ld].map(Int::of);
    call!(TRSM[ty as usize]; ch(side), ch(uplo), ch(trans), ch(diag), ints[0].p(), ints[1].p(), alpha.p(), w.p(sa, a.off),
        ints[2].p(), w.p(sb, b.off), ints[3].p());
    let bound = bound(w);
    w.put(&b, &out, |_, _| false);
    w.raise(sb, bound);
    Some(sb)
}
