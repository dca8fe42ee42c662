//! Which rows of a sparse matrix each device computes.

use core::ops::Range;

/// Rows, and their entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// The rows.
    pub rows: Range<usize>,
    /// Their entries.
    pub entries: Range<usize>,
}

/// Cuts rows into at most one share for each weight, whose numbers of entries are as the weights, as far as whole rows can be.
/// `offset` says where a row's entries begin. Returns the weight's number with each share. `None` if the offsets do not ascend where they
/// are looked at.
pub fn by_entries(
    all: &Share,
    weights: &[f64],
    offset: impl Fn(usize) -> Option<usize>,
) -> Option<Vec<(usize, Share)>> {
    let mut shares: Vec<(usize, Share)> = Vec::with_capacity(weights.len());
    let (mut row, mut entry) = (all.rows.start, all.entries.start);
    let (sum, mut before) = (weights.iter().sum::<f64>(), 0.0);
    for (part, weight) in weights.iter().enumerate() {
        before += weight;
        let wanted = all.entries.start + (all.entries.len() as f64 * (before / sum)) as usize;
        // The first row that begins at or behind the wanted entry.
        let (mut low, mut high) = (row, all.rows.end);
        while low < high {
            let middle = low + (high - low) / 2;
            match offset(middle)? < wanted {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let end = if part + 1 == weights.len() {
            all.rows.end
        } else {
            low
        };
        let last = if end == all.rows.end {
            all.entries.end
        } else {
            offset(end)?
        };
        if entry > last || last > all.entries.end {
            return None;
        }
        if row < end {
            let (rows, entries) = (row..end, entry..last);
            shares.push((part, Share { rows, entries }));
            (row, entry) = (end, last);
        }
    }
    Some(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighted(offsets: &[usize], weights: &[f64]) -> Option<Vec<Share>> {
        let all = Share {
            rows: 0..offsets.len() - 1,
            entries: 0..offsets[offsets.len() - 1],
        };
        let shares = by_entries(&all, weights, |row| Some(offsets[row]))?;
        Some(shares.into_iter().map(|(_, share)| share).collect())
    }

    fn cut(offsets: &[usize], parts: usize) -> Option<Vec<Share>> {
        weighted(offsets, &vec![1.0; parts])
    }

    #[test]
    fn a_faster_device_gets_more_entries() {
        let offsets: Vec<usize> = (0..=1000).map(|row| row * 5).collect();
        let shares = weighted(&offsets, &[1.0, 3.0]).unwrap();
        assert_eq!(shares[0].rows, 0..250);
        assert_eq!(shares[1].entries, 1250..5000);
    }

    #[test]
    fn shares_have_all_rows_in_order_and_about_as_many_entries() {
        let lengths: Vec<usize> = (0..1000).map(|i| i * 7 % 13).collect();
        let mut offsets = vec![0];
        offsets.extend(lengths.iter().scan(0, |sum, l| {
            *sum += l;
            Some(*sum)
        }));
        for parts in 1..6 {
            let shares = cut(&offsets, parts).unwrap();
            let (mut row, mut entry) = (0, 0);
            for share in &shares {
                assert_eq!((share.rows.start, share.entries.start), (row, entry));
                assert_eq!(share.entries.end, offsets[share.rows.end]);
                assert!(share.entries.len().abs_diff(offsets[1000] / parts) <= 13);
                (row, entry) = (share.rows.end, share.entries.end);
            }
            assert_eq!((row, entry), (1000, offsets[1000]));
        }
    }

    #[test]
    fn one_long_row_is_one_share_and_empty_rows_belong_to_someone() {
        let shares = cut(&[0, 0, 100, 100, 100], 3).unwrap();
        let rows: usize = shares.iter().map(|s| s.rows.len()).sum();
        assert_eq!(rows, 4);
        assert!(shares.iter().any(|s| s.entries == (0..100)));
        assert_eq!(cut(&[0, 0, 0], 2).unwrap().len(), 1);
    }

    #[test]
    fn offsets_that_descend_are_noticed_or_harmless() {
        let offsets = [0, 50, 10, 40];
        for parts in 1..4 {
            for share in cut(&offsets, parts).into_iter().flatten() {
                assert!(share.entries.start <= share.entries.end && share.entries.end <= 40);
            }
        }
    }
}
