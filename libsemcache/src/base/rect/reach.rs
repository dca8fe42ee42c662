//! Which rectangles of a set meet a span, found by binary search.

use super::{Interval, Rect};

/// For each rectangle, the largest end among it and the rectangles before it.
pub(super) fn measure(rects: &[Rect], reach: &mut Vec<usize>) {
    reach.clear();
    let mut most = 0;
    reach.extend(rects.iter().map(|rect| {
        most = most.max(rect.end());
        most
    }));
}

/// The rectangles whose spans meet `span`; `rects` is in the order of starts, `reach` as [`measure`] makes it.
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
