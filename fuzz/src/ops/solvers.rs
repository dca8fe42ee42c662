//! Systems of linear equations, whose factors are exact: LAPACK's factorizations, and solutions by them, on matrices in blocks that all
//! other operations change and read; and factorizations by QR, whose factors must give the matrix.

#![expect(unsafe_code, reason = "calls the BLAS and LAPACK")]

use num_complex::Complex64;
use testkit::oracle::Dense;

use super::level3::spread;
use crate::block::small;
use crate::call::call;
use crate::element::Type;
use crate::fortran;
use crate::world::{ALL, Mat, Operand, World};

/// Of this number of elements of a factor beside its diagonal one is not zero: the inverse of a diagonal block, by which some LAPACKs
/// solve, stays exact.
const SPARSE: usize = 48;
/// INFO before a call.
const UNSET: i32 = 77;

pub(super) fn run(w: &mut World) {
    let mut sizes = [w.size(), w.size(), w.rng.of(&[0, 1, 2, 5, 17])];
    if sizes[0] * sizes[1] > 10_000 && !w.rng.one_in(6) {
        sizes = sizes.map(|s| s.min(70));
    }
    let (group, kind, square) = (w.group(), w.rng.below(3), !w.rng.one_in(3));
    if square {
        sizes[1] = sizes[0];
    }
    for _ in 0..14 {
        let done = match kind {
            0 => positive_definite(w, group, sizes),
            1 => general(w, group, sizes),
            _ => orthogonal(w, group, sizes),
        };
        if let Some(slot) = done {
            return w.sometimes_check(slot);
        }
        sizes = sizes.map(|s| s.div_ceil(2));
    }
}

/// Mostly zero; else parts of at most `most`.
fn sparse(w: &mut World, ty: Type, most: f64) -> Complex64 {
    if !w.rng.one_in(SPARSE) {
        return Complex64::ZERO;
    }
    let parts = [-most, 0.0, most];
    let im = if ty.complex() { w.rng.of(&parts) } else { 0.0 };
    Complex64::new(w.rng.of(&parts), im)
}

/// The largest part of an element.
fn largest(d: &Dense) -> f64 {
    let all = (0..d.cols).flat_map(|j| (0..d.rows).map(move |i| d.at(i, j)));
    all.fold(0.0, |most, z| most.max(z.re.abs()).max(z.im.abs()))
}

/// The CPU writes a matrix, or those elements of it that `part` says.
fn poke(w: &mut World, a: &Mat, d: &Dense, part: impl Fn(usize, usize) -> bool) {
    for j in 0..a.cols {
        for i in (0..a.rows).filter(|&i| part(i, j)) {
            w.slots[a.slot].poke(a.element(i, j), d.at(i, j));
        }
    }
}

/// Right sides, and what solves them.
struct Sides {
    b: Mat,
    x: Dense,
    /// The largest part of an element of B's block when B is solved.
    bound: f64,
}

/// B = op(A) X, which a product computes of an X in some block. `full`: A's elements, of which `uplo` says which triangle is stored, if A
/// is symmetric or Hermitian.
fn sides(
    w: &mut World,
    group: (usize, usize),
    a: &Mat,
    full: &Dense,
    (op, uplo): (u8, Option<u8>),
    sides: usize,
) -> Option<Sides> {
    let (sx, sb) = (w.pick(group), w.pick(group));
    let (ty, n) = (w.ty(a.slot), a.rows);
    let (x, b) = (w.mat(sx, n, sides)?, w.mat(sb, n, sides)?);
    // X's block may be made smaller, which must not touch A.
    if sx == a.slot || !b.apart(a) || !b.apart(&x) {
        return None;
    }
    // A, its factors and what comes in between are multiples of a quarter.
    let s = spread(ty);
    let most = largest(full).max(8.0);
    let bound = move |w: &World| 16.0 * 3.0 * s * s * most * w.bound(sx) * n.max(1) as f64;
    if !w.tame(&[sx], bound) {
        return None;
    }
    let before = w.bound(sb);
    let one = w.scalar(ty, true, false, &[sb]);
    let zero = [0.0_f64; 2];
    let xs = w.dense(&x);
    let product = full.op(op).times(&xs);
    let scaled = product.plus(one.value, Complex64::ZERO, &product);
    match uplo {
        None => {
            call!(fortran::GEMM[ty as usize]; op, b'N', n, sides, n, &one, w.p(a), a.ld, w.p(&x), x.ld, zero.as_ptr(), w.p(&b), b.ld);
        }
        Some(uplo) => {
            let f = match ty.complex() {
                true => fortran::HEMM[super::level3::z(ty)],
                false => fortran::SYMM[ty as usize],
            };
            call!(f; b'L', uplo, n, sides, &one, w.p(a), a.ld, w.p(&x), x.ld, zero.as_ptr(), w.p(&b), b.ld);
        }
    }
    w.put_all(&b, &scaled, before);
    Some(Sides {
        b,
        x: xs.plus(one.value, Complex64::ZERO, &xs),
        bound: before.max(3.0 * w.bound(sx)),
    })
}

/// Pivots: in a block of integers, or in memory of their own.
struct Pivots {
    own: Vec<i32>,
    place: Option<Mat>,
}

impl Pivots {
    fn new(w: &mut World, least: usize) -> Pivots {
        let place = (w.ty(ALL) == Type::I && w.rng.one_in(2)).then(|| w.mat(ALL, least, 1));
        Pivots {
            own: vec![0; least.max(1)],
            place: place.flatten(),
        }
    }

    fn p(&mut self, w: &World) -> *const i32 {
        match &self.place {
            Some(place) => w.p(place).cast(),
            None => self.own.as_mut_ptr(),
        }
    }

    fn check(&self, w: &mut World, wanted: &[i32]) {
        match &self.place {
            Some(place) => {
                let all = Dense::of(wanted.len(), 1, |i, _| f64::from(wanted[i]).into());
                w.put_all(place, &all, f64::from(i32::MAX));
                let note = w.note.clone();
                w.slots[place.slot].check(place.off, wanted.len(), &format!("pivots of {note}"));
            }
            None => assert_eq!(&self.own[..wanted.len()], wanted, "pivots"),
        }
    }
}

fn general(w: &mut World, group: (usize, usize), [m, n, many]: [usize; 3]) -> Option<usize> {
    let sa = w.pick(group);
    let (ty, a, least) = (w.ty(sa), w.mat(sa, m, n)?, m.min(n));
    let kind = ty as usize;
    let (getrf, getrs, gesv) = (
        fortran::getrf(kind)?,
        fortran::getrs(kind)?,
        fortran::gesv(kind)?,
    );
    let singular = m == n && n > 0 && w.rng.one_in(12);
    // A = P L U, whose rows are reversed: each step of partial pivoting finds one largest element, of 8.
    let (mut l, mut u) = (
        Dense::of(m, least, |_, _| Complex64::ZERO),
        Dense::of(least, n, |_, _| Complex64::ZERO),
    );
    for j in 0..least {
        for i in j + 1..m {
            *l.at_mut(i, j) = sparse(w, ty, 0.25);
        }
        *l.at_mut(j, j) = 1.0.into();
    }
    for j in 0..n {
        for i in 0..least.min(j) {
            *u.at_mut(i, j) = sparse(w, ty, 2.0);
        }
        if j < least {
            let zero = singular && j + 1 == n;
            *u.at_mut(j, j) = if zero { 0.0.into() } else { 8.0.into() };
        }
    }
    let product = l.times(&u);
    let full = Dense::of(m, n, |i, j| product.at(m - 1 - i, j));
    // Quarters: before an exact operation uses the block, `tame` has it read and made smaller.
    w.raise(sa, f64::INFINITY);
    poke(w, &a, &full, |_, _| true);
    // Which of L's rows is in each row, and the pivots.
    let mut rows: Vec<usize> = (0..m).rev().collect();
    let mut pivots = Vec::new();
    for k in 0..least {
        let at = rows[k..].iter().position(|&row| row == k)? + k;
        rows.swap(k, at);
        pivots.push(i32::try_from(at + 1).unwrap());
    }
    let right = (m == n && !singular && many > 0).then(|| {
        let op = w.rng.of(b"NTC");
        sides(w, group, &a, &full, (op, None), many).map(|sides| (op, sides))
    });
    let right = right.flatten();
    let mut place = Pivots::new(w, least);
    let mut info = UNSET;
    w.note = format!(
        "getrf {ty:?} {a:?} singular={singular} {:?}",
        right.as_ref().map(|(op, sides)| (*op as char, sides.b))
    );
    let all = right.as_ref().is_some_and(|(op, _)| *op == b'N') && w.rng.one_in(2);
    match &right {
        Some((_, sides)) if all => {
            call!(gesv; n, many, w.p(&a), a.ld, place.p(w), w.p(&sides.b), sides.b.ld, &raw mut info);
        }
        _ => {
            call!(getrf; m, n, w.p(&a), a.ld, place.p(w), &raw mut info);
        }
    }
    let wanted = if singular { n } else { 0 };
    assert_eq!(
        info,
        i32::try_from(wanted).unwrap(),
        "INFO of a factorization"
    );
    let factors = Dense::of(m, n, |i, j| match i <= j {
        true => u.at(i, j),
        false => l.at(rows[i], j),
    });
    w.put_all(&a, &factors, f64::INFINITY);
    place.check(w, &pivots);
    if let Some((op, sides)) = right {
        if !all {
            w.sometimes_check(sa);
            info = UNSET;
            call!(getrs; op, n, many, w.p(&a), a.ld, place.p(w), w.p(&sides.b), sides.b.ld, &raw mut info);
            assert_eq!(info, 0, "INFO of a solution");
        }
        w.put_all(&sides.b, &sides.x, sides.bound);
        w.sometimes_check(sides.b.slot);
    }
    Some(sa)
}

fn positive_definite(
    w: &mut World,
    group: (usize, usize),
    [n, _, many]: [usize; 3],
) -> Option<usize> {
    let sa = w.pick(group);
    let (ty, a) = (w.ty(sa), w.mat(sa, n, n)?);
    let kind = ty as usize;
    let (potrf, potrs, posv) = (
        fortran::potrf(kind)?,
        fortran::potrs(kind)?,
        fortran::posv(kind)?,
    );
    let uplo = w.rng.of(b"UL");
    let inside = move |i: usize, j: usize| i == j || (uplo == b'U') == (i < j);
    let mut l = Dense::of(n, n, |_, _| Complex64::ZERO);
    for j in 0..n {
        for i in j + 1..n {
            *l.at_mut(i, j) = sparse(w, ty, 1.0);
        }
        *l.at_mut(j, j) = w.rng.of(&[1.0, 2.0, 4.0]).into();
    }
    let mut full = l.times(&l.op(b'C'));
    let indefinite = n > 0 && w.rng.one_in(12);
    if indefinite {
        let last = full.at_mut(n - 1, n - 1);
        *last -= 17.0;
    }
    w.raise(sa, largest(&full).max(4.0));
    poke(w, &a, &full, inside);
    let right = (!indefinite && many > 0)
        .then(|| sides(w, group, &a, &full, (b'N', Some(uplo)), many))
        .flatten();
    let mut info = UNSET;
    let all = right.is_some() && w.rng.one_in(2);
    w.note = format!(
        "potrf {ty:?} {} {a:?} indefinite={indefinite} {:?}",
        uplo as char,
        right.as_ref().map(|sides| sides.b)
    );
    match &right {
        Some(sides) if all => {
            call!(posv; uplo, n, many, w.p(&a), a.ld, w.p(&sides.b), sides.b.ld, &raw mut info);
        }
        _ => {
            call!(potrf; uplo, n, w.p(&a), a.ld, &raw mut info);
        }
    }
    let wanted = if indefinite { n } else { 0 };
    assert_eq!(
        info,
        i32::try_from(wanted).unwrap(),
        "INFO of a factorization"
    );
    let factor = if uplo == b'L' { l } else { l.op(b'C') };
    match indefinite {
        // What else the triangle holds is LAPACK's own affair.
        true => poke(w, &a, &factor, inside),
        false => w.put(&a, &factor, 4.0, |i, j| !inside(i, j)),
    }
    if let Some(sides) = right {
        if !all {
            w.sometimes_check(sa);
            info = UNSET;
            call!(potrs; uplo, n, many, w.p(&a), a.ld, w.p(&sides.b), sides.b.ld, &raw mut info);
            assert_eq!(info, 0, "INFO of a solution");
        }
        w.put_all(&sides.b, &sides.x, sides.bound);
        w.sometimes_check(sides.b.slot);
    }
    Some(sa)
}

/// QR, with column pivoting or without. Its factors are those of the host or of a device up to rounding: the shadow takes them over.
fn orthogonal(w: &mut World, group: (usize, usize), [m, n, _]: [usize; 3]) -> Option<usize> {
    let sa = w.pick(group);
    let (ty, a, least) = (w.ty(sa), w.mat(sa, m, n)?, m.min(n));
    let kind = ty as usize;
    let (geqrf, geqp3) = (fortran::geqrf(kind)?, fortran::geqp3(kind)?);
    let mut full = Dense::of(m, n, |_, _| Complex64::ZERO);
    for j in 0..n {
        for i in 0..m {
            *full.at_mut(i, j) = small(&mut w.rng, ty);
        }
    }
    w.raise(sa, f64::INFINITY);
    poke(w, &a, &full, |_, _| true);
    let pivoted = w.rng.one_in(2);
    let lwork = 64 * (n + 1);
    let mut tau = vec![0_u8; least.max(1) * ty.size()];
    let (mut work, mut norms) = (vec![0.0_f64; 2 * lwork], vec![0.0_f64; 2 * n + 1]);
    let mut order = vec![0_i32; n.max(1)];
    let mut info = UNSET;
    w.note = format!("geqrf {ty:?} {a:?} pivoted={pivoted}");
    let (to, work, at_info) = (tau.as_mut_ptr(), work.as_mut_ptr(), &raw mut info);
    if pivoted {
        // Real types have no array of norms.
        let ninth: *mut u8 = match ty.complex() {
            true => norms.as_mut_ptr().cast(),
            false => at_info.cast(),
        };
        call!(geqp3; m, n, w.p(&a), a.ld, order.as_mut_ptr(), to, work, lwork, ninth, at_info);
    } else {
        order = (1..).take(n).collect();
        call!(geqrf; m, n, w.p(&a), a.ld, to, work, lwork, at_info);
    }
    assert_eq!(info, 0, "INFO of QR");
    let found = Dense::of(m, n, |i, j| w.slots[sa].peek(a.element(i, j)));
    w.put_all(&a, &found, f64::INFINITY);
    // Q R, by a reflector after the other.
    let mut product = Dense::of(m, n, |i, j| match i <= j {
        true => found.at(i, j),
        false => Complex64::ZERO,
    });
    for step in (0..least).rev() {
        let v = |i: usize| {
            if i == step {
                1.0.into()
            } else {
                found.at(i, step)
            }
        };
        let scale = ty.load(&tau[step * ty.size()..]);
        for j in 0..n {
            let sum: Complex64 = (step..m).map(|i| v(i).conj() * product.at(i, j)).sum();
            for i in step..m {
                *product.at_mut(i, j) -= scale * sum * v(i);
            }
        }
    }
    let precision = if ty.single() { 1e-6 } else { 1e-14 };
    for (j, col) in (0..n).zip(&order) {
        let col = usize::try_from(*col).unwrap() - 1;
        for i in 0..m {
            let error = (product.at(i, j) - full.at(i, col)).norm();
            assert!(
                error <= precision * (m + n) as f64,
                "{}: Q R at {i}, {j}: {error}",
                w.note
            );
        }
    }
    Some(sa)
}
