//! Checks of extensions of the BLAS (axpby, gemmt, geadd, omatcopy and others).

use num_complex::Complex64;
use testkit::oracle::Dense;

use super::call::{Call, Wrong};
use super::data::{Layout, Matrix, Shape};
use super::level1::{self, Of, TWO};
use super::level2::{self, Storage::Full};
use super::level3::{self, Product};
use super::trial::{Entry, Trial};

/// Extensions that OpenBLAS and others have. The sums are called last: those of OpenBLAS 0.3.21 leave numbers on the
/// x87 register stack, after which its `dnrm2` gives wrong results in this process.
pub(super) const EXTENSIONS: &[Entry] = &[
    ("*axpby", "sdcz", axpby),
    ("*axpyc", "cz", |t| {
        level1::two(t, |a, x, y| [x, a * x.conj() + y], true)
    }),
    ("*amax", "sd", |t| level1::sum(t, Of::Largest)),
    ("scamax", "c", |t| level1::sum(t, Of::Largest)),
    ("dzamax", "z", |t| level1::sum(t, Of::Largest)),
    ("*amin", "sd", |t| level1::sum(t, Of::Smallest)),
    ("scamin", "c", |t| level1::sum(t, Of::Smallest)),
    ("dzamin", "z", |t| level1::sum(t, Of::Smallest)),
    ("i*amin", "sdcz", |t| level1::index(t, false)),
    ("*gemm3m", "cz", level3::gemm),
    ("*gemmt", "sdcz", gemmt),
    ("*geadd", "sdcz", geadd),
    ("*omatcopy", "sdcz", omatcopy),
    ("*imatcopy", "sdcz", imatcopy),
    ("*sum", "sd", |t| level1::sum(t, Of::Parts)),
    ("scsum", "c", |t| level1::sum(t, Of::Parts)),
    ("dzsum", "z", |t| level1::sum(t, Of::Parts)),
];

/// axpby, an extension of OpenBLAS and MKL.
fn axpby(t: &mut Trial<'_>) -> Result<(), Wrong> {
    for (n, (incx, incy)) in level1::cases(&TWO) {
        let x = t.draw.vector(t.dtype, n, incx);
        let mut y = t.draw.vector(t.dtype, n, incy);
        let (alpha, beta) = (t.draw.value(t.dtype), t.draw.value(t.dtype));
        let mut call = t.call();
        call.int(n as i64).scalar(alpha).vector(&x);
        call.scalar(beta).vector(&y).run();
        for i in 0..n {
            *y.at_mut(i) = alpha * x.at(i) + beta * y.at(i);
        }
        call.must_hold(5, &y.v)?;
    }
    Ok(())
}

/// gemmt, an extension of MKL and OpenBLAS: computes one triangle of a product.
fn gemmt(t: &mut Trial<'_>) -> Result<(), Wrong> {
    for n in level3::orders() {
        let uplo = t.draw.one_of(b"UL");
        let product = Product::draw(t, (n, n), Shape::Symmetric(uplo));
        let mut call = t.call();
        let [ta, tb] = product.ops;
        call.letter(uplo).letter(ta).letter(tb).int(n as i64);
        product.run(&mut call)?;
    }
    Ok(())
}

/// geadd, an extension of OpenBLAS.
fn geadd(t: &mut Trial<'_>) -> Result<(), Wrong> {
    for (order, _) in level2::cases() {
        let other = order + t.draw.below(7) as usize;
        let (m, n) = t.draw.one_of(&[(order, other), (other, order)]);
        let a = level2::matrix(t, Full, m, n, Shape::General, false);
        let c = level2::matrix(t, Full, m, n, Shape::General, false);
        let (alpha, beta) = t.scalars();
        let mut call = t.call();
        call.int(m as i64).int(n as i64).scalar(alpha);
        call.matrix(&a).scalar(beta);
        let at = call.count();
        call.matrix(&c).run();
        let new = a.dense().plus(alpha, beta, &c.dense());
        call.must_hold(at, &c.holding(&new).v)?;
    }
    Ok(())
}

/// A matrix whose leading dimension is not less than the number of its columns.
fn wide(t: &mut Trial<'_>, rows: usize, cols: usize) -> Matrix {
    let ld = rows.max(cols) + t.draw.below(3) as usize;
    t.draw.matrix(
        t.dtype,
        rows,
        cols,
        Layout::Full { ld },
        Shape::General,
        false,
    )
}

/// A matrix copy: matrices stored by columns or by rows (`C`, `R`), copied plainly, transposed, conjugate transposed or
/// conjugated (`N`, `T`, `C`, `R`), times a number. A matrix stored by rows is handled as its transpose stored by
/// columns.
struct Copied {
    a: Matrix,
    scale: Complex64,
    letters: [u8; 2],
    /// Rows and columns, as the call's arguments have them.
    size: (usize, usize),
    /// Rows and columns of the result, stored by columns.
    result: (usize, usize),
    new: Dense,
}

impl Copied {
    fn draw(t: &mut Trial<'_>, order: usize, in_place: bool) -> Copied {
        // Libraries do not agree on whether an empty matrix is an error.
        let order = order.max(1);
        let other = order + t.draw.below(3) as usize;
        let (m, n) = t.draw.one_of(&[(order, other), (other, order)]);
        let letters = [t.draw.one_of(b"CR"), t.draw.one_of(b"NTCR")];
        let a = if in_place {
            wide(t, m, n)
        } else {
            level2::matrix(t, Full, m, n, Shape::General, false)
        };
        let (scale, _) = t.scalars();
        let turned = matches!(letters[1], b'T' | b'C');
        let dense = match letters[1] {
            b'R' => a.dense().op(b'C').op(b'T'),
            op => a.dense().op(op),
        };
        Copied {
            a,
            scale,
            letters,
            size: if letters[0] == b'C' { (m, n) } else { (n, m) },
            result: if turned { (n, m) } else { (m, n) },
            new: dense.plus(scale, Complex64::ZERO, &dense),
        }
    }

    fn begin<'a>(&self, t: &Trial<'a>) -> Call<'a> {
        let mut call = t.call();
        call.letter(self.letters[0]).letter(self.letters[1]);
        call.int(self.size.0 as i64).int(self.size.1 as i64);
        call.scalar(self.scale);
        call
    }
}

/// omatcopy, an extension of OpenBLAS.
fn omatcopy(t: &mut Trial<'_>) -> Result<(), Wrong> {
    for (order, _) in level2::cases() {
        let copied = Copied::draw(t, order, false);
        let (rows, cols) = copied.result;
        let b = level2::matrix(t, Full, rows, cols, Shape::General, false);
        let mut call = copied.begin(t);
        call.matrix(&copied.a);
        let at = call.count();
        call.matrix(&b).run();
        call.must_hold(at, &b.holding(&copied.new).v)?;
    }
    Ok(())
}

/// imatcopy, an extension of OpenBLAS: the result replaces the matrix in memory, with a leading dimension of its own.
/// Neither leading dimension is less than the number of columns: with a smaller one OpenBLAS 0.3.21 writes beyond a
/// buffer of its own, and may end the process.
fn imatcopy(t: &mut Trial<'_>) -> Result<(), Wrong> {
    for (order, _) in level2::cases() {
        let copied = Copied::draw(t, order, true);
        let (rows, cols) = copied.result;
        let mut result = wide(t, rows, cols);
        let mut room = copied.a.v.clone();
        room.resize(room.len().max(result.v.len()), Complex64::ZERO);
        let mut call = copied.begin(t);
        let at = call.count();
        call.array(&room);
        for layout in [copied.a.layout, result.layout] {
            if let Layout::Full { ld } = layout {
                call.int(ld as i64);
            }
        }
        call.run();
        result.v = room;
        call.must_hold(at, &result.holding(&copied.new).v)?;
    }
    Ok(())
}
