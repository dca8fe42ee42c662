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

/// Cuts `rows` rows with `nnz` entries into at most `parts` shares with about equally many entries. `offset` says where a row's entries
/// begin. `None` if the offsets do not ascend where they are looked at.
pub fn by_entries(
    (rows, nnz): (usize, usize),
    parts: usize,
    offset: impl Fn(usize) -> Option<usize>,
) -> Option<Vec<Share>> {
    let mut shares: Vec<Share> = Vec::with_capacity(parts);
    let (mut row, mut entry) = (0, 0);
    for part in 1..=parts {
        let wanted = (nnz as u128 * part as u128 / parts as u128) as usize;
        // The first row that begins at or behind the wanted entry.
        let (mut low, mut high) = (row, rows);
        while low < high {
            let middle = low + (high - low) / 2;
            match offset(middle)? < wanted {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let end = if part == parts { rows } else { low };
        let entries = entry..if end == rows { nnz } else { offset(end)? };
        if entries.start > entries.end || entries.end > nnz {
            return None;
        }
        if row < end {
            shares.push(Share {
                rows: row..end,
                entries: entries.clone(),
            });
            (row, entry) = (end, entries.end);
        }
    }
    Some(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(offsets: &[usize], parts: usize) -> Option<Vec<Share>> {
        let size = (offsets.len() - 1, offsets[offsets.len() - 1]);
        by_entries(size, parts, |row| Some(offsets[row]))
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
