//! A sparse matrix in the program's memory.

#![expect(
    unsafe_code,
    reason = "reads arrays at addresses that the program vouches for"
)]

use core::ops::Range;

use crate::base::Dtype;
use crate::base::sparse::Index;
use crate::hints::view::View;

/// A matrix in compressed rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Csr {
    /// Element type.
    pub dtype: Dtype,
    /// Type of row offsets and column indices.
    pub index: Index,
    /// What the first row offset and the first column are called: 0 or 1.
    pub first: u8,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Address of the row offsets, `rows + 1` of them.
    pub offsets: usize,
    /// Address of the column indices.
    pub columns: usize,
    /// Address of the entries.
    pub values: usize,
}

/// Consecutive integers in memory.
fn integers(addr: usize, index: Index, range: Range<usize>) -> impl Iterator<Item = i64> {
    range.map(move |i| {
        let at = addr + i * index.size();
        // SAFETY: the program vouches for its arrays (`Csr::offset`). A page may be inaccessible because a device has its newest
        // bytes: then the load faults as any load of the program does.
        unsafe {
            match index {
                Index::I32 => {
                    i64::from(core::ptr::with_exposed_provenance::<i32>(at).read_unaligned())
                }
                Index::I64 => core::ptr::with_exposed_provenance::<i64>(at).read_unaligned(),
            }
        }
    })
}

impl Csr {
    fn array(addr: usize, element: usize, range: Range<usize>) -> View {
        View {
            addr: addr + range.start * element,
            rows: range.len(),
            cols: 1,
            ld: range.len().max(1),
            element,
        }
    }

    /// The offsets of these rows, and the one behind them.
    #[must_use]
    pub fn offsets_of(&self, rows: &Range<usize>) -> View {
        Csr::array(self.offsets, self.index.size(), rows.start..rows.end + 1)
    }

    /// The column indices of these entries.
    #[must_use]
    pub fn columns_of(&self, entries: &Range<usize>) -> View {
        Csr::array(self.columns, self.index.size(), entries.clone())
    }

    /// These entries.
    #[must_use]
    pub fn values_of(&self, entries: &Range<usize>) -> View {
        Csr::array(self.values, self.dtype.size(), entries.clone())
    }

    /// The number of the first entry of a row, or of the last row's end; `None` if no entry can have it.
    ///
    /// The program vouches for `rows + 1` row offsets, and for as many column indices and entries as the last of them says. No lock is
    /// held.
    #[must_use]
    pub fn offset(&self, row: usize) -> Option<usize> {
        let found = integers(self.offsets, self.index, row..row + 1).next()?;
        usize::try_from(found - i64::from(self.first)).ok()
    }

    /// The number of entries; `None` if the first row does not begin with the first entry.
    #[must_use]
    pub fn nnz(&self) -> Option<usize> {
        (self.offset(0)? == 0).then_some(())?;
        self.offset(self.rows)
    }

    /// Whether the offsets of these rows ascend, within these entries.
    #[must_use]
    pub fn ascends(&self, rows: &Range<usize>, entries: &Range<usize>) -> bool {
        let first = i64::from(self.first);
        let mut last = i64::try_from(entries.start).map_or(i64::MAX, |n| n + first);
        let end = i64::try_from(entries.end).map_or(i64::MAX, |n| n + first);
        integers(self.offsets, self.index, rows.start..rows.end + 1).all(|offset| {
            let ascends = last <= offset && offset <= end;
            last = offset;
            ascends
        })
    }

    /// The first and the end of the columns that these entries name; `None` if one lies outside of the matrix.
    #[must_use]
    pub fn touched(&self, entries: &Range<usize>) -> Option<(usize, usize)> {
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        // Without an early end the loop is vectorised.
        integers(self.columns, self.index, entries.clone()).for_each(|column| {
            least = least.min(column);
            most = most.max(column);
        });
        if entries.is_empty() {
            return Some((0, 0));
        }
        let first = i64::from(self.first);
        let from = usize::try_from(least.checked_sub(first)?).ok()?;
        let last = usize::try_from(most.checked_sub(first)?).ok()?;
        (last < self.cols).then_some((from, last + 1))
    }

    /// These bytes of an array.
    #[must_use]
    pub fn bytes(view: &View) -> Box<[u8]> {
        let bytes = view.rows * view.element;
        // SAFETY: as in `integers`.
        unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(view.addr), bytes) }
            .into()
    }

    /// The offsets of these rows, as the program has them, but counted from the first entry of the first of them.
    #[must_use]
    pub fn rebased(&self, rows: &Range<usize>, start: usize) -> Box<[u8]> {
        let start = i64::try_from(start).unwrap_or(0);
        let all = integers(self.offsets, self.index, rows.start..rows.end + 1).map(|o| o - start);
        match self.index {
            // The difference of two 32-bit offsets that ascend has 32 bits.
            Index::I32 => all
                .flat_map(|o| i32::try_from(o).unwrap_or(0).to_ne_bytes())
                .collect(),
            Index::I64 => all.flat_map(i64::to_ne_bytes).collect(),
        }
    }
}
