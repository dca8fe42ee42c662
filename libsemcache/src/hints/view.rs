//! Matrices as programs name them.

use super::Status;
use crate::base::Rect;

/// A matrix in column-major order: `rows x cols` elements of `element` bytes, whose columns begin `ld` elements apart. A strided vector
/// has one row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View {
    /// The first element's address.
    pub addr: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Leading dimension, in elements.
    pub ld: usize,
    /// Bytes of an element.
    pub element: usize,
}

/// The largest element: a complex number of two doubles.
const LARGEST: usize = 16;

impl View {
    /// The bytes, as a rectangle whose offsets are addresses; `None` if the matrix is empty.
    ///
    /// # Errors
    /// [`Status::Invalid`]: a null address, an element of no known size or in the middle of one, columns that overlap, or more bytes than there are addresses.
    pub fn place(&self) -> Result<Option<Rect>, Status> {
        let View {
            addr,
            rows,
            cols,
            ld,
            element,
        } = *self;
        let fits =
            element.is_power_of_two() && element <= LARGEST && addr.is_multiple_of(element.min(8));
        if !fits || ld < rows.max(1) {
            return Err(Status::Invalid);
        }
        if rows == 0 || cols == 0 {
            return Ok(None);
        }
        let width = rows.checked_mul(element).ok_or(Status::Invalid)?;
        let apart = ld.checked_mul(element).ok_or(Status::Invalid)?;
        let place = Rect::try_new(addr, width, apart, cols);
        let in_memory = |place: &Rect| addr != 0 && place.end() <= usize::MAX >> 1;
        place.filter(in_memory).map(Some).ok_or(Status::Invalid)
    }

    /// Bytes of its elements, without the gaps between columns.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.rows * self.cols * self.element
    }

    /// The columns from `from` on, before `to`.
    #[must_use]
    pub fn columns(&self, from: usize, to: usize) -> View {
        self.block((0, from), (self.rows, to - from))
    }

    /// The block of these extents at a row and column.
    #[must_use]
    pub fn block(&self, (row, col): (usize, usize), (rows, cols): (usize, usize)) -> View {
        View {
            addr: self.addr + (col * self.ld + row) * self.element,
            rows,
            cols,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: View = View {
        addr: 4096,
        rows: 5,
        cols: 3,
        ld: 7,
        element: 8,
    };

    #[test]
    fn a_view_is_a_rectangle_of_bytes() {
        assert_eq!(ANY.place(), Ok(Some(Rect::new(4096, 40, 56, 3))));
        let whole = View { ld: 5, ..ANY };
        assert_eq!(whole.place(), Ok(Some(Rect::interval(4096, 4096 + 120))));
        let empty = View { cols: 0, ..ANY };
        assert_eq!(empty.place(), Ok(None));
        let last = ANY.columns(1, 3);
        assert_eq!((last.addr, last.cols), (4096 + 56, 2));
    }

    #[test]
    fn nonsense_is_refused() {
        let huge = usize::MAX / 2;
        let views = [
            View { addr: 0, ..ANY },
            View { ld: 4, ..ANY },
            View { element: 0, ..ANY },
            View { element: 3, ..ANY },
            View { addr: 4100, ..ANY },
            View { element: 32, ..ANY },
            View { cols: huge, ..ANY },
            View { ld: huge, ..ANY },
            View {
                rows: huge,
                ld: huge,
                ..ANY
            },
            View {
                addr: usize::MAX - 7,
                ..ANY
            },
        ];
        for view in views {
            assert_eq!(view.place(), Err(Status::Invalid), "{view:?}");
        }
    }
}
