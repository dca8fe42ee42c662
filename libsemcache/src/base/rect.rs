//! Exact byte sets of strided rectangles: the algebra that coherence stands on.
//!
//! All positions are byte offsets within one allocation. A matrix view is one [`Rect`]: `count` runs of
//! `width` bytes whose starts are `stride` bytes apart. A vector is a rectangle too: contiguous, one run;
//! strided, `n` runs of one element. Nothing here knows elements, pages or devices.

/// Half-open byte range `[start, end)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Interval {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
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

/// A set of bytes kept as disjoint rectangles.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RectSet {
    rects: Vec<Rect>,
}
