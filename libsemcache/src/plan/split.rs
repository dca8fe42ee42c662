//! Cuts of one dimension into tiles or into shares of devices.

use crate::base::DeviceSet;

/// Elements `start .. start + len`; never empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) len: usize,
}

impl Span {
    /// The span of a whole dimension.
    pub(super) const fn all(len: usize) -> Span {
        Span { start: 0, len }
    }

    /// One past the last element.
    pub(super) const fn end(self) -> usize {
        self.start + self.len
    }

    /// As [`grid`], with pieces that start at the start of the span.
    pub(super) fn grid(self, tile: usize) -> Vec<Span> {
        let mut grid = grid(self.len, tile);
        for span in &mut grid {
            span.start += self.start;
        }
        grid
    }
}

/// Pieces of `tile` elements, cut at multiples of `tile` whatever the length, so that operands of different extents are
/// cut at the same places. A remainder of less than a quarter of a tile is joined to the piece before: as a tile of its
/// own it would cost a launch and the transfer of other tiles for little work.
pub(super) fn grid(len: usize, tile: usize) -> Vec<Span> {
    let tile = tile.max(1);
    let (full, rest) = (len / tile, len % tile);
    let joined = full > 0 && rest < tile / 4;
    let count = full + usize::from(rest > 0 && !joined);
    (0..count)
        .map(|i| {
            let start = i * tile;
            let end = if i + 1 == count { len } else { start + tile };
            Span {
                start,
                len: end - start,
            }
        })
        .collect()
}

/// Adjacent pieces that begin between the same multiples of `len`, joined as long as they are no longer than `most`. The
/// multiples count from zero, so that devices which share an input cut it at the same places.
pub(super) fn joined(pieces: &[Span], len: usize, most: usize) -> Vec<Span> {
    let mut found: Vec<Span> = Vec::new();
    for piece in pieces {
        match found.last_mut() {
            Some(last)
                if last.end() == piece.start
                    && last.start / len == piece.start / len
                    && last.len + piece.len <= most =>
            {
                last.len += piece.len;
            }
            _ => found.push(*piece),
        }
    }
    found
}

/// The longest piece that [`grid`] makes.
pub(super) fn longest(len: usize, tile: usize) -> usize {
    grid_tail(len, tile).max(tile.min(len))
}

fn grid_tail(len: usize, tile: usize) -> usize {
    let tile = tile.max(1);
    let rest = len % tile;
    if len >= tile && rest < tile / 4 {
        tile + rest
    } else {
        rest
    }
}

/// The number of pieces that [`grid`] makes.
pub(super) fn pieces(len: usize, tile: usize) -> usize {
    let tile = tile.max(1);
    let joined = len >= tile && len % tile < tile / 4;
    len / tile + usize::from(!joined && !len.is_multiple_of(tile))
}

/// A contiguous share for each device, by their speeds; none is empty if each device has at least one element coming to it.
/// The cuts lie at multiples of `tile`, or of a half, quarter and so on of `tile`: the coarsest for which no share is more
/// than a tenth too long.
pub(super) fn share(len: usize, devices: &DeviceSet, tile: usize) -> Vec<Span> {
    let most = |i: usize| {
        let even = if devices.is_equal() {
            len.div_ceil(devices.len())
        } else {
            (len as f64 * devices.share(i)).ceil() as usize
        };
        even + even / 10
    };
    let most: Vec<usize> = (0..devices.len()).map(most).collect();
    let mut step = tile.max(1);
    loop {
        let spans = cut(len, devices, step);
        let mut all = spans.iter().zip(&most);
        let fair = all.all(|(s, &most)| s.len > 0 && s.len <= most);
        if fair || step == 1 {
            return spans;
        }
        step /= 2;
    }
}

/// At most one contiguous share for each device, of whole pieces of [`grid`], as many of them as its speed tells.
pub(super) fn share_tiles(len: usize, devices: &DeviceSet, tile: usize) -> Vec<Span> {
    let pieces = grid(len, tile);
    let devices = devices.first(pieces.len().max(1));
    let of = |i: usize| &pieces[devices.cut(pieces.len(), i)..devices.cut(pieces.len(), i + 1)];
    (0..devices.len())
        .filter_map(|i| {
            let (first, last) = (of(i).first()?, of(i).last()?);
            Some(Span {
                start: first.start,
                len: last.end() - first.start,
            })
        })
        .collect()
}

/// Cuts at the multiples of `step` that are nearest to the cuts by speed.
fn cut(len: usize, devices: &DeviceSet, step: usize) -> Vec<Span> {
    let at = |i: usize| match devices.cut(len, i) {
        _ if i == devices.len() => len,
        exact => ((exact + step / 2) / step * step).min(len),
    };
    (0..devices.len())
        .map(|i| Span {
            start: at(i),
            len: at(i + 1) - at(i),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::DeviceId;

    fn lens(spans: &[Span]) -> Vec<usize> {
        spans.iter().map(|s| s.len).collect()
    }

    #[test]
    fn grids() {
        assert_eq!(lens(&grid(0, 4)), [0usize; 0]);
        assert_eq!(lens(&grid(3, 4)), [3]);
        assert_eq!(lens(&grid(8, 4)), [4, 4]);
        assert_eq!(lens(&grid(9, 4)), [4, 4, 1]);
        assert_eq!(lens(&grid(129, 64)), [64, 65]);
        assert_eq!(lens(&grid(143, 64)), [64, 79]);
        assert_eq!(lens(&grid(144, 64)), [64, 64, 16]);
        for len in 0..200 {
            for tile in [1, 2, 3, 4, 7, 8, 64, 100] {
                let g = grid(len, tile);
                assert_eq!(g.len(), pieces(len, tile), "{len} {tile}");
                let long = g.iter().map(|s| s.len).max().unwrap_or(0);
                assert_eq!(long, longest(len, tile), "{len} {tile}");
                let mut next = 0;
                for s in &g {
                    assert_eq!(s.start, next);
                    assert!(s.len > 0);
                    next += s.len;
                }
                assert_eq!(next, len);
            }
        }
    }

    #[test]
    fn shares_cover_and_are_fair() {
        for len in 1..300 {
            for parts in 1..=len.min(9) {
                for tile in [1, 3, 16, 64, 2048] {
                    let s = share(len, &DeviceSet::equal(parts), tile);
                    assert_eq!(s.len(), parts);
                    assert_eq!(s.iter().map(|s| s.len).sum::<usize>(), len);
                    assert!(s.iter().all(|s| s.len > 0));
                    assert!(s.windows(2).all(|w| w[0].start + w[0].len == w[1].start));
                    let even = len.div_ceil(parts);
                    assert!(s.iter().all(|s| s.len <= even + even / 10));
                }
            }
        }
        let equal = |len, parts| share(len, &DeviceSet::equal(parts), 2048);
        assert_eq!(lens(&equal(16384, 8)), [2048; 8]);
        // Nine tiles on eight devices: with cuts at whole tiles one device would get two.
        assert!(lens(&equal(9 * 2048, 8)).iter().all(|&l| l < 2600));
        let huge = equal(usize::MAX / 2, 64);
        assert_eq!(huge.iter().map(|s| s.len).sum::<usize>(), usize::MAX / 2);
    }

    #[test]
    fn unequal_devices_get_shares_by_speed() {
        let speeds = [6.0, 6.0, 1.0, 3.0];
        let all = speeds.iter().zip(0..).map(|(s, i)| (DeviceId(i), *s));
        let devices = DeviceSet::of(all);
        assert_eq!(lens(&share(1600, &devices, 1)), [600, 600, 300, 100]);
        assert_eq!(lens(&share(1600, &devices, 100)), [600, 600, 300, 100]);
        assert_eq!(
            lens(&share_tiles(1600, &devices, 100)),
            [600, 600, 300, 100]
        );
        assert_eq!(lens(&share_tiles(300, &devices, 100)), [100, 100, 100]);
        for len in 16..2000 {
            let s = share(len, &devices, 64);
            assert_eq!(s.iter().map(|s| s.len).sum::<usize>(), len);
            assert!(s.windows(2).all(|w| w[0].end() == w[1].start));
            for (i, s) in s.iter().enumerate() {
                let even = (len as f64 * devices.share(i)).ceil() as usize;
                assert!(s.len > 0 && s.len <= even + even / 10 + 1, "{len} {i}");
            }
            let tiles = share_tiles(len, &devices, 64);
            assert_eq!(tiles.iter().map(|s| s.len).sum::<usize>(), len);
            assert!(tiles.iter().all(|s| s.len > 0 && s.start % 64 == 0));
        }
        let huge = share(usize::MAX / 2, &devices, 2048);
        assert_eq!(huge.iter().map(|s| s.len).sum::<usize>(), usize::MAX / 2);
    }
}
