//! Two reports beside each other.

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

/// The numbers in which two reports differ, with their ratio, a line each.
pub(super) fn table(a: &BTreeMap<String, f64>, b: &BTreeMap<String, f64>) -> String {
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_header(["number", "first", "second", "second / first"]);
    let mut same = 0;
    for name in names {
        let of = |all: &BTreeMap<String, f64>| all.get(name).copied().unwrap_or(0.0);
        let (first, second) = (of(a), of(b));
        if (first - second).abs() <= f64::EPSILON * first.abs() {
            same += 1;
            continue;
        }
        let ratio = if first == 0.0 {
            String::new()
        } else {
            format!("{:.3}", second / first)
        };
        table.add_row([name.clone(), number(first), number(second), ratio]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = String::new();
    if table.row_count() > 0 {
        for line in table.lines() {
            text += line.trim_end();
            text.push('\n');
        }
    }
    text + &format!("{same} numbers are equal\n")
}

/// Counts as they are; times and rates with four digits.
fn number(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.4}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_told() {
        let of = |pairs: &[(&str, f64)]| -> BTreeMap<String, f64> {
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect()
        };
        let a = of(&[("moved", 100.0), ("offloaded", 3.0), ("time.wall_s", 2.0)]);
        let b = of(&[
            ("moved", 50.0),
            ("offloaded", 3.0),
            ("time.wall_s", 0.5),
            ("host", 7.0),
        ]);
        let text = table(&a, &b);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["host", "0", "7"]);
        assert_eq!(lines[2], ["moved", "100", "50", "0.500"]);
        assert_eq!(lines[3], ["time.wall_s", "2", "0.5000", "0.250"]);
        assert_eq!(text.lines().last(), Some("1 numbers are equal"));
        assert_eq!(table(&a, &a), "3 numbers are equal\n");
    }
}
