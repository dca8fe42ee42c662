//! One rectangle: construction, normal form, runs.

use super::{Interval, MAX_OFFSET, Rect};

impl Rect {
    /// The rectangle without bytes.
    pub const EMPTY: Self = Self {
        start: 0,
        width: 0,
        stride: 0,
        count: 0,
    };

    /// `count` runs of `width` bytes from `start`, starts `stride` apart, in normal form.
    ///
    /// Runs that overlap or touch each other (`stride <= width`) become the one run that they cover. Bytes past
    /// [`MAX_OFFSET`] cannot exist and are left out; [`Rect::try_new`] refuses both.
    #[must_use]
    pub fn new(start: usize, width: usize, stride: usize, count: usize) -> Self {
        if width == 0 || count == 0 || start >= MAX_OFFSET {
            return Self::EMPTY;
        }
        if count == 1 || stride <= width {
            let reach = (count - 1).saturating_mul(stride).saturating_add(width);
            return Self::interval(start, start.saturating_add(reach).min(MAX_OFFSET));
        }
        let room = MAX_OFFSET - start;
        if width > room {
            return Self::interval(start, MAX_OFFSET);
        }
        block(start, width, stride, count.min((room - width) / stride + 1))
    }

    /// Like [`Rect::new`], but `None` if runs overlap each other or reach past [`MAX_OFFSET`].
    #[must_use]
    pub fn try_new(start: usize, width: usize, stride: usize, count: usize) -> Option<Self> {
        if width == 0 || count == 0 {
            return Some(Self::EMPTY);
        }
        if count > 1 && stride < width {
            return None;
        }
        let end = (count - 1)
            .checked_mul(stride)?
            .checked_add(width)?
            .checked_add(start)?;
        (end <= MAX_OFFSET).then(|| block(start, width, stride, count))
    }

    /// The bytes `[start, end)`; empty if `end` is not larger than `start`.
    #[must_use]
    pub const fn interval(start: usize, end: usize) -> Self {
        if end <= start {
            return Self::EMPTY;
        }
        Self {
            start,
            width: end - start,
            stride: end - start,
            count: 1,
        }
    }

    /// Number of bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.width * self.count
    }

    /// Whether the rectangle has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether the bytes of the rectangle are contiguous.
    #[must_use]
    pub const fn is_interval(&self) -> bool {
        self.count <= 1
    }

    /// The range from the first byte to the last, gaps included.
    #[must_use]
    pub const fn span(&self) -> Interval {
        Interval {
            start: self.start,
            end: self.end(),
        }
    }

    /// One past its last byte.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.start + self.count.saturating_sub(1) * self.stride + self.width
    }

    /// The same bytes with offsets counted from `origin`, which is not after the first byte.
    #[must_use]
    pub const fn counted_from(&self, origin: usize) -> Self {
        Self {
            start: self.start - origin,
            ..*self
        }
    }

    /// The run with index `i`, which is less than `count`.
    #[must_use]
    pub const fn run(&self, i: usize) -> Interval {
        let start = self.start + i * self.stride;
        Interval {
            start,
            end: start + self.width,
        }
    }

    /// The runs, lowest first.
    pub fn runs(
        &self,
    ) -> impl DoubleEndedIterator<Item = Interval> + ExactSizeIterator + Clone + use<> {
        let rect = *self;
        (0..rect.count).map(move |i| rect.run(i))
    }

    /// Whether the rectangle contains the byte at `offset`.
    #[must_use]
    pub const fn contains_offset(&self, offset: usize) -> bool {
        if self.count == 0 || offset < self.start {
            return false;
        }
        let delta = offset - self.start;
        delta / self.stride < self.count && delta % self.stride < self.width
    }

    /// Whether the fields are in normal form and within [`MAX_OFFSET`].
    #[must_use]
    pub fn is_normal(&self) -> bool {
        *self == Self::EMPTY
            || Self::try_new(self.start, self.width, self.stride, self.count) == Some(*self)
    }

    /// The runs with indices `from .. to`.
    pub(super) fn lines(&self, from: usize, to: usize) -> Self {
        block(
            self.start + from * self.stride,
            self.width,
            self.stride,
            to.saturating_sub(from),
        )
    }
}

impl From<Interval> for Rect {
    fn from(span: Interval) -> Self {
        Self::interval(span.start, span.end)
    }
}

/// Normal form of a rectangle that is known to be valid: `stride >= width` if `count > 1`, end within `MAX_OFFSET`.
pub(super) const fn block(start: usize, width: usize, stride: usize, count: usize) -> Rect {
    if width == 0 || count == 0 {
        Rect::EMPTY
    } else if count == 1 || width == stride {
        Rect {
            start,
            width: width * count,
            stride: width * count,
            count: 1,
        }
    } else {
        Rect {
            start,
            width,
            stride,
            count,
        }
    }
}
