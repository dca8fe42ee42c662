//! Shapes of charts, as the data of SVG paths. A chart is stretched to the width of the page, so that its texts are not part of
//! it, but stand beside it.

use std::fmt::Write as _;

/// The width of every chart, in its own units.
pub(super) const WIDTH: usize = 480;

/// A coordinate with at most two decimals.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Rectangles as the data of one path.
#[derive(Debug, Default)]
pub(super) struct Rects(String);

impl Rects {
    /// Adds a rectangle by its corner at the top left, its width and its height.
    pub(super) fn add(&mut self, x: f64, y: f64, width: f64, height: f64) {
        let (w, h) = (short(width), short(height));
        // Writing to a text does not fail.
        let _ = write!(self.0, "M{} {}h{w}v{h}h-{w}z", short(x), short(y));
    }

    /// The data.
    pub(super) fn data(self) -> String {
        self.0
    }
}

/// A line through points as the data of a path. Of points at one height that follow each other, the first and the last suffice.
pub(super) fn line(points: &[(f64, f64)]) -> String {
    let mut data = String::new();
    for (place, (x, y)) in points.iter().enumerate() {
        let beside =
            [place.wrapping_sub(1), place + 1].map(|at| points.get(at).map(|p| short(p.1)));
        if beside
            .iter()
            .all(|height| height.as_ref() == Some(&short(*y)))
        {
            continue;
        }
        let step = if data.is_empty() { 'M' } else { 'L' };
        let _ = write!(data, "{step}{} {}", short(*x), short(*y));
    }
    data
}
