//! Operands of calls.

use std::marker::PhantomData;
use std::ops::RangeBounds;

use crate::error::ShapeError;
use crate::placed::{Located, Placed};
use crate::scalar::Scalar;
use crate::view::{View, ViewMut};

/// A matrix that calls of a [`scope`](crate::scope) may be changing: the result of one, and an operand of the next ones.
///
/// It is made of a [`ViewMut`], whose elements stay borrowed, and may be copied: calls are made in the order of the program. It gives no
/// access to elements.
///
/// ```
/// use semcache_api::{Diag, Error, Pending, Side, Transpose, Uplo, View, ViewMut, scope};
///
/// // One step of a solution by blocks: the upper half of B is solved, then taken from the lower half.
/// fn step<'a>(l: View<'a, f64>, b: ViewMut<'a, f64>) -> Result<(), Error> {
///     scope(|s| {
///         let b = Pending::from(b);
///         let (upper, lower) = (b.block(..1, ..)?, b.block(1.., ..)?);
///         let (l11, l21) = (l.block(..1, ..1)?, l.block(1.., ..1)?);
///         s.trsm(Side::Left, Uplo::Lower, Transpose::No, Diag::NonUnit, 1.0, l11, upper)?;
///         s.gemm(Transpose::No, Transpose::No, -1.0, l21, upper, 1.0, lower)?;
///         Ok(())
///     })
/// }
/// # unsafe { libc::dlopen(c"libblas.so.3".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
///
/// let l = [2.0, 3.0, 0.0, 1.0];
/// let mut b = [4.0, 7.0];
/// step(View::new(&l, 2, 2, 2)?, ViewMut::new(&mut b, 2, 1, 2)?)?;
/// assert_eq!(b, [2.0, 1.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Pending<'a, T> {
    pub(crate) placed: Placed<T>,
    /// Not to be sent to other threads, whose calls would come at any time.
    borrow: PhantomData<(&'a mut [T], *mut T)>,
}

impl<'a, T: Scalar> From<ViewMut<'a, T>> for Pending<'a, T> {
    fn from(view: ViewMut<'a, T>) -> Self {
        Pending {
            placed: view.placed,
            borrow: PhantomData,
        }
    }
}

impl<T: Scalar> Pending<'_, T> {
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
        Ok(Pending { placed, ..self })
    }
}

impl<'a, T: Scalar> Located<'a> for Pending<'a, T> {
    type Element = T;

    fn placed(&self) -> Placed<T> {
        self.placed
    }
}

/// A matrix that a call reads: a [`View`], or a result of an earlier call ([`Pending`]).
pub trait Operand<'a, T>: Located<'a, Element = T> {}

impl<'a, T: Scalar> Operand<'a, T> for View<'a, T> {}
impl<'a, T: Scalar> Operand<'a, T> for Pending<'a, T> {}
