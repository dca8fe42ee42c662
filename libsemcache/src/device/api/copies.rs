//! Shape of a strided copy: how many bytes it moves, and where they lie in source and destination.

/// A strided region: `count` runs of `width` bytes, `pitch` apart, the first at `addr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Address of the first run (host or device).
    pub addr: u64,
    /// Distance between starts of runs in bytes.
    pub pitch: usize,
}

/// Shape of a copy: source and destination both have `count` runs of `width` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes of a run.
    pub width: usize,
    /// Number of runs.
    pub count: usize,
}

impl Shape {
    /// Bytes moved.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.width * self.count
    }

    /// The same bytes as one run, if they are contiguous at both ends.
    pub(in crate::device) fn joined(self, src: Region, dst: Region) -> Shape {
        if src.pitch == self.width && dst.pitch == self.width {
            Shape {
                width: self.bytes(),
                count: 1,
            }
        } else {
            self
        }
    }
}

/// Cuts a copy into pieces of at most `largest` bytes: some runs each, or parts of one run.
pub(in crate::device) fn cut(
    src: Region,
    dst: Region,
    shape: Shape,
    largest: usize,
) -> impl Iterator<Item = (Region, Region, Shape)> {
    let at = |r: Region, run: usize, offset: usize| Region {
        addr: r.addr + (run * r.pitch + offset) as u64,
        pitch: r.pitch,
    };
    let runs = (largest / shape.width.max(1)).max(1);
    let width = shape.width.min(largest);
    (0..shape.count).step_by(runs).flat_map(move |run| {
        (0..shape.width).step_by(width.max(1)).map(move |offset| {
            let part = Shape {
                width: width.min(shape.width - offset),
                count: runs.min(shape.count - run),
            };
            (at(src, run, offset), at(dst, run, offset), part)
        })
    })
}
