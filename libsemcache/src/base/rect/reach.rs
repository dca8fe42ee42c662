//! Which rectangles of a set meet a span, found by halving.

use super::{Interval, Rect};

/// How far rectangles reach, each with those before it.
pub(super) fn measure(rects: &[Rect], reach: &mut Vec<usize>) {
    reach.clear();
    let mut most = 0;
    reach.extend(rects.iter().map(|rect| {
        most = most.max(rect.end());
        most
    }));
}

/// The rectangles, in the order of their starts and with their reaches, whose spans meet a span.
pub(super) fn near<'a>(
    rects: &'a [Rect],
    reach: &[usize],
    span: Interval,
) -> impl Iterator<Item = &'a Rect> + Clone + use<'a> {
    let first = reach.partition_point(|end| *end <= span.start);
    let near = rects[first..].iter();
    near.take_while(move |have| have.start < span.end)
        .filter(move |have| have.end() > span.start)
}
