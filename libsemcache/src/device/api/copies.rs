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

/// A copy, or a part of it: its host region, its region on the device, and its shape.
pub(in crate::device) type Part = (Region, Region, Shape);

/// Cuts a copy where its host region crosses one of these addresses: into whole runs, and the two parts of a run that crosses.
pub(in crate::device) fn cut_at(copy: Part, borders: &[usize]) -> Vec<Part> {
    let cut = |parts: Vec<Part>, &border: &usize| {
        let halves = parts.into_iter().map(|part| halves(part, border as u64));
        halves.flatten().flatten().collect()
    };
    borders.iter().fold(vec![copy], cut)
}

/// The runs of a copy before an address, the two parts of the run that crosses it, and the runs behind it.
fn halves((host, there, shape): Part, border: u64) -> [Option<Part>; 4] {
    let at = |r: Region, run: usize, offset: usize| Region {
        addr: r.addr + (run * r.pitch + offset) as u64,
        pitch: r.pitch,
    };
    let part = |run: usize, offset: usize, width: usize, count: usize| {
        let part = (
            at(host, run, offset),
            at(there, run, offset),
            Shape { width, count },
        );
        (width > 0 && count > 0).then_some(part)
    };
    let Shape { width, count } = shape;
    let before = usize::try_from(border.saturating_sub(host.addr)).unwrap_or(usize::MAX);
    // The runs that end at the border or before it, and how much of the next one lies before it.
    let whole = match before.checked_sub(width) {
        Some(beyond) => (beyond / host.pitch.max(1) + 1).min(count),
        None => 0,
    };
    let crossing = before.saturating_sub(whole * host.pitch).min(width);
    if whole == count || crossing == 0 {
        return [
            part(0, 0, width, whole),
            None,
            None,
            part(whole, 0, width, count - whole),
        ];
    }
    [
        part(0, 0, width, whole),
        part(whole, 0, crossing, 1),
        part(whole, crossing, width - crossing, 1),
        part(whole + 1, 0, width, count - whole - 1),
    ]
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte of a copy is in one part, at the same place, and no part crosses a border.
    #[test]
    fn parts_between_borders() {
        let region = |addr, pitch| Region { addr, pitch };
        for (width, count, pitch) in [(8, 5, 10), (8, 5, 8), (100, 1, 0), (1, 9, 3), (30, 3, 64)] {
            let shape = Shape { width, count };
            let copy = (region(1000, pitch), region(5000, pitch + 7), shape);
            let bytes = |part: &Part| -> Vec<(u64, u64)> {
                let (host, there, shape) = *part;
                let run = |i: usize| {
                    let (a, b) = (
                        host.addr + (i * host.pitch) as u64,
                        there.addr + (i * there.pitch) as u64,
                    );
                    (0..shape.width as u64).map(move |o| (a + o, b + o))
                };
                (0..shape.count).flat_map(run).collect()
            };
            for one in 990..1200 {
                for two in (one..1200).step_by(7) {
                    let parts = cut_at(copy, &[one, two]);
                    let found: Vec<_> = parts.iter().flat_map(bytes).collect();
                    assert_eq!(found, bytes(&copy), "{width} {count} {pitch} {one} {two}");
                    for part in &parts {
                        let (Some(first), Some(last)) =
                            (bytes(part).first().copied(), bytes(part).last().copied())
                        else {
                            panic!("an empty part");
                        };
                        for border in [one as u64, two as u64] {
                            assert!(last.0 < border || first.0 >= border);
                        }
                    }
                }
            }
        }
    }
}
