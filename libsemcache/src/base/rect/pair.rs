//! Two rectangles: intersection, difference, containment; exact for every pair.
//!
//! A rectangle is `count` runs of `width` bytes, `stride` bytes apart. Three cases. *An interval and a rectangle*: of the
//! runs that the interval overlaps it cuts only the first and the last. *The same stride*: memory from the start of one
//! rectangle on is cut into lines of `stride` bytes; in the plane of (line, position in the line) both rectangles are
//! boxes, and one whose runs cross the end of a line is two. *Two strides*: only runs near the common span are looked
//! at, and the rectangle that has fewer of them is visited run by run.
//!
//! The pieces of a result are disjoint rectangles in no particular order. They are passed to a function that can end the
//! computation.

use core::ops::ControlFlow::{self, Break, Continue};

use super::shape::block;
use super::{Interval, Rect};

/// `Break` ends the computation.
type Walk = ControlFlow<()>;

impl Rect {
    /// Whether the two rectangles share a byte.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        meet(self, other, &mut |_| Break(())).is_break()
    }

    /// Whether this rectangle contains every byte of `other`; true for an empty `other`.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        if other.is_empty() {
            return true;
        }
        if !self.span().encloses(other.span()) || self.is_empty() {
            return false;
        }
        if self.count == 1 {
            return true;
        }
        if other.width > self.width {
            return false;
        }
        if other.count == 1 || other.stride == self.stride {
            // With one stride all runs of `other` have the same offset in the lines of this rectangle, and since the spans
            // are nested, none of them lies behind the last line.
            return (other.start - self.start) % self.stride + other.width <= self.width;
        }
        other
            .runs()
            .all(|run| (run.start - self.start) % self.stride + other.width <= self.width)
    }

    /// About how many runs a loop has to visit to intersect the two rectangles. Zero for intervals and for rectangles of
    /// one stride, whose intersection is a few pieces whatever their sizes. For two strides: the number of runs in the
    /// common span, of the rectangle that has fewer there.
    #[must_use]
    pub fn runs_to_visit(&self, other: &Self) -> usize {
        if self.count <= 1 || other.count <= 1 || self.stride == other.stride {
            return 0;
        }
        let common = self.span().intersect(other.span());
        if common.is_empty() {
            return 0;
        }
        let runs = common.len() / self.stride.max(other.stride) + 1;
        runs.min(self.count).min(other.count)
    }

    /// The bytes that both rectangles contain, as disjoint rectangles.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Vec<Self> {
        let mut out = Vec::new();
        self.intersect_into(other, &mut out);
        out
    }

    /// The bytes of this rectangle that are not in `other`, as disjoint rectangles.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Vec<Self> {
        let mut out = Vec::new();
        self.subtract_into(other, &mut out);
        out
    }

    /// Appends the bytes that both rectangles contain to `out`.
    pub fn intersect_into(&self, other: &Self, out: &mut Vec<Self>) {
        let _ = meet(self, other, &mut |piece| {
            out.push(piece);
            Continue(())
        });
    }

    /// Appends the bytes of this rectangle that are not in `other` to `out`.
    pub fn subtract_into(&self, other: &Self, out: &mut Vec<Self>) {
        let _ = minus(self, other, &mut |piece| {
            out.push(piece);
            Continue(())
        });
    }

    /// How many bytes both rectangles contain.
    #[must_use]
    pub fn shared_bytes(&self, other: &Self) -> usize {
        let mut sum = 0;
        let _ = meet(self, other, &mut |piece| {
            sum += piece.bytes();
            Continue(())
        });
        sum
    }
}

/// The non-empty pieces of `a ∩ b`.
fn meet(a: &Rect, b: &Rect, sink: &mut impl FnMut(Rect) -> Walk) -> Walk {
    if !a.span().overlaps(b.span()) {
        Continue(())
    } else if a.count == 1 {
        meet_interval(b, a.span(), sink)
    } else if b.count == 1 {
        meet_interval(a, b.span(), sink)
    } else if a.stride == b.stride {
        meet_plane(a, b, sink)
    } else {
        meet_strides(a, b, sink)
    }
}

/// `a ∩ span`: the end of a first run, a block of whole runs, the start of a last run.
fn meet_interval(a: &Rect, span: Interval, sink: &mut impl FnMut(Rect) -> Walk) -> Walk {
    let span = a.span().intersect(span);
    if span.is_empty() {
        return Continue(());
    }
    if a.count == 1 {
        return sink(Rect::from(span));
    }
    let (mut first, from) = (
        (span.start - a.start) / a.stride,
        (span.start - a.start) % a.stride,
    );
    let (mut last, to) = (
        (span.end - 1 - a.start) / a.stride,
        (span.end - 1 - a.start) % a.stride,
    );
    if from >= a.width {
        first += 1;
    }
    if first > last {
        return Continue(());
    }
    if first == last {
        return sink(Rect::from(a.run(first).intersect(span)));
    }
    if from > 0 && from < a.width {
        sink(Rect::interval(span.start, a.run(first).end))?;
        first += 1;
    }
    let cut = to + 1 < a.width;
    if cut {
        last -= 1;
    }
    if first <= last {
        sink(a.lines(first, last + 1))?;
    }
    if cut {
        sink(Rect::interval(a.run(last + 1).start, span.end))
    } else {
        Continue(())
    }
}

/// `a ∩ b` with one stride, both with several runs.
fn meet_plane(a: &Rect, b: &Rect, sink: &mut impl FnMut(Rect) -> Walk) -> Walk {
    let all = PlaneBox::all(a);
    for part in PlaneBox::parts(a, b) {
        let common = part.clip(&all);
        if !common.is_empty() {
            sink(common.rect(a))?;
        }
    }
    Continue(())
}

/// `a ∩ b` with two strides, both with several runs.
fn meet_strides(a: &Rect, b: &Rect, sink: &mut impl FnMut(Rect) -> Walk) -> Walk {
    let where_ = a.span().intersect(b.span());
    let (a, b) = (touched(a, where_), touched(b, where_));
    let (few, many) = if a.count <= b.count { (a, b) } else { (b, a) };
    for run in few.runs() {
        meet_interval(&many, run, sink)?;
    }
    Continue(())
}

/// The runs of `a` in the lines that `span` overlaps, as a whole; one of them may end before `span`.
fn touched(a: &Rect, span: Interval) -> Rect {
    let from = span.start.saturating_sub(a.start) / a.stride;
    let to = span.end.saturating_sub(a.start).div_ceil(a.stride);
    a.lines(from, to.min(a.count))
}

/// The non-empty pieces of `a \ b`.
fn minus(a: &Rect, b: &Rect, sink: &mut impl FnMut(Rect) -> Walk) -> Walk {
    if a.is_empty() {
        return Continue(());
    }
    if !a.overlaps(b) {
        return sink(*a);
    }
    if a.count > 1 && b.count > 1 && a.stride == b.stride {
        return minus_plane(a, b, sink);
    }
    // The bytes outside of b: before it, between its runs, after it.
    meet_interval(a, Interval::new(0, b.start), sink)?;
    if b.count > 1 {
        let gaps = block(b.start + b.width, b.stride - b.width, b.stride, b.count - 1);
        meet(a, &gaps, sink)?;
    }
    meet_interval(a, Interval::new(b.end(), a.end()), sink)
}

/// `a \ b`, one stride, both with several runs.
fn minus_plane(a: &Rect, b: &Rect, sink: &mut impl FnMut(Rect) -> Walk) -> Walk {
    let [one, two] = PlaneBox::parts(a, b);
    PlaneBox::all(a).without(&one, &mut |rest| {
        rest.without(&two, &mut |piece| sink(piece.rect(a)))
    })
}

/// A box in the plane that counts lines of `stride` bytes from the start of some rectangle, called the frame.
#[derive(Clone, Copy)]
struct PlaneBox {
    lines: Interval,
    bytes: Interval,
}

impl PlaneBox {
    /// The frame itself.
    fn all(frame: &Rect) -> Self {
        Self {
            lines: Interval::new(0, frame.count),
            bytes: Interval::new(0, frame.width),
        }
    }

    /// `b` in the plane of `frame`, without the lines before the frame: up to two boxes, the remaining ones empty.
    fn parts(frame: &Rect, b: &Rect) -> [Self; 2] {
        let stride = frame.stride;
        // b's first run begins in line `skip - before`, counted from the frame's start, at byte `at` of that line.
        let (before, skip, at) = if b.start >= frame.start {
            let delta = b.start - frame.start;
            (0, delta / stride, delta % stride)
        } else {
            let delta = frame.start - b.start;
            let before = delta.div_ceil(stride);
            (before, 0, before * stride - delta)
        };
        let part = |late: usize, bytes| {
            let from = (skip + late).saturating_sub(before);
            let to = (skip + late + b.count).saturating_sub(before);
            Self {
                lines: Interval::new(from, to),
                bytes,
            }
        };
        let reach = at + b.width;
        [
            part(0, Interval::new(at, reach.min(stride))),
            part(1, Interval::new(0, reach.saturating_sub(stride))),
        ]
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty() || self.bytes.is_empty()
    }

    fn clip(&self, other: &Self) -> Self {
        Self {
            lines: self.lines.intersect(other.lines),
            bytes: self.bytes.intersect(other.bytes),
        }
    }

    fn rect(&self, frame: &Rect) -> Rect {
        let start = frame.start + self.lines.start * frame.stride + self.bytes.start;
        block(start, self.bytes.len(), frame.stride, self.lines.len())
    }

    /// The non-empty boxes of `self` without `hole`: lines before, both sides of it, lines after.
    fn without(&self, hole: &Self, sink: &mut impl FnMut(Self) -> Walk) -> Walk {
        let hole = self.clip(hole);
        if hole.is_empty() {
            return if self.is_empty() {
                Continue(())
            } else {
                sink(*self)
            };
        }
        let around = [
            Self {
                lines: Interval::new(self.lines.start, hole.lines.start),
                bytes: self.bytes,
            },
            Self {
                lines: hole.lines,
                bytes: Interval::new(self.bytes.start, hole.bytes.start),
            },
            Self {
                lines: hole.lines,
                bytes: Interval::new(hole.bytes.end, self.bytes.end),
            },
            Self {
                lines: Interval::new(hole.lines.end, self.lines.end),
                bytes: self.bytes,
            },
        ];
        for piece in around {
            if !piece.is_empty() {
                sink(piece)?;
            }
        }
        Continue(())
    }
}
