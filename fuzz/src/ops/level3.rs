//! Calls of matrices.

#![expect(unsafe_code, reason = "calls the BLAS")]

use num_complex::Complex64;

use crate::call::call;
use crate::element::Type;
use crate::fortran;
use crate::world::{Mat, Operand, World};

/// The table's row of routines that exist for complex elements only.
pub(super) fn z(ty: Type) -> usize {
    usize::from(ty == Type::Z)
}

/// How much larger a product of two elements is than the product of their bounds.
pub(super) fn spread(ty: Type) -> f64 {
    if ty.complex() { 2.0 } else { 1.0 }
}

/// How the second factor of a symmetric or Hermitian product is transposed.
pub(super) fn turn(hermitian: bool) -> u8 {
    if hermitian { b'C' } else { b'T' }
}

/// The scalar of such a product's mirror image.
pub(super) fn second(alpha: Complex64, hermitian: bool) -> Complex64 {
    if hermitian { alpha.conj() } else { alpha }
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
            _ => triangular(w, group, sizes, which > 6),
        };
        if let Some(slot) = done {
            return w.sometimes_check(slot);
        }
        sizes = sizes.map(|s| s.div_ceil(2));
    }
}

fn gemm(w: &mut World, group: (usize, usize), [m, n, k]: [usize; 3]) -> Option<usize> {
    let (sa, sb, sc) = (w.pick(group), w.pick(group), w.pick(group));
    let ty = w.ty(sc);
    let (ta, tb) = (w.rng.of(b"NNTC"), w.rng.of(b"NNTC"));
    let (a, b) = (w.turned(sa, ta, m, k)?, w.turned(sb, tb, k, n)?);
    let c = w.mat(sc, m, n)?;
    let s = spread(ty);
    let bound = move |w: &World| 3.0 * s * (s * w.bound(sa) * w.bound(sb) * k as f64 + w.bound(sc));
    if !c.apart(&a) || !c.apart(&b) || !w.tame(&[sa, sb, sc], bound) {
        return None;
    }
    let (alpha, beta) = w.scalars(ty, &[sc]);
    w.note = format!(
        "gemm {ty:?} {}{} m={m} n={n} k={k} alpha={} {a:?} {b:?} beta={} {c:?}",
        ta as char, tb as char, alpha.value, beta.value
    );
    let out =
        w.dense(&a)
            .op(ta)
            .times(&w.dense(&b).op(tb))
            .plus(alpha.value, beta.value, &w.dense(&c));
    call!(fortran::GEMM[ty as usize]; ta, tb, m, n, k, &alpha, w.p(&a), a.ld, w.p(&b), b.ld, &beta, w.p(&c), c.ld);
    w.put_all(&c, &out, bound(w));
    Some(sc)
}

/// A product into a matrix that overlaps an input: its values are undefined, but it writes only inside the matrix.
pub(super) fn overlap(w: &mut World) {
    let group = w.group();
    let (sa, sb) = (w.pick(group), w.pick(group));
    let ty = w.ty(sa);
    let n = 1 + w.rng.below(40);
    let (Some(a), Some(b), Some(c)) = (w.mat(sa, n, n), w.mat(sb, n, n), w.mat(sa, n, n)) else {
        return;
    };
    let one = w.scalar(ty, true, false, &[]);
    w.note = format!("gemm {ty:?} n={n} {a:?} {b:?} overlapped by {c:?}");
    call!(fortran::GEMM[ty as usize]; b'N', b'N', n, n, n, &one, w.p(&a), a.ld, w.p(&b), b.ld, &one, w.p(&c), c.ld);
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
    let s = spread(ty);
    let bound =
        move |w: &World| 3.0 * s * (s * w.bound(sa) * w.bound(sb) * order as f64 + w.bound(sc));
    if !c.apart(&a) || !c.apart(&b) || !w.tame(&[sa, sb, sc], bound) {
        return None;
    }
    let (alpha, beta) = w.scalars(ty, &[sc]);
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
    let f = if hermitian {
        fortran::HEMM[z(ty)]
    } else {
        fortran::SYMM[ty as usize]
    };
    call!(f; side, uplo, m, n, &alpha, w.p(&a), a.ld, w.p(&b), b.ld, &beta, w.p(&c), c.ld);
    w.put_all(&c, &out, bound(w));
    Some(sc)
}

fn rank_k(w: &mut World, group: (usize, usize), [n, k, _]: [usize; 3]) -> Option<usize> {
    let (sa, sc) = (w.pick(group), w.pick(group));
    let ty = w.ty(sc);
    let k = k.max(1);
    let hermitian = ty.complex() && w.rng.one_in(2);
    let uplo = w.rng.of(b"UL");
    let trans = w.rng.of(&[b'N', turn(hermitian)]);
    let (a, c) = (w.turned(sa, trans, n, k)?, w.mat(sc, n, n)?);
    let s = spread(ty);
    let bound = move |w: &World| 3.0 * s * (s * w.bound(sa) * w.bound(sa) * k as f64 + w.bound(sc));
    if !c.apart(&a) || !w.tame(&[sa, sc], bound) {
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
    let x = w.dense(&a).op(trans);
    let out = x
        .times(&x.op(turn(hermitian)))
        .plus(alpha.value, beta.value, &w.dense(&c));
    let f = if hermitian {
        fortran::HERK[z(ty)]
    } else {
        fortran::SYRK[ty as usize]
    };
    call!(f; uplo, trans, n, k, &alpha, w.p(&a), a.ld, &beta, w.p(&c), c.ld);
    w.put_triangle(&c, out, bound(w), uplo, hermitian);
    Some(sc)
}

fn rank_2k(w: &mut World, group: (usize, usize), [n, k, _]: [usize; 3]) -> Option<usize> {
    let (sa, sb, sc) = (w.pick(group), w.pick(group), w.pick(group));
    let ty = w.ty(sc);
    let k = k.max(1);
    let hermitian = ty.complex() && w.rng.one_in(2);
    let uplo = w.rng.of(b"UL");
    let turn = turn(hermitian);
    let trans = w.rng.of(&[b'N', turn]);
    let (a, b) = (w.turned(sa, trans, n, k)?, w.turned(sb, trans, n, k)?);
    let c = w.mat(sc, n, n)?;
    let s = spread(ty);
    let bound =
        move |w: &World| 3.0 * s * (2.0 * s * w.bound(sa) * w.bound(sb) * k as f64 + w.bound(sc));
    if !c.apart(&a) || !c.apart(&b) || !w.tame(&[sa, sb, sc], bound) {
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
    let out = x
        .times(&y.op(turn))
        .plus(alpha.value, beta.value, &w.dense(&c));
    let out = y.times(&x.op(turn)).plus(
        second(alpha.value, hermitian),
        Complex64::new(1.0, 0.0),
        &out,
    );
    let f = if hermitian {
        fortran::HER2K[z(ty)]
    } else {
        fortran::SYR2K[ty as usize]
    };
    call!(f; uplo, trans, n, k, &alpha, w.p(&a), a.ld, w.p(&b), b.ld, &beta, w.p(&c), c.ld);
    // Imaginary parts on C's diagonal are not read, and those of the two products cancel.
    w.put_triangle(&c, out, bound(w), uplo, hermitian);
    Some(sc)
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

fn triangular(
    w: &mut World,
    group: (usize, usize),
    [m, n, _]: [usize; 3],
    solve: bool,
) -> Option<usize> {
    let (sa, sb) = (w.pick(group), w.pick(group));
    let ty = w.ty(sb);
    let (side, uplo, trans, diag) = (
        w.rng.of(b"LR"),
        w.rng.of(b"UL"),
        w.rng.of(b"NTC"),
        w.rng.of(b"NU"),
    );
    let left = side == b'L';
    let order = if left { m } else { n };
    let (a, b) = (w.mat(sa, order, order)?, w.mat(sb, m, n)?);
    let s = spread(ty);
    let bound = move |w: &World| {
        let largest = if solve {
            9.0
        } else {
            s * w.bound(sa).max(1.0) * order as f64
        };
        3.0 * s * largest * w.bound(sb)
    };
    if !b.apart(&a) || !w.tame(&[sa, sb], bound) {
        return None;
    }
    let alpha = if solve {
        solvable(w, &a, uplo);
        w.scalar(ty, false, true, &[sa, sb])
    } else {
        w.scalar(ty, false, true, &[sb])
    };
    w.note = format!(
        "{} {ty:?} {}{}{}{} {a:?} {b:?} alpha={}",
        if solve { "trsm" } else { "trmm" },
        side as char,
        uplo as char,
        trans as char,
        diag as char,
        alpha.value
    );
    let (t, x) = (w.dense(&a).triangle(uplo, diag).op(trans), w.dense(&b));
    let x = x.plus(alpha.value, Complex64::ZERO, &x);
    let lower = (uplo == b'L') == (trans == b'N');
    let out = match (solve, left) {
        (false, true) => t.times(&x),
        (false, false) => x.times(&t),
        (true, true) => x.solved(&t, lower),
        (true, false) => x.op(b'T').solved(&t.op(b'T'), !lower).op(b'T'),
    };
    let f = if solve {
        fortran::TRSM[ty as usize]
    } else {
        fortran::TRMM[ty as usize]
    };
    call!(f; side, uplo, trans, diag, m, n, &alpha, w.p(&a), a.ld, w.p(&b), b.ld);
    w.put_all(&b, &out, bound(w));
    Some(sb)
}
