//! The marks of a time axis.

use super::window::Window;

/// A mark of the axis: the part of the axis that lies before it, and its text.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Tick {
    pub(crate) at: f64,
    pub(crate) text: String,
}

/// Units by their nanoseconds, the longest first.
const UNITS: [(u64, &str); 4] = [
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1_000, "us"),
    (1, "ns"),
];

/// The marks of a window at round times since `origin`, which is not later than the window's beginning; at most `most`,
/// which is at least 1, and one more.
pub(crate) fn ticks(window: Window, origin: u64, most: usize) -> Vec<Tick> {
    let step = step(window.length() / most.max(1) as u64);
    let begin = window.from.saturating_sub(origin);
    let end = begin.saturating_add(window.length());
    // The unit is that of the last mark, so that all of them have the same.
    let (unit, name) = UNITS
        .into_iter()
        .find(|(unit, _)| end >= *unit)
        .unwrap_or(UNITS[UNITS.len() - 1]);
    let mut digits = 0;
    while digits < 9 && !(step * 10_u64.pow(digits)).is_multiple_of(unit) {
        digits += 1;
    }
    let mut all = Vec::new();
    let mut next = begin.div_ceil(step).checked_mul(step);
    while let Some(at) = next.filter(|at| *at <= end) {
        let fraction = at % unit * 10_u64.pow(digits) / unit;
        let point = match digits {
            0 => String::new(),
            _ => format!(".{fraction:0width$}", width = digits as usize),
        };
        all.push(Tick {
            at: (at - begin) as f64 / window.length() as f64,
            text: format!("{}{point} {name}", at / unit),
        });
        next = at.checked_add(step);
    }
    all
}

/// The shortest of 1, 2, 5, 10, 20... nanoseconds that is not shorter than this; at most a billion seconds.
fn step(least: u64) -> u64 {
    let mut ten = 1_u64;
    while ten < 1_000_000_000_000_000_000 {
        for times in [1, 2, 5] {
            if ten * times >= least {
                return ten * times;
            }
        }
        ten *= 10;
    }
    ten
}
