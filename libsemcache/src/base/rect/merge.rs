//! How a set of rectangles merges its fragments, to have few of them.
//!
//! 1. *Join*: two fragments whose union is a rectangle become one.
//! 2. *Grow*: an inserted piece is extended over its neighbours, whole lines first, as long as they cover its edge; the
//!    extended piece is kept if the set then has fewer fragments. Joining pairs alone does not suffice (for five tiles
//!    arranged as a pinwheel); with this step a matrix that is filled tile by tile, in any order, ends as one fragment.
//!    An interval also grows over single runs of fragments that interleave.
//! 3. *Fold*: three or more runs of equal width at equal distances, such as the columns of a matrix that are inserted
//!    one by one, become one rectangle. Two runs alone do not tell the stride of the matrix.

use super::reach::near;
use super::shape::block;
use super::{Interval, MAX_OFFSET, MIXED, Rect, RectSet};

/// Folding is tried after each inserted piece while the set has this many fragments, afterwards at each doubling of
/// their number.
const FOLD: core::ops::RangeInclusive<usize> = 4..=16;

/// The most steps in which an inserted piece grows to each side; each step takes in at least one neighbouring fragment
/// of the set. This bounds the time of an insertion: a set whose fragments were not all merged is larger, but still
/// exact. For the same reason a piece does not grow over fragments that are mixed with it (see [`RectSet::mixed`]).
const STEPS: usize = 64;

/// The most runs of neighbouring fragments that an inserted interval takes in to each side.
const RUNS: usize = 256;

/// Adds `piece`, which shares no byte with the set, and merges.
pub(super) fn absorb(set: &mut RectSet, piece: Rect) {
    let mut piece = piece;
    while set.rects.len() > 1 {
        let Some((grown, rest)) = grow(set, piece) else {
            break;
        };
        set.rects = rest;
        set.measure();
        piece = grown;
    }
    let rects = &mut set.rects;
    while let Some((at, joined)) = rects
        .iter()
        .enumerate()
        .find_map(|(at, have)| join(have, &piece).map(|joined| (at, joined)))
    {
        rects.remove(at);
        piece = joined;
    }
    let at = rects.partition_point(|have| have.start < piece.start);
    rects.insert(at, piece);
    if FOLD.contains(&rects.len()) || (rects.len() > *FOLD.end() && rects.len().is_power_of_two()) {
        fold(rects);
    }
    set.measure();
}

/// Sorts disjoint pieces and joins neighbours in this order whose union is a rectangle. Fast, but not minimal: pieces
/// that are not neighbours in this order are not joined.
pub(super) fn tidy(pieces: &mut Vec<Rect>) {
    if pieces.len() < 2 {
        return;
    }
    pieces.sort_unstable_by_key(|piece| piece.start);
    let mut kept = 0;
    for i in 0..pieces.len() {
        let mut piece = pieces[i];
        while kept > 0
            && let Some(joined) = join(&pieces[kept - 1], &piece)
        {
            piece = joined;
            kept -= 1;
        }
        pieces[kept] = piece;
        kept += 1;
    }
    pieces.truncate(kept);
}

/// The union of two disjoint rectangles, if that is a rectangle.
fn join(a: &Rect, b: &Rect) -> Option<Rect> {
    let (a, b) = if a.start <= b.start { (a, b) } else { (b, a) };
    // Side by side: every run of b continues one of a.
    if a.count == b.count && (a.count == 1 || a.stride == b.stride) && a.start + a.width == b.start
    {
        let (width, stride) = (a.width + b.width, a.stride);
        if a.count == 1 {
            return Some(Rect::interval(a.start, b.end()));
        }
        return (width <= stride).then(|| block(a.start, width, stride, a.count));
    }
    // Gaps filled: the runs of b are exactly the gaps between the runs of a.
    if a.count == b.count + 1
        && a.start + a.width == b.start
        && a.width + b.width == a.stride
        && (b.count == 1 || b.stride == a.stride)
    {
        return Some(Rect::interval(a.start, a.end()));
    }
    // One below the other: b continues where the runs of a end. A single run has no stride of its own.
    let stride = match (a.count, b.count) {
        (1, 1) => return None,
        (1, _) => b.stride,
        (_, 1) => a.stride,
        _ if a.stride == b.stride => a.stride,
        _ => return None,
    };
    (a.width == b.width && a.start + a.count * stride == b.start)
        .then(|| block(a.start, a.width, stride, a.count + b.count))
}

/// Extends `piece` over its neighbours. If that leaves the set with fewer fragments, returns the extended rectangle and
/// the parts of the set outside of it.
fn grow(set: &RectSet, piece: Rect) -> Option<(Rect, Vec<Rect>)> {
    // A single run has no stride of its own, so the strides of the strided fragments near it are tried.
    let mut strides = [piece.stride, 0, 0, 0];
    if piece.count == 1 {
        let mut known = 0;
        for have in set.rects.iter().filter(|have| have.count > 1) {
            let within = have.start <= piece.end().saturating_add(have.stride)
                && piece.start <= have.end().saturating_add(have.stride);
            let new =
                within && have.stride >= piece.width && !strides[..known].contains(&have.stride);
            if new && known < strides.len() {
                strides[known] = have.stride;
                known += 1;
            }
        }
        strides[known..].fill(0);
    }
    let mut best: Option<(Rect, Vec<Rect>)> = None;
    let mut offer = |grown: Rect| {
        let few = best
            .as_ref()
            .map_or(set.rects.len(), |(_, rest)| rest.len());
        // A piece that has not grown covers no fragment.
        if grown != piece
            && let Some(rest) = rest(&set.rects, &grown, few)
        {
            best = Some((grown, rest));
        }
    };
    if piece.count == 1 {
        offer(grow_interval(set, piece));
    }
    for stride in strides.into_iter().take_while(|stride| *stride > 0) {
        let mut growing = Growing {
            start: piece.start,
            width: piece.width,
            stride,
            count: piece.count,
        };
        growing.lines(set);
        growing.bytes(set);
        let grown = growing.rect();
        offer(if grown.count == 1 {
            grow_interval(set, grown)
        } else {
            grown
        });
    }
    let (grown, mut rest) = best?;
    rest.sort_unstable_by_key(|have| have.start);
    Some((grown, rest))
}

/// Extends an interval over the runs that touch it.
fn grow_interval(set: &RectSet, piece: Rect) -> Rect {
    let run_of = |at: usize| {
        let have = near(&set.rects, &set.reach, Interval::new(at, at + 1))
            .find(|have| have.contains_offset(at))?;
        Some(have.run((at - have.start) / have.stride))
    };
    let (mut start, mut end) = (piece.start, piece.end());
    for _ in 0..RUNS {
        let Some(run) = run_of(end) else { break };
        end = run.end;
    }
    for _ in 0..RUNS {
        let Some(run) = start.checked_sub(1).and_then(run_of) else {
            break;
        };
        start = run.start;
    }
    Rect::interval(start, end)
}

/// The parts of `rects` outside of `grown`, if these are fewer than `few` fragments.
fn rest(rects: &[Rect], grown: &Rect, few: usize) -> Option<Vec<Rect>> {
    let mut rest = Vec::with_capacity(rects.len());
    for have in rects {
        if have.runs_to_visit(grown) > MIXED {
            return None;
        }
        have.subtract_into(grown, &mut rest);
        if rest.len() >= few {
            return None;
        }
    }
    Some(rest)
}

/// A rectangle while it is extended: by whole lines, then by bytes on each line.
struct Growing {
    start: usize,
    width: usize,
    stride: usize,
    count: usize,
}

impl Growing {
    fn rect(&self) -> Rect {
        block(self.start, self.width, self.stride, self.count)
    }

    /// Takes in lines below and above while fragments cover them.
    fn lines(&mut self, set: &RectSet) {
        for _ in 0..STEPS {
            let at = self.start + self.count * self.stride;
            if at > MAX_OFFSET - self.width {
                break;
            }
            let line = Interval::new(at, at + self.width);
            match self.covered_lines(set, line, |have, part| {
                if have.count > 1 {
                    have.count - 1 - (part.start - have.start) / self.stride
                } else {
                    (have.end() - part.end) / self.stride
                }
            }) {
                0 => break,
                more => self.count += more,
            }
        }
        for _ in 0..STEPS {
            let Some(at) = self.start.checked_sub(self.stride) else {
                break;
            };
            let line = Interval::new(at, at + self.width);
            match self.covered_lines(set, line, |have, part| {
                (part.start - have.start) / self.stride
            }) {
                0 => break,
                more => {
                    self.start -= more * self.stride;
                    self.count += more;
                }
            }
        }
    }

    /// How many lines, `line` included, the fragments cover in one direction. `beyond` returns, for a fragment and the
    /// part of `line` in it, on how many further lines the fragment has that part.
    fn covered_lines(
        &self,
        set: &RectSet,
        line: Interval,
        beyond: impl Fn(&Rect, Interval) -> usize,
    ) -> usize {
        let line = Rect::from(line);
        let (mut covered, mut more, mut parts) = (0, usize::MAX, Vec::new());
        for have in set.near(&line) {
            parts.clear();
            have.intersect_into(&line, &mut parts);
            for part in &parts {
                covered += part.bytes();
                let regular = part.count == 1 && (have.count == 1 || have.stride == self.stride);
                more = more.min(if regular {
                    beyond(have, part.span())
                } else {
                    0
                });
            }
        }
        if covered == line.bytes() { more + 1 } else { 0 }
    }

    /// Takes in bytes after and before each line while fragments cover them.
    fn bytes(&mut self, set: &RectSet) {
        for _ in 0..STEPS {
            if self.width == self.stride {
                break;
            }
            let edge = block(self.start + self.width, 1, self.stride, self.count);
            match covered_bytes(set, &edge, |run, at| run.end - at) {
                0 => break,
                more => self.width += more.min(self.stride - self.width),
            }
        }
        for _ in 0..STEPS {
            if self.width == self.stride || self.start == 0 {
                break;
            }
            let edge = block(self.start - 1, 1, self.stride, self.count);
            match covered_bytes(set, &edge, |run, at| at + 1 - run.start) {
                0 => break,
                more => {
                    let more = more.min(self.stride - self.width);
                    self.start -= more;
                    self.width += more;
                }
            }
        }
    }
}

/// How many bytes on each line, those of `edge` included, the fragments cover in one direction. `beyond` returns, for a
/// run of a fragment and a byte in it, how far the run extends from that byte, the byte included.
fn covered_bytes(set: &RectSet, edge: &Rect, beyond: impl Fn(Interval, usize) -> usize) -> usize {
    let (mut covered, mut more, mut parts) = (0, usize::MAX, Vec::new());
    for have in set.near(edge) {
        if have.runs_to_visit(edge) > MIXED {
            return 0;
        }
        parts.clear();
        have.intersect_into(edge, &mut parts);
        for part in &parts {
            // `edge` has one byte on each line. A part of it either has the stride of its fragment, so that every byte
            // of the part is equally far from the end of its run, or lies in one run of the fragment: looking at the
            // first and the last byte suffices.
            covered += part.bytes();
            for at in [part.start, part.end() - 1] {
                let run = have.run((at - have.start) / have.stride);
                more = more.min(beyond(run, at));
            }
        }
    }
    if covered == edge.bytes() { more } else { 0 }
}

/// Turns equally spaced single runs of one width, three or more, into rectangles.
fn fold(rects: &mut Vec<Rect>) {
    let (mut out, singles): (Vec<Rect>, Vec<Rect>) = rects.iter().partition(|rect| rect.count > 1);
    let mut i = 0;
    while i < singles.len() {
        let (first, mut n) = (singles[i], 1);
        let stride = singles
            .get(i + 1)
            .map_or(0, |next| next.start - first.start);
        while singles
            .get(i + n)
            .is_some_and(|next| next.width == first.width && next.start == first.start + n * stride)
        {
            n += 1;
        }
        if n < 3 {
            n = 1;
        }
        out.push(block(first.start, first.width, stride, n));
        i += n;
    }
    out.sort_unstable_by_key(|rect| rect.start);
    *rects = out;
}
