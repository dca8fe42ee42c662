//! Disjoint intervals in ascending order, as one set of bytes.
//!
//! [`super::RectSet`] is the exact algebra of strided rectangles; for contiguous ranges of memory this set is simpler:
//! a look-up is a binary search, a change moves the tail of one list.

use super::Interval;

/// A set of bytes as disjoint intervals in ascending order; intervals that touch are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans(Vec<Interval>);

impl Spans {
    /// The set without bytes.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The intervals, in ascending order.
    pub fn iter(&self) -> core::slice::Iter<'_, Interval> {
        self.0.iter()
    }

    /// Number of intervals.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// From the first byte to the last, gaps included.
    #[must_use]
    pub fn span(&self) -> Interval {
        let ends = self.0.first().zip(self.0.last());
        ends.map_or(Interval::default(), |(first, last)| first.around(*last))
    }

    /// Removes all bytes.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds the bytes of `span`.
    pub fn insert(&mut self, span: Interval) {
        if span.is_empty() {
            return;
        }
        // Intervals that overlap or touch `span` are merged with it.
        let from = self.0.partition_point(|have| have.end < span.start);
        let to = self.0.partition_point(|have| have.start <= span.end);
        if from == to {
            self.0.insert(from, span);
            return;
        }
        let joined = Interval::new(
            span.start.min(self.0[from].start),
            span.end.max(self.0[to - 1].end),
        );
        self.0[from] = joined;
        self.0.drain(from + 1..to);
    }

    /// Removes the bytes of `span`.
    pub fn remove(&mut self, span: Interval) {
        if span.is_empty() {
            return;
        }
        let from = self.0.partition_point(|have| have.end <= span.start);
        let to = self.0.partition_point(|have| have.start < span.end);
        if from == to {
            return;
        }
        let before = Interval::new(self.0[from].start, span.start);
        let after = Interval::new(span.end, self.0[to - 1].end);
        let rest = [before, after].into_iter().filter(|part| !part.is_empty());
        self.0.splice(from..to, rest);
    }

    /// Whether every byte of `span` is in the set.
    #[must_use]
    pub fn contains(&self, span: Interval) -> bool {
        let at = self.0.partition_point(|have| have.end < span.end);
        span.is_empty() || self.0.get(at).is_some_and(|have| have.encloses(span))
    }

    /// Removes the bytes of another set, in one pass over both.
    pub fn subtract(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        let mut rest = Vec::with_capacity(self.0.len());
        let mut at = 0;
        for have in &self.0 {
            let mut start = have.start;
            while let Some(gone) = other.0.get(at).filter(|gone| gone.start < have.end) {
                if gone.start > start {
                    rest.push(Interval::new(start, gone.start));
                }
                start = start.max(gone.end);
                if gone.end > have.end {
                    break;
                }
                at += 1;
            }
            if start < have.end {
                rest.push(Interval::new(start, have.end));
            }
        }
        self.0 = rest;
    }

    /// The intervals that overlap `span`, in ascending order.
    pub fn meeting(&self, span: Interval) -> impl Iterator<Item = Interval> + '_ {
        let from = self.0.partition_point(|have| have.end <= span.start);
        let overlaps = move |have: &&Interval| have.start < span.end && !span.is_empty();
        self.0[from..].iter().take_while(overlaps).copied()
    }

    /// Merges neighbouring intervals with fewer than `narrow` bytes between them, if `within` contains all of these
    /// bytes.
    pub fn join(&mut self, narrow: usize, within: &Self) {
        self.0.dedup_by(|next, last| {
            let gap = Interval::new(last.end, next.start);
            let joins = gap.len() < narrow && within.contains(gap);
            if joins {
                last.end = next.end;
            }
            joins
        });
    }

    /// The bytes of `span` that are not in the set, in ascending order.
    pub fn gaps(&self, span: Interval) -> impl Iterator<Item = Interval> + '_ {
        let mut at = span.start;
        let end = Interval::new(span.end, span.end);
        let bounds = self.within(span).chain(core::iter::once(end));
        bounds
            .map(move |have| {
                let gap = Interval::new(at, have.start);
                at = have.end;
                gap
            })
            .filter(|gap| !gap.is_empty())
    }

    /// The bytes of the set within `span`, in ascending order.
    pub fn within(&self, span: Interval) -> impl Iterator<Item = Interval> + '_ {
        let from = self.0.partition_point(|have| have.end <= span.start);
        self.0[from..]
            .iter()
            .take_while(move |have| have.start < span.end)
            .map(move |have| have.intersect(span))
            .filter(|part| !part.is_empty())
    }
}

impl FromIterator<Interval> for Spans {
    fn from_iter<I: IntoIterator<Item = Interval>>(spans: I) -> Self {
        let mut all: Vec<Interval> = spans.into_iter().filter(|span| !span.is_empty()).collect();
        // The input is mostly a few sorted lists one after the other, which the stable sort merges.
        all.sort();
        all.dedup_by(|next, last| {
            let joins = next.start <= last.end;
            if joins {
                last.end = last.end.max(next.end);
            }
            joins
        });
        Self(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: usize = 64;

    fn flags(set: &Spans) -> [bool; SIZE] {
        let mut flags = [false; SIZE];
        set.iter()
            .flat_map(|span| span.start..span.end)
            .for_each(|at| flags[at] = true);
        flags
    }

    proptest! {
        /// Compares with one flag per byte.
        #[test]
        fn a_set_of_bytes(moves in prop::collection::vec((any::<bool>(), 0..SIZE, 0..SIZE), 40)) {
            let (mut set, mut bytes) = (Spans::new(), [false; SIZE]);
            let mut added = Vec::new();
            for (add, a, b) in moves {
                let span = Interval::new(a.min(b), a.max(b));
                let all = (span.start..span.end).all(|at| bytes[at]);
                prop_assert_eq!(set.contains(span), all);
                let inside: Spans = set.within(span).collect();
                let mut cut = bytes;
                (0..SIZE).filter(|at| !span.contains(*at)).for_each(|at| cut[at] = false);
                prop_assert_eq!(flags(&inside), cut);
                let outside: Spans = set.gaps(span).collect();
                let absent = core::array::from_fn(|at| span.contains(at) && !bytes[at]);
                prop_assert_eq!(flags(&outside), absent);
                let odd: Spans = (span.start..span.end).step_by(3).map(|at| Interval::new(at, at + 2)).collect();
                let mut rest = set.clone();
                rest.subtract(&odd);
                let mut left = bytes;
                odd.iter().flat_map(|o| o.start..o.end.min(SIZE)).for_each(|at| left[at] = false);
                prop_assert_eq!(flags(&rest), left);
                prop_assert_eq!(&rest.iter().copied().collect::<Spans>(), &rest);
                let (narrow, room) = (a % 8, Spans(vec![Interval::new(b, SIZE)]));
                let mut joined = set.clone();
                joined.join(narrow, &room);
                let gap_at = |at: usize| {
                    let start = (0..at).rev().find(|i| bytes[*i])? + 1;
                    Some(start..(at..SIZE).find(|i| bytes[*i])?)
                };
                let fills = |at: usize| gap_at(at).is_some_and(|gap| gap.len() < narrow && gap.start >= b);
                let filled = core::array::from_fn(|at| bytes[at] || fills(at));
                prop_assert_eq!(flags(&joined), filled);
                prop_assert_eq!(&joined.iter().copied().collect::<Spans>(), &joined);
                if add {
                    set.insert(span);
                    added.push(span);
                } else {
                    set.remove(span);
                    added = set.iter().copied().collect();
                }
                (span.start..span.end).for_each(|at| bytes[at] = add);
                prop_assert_eq!(flags(&set), bytes);
                prop_assert!(set.0.windows(2).all(|pair| pair[0].end < pair[1].start), "{:?}", set);
                prop_assert_eq!(&added.iter().copied().collect::<Spans>(), &set);
            }
        }
    }
}
