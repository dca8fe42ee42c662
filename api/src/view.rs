//! Matrices in memory that the program has borrowed.

#![expect(unsafe_code, reason = "makes slices of columns")]

use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::ptr::NonNull;
use std::slice;

use crate::error::ShapeError;
use crate::placed::{Located, Placed};
use crate::scalar::Scalar;

/// A matrix in column-major order whose elements are borrowed: `rows x cols` of them, whose columns begin `ld` elements apart. A strided
/// vector is a matrix of one row.
///
/// ```
/// use semcache_api::{ShapeError, View};
///
/// let memory = [1.0, 2.0, 0.0, 3.0, 4.0, 0.0, 5.0, 6.0];
/// let a = View::new(&memory, 2, 3, 3)?;
/// let right = a.block(.., 1..)?;
/// assert!(right.columns().eq([[3.0, 4.0], [5.0, 6.0]]));
/// assert_eq!(View::new(&memory, 2, 4, 3).unwrap_err(), ShapeError::TooShort);
/// # Ok::<(), ShapeError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct View<'a, T> {
    pub(crate) placed: Placed<T>,
    borrow: PhantomData<&'a [T]>,
}

// SAFETY: as a shared slice, which it stands for.
unsafe impl<T: Sync> Send for View<'_, T> {}
// SAFETY: as a shared slice.
unsafe impl<T: Sync> Sync for View<'_, T> {}

impl<'a, T: Scalar> View<'a, T> {
    /// The matrix that begins with the first element of a slice.
    ///
    /// # Errors
    /// The leading dimension is below the rows, or the slice is too short.
    pub fn new(elements: &'a [T], rows: usize, cols: usize, ld: usize) -> Result<Self, ShapeError> {
        let data = NonNull::from(elements).cast();
        // SAFETY: the slice has this many elements.
        let placed = unsafe { Placed::new(data, elements.len(), rows, cols, ld) }?;
        // SAFETY: its elements are those of the slice, which is borrowed for as long.
        Ok(unsafe { View::of(placed) })
    }

    /// # Safety
    /// The elements may be read, and are not changed, during `'a`.
    pub(crate) unsafe fn of(placed: Placed<T>) -> Self {
        View {
            placed,
            borrow: PhantomData,
        }
    }

    /// Rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.placed.rows
    }

    /// Columns.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.placed.cols
    }

    /// Elements between the starts of two columns.
    #[must_use]
    pub fn ld(&self) -> usize {
        self.placed.ld
    }

    /// The first element.
    #[must_use]
    pub fn as_ptr(&self) -> *const T {
        self.placed.data.as_ptr()
    }

    /// The part with these rows and columns.
    ///
    /// # Errors
    /// The matrix does not have them.
    pub fn block(
        self,
        rows: impl RangeBounds<usize>,
        cols: impl RangeBounds<usize>,
    ) -> Result<Self, ShapeError> {
        let placed = self.placed.block(rows, cols)?;
        Ok(View { placed, ..self })
    }

    /// The columns, from the first to the last.
    pub fn columns(self) -> impl ExactSizeIterator<Item = &'a [T]> {
        // SAFETY: the rows of a column follow each other in memory, and are borrowed for 'a.
        (0..self.cols()).map(move |j| unsafe {
            slice::from_raw_parts(self.placed.column(j).as_ptr(), self.rows())
        })
    }
}

impl<'a, T: Scalar> Located<'a> for View<'a, T> {
    type Element = T;

    fn placed(&self) -> Placed<T> {
        self.placed
    }
}

/// A matrix, as [`View`], that may be changed: its elements are borrowed mutably.
///
/// ```
/// use semcache_api::ViewMut;
///
/// let mut memory = [0.0; 8];
/// let mut a = ViewMut::new(&mut memory, 2, 3, 3)?;
/// for (j, column) in a.columns_mut().enumerate() {
///     column.fill(j as f64);
/// }
/// a.reborrow().block(1.., ..2)?.columns_mut().for_each(|column| column[0] = 7.0);
/// assert_eq!(memory, [0.0, 7.0, 0.0, 1.0, 7.0, 0.0, 2.0, 2.0]);
/// # Ok::<(), semcache_api::Error>(())
/// ```
#[derive(Debug)]
pub struct ViewMut<'a, T> {
    pub(crate) placed: Placed<T>,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: as a mutable slice, which it stands for.
unsafe impl<T: Send> Send for ViewMut<'_, T> {}
// SAFETY: as a mutable slice.
unsafe impl<T: Sync> Sync for ViewMut<'_, T> {}

impl<'a, T: Scalar> ViewMut<'a, T> {
    /// The matrix that begins with the first element of a slice.
    ///
    /// # Errors
    /// The leading dimension is below the rows, or the slice is too short.
    pub fn new(
        elements: &'a mut [T],
        rows: usize,
        cols: usize,
        ld: usize,
    ) -> Result<Self, ShapeError> {
        let len = elements.len();
        let data = NonNull::from(elements).cast();
        // SAFETY: the slice has this many elements.
        let placed = unsafe { Placed::new(data, len, rows, cols, ld) }?;
        // SAFETY: its elements are those of the slice, which is borrowed for as long.
        Ok(unsafe { ViewMut::of(placed) })
    }

    /// # Safety
    /// Nothing else uses the elements during `'a`.
    pub(crate) unsafe fn of(placed: Placed<T>) -> Self {
        ViewMut {
            placed,
            borrow: PhantomData,
        }
    }

    /// Rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.placed.rows
    }

    /// Columns.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.placed.cols
    }

    /// Elements between the starts of two columns.
    #[must_use]
    pub fn ld(&self) -> usize {
        self.placed.ld
    }

    /// The first element.
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.placed.data.as_ptr()
    }

    /// The same matrix, to be read.
    #[must_use]
    pub fn as_view(&self) -> View<'_, T> {
        // SAFETY: `self`, which alone gives access, is borrowed as long.
        unsafe { View::of(self.placed) }
    }

    /// The same matrix, for a shorter time.
    #[must_use]
    pub fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut {
            placed: self.placed,
            borrow: PhantomData,
        }
    }

    /// The part with these rows and columns.
    ///
    /// # Errors
    /// The matrix does not have them.
    pub fn block(
        self,
        rows: impl RangeBounds<usize>,
        cols: impl RangeBounds<usize>,
    ) -> Result<Self, ShapeError> {
        let placed = self.placed.block(rows, cols)?;
        Ok(ViewMut { placed, ..self })
    }

    /// The columns, from the first to the last.
    pub fn columns_mut(&mut self) -> impl ExactSizeIterator<Item = &mut [T]> {
        let placed = self.placed;
        // SAFETY: the rows of a column follow each other in memory, and no two columns have one in common, since they begin at least
        // as many elements apart as there are rows; `self` is borrowed mutably as long.
        (0..placed.cols).map(move |j| unsafe {
            slice::from_raw_parts_mut(placed.column(j).as_ptr(), placed.rows)
        })
    }
}

impl<'a, T: Scalar> Located<'a> for ViewMut<'a, T> {
    type Element = T;

    fn placed(&self) -> Placed<T> {
        self.placed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_needs_its_elements() {
        let a = [0.0; 11];
        assert!(View::new(&a, 3, 3, 4).is_ok());
        assert_eq!(View::new(&a, 4, 3, 4).unwrap_err(), ShapeError::TooShort);
        assert_eq!(
            View::new(&a, 3, 3, 2).unwrap_err(),
            ShapeError::LeadingDimension
        );
        assert_eq!(
            View::new(&a, 0, 0, 0).unwrap_err(),
            ShapeError::LeadingDimension
        );
        assert_eq!(
            View::new(&a, 1, usize::MAX, 4).unwrap_err(),
            ShapeError::TooShort
        );
        assert_eq!(
            View::new(&a, usize::MAX, 2, usize::MAX).unwrap_err(),
            ShapeError::TooShort
        );
        // Of an empty matrix there is nothing to be had.
        assert!(View::new(&a, 0, usize::MAX, 9).is_ok());
        assert!(View::<f32>::new(&[], 5, 0, 5).is_ok());
        // A strided vector.
        let x = View::new(&a, 1, 3, 5).unwrap();
        assert_eq!(x.columns().len(), 3);
        assert_eq!(View::new(&a, 1, 4, 5).unwrap_err(), ShapeError::TooShort);
    }

    #[test]
    fn columns_of_empty_matrices_are_empty() {
        let a = [0.0; 4];
        let none = View::new(&a, 0, 3, 1).unwrap();
        assert!(none.columns().eq([[0.0; 0]; 3]));
        assert_eq!(View::new(&a, 3, 0, 3).unwrap().columns().next(), None);
    }

    #[test]
    fn views_are_sent_as_references_are() {
        fn sent<T: Send + Sync>() {}
        sent::<View<'_, f64>>();
        sent::<ViewMut<'_, num_complex::Complex<f32>>>();
    }
}
