//! Which devices hold which pieces of a vector, so that each may compute with what it holds (owner computes).

use std::cmp::Reverse;

use super::Cache;
use crate::base::{AllocId, DeviceId, Interval, Rect};

impl Cache {
    /// The devices that hold pieces of an interval of an allocation, in the order of the pieces, each with the end of its
    /// piece. Bytes that no device holds belong to the piece before them, or to the first one. Bytes that two devices hold are cut in the
    /// middle: a product of a sparse matrix has copied the neighbouring rows of a vector from either side, and the part that each device
    /// wrote ends between them. Pieces with gaps count as held by no device. Empty if no device holds any, or one holds them all.
    #[must_use]
    pub fn owners(&self, id: AllocId, all: Interval) -> Vec<(usize, DeviceId)> {
        let state = self.lock();
        let Some(e) = state.entries.get(&id) else {
            return Vec::new();
        };
        let rect = Rect::interval(all.start, all.end);
        let mut held: Vec<(Interval, DeviceId)> = Vec::new();
        for (_, r) in e.dir.replicas() {
            let Some(device) = r.device else {
                continue;
            };
            let pieces = r.valid.common(&rect);
            let pieces = pieces.iter().filter(|piece| piece.is_interval());
            held.extend(pieces.map(|piece| (piece.span(), device)));
        }
        drop(state);
        owners(held, all)
    }
}

fn owners(mut held: Vec<(Interval, DeviceId)>, all: Interval) -> Vec<(usize, DeviceId)> {
    held.sort_by_key(|(piece, device)| (piece.start, Reverse(piece.end), *device));
    let (mut at, mut from) = (all.start, all.start);
    let mut found = Vec::<(usize, DeviceId)>::new();
    for (piece, device) in held {
        if piece.end <= at {
            continue;
        }
        match found.last_mut() {
            Some((end, last)) if *last == device => *end = piece.end,
            last => {
                if let Some((end, _)) = last {
                    let both = piece.start.max(from)..at;
                    *end = match both.is_empty() {
                        true => piece.start,
                        false => both.start + both.len().div_ceil(2),
                    };
                    from = *end;
                }
                found.push((piece.end, device));
            }
        }
        at = piece.end;
    }
    if let Some((end, _)) = found.last_mut() {
        *end = all.end;
    }
    if found.len() < 2 { Vec::new() } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_follow_each_other() {
        let all = Interval::new(100, 200);
        let of = |held: &[(usize, usize, u8)]| {
            let held = held.iter();
            let held = held.map(|&(start, end, d)| (Interval::new(start, end), DeviceId(d)));
            let found = owners(held.collect(), all);
            found
                .into_iter()
                .map(|(end, d)| (end, d.0))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&[(150, 200, 1), (100, 150, 0)]), [(150, 0), (200, 1)]);
        // Bytes that no device holds, at the start, between pieces and at the end.
        assert_eq!(of(&[(110, 120, 0), (150, 170, 1)]), [(150, 0), (200, 1)]);
        // Bytes that two devices hold.
        assert_eq!(of(&[(100, 160, 2), (140, 200, 1)]), [(150, 2), (200, 1)]);
        let thirds = [(100, 140, 0), (130, 170, 1), (160, 200, 2)];
        assert_eq!(of(&thirds), [(135, 0), (165, 1), (200, 2)]);
        // The second piece begins before the middle of what the first two have in common.
        let nested = [(100, 150, 0), (110, 160, 1), (120, 200, 2)];
        assert_eq!(of(&nested), [(130, 0), (145, 1), (200, 2)]);
        assert_eq!(of(&[(100, 130, 0), (130, 140, 1), (140, 200, 0)]).len(), 3);
        assert_eq!(of(&[(100, 130, 0), (120, 200, 0)]), []);
        assert_eq!(of(&[(100, 200, 0), (100, 200, 1), (150, 160, 2)]), []);
        assert_eq!(of(&[]), []);
    }
}
