//! Sparse matrices.

#![expect(unsafe_code, reason = "passes the addresses of slices to the library")]

use std::ffi::c_int;

use crate::error::{Error, Result, ShapeError};
use crate::flags::Transpose;
use crate::hints::named;
use crate::scalar::Scalar;
use crate::table;
use crate::view::{View, ViewMut};

/// The integers of a sparse matrix: `i32` and `i64`.
pub trait Index: sealed::Sealed + Copy + Into<i64> + 'static {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for i32 {}
    impl Sealed for i64 {}
}

impl Index for i32 {}
impl Index for i64 {}

/// A sparse matrix in compressed rows, counted from 0: of row `i` the entries `offsets[i]` to `offsets[i + 1] - 1`, each with its column.
///
/// ```
/// use semcache_api::{Csr, Error, Transpose, View, ViewMut};
///
/// let (offsets, columns, values) = ([0, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0]);
/// let a = Csr::new(2, 3, &offsets, &columns, &values)?;
/// let (x, mut y) = ([1.0, 1.0, 2.0], [0.0; 2]);
/// match a.multiply(Transpose::No, 1.0, View::new(&x, 3, 1, 3)?, 0.0, ViewMut::new(&mut y, 2, 1, 2)?) {
///     Ok(()) => assert_eq!(y, [5.0, 3.0]),
///     Err(Error::Absent) => {} // the program has to compute it
///     Err(other) => panic!("{other}"),
/// }
/// # Ok::<(), semcache_api::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Csr<'a, T, I> {
    rows: usize,
    cols: usize,
    offsets: &'a [I],
    columns: &'a [I],
    values: &'a [T],
}

impl<'a, T: Scalar, I: Index> Csr<'a, T, I> {
    /// The matrix of these arrays.
    ///
    /// # Errors
    /// There is not one offset more than rows, or there are fewer columns or values than the last offset says.
    pub fn new(
        rows: usize,
        cols: usize,
        offsets: &'a [I],
        columns: &'a [I],
        values: &'a [T],
    ) -> Result<Self, ShapeError> {
        let entries = offsets.last().map_or(-1, |&last| last.into());
        let least = columns.len().min(values.len());
        let enough = usize::try_from(entries).is_ok_and(|entries| entries <= least);
        if !enough || rows.checked_add(1) != Some(offsets.len()) {
            return Err(ShapeError::TooShort);
        }
        Ok(Csr {
            rows,
            cols,
            offsets,
            columns,
            values,
        })
    }

    /// `y := alpha op(A) x + beta y`, by devices where that pays, else by a loop of the library.
    ///
    /// # Errors
    /// [`Error::Absent`]: nothing was computed, the program has to do it. [`Error::Invalid`]: as well, since offsets descend, a column is
    /// not in the matrix, or a length of `x` or `y` is not that of the matrix.
    pub fn multiply(
        &self,
        op: Transpose,
        alpha: T,
        x: View<'_, T>,
        beta: T,
        y: ViewMut<'_, T>,
    ) -> Result<()> {
        let multiply = table::csr_multiply()?;
        let kind = match (T::COMPLEX, size_of::<T>()) {
            (false, 4) => b's',
            (false, _) => b'd',
            (true, 8) => b'c',
            (true, _) => b'z',
        };
        let extent = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let a = table::Csr {
            size: table::size::<table::Csr>(),
            kind: kind.into(),
            index_bytes: table::size::<I>(),
            base: 0,
            rows: extent(self.rows),
            cols: extent(self.cols),
            row_offsets: self.offsets.as_ptr().cast(),
            columns: self.columns.as_ptr().cast(),
            values: self.values.as_ptr().cast(),
        };
        let (x, y) = (named(&x), named(&y));
        // SAFETY: the arrays are borrowed and as long as the last offset says; the library checks what they contain, and that `x` and `y`
        // are as long as the matrix; `y` is borrowed mutably.
        Error::check(unsafe {
            multiply(
                &raw const a,
                c_int::from(*op.letter()),
                (&raw const alpha).cast(),
                &raw const x,
                (&raw const beta).cast(),
                &raw const y,
            )
        })
    }
}
