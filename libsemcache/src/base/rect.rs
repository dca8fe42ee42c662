//! Exact byte sets of strided rectangles: the set algebra by which coherence tracks which bytes of an operand are valid
//! where.
//!
//! All positions are byte offsets within one allocation. A matrix view is one [`Rect`]: `count` runs of
//! `width` bytes whose starts are `stride` bytes apart. A vector is a rectangle too: contiguous, one run;
//! strided, `n` runs of one element. Nothing here knows elements, pages or devices.
//!
//! | file | what |
//! |---|---|
//! | `rect/shape.rs` | one rectangle: construction, normal form, runs |
//! | `rect/pair.rs` | two rectangles: intersection, difference, containment; exact for every pair |
//! | `rect/set.rs` | [`RectSet`]: disjoint rectangles as one set of bytes |
//! | `rect/reach.rs` | which rectangles of a set meet a span |
//! | `rect/merge.rs` | how a set merges its rectangles, to have few of them |
//!
//! No offset exceeds [`MAX_OFFSET`], so the sum of two offsets never overflows a `usize`.

mod merge;
mod pair;
mod reach;
mod set;
mod shape;
#[cfg(test)]
mod tests;

/// The largest offset of a byte set's end; as for every Rust object, allocations are no larger.
pub const MAX_OFFSET: usize = usize::MAX >> 1;

/// Runs that two rectangles of different strides may have to be compared one by one before they count as *mixed*.
pub const MIXED: usize = 4;

/// Half-open byte range `[start, end)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Interval {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Interval {
    /// The bytes from `start` up to `end`; empty if `end` is not larger.
    #[must_use]
    pub const fn new(start: usize, end: usize) -> Self {
        Self {
            start,
            end: if end < start { start } else { end },
        }
    }

    /// Number of bytes.
    #[must_use]
    pub const fn len(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Whether the range has no bytes.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Whether the range contains the byte at `offset`.
    #[must_use]
    pub const fn contains(self, offset: usize) -> bool {
        self.start <= offset && offset < self.end
    }

    /// Whether the range contains every byte of `other`; true for an empty `other`.
    #[must_use]
    pub const fn encloses(self, other: Self) -> bool {
        other.is_empty() || (self.start <= other.start && other.end <= self.end)
    }

    /// The bytes that both ranges contain.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// The smallest range that encloses both ranges.
    #[must_use]
    pub fn around(self, other: Self) -> Self {
        Self::new(self.start.min(other.start), self.end.max(other.end))
    }

    /// Whether the two ranges share a byte.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        !self.intersect(other).is_empty()
    }

    /// The smallest range of whole pages that encloses this range; an empty range stays empty.
    #[must_use]
    pub fn align_out(self, page: usize) -> Self {
        let page = page.max(1);
        let start = self.start - self.start % page;
        if self.is_empty() {
            return Self::new(start, start);
        }
        Self::new(
            start,
            self.end.checked_next_multiple_of(page).unwrap_or(self.end),
        )
    }

    /// The largest range of whole pages that lies inside this range; empty if it contains no whole page.
    #[must_use]
    pub fn align_in(self, page: usize) -> Self {
        let page = page.max(1);
        let end = self.end - self.end % page;
        let start = self.start.checked_next_multiple_of(page).unwrap_or(end);
        Self::new(start, end)
    }
}

/// `count` runs of `width` bytes, the first at `start`, starts `stride` apart.
///
/// Normal form (every constructor returns it): `count == 1` has `stride == width`; `width == stride` with
/// several runs is folded into one run; an empty set has all fields zero. `stride >= width` always: runs
/// never overlap each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rect {
    /// Offset of the first run.
    pub start: usize,
    /// Bytes of each run.
    pub width: usize,
    /// Distance between the starts of consecutive runs.
    pub stride: usize,
    /// Number of runs.
    pub count: usize,
}

/// A set of bytes as disjoint, non-empty rectangles in normal form, in the order of their starts.
///
/// Two sets of the same bytes may consist of different rectangles: `==` compares the rectangles, not the bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RectSet {
    rects: Vec<Rect>,
    /// For each rectangle the largest end among it and the rectangles before it. These ends ascend, so a binary search
    /// finds the first rectangle that can contain a byte.
    reach: Vec<usize>,
}
