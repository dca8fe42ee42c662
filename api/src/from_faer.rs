//! Views of faer's matrices.

#![expect(unsafe_code, reason = "takes memory over from matrices")]

use std::ptr::NonNull;

use ::faer::{MatMut, MatRef};

use crate::error::ShapeError;
use crate::placed::Placed;
use crate::scalar::Scalar;
use crate::view::{View, ViewMut};

/// A matrix whose row stride is one, as that of each `Mat` is.
///
/// ```
/// use semcache_api::View;
///
/// let a = faer::Mat::from_fn(3, 2, |i, j| (i + 10 * j) as f64);
/// let view = View::try_from(a.as_ref())?;
/// assert!(view.columns().eq([[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]));
/// # Ok::<(), semcache_api::ShapeError>(())
/// ```
impl<'a, T: Scalar> TryFrom<MatRef<'a, T>> for View<'a, T> {
    type Error = ShapeError;

    fn try_from(matrix: MatRef<'a, T>) -> Result<Self, ShapeError> {
        let (rows, cols, down, across) = (
            matrix.nrows(),
            matrix.ncols(),
            matrix.row_stride(),
            matrix.col_stride(),
        );
        let data = NonNull::new(matrix.as_ptr().cast_mut()).ok_or(ShapeError::Strides)?;
        // SAFETY: the elements of a matrix at its strides are in one allocation, which its pointer reaches; they are borrowed for 'a.
        unsafe { Ok(View::of(Placed::strided(data, rows, cols, down, across)?)) }
    }
}

/// As for [`View`].
///
/// ```
/// use semcache_api::ViewMut;
///
/// let mut a = faer::Mat::<f64>::zeros(3, 2);
/// ViewMut::try_from(a.as_mut())?.columns_mut().for_each(|column| column[1] = 1.0);
/// assert_eq!((a[(1, 0)], a[(1, 1)], a[(2, 1)]), (1.0, 1.0, 0.0));
/// # Ok::<(), semcache_api::ShapeError>(())
/// ```
impl<'a, T: Scalar> TryFrom<MatMut<'a, T>> for ViewMut<'a, T> {
    type Error = ShapeError;

    fn try_from(matrix: MatMut<'a, T>) -> Result<Self, ShapeError> {
        let (rows, cols, down, across) = (
            matrix.nrows(),
            matrix.ncols(),
            matrix.row_stride(),
            matrix.col_stride(),
        );
        let data = NonNull::new(matrix.as_ptr_mut()).ok_or(ShapeError::Strides)?;
        // SAFETY: as above; mutably, and the matrix that had them is gone.
        unsafe {
            Ok(ViewMut::of(Placed::strided(
                data, rows, cols, down, across,
            )?))
        }
    }
}

#[cfg(test)]
mod tests {
    use ::faer::Mat;

    use super::*;

    #[test]
    fn matrices_are_views_unless_they_are_turned() {
        let mut a = Mat::from_fn(5, 4, |i, j| (10 * i + j) as f32);
        let view = View::try_from(a.as_ref().submatrix(1, 1, 2, 3)).unwrap();
        assert!(
            view.columns()
                .eq([[11.0, 21.0], [12.0, 22.0], [13.0, 23.0]])
        );
        assert_eq!(
            View::try_from(a.as_ref().transpose()).unwrap_err(),
            ShapeError::Strides
        );
        assert_eq!(
            View::try_from(a.as_ref().reverse_cols()).unwrap_err(),
            ShapeError::Strides
        );
        // The halves interleave in memory.
        let (upper, lower) = a.as_mut().split_at_row_mut(2);
        let (mut upper, lower) = (
            ViewMut::try_from(upper).unwrap(),
            ViewMut::try_from(lower).unwrap(),
        );
        upper.columns_mut().for_each(|column| column.fill(0.0));
        assert!(!upper.placed.overlaps(&lower.placed));
        assert_eq!((a[(1, 3)], a[(2, 0)]), (0.0, 20.0));
        assert!(View::try_from(Mat::<f64>::zeros(0, 3).as_ref()).is_ok());
    }
}
