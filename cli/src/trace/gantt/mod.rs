//! Gantt charts of a trace, in which rows are lanes of devices and threads, and columns are time.

mod axis;
mod bars;
mod chart;
mod text;
mod window;

pub(super) use window::Choice;

use super::model::Trace;

/// The width of a page if the terminal does not say its own.
const WIDTH: usize = 100;

/// The chart as text, as wide as the terminal (`COLUMNS`).
pub(super) fn page(trace: &Trace, choice: Choice) -> Result<String, String> {
    let columns = std::env::var("COLUMNS").ok();
    let columns = columns.and_then(|c| c.trim().parse().ok());
    text::page(trace, choice, columns.unwrap_or(WIDTH))
}

#[cfg(test)]
mod tests;
