//! Views of ndarray's arrays.

#![expect(unsafe_code, reason = "takes memory over from arrays")]

use std::ptr::NonNull;

use ::ndarray::{ArrayView2, ArrayViewMut2};

use crate::error::ShapeError;
use crate::placed::Placed;
use crate::scalar::Scalar;
use crate::view::{View, ViewMut};

/// An array whose columns are contiguous. Of an array by rows, which is ndarray's default, take the transpose: it is the same memory by
/// columns, and nothing is copied.
///
/// ```
/// use ndarray::array;
/// use semcache_api::{ShapeError, View};
///
/// let a = array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
/// let transposed = View::try_from(a.t())?;
/// assert_eq!((transposed.rows(), transposed.cols(), transposed.ld()), (3, 2, 3));
/// assert_eq!(View::try_from(a.view()).unwrap_err(), ShapeError::Strides);
/// # Ok::<(), ShapeError>(())
/// ```
impl<'a, T: Scalar> TryFrom<ArrayView2<'a, T>> for View<'a, T> {
    type Error = ShapeError;

    fn try_from(array: ArrayView2<'a, T>) -> Result<Self, ShapeError> {
        let ((rows, cols), &[down, across]) = (array.dim(), array.strides()) else {
            return Err(ShapeError::Strides);
        };
        let data = NonNull::new(array.as_ptr().cast_mut()).ok_or(ShapeError::Strides)?;
        // SAFETY: the elements of an array at its strides are in one allocation, which the array's pointer reaches; they are borrowed
        // for 'a.
        unsafe { Ok(View::of(Placed::strided(data, rows, cols, down, across)?)) }
    }
}

/// As for [`View`]; the transpose of an array by rows is `a.view_mut().reversed_axes()`.
///
/// ```
/// use ndarray::Array2;
/// use semcache_api::ViewMut;
///
/// let mut a = Array2::<f32>::zeros((2, 3));
/// let mut transposed = ViewMut::try_from(a.view_mut().reversed_axes())?;
/// transposed.columns_mut().for_each(|row| row[2] = 1.0);
/// assert_eq!(a, ndarray::array![[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]);
/// # Ok::<(), semcache_api::ShapeError>(())
/// ```
impl<'a, T: Scalar> TryFrom<ArrayViewMut2<'a, T>> for ViewMut<'a, T> {
    type Error = ShapeError;

    fn try_from(mut array: ArrayViewMut2<'a, T>) -> Result<Self, ShapeError> {
        let ((rows, cols), &[down, across]) = (array.dim(), array.strides()) else {
            return Err(ShapeError::Strides);
        };
        let data = NonNull::new(array.as_mut_ptr()).ok_or(ShapeError::Strides)?;
        // SAFETY: as above; mutably, and the array that had them is gone.
        unsafe {
            Ok(ViewMut::of(Placed::strided(
                data, rows, cols, down, across,
            )?))
        }
    }
}

#[cfg(test)]
mod tests {
    use ::ndarray::{Array2, ShapeBuilder, s};

    use super::*;

    #[test]
    fn arrays_by_columns_are_views() {
        let mut a = Array2::from_shape_fn((5, 4).f(), |(i, j)| (10 * i + j) as f64);
        let part = a.slice(s![1..3, 1..]);
        let view = View::try_from(part).unwrap();
        assert_eq!((view.rows(), view.cols(), view.ld()), (2, 3, 5));
        assert!(
            view.columns()
                .eq([[11.0, 21.0], [12.0, 22.0], [13.0, 23.0]])
        );
        let every_other = View::try_from(a.slice(s![.., ..;2])).unwrap();
        assert_eq!((every_other.cols(), every_other.ld()), (2, 10));
        ViewMut::try_from(a.slice_mut(s![4.., ..]))
            .unwrap()
            .columns_mut()
            .for_each(|column| column[0] = 0.0);
        assert_eq!(a.row(4).sum(), 0.0);
    }

    #[test]
    fn arrays_of_other_strides_are_refused() {
        let a = Array2::<f64>::zeros((5, 4).f());
        assert_eq!(
            View::try_from(a.slice(s![..;2, ..])).unwrap_err(),
            ShapeError::Strides
        );
        assert_eq!(
            View::try_from(a.slice(s![.., ..;-1])).unwrap_err(),
            ShapeError::Strides
        );
        assert_eq!(
            View::try_from(a.slice(s![..;-1, ..])).unwrap_err(),
            ShapeError::Strides
        );
        let one = Array2::<f64>::zeros((3, 1).f());
        assert_eq!(
            View::try_from(one.broadcast((3, 4)).unwrap()).unwrap_err(),
            ShapeError::Strides
        );
        // Of one row or column only one stride counts; of none no stride does.
        let row = View::try_from(a.slice(s![2..3, ..])).unwrap();
        assert_eq!((row.rows(), row.cols(), row.ld()), (1, 4, 5));
        let column = View::try_from(a.slice(s![.., 1..2;-1])).unwrap();
        assert_eq!((column.rows(), column.cols(), column.ld()), (5, 1, 5));
        let none = Array2::<f64>::zeros((0, 4));
        assert!(View::try_from(none.view()).is_ok());
    }
}
