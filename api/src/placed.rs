//! Where the elements of a matrix are.

use std::ops::{Bound, Range, RangeBounds};
use std::ptr::NonNull;

use crate::error::ShapeError;

/// What has a place in memory, during `'a`. Sealed: its module is private.
pub trait Located<'a> {
    /// The type of the elements.
    type Element;
    /// The place.
    fn placed(&self) -> Placed<Self::Element>;
}

/// A matrix in column-major order, without a word on who may use it.
///
/// `ld >= rows` and `ld >= 1` always hold. If the matrix is not empty, its elements, from the first to the last, lie in one allocation
/// of which `data` may reach all of them; if it is, `data` is aligned and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Placed<T> {
    pub(crate) data: NonNull<T>,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) ld: usize,
}

impl<T> Placed<T> {
    /// A matrix at the start of `len` elements.
    ///
    /// # Safety
    /// `data` is aligned, and reaches `len` elements of one allocation.
    #[expect(unsafe_code, reason = "the caller vouches for the memory")]
    pub(crate) unsafe fn new(
        data: NonNull<T>,
        len: usize,
        rows: usize,
        cols: usize,
        ld: usize,
    ) -> Result<Self, ShapeError> {
        if ld < rows.max(1) {
            return Err(ShapeError::LeadingDimension);
        }
        let this = Placed {
            data,
            rows,
            cols,
            ld,
        };
        let needed = match this.is_empty() {
            true => Some(0),
            false => (cols - 1)
                .checked_mul(ld)
                .and_then(|before| before.checked_add(rows)),
        };
        match needed {
            Some(needed) if needed <= len => Ok(this),
            _ => Err(ShapeError::TooShort),
        }
    }

    /// A matrix whose elements are `down` elements apart in a column and `across` in a row.
    ///
    /// # Safety
    /// `data` is aligned; if the matrix is not empty, its elements lie in one allocation, all of which `data` may reach.
    #[cfg(any(feature = "ndarray", feature = "faer"))]
    #[expect(unsafe_code, reason = "the caller vouches for the memory")]
    pub(crate) unsafe fn strided(
        data: NonNull<T>,
        rows: usize,
        cols: usize,
        down: isize,
        across: isize,
    ) -> Result<Self, ShapeError> {
        if rows > 1 && cols > 0 && down != 1 {
            return Err(ShapeError::Strides);
        }
        // Of a single column, and of an empty matrix, the stride says nothing.
        let ld = match cols > 1 && rows > 0 {
            true => usize::try_from(across).map_err(|_| ShapeError::Strides)?,
            false => rows.max(1),
        };
        if ld < rows.max(1) {
            return Err(ShapeError::Strides);
        }
        Ok(Placed {
            data,
            rows,
            cols,
            ld,
        })
    }

    /// Whether there is no element.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }

    /// The part with these rows and columns.
    pub(crate) fn block(
        self,
        rows: impl RangeBounds<usize>,
        cols: impl RangeBounds<usize>,
    ) -> Result<Self, ShapeError> {
        let (rows, cols) = (within(&rows, self.rows)?, within(&cols, self.cols)?);
        let mut part = Placed {
            rows: rows.len(),
            cols: cols.len(),
            ..self
        };
        if !part.is_empty() {
            part.data = self.at(rows.start, cols.start);
        }
        Ok(part)
    }

    /// The place of an element. Of any other index, some place that must not be used.
    fn at(&self, row: usize, col: usize) -> NonNull<T> {
        let to = self.data.as_ptr().wrapping_add(col * self.ld + row);
        NonNull::new(to).unwrap_or(self.data)
    }

    /// The place of a column; of any, if the matrix is empty.
    pub(crate) fn column(&self, col: usize) -> NonNull<T> {
        if self.is_empty() {
            self.data
        } else {
            self.at(0, col)
        }
    }

    /// Whether two matrices have a byte in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (few, many) = if self.cols <= other.cols {
            (self, other)
        } else {
            (other, self)
        };
        if few.is_empty()
            || many.is_empty()
            || few.end() <= many.start()
            || many.end() <= few.start()
        {
            return false;
        }
        let (step, width) = (few.ld * size_of::<T>(), few.rows * size_of::<T>());
        (0..few.cols).any(|j| many.meets(few.start() + j * step, width))
    }

    fn start(&self) -> usize {
        self.data.addr().get()
    }

    /// The address behind the last element of a matrix that is not empty.
    fn end(&self) -> usize {
        self.start() + ((self.cols - 1) * self.ld + self.rows) * size_of::<T>()
    }

    /// Whether a column of this matrix, which is not empty, has one of `len` bytes from an address on.
    fn meets(&self, from: usize, len: usize) -> bool {
        if from < self.start() {
            return from + len > self.start();
        }
        // Counted from the start of the column that begins last: behind its end only the next column can be met, which exists
        // wherever this is not the end of the matrix.
        let (step, width) = (self.ld * size_of::<T>(), self.rows * size_of::<T>());
        let into = (from - self.start()) % step;
        from < self.end() && (into < width || into + len > step)
    }
}

/// A range of `count` rows or columns.
fn within(range: &impl RangeBounds<usize>, count: usize) -> Result<Range<usize>, ShapeError> {
    let from = match range.start_bound() {
        Bound::Included(&from) => Some(from),
        Bound::Excluded(&before) => before.checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let to = match range.end_bound() {
        Bound::Included(&last) => last.checked_add(1),
        Bound::Excluded(&to) => Some(to),
        Bound::Unbounded => Some(count),
    };
    match (from, to) {
        (Some(from), Some(to)) if from <= to && to <= count => Ok(from..to),
        _ => Err(ShapeError::Outside),
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "the memory is a vector")]
mod tests {
    use std::collections::HashSet;

    use testkit::Rng;

    use super::*;

    fn of(memory: &[f64], from: usize, rows: usize, cols: usize, ld: usize) -> Placed<f64> {
        let data = NonNull::from(&memory[from]);
        // SAFETY: this many elements follow.
        unsafe { Placed::new(data, memory.len() - from, rows, cols, ld) }.unwrap()
    }

    #[test]
    fn overlap_is_that_of_the_elements() {
        let memory = vec![0.0; 400];
        let mut rng = Rng::new(1);
        let mut random = || {
            let (from, rows, cols) = (rng.below(100), rng.below(6), rng.below(8));
            let same = [9, 12][rng.below(2)];
            let ld = if rng.one_in(3) {
                rows.max(1) + rng.below(5)
            } else {
                same
            };
            let elements: HashSet<usize> = (0..cols)
                .flat_map(|j| (0..rows).map(move |i| from + j * ld + i))
                .collect();
            (of(&memory, from, rows, cols, ld), elements)
        };
        let mut met = 0;
        for _ in 0..20_000 {
            let ((a, elements), (b, others)) = (random(), random());
            let expected = !elements.is_disjoint(&others);
            assert_eq!(a.overlaps(&b), expected, "{a:?} {b:?}");
            assert_eq!(b.overlaps(&a), expected, "{b:?} {a:?}");
            met += usize::from(expected);
        }
        assert!((2_000..18_000).contains(&met), "{met}");
    }

    #[test]
    fn blocks_stay_inside() {
        let memory = vec![0.0; 40];
        let all = of(&memory, 0, 5, 4, 8);
        let part = all.block(1..3, 2..).unwrap();
        assert_eq!((part.rows, part.cols, part.ld), (2, 2, 8));
        assert_eq!(part.data, NonNull::from(&memory[17]));
        let last = all
            .block(..=4, (Bound::Excluded(2), Bound::Unbounded))
            .unwrap();
        assert_eq!(
            (last.rows, last.cols, last.data),
            (5, 1, NonNull::from(&memory[24]))
        );
        let empty = all.block(5.., 4..).unwrap();
        assert_eq!((empty.rows, empty.cols, empty.data), (0, 0, all.data));
        assert_eq!(all.block(..6, ..).unwrap_err(), ShapeError::Outside);
        assert_eq!(all.block(.., 5..).unwrap_err(), ShapeError::Outside);
        assert_eq!(
            all.block(.., ..=usize::MAX).unwrap_err(),
            ShapeError::Outside
        );
        #[expect(clippy::reversed_empty_ranges, reason = "what is refused")]
        let reversed = all.block(3..2, ..);
        assert_eq!(reversed.unwrap_err(), ShapeError::Outside);
    }
}
