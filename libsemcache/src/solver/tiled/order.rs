//! The order of a factorization by columns of tiles.
//!
//! Columns are taken in spans, of which the devices have room for one. All earlier columns are applied to a span, one after the other, so
//! that each is sent once for it; then the span is factored within, each column being applied to those behind it as soon as it is a
//! factor. A span that is the whole matrix is the usual right-looking factorization. The next column is brought up to date and factored
//! before the others are updated (look-ahead), so that devices have work while one of them factors.

use core::ops::Range;

/// A part of the work, of one column of tiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Task {
    /// Copies the column from the matrix.
    Load(usize),
    /// Factors what is on its diagonal; of LU all of its rows from there on.
    Factor(usize),
    /// Makes the rest of a column of a Cholesky factor by the tile on its diagonal.
    Spread(usize),
    /// Looks whether the columns before this one are those of a factor, as far as is known: what follows may take long.
    Check(usize),
    /// Applies a column of the factor to another one behind it.
    Update {
        /// The one that changes.
        column: usize,
        /// The one of the factor.
        by: usize,
    },
}

/// All tasks, in an order in which they may be queued, of a matrix with this many columns of tiles, the first `panels` of which are
/// factored.
pub(super) fn tasks(columns: usize, panels: usize, spans: &[Range<usize>]) -> Vec<Task> {
    let mut list = List {
        tasks: Vec::new(),
        loaded: vec![false; columns],
    };
    for span in spans {
        let (first, end) = (span.start, span.end.min(columns));
        for by in 0..first.min(panels) {
            list.update(first..end, by);
        }
        if first >= panels {
            list.load(first..end);
            continue;
        }
        list.load(first..first + 1);
        list.tasks
            .extend([Task::Factor(first), Task::Spread(first)]);
        for by in first..end.min(panels) {
            let next = by + 1;
            let is_panel = next < end.min(panels);
            list.update(next..end.min(next + 1), by);
            if is_panel {
                list.tasks.push(Task::Factor(next));
            }
            // The tile on the diagonal is a factor by the time that half of the others are up to date, and the column has arrived on
            // other devices when the rest is.
            let rest = end.min(next + 1)..end;
            let middle = rest.start + rest.len().div_ceil(2);
            list.update(rest.start..middle, by);
            if is_panel {
                list.tasks.push(Task::Spread(next));
            }
            list.update(middle..rest.end, by);
        }
        if end < columns {
            list.tasks.push(Task::Check(end.min(panels)));
        }
    }
    list.tasks
}

struct List {
    tasks: Vec<Task>,
    loaded: Vec<bool>,
}

impl List {
    fn load(&mut self, columns: Range<usize>) {
        for column in columns {
            if !self.loaded[column] {
                self.loaded[column] = true;
                self.tasks.push(Task::Load(column));
            }
        }
    }

    fn update(&mut self, columns: Range<usize>, by: usize) {
        for column in columns {
            self.load(column..column + 1);
            self.tasks.push(Task::Update { column, by });
        }
    }
}

#[cfg(test)]
mod tests {
    use core::slice::from_ref;

    use super::*;

    /// Each column is loaded first, updated by all factored columns before it, in order, and then factored; it is applied to others once
    /// it is a factor.
    fn check(columns: usize, panels: usize, spans: &[Range<usize>]) -> Vec<Task> {
        let tasks = tasks(columns, panels, spans);
        let (mut loaded, mut applied) = (vec![false; columns], vec![0; columns]);
        let (mut factored, mut spread) = (vec![false; columns], vec![false; columns]);
        for task in &tasks {
            match *task {
                Task::Load(column) => {
                    assert!(!loaded[column]);
                    loaded[column] = true;
                }
                Task::Factor(column) => {
                    assert!(loaded[column] && applied[column] == column && !factored[column]);
                    factored[column] = true;
                }
                Task::Spread(column) => {
                    assert!(factored[column] && !spread[column]);
                    spread[column] = true;
                }
                Task::Check(end) => assert!(factored[..end].iter().all(|factored| *factored)),
                Task::Update { column, by } => {
                    assert!(loaded[column] && spread[by] && !factored[column]);
                    assert_eq!(applied[column], by);
                    applied[column] += 1;
                }
            }
        }
        assert!(loaded.iter().all(|loaded| *loaded));
        for column in 0..columns {
            assert_eq!(applied[column], column.min(panels));
            assert_eq!(
                (factored[column], spread[column]),
                (column < panels, column < panels)
            );
        }
        tasks
    }

    #[test]
    fn every_column_gets_what_it_needs_in_order() {
        for columns in 1..9 {
            for panels in 1..=columns {
                check(columns, panels, from_ref(&(0..columns)));
                for cut in 1..columns {
                    check(columns, panels, &[0..cut, cut..columns]);
                }
            }
        }
        let each: Vec<Range<usize>> = (0..7).map(|column| column..column + 1).collect();
        check(7, 7, &each);
        check(7, 3, &each);
    }

    #[test]
    fn the_next_column_is_factored_before_the_others_are_updated() {
        let tasks = check(4, 4, from_ref(&(0..4)));
        let update = |column, by| Task::Update { column, by };
        let want = [
            Task::Load(0),
            Task::Factor(0),
            Task::Spread(0),
            Task::Load(1),
            update(1, 0),
            Task::Factor(1),
            Task::Load(2),
            update(2, 0),
            Task::Spread(1),
            Task::Load(3),
            update(3, 0),
        ];
        assert_eq!(tasks[..want.len()], want);
    }

    #[test]
    fn earlier_columns_are_applied_once_to_each_span() {
        let tasks = check(4, 4, &[0..2, 2..4]);
        let update = |column, by| Task::Update { column, by };
        let behind = tasks.iter().position(|task| *task == Task::Load(2));
        let want = [
            Task::Load(2),
            update(2, 0),
            Task::Load(3),
            update(3, 0),
            update(2, 1),
            update(3, 1),
            Task::Factor(2),
        ];
        assert_eq!(tasks[behind.unwrap()..][..want.len()], want);
    }
}
