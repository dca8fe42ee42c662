//! Products of sparse matrices whose arrays lie in blocks that all other operations change, free and move. A matrix that they have made
//! invalid is repaired by the CPU, or given to the library as it is, which must refuse it. Without the library a loop computes.

#![expect(
    unsafe_code,
    reason = "plays a C program that includes semcache.h; system calls on raw memory"
)]

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::os::fd::AsRawFd;

use num_complex::Complex64;
use testkit::oracle::Dense;

use super::hints::{Csr, Matrix, library};
use super::kernel::file;
use super::level3::spread;
use crate::block::{Origin, page};
use crate::csr::{Run, Sparse};
use crate::element::Type;
use crate::world::{ALL, ANY, FIRST, Mat, Operand, Scalar, Vect, World};

/// Matrices that a thread has at a time.
const MOST: usize = 3;
/// Entries of a matrix.
const ENTRIES: usize = 5000;
/// What `semcache_csr_multiply` returns.
const OK: c_int = 0;
const INVALID: c_int = 4;

/// What its arrays hold.
enum Contents {
    Entries {
        offsets: Vec<usize>,
        columns: Vec<usize>,
    },
    /// The first and the last row offset may be those of a matrix, but others descend, or a column is not in it.
    Inside,
    /// No number of entries.
    Ends,
}

fn whole(w: &World, run: Run, i: usize) -> i64 {
    w.slots[run.slot].get(run.from + i).re as i64
}

fn write(w: &mut World, run: Run, i: usize, number: i64) {
    w.slots[run.slot].poke(run.from + i, Complex64::from(number as f64));
}

/// How many elements there are from there on.
fn room(w: &World, run: Run) -> usize {
    w.slots[run.slot].len.saturating_sub(run.from)
}

impl Sparse {
    /// Entries that there is room for: column indices may lie before the row offsets in the same block.
    fn room(&self, w: &World) -> usize {
        let (columns, offsets) = (self.columns, self.offsets);
        let before = match columns.slot == offsets.slot && columns.from <= offsets.from {
            true => offsets.from - columns.from,
            false => ENTRIES,
        };
        let of_arrays = room(w, columns).min(room(w, self.values));
        of_arrays.min(before).min(ENTRIES)
    }

    /// Whether blocks still have room for the row offsets, and for as many entries as the last one says.
    fn fits(&self, w: &World) -> bool {
        room(w, self.offsets) > self.rows && self.last(w) <= self.room(w) as i64
    }

    fn last(&self, w: &World) -> i64 {
        whole(w, self.offsets, self.rows).saturating_sub(self.base)
    }

    fn contents(&self, w: &World) -> Contents {
        let number = |i| usize::try_from(whole(w, self.offsets, i).saturating_sub(self.base)).ok();
        let offsets: Vec<_> = (0..=self.rows).map(number).collect();
        let (Some(0), Some(nnz)) = (offsets[0], offsets[self.rows]) else {
            return Contents::Ends;
        };
        let column = |k| usize::try_from(whole(w, self.columns, k).saturating_sub(self.base)).ok();
        let columns = (0..nnz).map(|k| column(k).filter(|c| *c < self.cols));
        let columns: Option<Vec<usize>> = columns.collect();
        let offsets: Option<Vec<usize>> = offsets.into_iter().collect();
        match (offsets, columns) {
            (Some(offsets), Some(columns)) if offsets.is_sorted() => {
                Contents::Entries { offsets, columns }
            }
            _ => Contents::Inside,
        }
    }
}

pub(super) fn run(w: &mut World) {
    if w.sparse.is_empty() || w.rng.one_in(4) {
        let fresh = (0..14).find_map(|halved| fresh(w, halved));
        if w.sparse.len() == MOST {
            let gone = w.rng.below(MOST);
            w.sparse.remove(gone);
        }
        w.sparse.extend(fresh);
    }
    if w.sparse.is_empty() {
        return;
    }
    let which = w.rng.below(w.sparse.len());
    let m = w.sparse[which];
    let gone = |run: Run| run.from > w.slots[run.slot].len;
    let shorter = room(w, m.offsets) <= m.rows || gone(m.columns) || gone(m.values);
    if shorter || w.slots[m.values.slot].area.is_some() {
        w.sparse.remove(which);
        return;
    }
    let mut last = None;
    for _ in 0..1 + w.rng.below(3) {
        if !w.rng.one_in(8) || !m.fits(w) {
            repair(w, &m);
        }
        match w.rng.below(12) {
            0 => spoil(w, &m),
            1..=3 => change(w, &m),
            _ => {}
        }
        last = product(w, &m, last);
        if let Some(y) = last {
            w.sometimes_check(y.slot);
        }
    }
}

/// A number of rows, columns or entries: many are about as many as lie on some pages.
fn size(w: &mut World, unit: usize) -> usize {
    match w.rng.below(4) {
        0 => page() / unit * (1 + w.rng.below(3)) + w.rng.below(4) - 2,
        1 => 1 + w.rng.below(2500),
        _ => w.size(),
    }
}

/// A place for elements in a block, at times at the begin of a page.
fn place(w: &mut World, slot: usize, n: usize) -> Option<Run> {
    let b = &w.slots[slot];
    let (most, at, unit) = (b.len.checked_sub(n)?, b.at.addr(), b.unit());
    let aligned = (at.next_multiple_of(page()) - at) / unit;
    let from = match w.rng.below(3) {
        0 if aligned <= most => aligned + (most - aligned) / (page() / unit) * (page() / unit),
        1 if aligned <= most => aligned,
        _ => w.rng.below(most + 1),
    };
    Some(Run { slot, from })
}

/// A new matrix, with sides of a part of the usual ones.
fn fresh(w: &mut World, halved: usize) -> Option<Sparse> {
    let group = w.group();
    let (of_offsets, of_columns, of_values) = (
        w.pick((ALL, ANY - ALL)),
        w.pick((ALL, ANY - ALL)),
        w.pick(group),
    );
    let unit = w.slots[of_offsets].unit();
    let (rows, cols) = (size(w, unit) >> halved, size(w, 8) >> halved);
    let cols = if w.rng.one_in(3) { rows } else { cols };
    let nnz = match w.rng.below(4) {
        0 => size(w, unit) >> halved,
        1 => w.rng.below(rows + 1),
        _ => w.rng.below(6 * rows + 1),
    };
    let nnz = if cols == 0 { 0 } else { nnz.min(ENTRIES) };
    if w.slots[of_values].area.is_some() {
        return None;
    }
    let m = Sparse {
        rows,
        cols,
        base: i64::from(w.rng.one_in(2)),
        offsets: place(w, of_offsets, rows + 1)?,
        columns: place(w, of_columns, nnz)?,
        values: place(w, of_values, nnz)?,
    };
    let (a, b) = (m.offsets.from, m.columns.from);
    if of_offsets == of_columns && a < b + nnz.max(1) && b < a + rows + 1 {
        return None;
    }
    fill(w, &m, nnz);
    Some(m)
}

/// Writes all row offsets and column indices.
fn fill(w: &mut World, m: &Sparse, nnz: usize) {
    // All entries in a few rows, or anywhere.
    let ends = if w.rng.one_in(3) { 4 } else { m.rows };
    let row_ends: Vec<usize> = (0..ends).map(|_| w.rng.below(nnz + 1)).collect();
    let drawn = (1..m.rows).map(|_| w.rng.of(&row_ends));
    let mut offsets: Vec<usize> = drawn.collect();
    offsets.sort_unstable();
    offsets.insert(0, 0);
    offsets.extend((m.rows > 0).then_some(nnz));
    for (i, offset) in offsets.iter().enumerate() {
        write(w, m.offsets, i, *offset as i64 + m.base);
    }
    let nnz = if m.rows == 0 { 0 } else { nnz };
    // Near the diagonal, or anywhere.
    let near = w.rng.one_in(3);
    for k in 0..nnz {
        let column = match near {
            true => (k * m.cols / nnz + w.rng.below(5)).min(m.cols - 1),
            false => w.rng.below(m.cols),
        };
        write(w, m.columns, k, column as i64 + m.base);
    }
}

/// The CPU makes it a valid matrix, if it is none: rewrites what is wrong, or all.
fn repair(w: &mut World, m: &Sparse) {
    if m.fits(w) && matches!(m.contents(w), Contents::Entries { .. }) {
        return;
    }
    let most = if m.cols == 0 { 0 } else { m.room(w) };
    let few = m.last(w) < m.rows as i64 / 4;
    if few && w.rng.one_in(2) {
        let nnz = w.rng.below(most + 1);
        return fill(w, m, nnz);
    }
    let mut least = m.base;
    for i in 0..=m.rows {
        let found = whole(w, m.offsets, i);
        let top = if i == 0 { 0 } else { most };
        let right = found.clamp(least, top as i64 + m.base);
        if found != right {
            write(w, m.offsets, i, right);
        }
        least = right;
    }
    let within = m.base..m.base + m.cols as i64;
    for k in 0..usize::try_from(m.last(w)).unwrap() {
        if !within.contains(&whole(w, m.columns, k)) {
            let column = w.rng.below(m.cols) as i64 + m.base;
            write(w, m.columns, k, column);
        }
    }
}

/// The CPU, or the kernel, writes some other columns, or the end of a row.
fn change(w: &mut World, m: &Sparse) {
    let Contents::Entries { offsets, columns } = m.contents(w) else {
        return;
    };
    if columns.is_empty() {
        return;
    }
    let k = w.rng.below(columns.len());
    let n = (1 + w.rng.below(columns.len() - k)).min(600);
    match w.rng.below(3) {
        0 => {
            let column = w.rng.below(m.cols) as i64 + m.base;
            write(w, m.columns, k, column);
        }
        1 if m.rows > 1 => {
            let row = 1 + w.rng.below(m.rows - 1);
            let between = offsets[row - 1]..=offsets[row + 1];
            let end = between.start() + w.rng.below(between.end() - between.start() + 1);
            write(w, m.offsets, row, end as i64 + m.base);
        }
        _ => {
            let (ty, unit) = (w.ty(m.columns.slot), w.slots[m.columns.slot].unit());
            let mut bytes = vec![0; n * unit];
            for element in bytes.chunks_mut(unit) {
                let column = w.rng.below(m.cols) as i64 + m.base;
                ty.store(element, Complex64::from(column as f64));
            }
            let (b, from) = (&mut w.slots[m.columns.slot], m.columns.from + k);
            let of = file(&bytes);
            // SAFETY: columns of the matrix, of which there are `n` more.
            let moved = unsafe { libc::pread(of.as_raw_fd(), b.addr(from).cast(), bytes.len(), 0) };
            assert_eq!(moved.unsigned_abs(), bytes.len(), "pread of columns");
            b.shadow_mut(from, n).copy_from_slice(&bytes);
        }
    }
}

/// The CPU writes a column or a row offset that no matrix has; not more entries than there are.
fn spoil(w: &mut World, m: &Sparse) {
    let nnz = usize::try_from(m.last(w)).unwrap_or(0);
    let (least, most) = match w.ty(m.columns.slot) {
        Type::I => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, 1 << 52),
    };
    let wrong = w
        .rng
        .of(&[m.base - 1, -1, least, most, 1 << 20, m.cols as i64 + m.base]);
    if nnz > 0 && w.rng.one_in(2) {
        let k = w.rng.below(nnz);
        return write(w, m.columns, k, wrong);
    }
    let i = w.rng.below(m.rows + 1);
    if i < m.rows || wrong < 0 {
        write(w, m.offsets, i, wrong);
    }
}

/// A place for X or Y in any block of the matrix's type.
fn vectors(w: &mut World, group: (usize, usize), n: usize, vectors: usize) -> Option<Mat> {
    let first = w.rng.below(group.1);
    (0..group.1).find_map(|i| w.mat(group.0 + (first + i) % group.1, n, vectors))
}

/// The mapping of one of the arrays, which the program makes read-only while it multiplies.
fn read_only(w: &mut World, m: &Sparse, y: &Mat) -> Option<Range<usize>> {
    let slot = w.rng.of(&[m.offsets.slot, m.columns.slot, m.values.slot]);
    match w.slots[slot].origin {
        Origin::Mapped { bytes, .. } if slot != y.slot && w.rng.one_in(6) => {
            let at = w.slots[slot].at.expose_provenance();
            Some(at..at + bytes)
        }
        _ => None,
    }
}

fn protect(pages: &Range<usize>, access: c_int) {
    let at = std::ptr::with_exposed_provenance_mut(pages.start);
    // SAFETY: a mapping of the program.
    assert_eq!(unsafe { libc::mprotect(at, pages.len(), access) }, 0);
}

/// Y = alpha op(A) X + beta Y; returns Y. `last` becomes X if it can.
fn product(w: &mut World, m: &Sparse, last: Option<Mat>) -> Option<Mat> {
    let sv = m.values.slot;
    let group = if sv < FIRST {
        (0, FIRST)
    } else {
        (FIRST, ALL - FIRST)
    };
    let ty = w.ty(sv);
    let op = w.rng.of(b"NNTC");
    let many = if w.rng.one_in(40) {
        0
    } else {
        w.rng.of(&[1, 1, 1, 2, 3])
    };
    let (from, to) = if op == b'N' {
        (m.cols, m.rows)
    } else {
        (m.rows, m.cols)
    };
    let x = match last.filter(|x| (x.rows, x.cols) == (from, many)) {
        Some(x) => x,
        None => vectors(w, group, from, many)?,
    };
    let (nnz, contents) = (m.last(w), m.contents(w));
    let values = Vect {
        slot: sv,
        off: m.values.from,
        inc: 1,
        n: usize::try_from(nnz).unwrap_or(0),
    };
    let mut y = vectors(w, group, to, many)?;
    for _ in 0..if w.rng.one_in(10) { 0 } else { 6 } {
        if y.apart(&x) && y.apart(&values) {
            break;
        }
        y = vectors(w, group, to, many)?;
    }
    let apart = y.apart(&x) && y.apart(&values);
    let (sx, sy, s) = (x.slot, y.slot, spread(ty));
    let (mut most, mut of_output) = (0, vec![0; to]);
    each(&contents, op, |i, _, _| {
        of_output[i] += 1;
        most = most.max(of_output[i]);
    });
    let bound =
        move |w: &World| 3.0 * s * (s * w.bound(sv) * w.bound(sx) * f64::from(most) + w.bound(sy));
    if !w.tame(&[sv, sx, sy], bound) {
        return None;
    }
    let (alpha, beta) = w.scalars(ty, &[sy]);
    w.note = format!(
        "sparse {ty:?} {} {m:?} of {nnz} entries, {x:?} {y:?} alpha={} beta={}",
        op as char, alpha.value, beta.value
    );
    // Whether the arguments are a product, and whether nothing has to be read that tells.
    let invalid = !apart || !matches!(contents, Contents::Entries { .. });
    let either = to == 0
        || many == 0
        || apart && matches!(contents, Contents::Inside) && alpha.value == Complex64::ZERO;
    let numbers = |w: &World, v: &Mat| w.dense(v);
    let (xs, mut out) = (numbers(w, &x), numbers(w, &y));
    for v in 0..many {
        for i in 0..to {
            let old = out.at(i, v);
            *out.at_mut(i, v) = match beta.value == Complex64::ZERO {
                true => Complex64::ZERO,
                false => beta.value * old,
            };
        }
        if alpha.value != Complex64::ZERO {
            each(&contents, op, |i, j, k| {
                let entry = w.slots[sv].get(m.values.from + k);
                let entry = if op == b'C' { entry.conj() } else { entry };
                *out.at_mut(i, v) += alpha.value * entry * xs.at(j, v);
            });
        }
    }
    let guarded = read_only(w, m, &y);
    guarded
        .iter()
        .for_each(|pages| protect(pages, libc::PROT_READ));
    let status = call(w, m, (op, &alpha, &beta), (&x, &y));
    let open = libc::PROT_READ | libc::PROT_WRITE;
    guarded.iter().for_each(|pages| protect(pages, open));
    match status {
        Some(INVALID) if invalid => return None,
        Some(OK) if !invalid || either => {}
        None if invalid && !either => return None,
        None => {
            by_cpu(w, &y, &out);
        }
        Some(status) => panic!("status {status}; an invalid product: {invalid}, {either}"),
    }
    w.put_all(&y, &out, bound(w));
    Some(y)
}

/// Of each entry that row of Y that it adds to, the row of X, and its number.
fn each(contents: &Contents, op: u8, mut of: impl FnMut(usize, usize, usize)) {
    let Contents::Entries { offsets, columns } = contents else {
        return;
    };
    for row in 0..offsets.len() - 1 {
        let entries = offsets[row]..offsets[row + 1];
        for (k, &column) in entries.clone().zip(&columns[entries]) {
            match op {
                b'N' => of(row, column, k),
                _ => of(column, row, k),
            }
        }
    }
}

/// The program's own loop writes Y.
fn by_cpu(w: &mut World, y: &Mat, out: &Dense) {
    for j in 0..y.cols {
        for i in 0..y.rows {
            w.slots[y.slot].poke(y.element(i, j), out.at(i, j));
        }
    }
}

/// The library's answer; none without the library.
fn call(
    w: &World,
    m: &Sparse,
    (op, alpha, beta): (u8, &Scalar, &Scalar),
    (x, y): (&Mat, &Mat),
) -> Option<c_int> {
    let library = library()?;
    let at = |run: Run| -> *const c_void { w.slots[run.slot].addr(run.from).cast_const().cast() };
    let long = |n: usize| i64::try_from(n).unwrap();
    let letter = match w.ty(m.values.slot) {
        Type::S => b's',
        Type::D => b'd',
        Type::C => b'c',
        _ => b'z',
    };
    let csr = Csr {
        size: u32::try_from(size_of::<Csr>()).unwrap(),
        kind: letter.into(),
        index_bytes: u32::try_from(w.slots[m.offsets.slot].unit()).unwrap(),
        base: u32::try_from(m.base).unwrap(),
        rows: long(m.rows),
        cols: long(m.cols),
        row_offsets: at(m.offsets),
        columns: at(m.columns),
        values: at(m.values),
    };
    let view = |v: &Mat| Matrix {
        size: u32::try_from(size_of::<Matrix>()).unwrap(),
        element: u32::try_from(w.slots[v.slot].unit()).unwrap(),
        data: w.p(v),
        rows: long(v.rows),
        cols: long(v.cols),
        ld: long(v.ld),
    };
    let (x, y) = (view(x), view(y));
    // SAFETY: arrays inside blocks of the program, as many columns and entries as the last row offset says, if it says a number.
    let status = unsafe {
        (library.csr_multiply)(
            &raw const csr,
            op.into(),
            alpha.p(),
            &raw const x,
            beta.p(),
            &raw const y,
        )
    };
    Some(status)
}
