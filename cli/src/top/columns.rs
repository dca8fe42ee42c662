//! Tables that fit: columns are left out until the others have room; the last column takes what is left of a line.

use super::words::{filled, fit, width};

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Texts begin at the column's left; numbers end at its right.
    pub(super) left: bool,
    /// Of the columns for which there is no room, the one with the highest rank is left out first; one of rank 0 never is.
    pub(super) rank: u8,
}

/// The spaces between two columns.
const GAP: usize = 2;
/// The least width of the last column, if it holds more, and the greatest of the first.
const LAST: usize = 12;
const FIRST: usize = 24;

/// The lines of a table: the head, then the rows. None is wider than `most`.
pub(super) fn table(columns: &[Column], rows: &[Vec<String>], most: usize) -> Vec<String> {
    let needs = |i: usize| {
        let cells = rows.iter().filter_map(|row| row.get(i));
        let cells = cells.map(|cell| width(cell)).max().unwrap_or(0);
        cells.max(width(columns[i].title))
    };
    let needed: Vec<usize> = (0..columns.len()).map(needs).collect();
    let is_last = |i: usize| i + 1 == columns.len();
    let least = |i: usize| match i {
        0 => needed[i].min(FIRST),
        _ if is_last(i) => needed[i].min(LAST),
        _ => needed[i],
    };
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let all = |kept: &[usize]| kept.iter().map(|i| least(*i) + GAP).sum::<usize>();
    while all(&kept) > most + GAP {
        let out = kept.iter().filter(|i| columns[**i].rank > 0);
        let Some(out) = out.max_by_key(|i| columns[**i].rank).copied() else {
            break;
        };
        kept.retain(|i| *i != out);
    }
    let left_over = most + GAP - all(&kept).min(most + GAP);
    let room = |i: usize| match is_last(i) {
        true => needed[i].min(least(i) + left_over),
        false => least(i),
    };
    let line = |cell: &dyn Fn(usize) -> String| {
        let mut line = String::new();
        for (position, i) in kept.iter().enumerate() {
            if position > 0 {
                line += &" ".repeat(GAP);
            }
            line += &filled(&cell(*i), room(*i), columns[*i].left);
        }
        fit(line.trim_end(), most)
    };
    let head = line(&|i| columns[i].title.to_owned());
    let rows = rows
        .iter()
        .map(|row| line(&|i| row.get(i).cloned().unwrap_or_default()));
    core::iter::once(head).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column {
            title: "name",
            left: true,
            rank: 0,
        },
        Column {
            title: "calls",
            left: false,
            rank: 1,
        },
        Column {
            title: "bytes",
            left: false,
            rank: 2,
        },
        Column {
            title: "why",
            left: true,
            rank: 3,
        },
    ];

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![
            row(["dgemm", "1234567", "9", "a reason of many words"]),
            row(["d", "1", "1", ""]),
        ]
    }

    #[test]
    fn all_columns_where_there_is_room() {
        assert_eq!(
            table(&COLUMNS, &rows(), 60),
            [
                "name     calls  bytes  why",
                "dgemm  1234567      9  a reason of many words",
                "d            1      1"
            ]
        );
    }

    #[test]
    fn columns_are_left_out_by_rank() {
        assert_eq!(
            table(&COLUMNS, &rows(), 36)[1],
            "dgemm  1234567      9  a reason of \u{2026}"
        );
        assert_eq!(table(&COLUMNS, &rows(), 30)[1], "dgemm  1234567      9");
        assert_eq!(table(&COLUMNS, &rows(), 15)[1], "dgemm  1234567");
        assert_eq!(table(&COLUMNS, &rows(), 13)[1], "dgemm");
        assert_eq!(table(&COLUMNS, &rows(), 3)[1], "dg\u{2026}");
    }
}
