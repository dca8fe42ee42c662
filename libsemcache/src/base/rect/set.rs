//! [`RectSet`]: disjoint rectangles as one set of bytes.
//!
//! A query finds the fragments whose spans meet that of the given rectangle by binary search, and does not allocate
//! when the answer is "all" or "none"; changes may allocate. Rectangles of different strides are compared exactly too,
//! at a cost per run: a caller that cannot afford that calls [`RectSet::mixed`] first.

use super::reach::{measure, near};
use super::{Interval, MIXED, Rect, RectSet, merge};

/// If more pieces than this of an inserted rectangle are missing, its bytes are removed and the rectangle is inserted
/// as a whole: merging each piece with its neighbours takes longer.
const PIECES: usize = 4;

impl RectSet {
    /// The set without bytes.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            rects: Vec::new(),
            reach: Vec::new(),
        }
    }

    /// Adds the bytes of `rect` and merges them with their neighbours where that leaves fewer fragments.
    pub fn insert(&mut self, rect: &Rect) {
        if rect.is_empty() || self.near(rect).any(|have| have.contains(rect)) {
            return;
        }
        if self.near(rect).any(|have| rect.contains(have)) {
            self.rects.retain(|have| !rect.contains(have));
            self.measure();
        }
        if self.overlaps(rect) {
            let pieces = self.missing(rect);
            if pieces.len() > PIECES {
                self.remove(rect);
                merge::absorb(self, *rect);
            } else {
                for piece in pieces {
                    merge::absorb(self, piece);
                }
            }
        } else {
            merge::absorb(self, *rect);
        }
        merge::tidy(&mut self.rects);
        self.measure();
    }

    /// Removes the bytes of `rect`.
    pub fn remove(&mut self, rect: &Rect) {
        if !self.overlaps(rect) {
            return;
        }
        let mut cut = Vec::new();
        self.rects.retain(|have| {
            let whole = !have.overlaps(rect);
            if !whole {
                have.subtract_into(rect, &mut cut);
            }
            whole
        });
        self.rects.append(&mut cut);
        merge::tidy(&mut self.rects);
        self.measure();
    }

    /// Removes the bytes of disjoint rectangles; those that are fragments of the set are removed in one pass.
    pub fn remove_all(&mut self, rects: &[Rect]) {
        let mut rects = rects.to_vec();
        rects.sort_unstable();
        self.rects.retain(|have| rects.binary_search(have).is_err());
        self.measure();
        for rect in &rects {
            self.remove(rect);
        }
    }

    /// Whether every byte of `rect` is in the set.
    #[must_use]
    pub fn contains(&self, rect: &Rect) -> bool {
        rect.is_empty()
            || self.near(rect).any(|have| have.contains(rect))
            || self.shared(rect) == rect.bytes()
    }

    /// Whether a byte of `rect` is in the set.
    #[must_use]
    pub fn overlaps(&self, rect: &Rect) -> bool {
        self.near(rect).any(|have| have.overlaps(rect))
    }

    /// The bytes of `rect` that are not in the set, as disjoint rectangles.
    #[must_use]
    pub fn missing(&self, rect: &Rect) -> Vec<Rect> {
        if self.contains(rect) {
            return Vec::new();
        }
        let mut pieces = vec![*rect];
        let mut next = Vec::new();
        for have in self.near(rect) {
            if pieces.iter().any(|piece| piece.overlaps(have)) {
                next.clear();
                for piece in &pieces {
                    piece.subtract_into(have, &mut next);
                }
                core::mem::swap(&mut pieces, &mut next);
            }
        }
        merge::tidy(&mut pieces);
        pieces
    }

    /// The bytes of `rect` that are in the set, as disjoint rectangles.
    #[must_use]
    pub fn common(&self, rect: &Rect) -> Vec<Rect> {
        let mut pieces = Vec::new();
        for have in self.near(rect) {
            if have.contains(rect) {
                return vec![*rect];
            }
            have.intersect_into(rect, &mut pieces);
        }
        merge::tidy(&mut pieces);
        pieces
    }

    /// The fragments that are expensive to compare with `rect`: they have another stride, and more than [`MIXED`] runs
    /// have to be compared one by one.
    pub fn mixed(&self, rect: &Rect) -> impl Iterator<Item = &Rect> {
        self.near(rect)
            .filter(|have| have.runs_to_visit(rect) > MIXED)
    }

    /// The fragments that `rect` cuts in two: they share bytes with it, and neither contains the other. Fragments that
    /// are mixed with it are left out.
    pub fn crossed(&self, rect: &Rect) -> impl Iterator<Item = &Rect> + Clone {
        let crosses = |have: &&Rect| {
            have.runs_to_visit(rect) <= MIXED
                && have.overlaps(rect)
                && !have.contains(rect)
                && !rect.contains(have)
        };
        self.near(rect).filter(crosses)
    }

    /// How many bytes of `rect` are in the set, without those in fragments of [`RectSet::mixed`].
    #[must_use]
    pub fn shared_unmixed(&self, rect: &Rect) -> usize {
        let plain = self
            .near(rect)
            .filter(|have| have.runs_to_visit(rect) <= MIXED);
        plain.map(|have| have.shared_bytes(rect)).sum()
    }

    /// The fragments whose spans meet the span of `rect`, in the order of their starts.
    pub fn near(&self, rect: &Rect) -> impl Iterator<Item = &Rect> + Clone {
        near(&self.rects, &self.reach, rect.span())
    }

    /// The fragments, in the order of their starts.
    pub fn iter(&self) -> core::slice::Iter<'_, Rect> {
        self.rects.iter()
    }

    /// Number of fragments.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rects.len()
    }

    /// Whether the set has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rects.is_empty()
    }

    /// Number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.rects.iter().map(Rect::bytes).sum()
    }

    /// From the first byte to the last, gaps included.
    #[must_use]
    pub fn span(&self) -> Interval {
        let start = self.rects.first().map_or(0, |rect| rect.start);
        Interval::new(start, self.reach.last().copied().unwrap_or(0))
    }

    /// Removes all bytes.
    pub fn clear(&mut self) {
        self.rects.clear();
        self.reach.clear();
    }

    /// Checks the invariants: rectangles in normal form, not empty, ordered by start, disjoint, and `reach` consistent
    /// with them.
    ///
    /// # Errors
    ///
    /// The first violated invariant, in words.
    pub fn check(&self) -> Result<(), String> {
        for (i, rect) in self.rects.iter().enumerate() {
            if rect.is_empty() || !rect.is_normal() {
                return Err(format!("{rect:?} is not in normal form"));
            }
            if i > 0 && self.rects[i - 1].start > rect.start {
                return Err(format!("{rect:?} is out of order"));
            }
            if let Some(other) = self.rects[..i].iter().find(|other| other.overlaps(rect)) {
                return Err(format!("{other:?} and {rect:?} overlap"));
            }
        }
        let mut measured = self.clone();
        measured.measure();
        if measured.reach == self.reach {
            Ok(())
        } else {
            Err(format!("reaches are {:?}", self.reach))
        }
    }

    /// Updates `reach` after the rectangles have changed.
    pub(super) fn measure(&mut self) {
        measure(&self.rects, &mut self.reach);
    }

    /// How many bytes of `rect` are in the set.
    fn shared(&self, rect: &Rect) -> usize {
        self.near(rect).map(|have| have.shared_bytes(rect)).sum()
    }
}

impl From<Rect> for RectSet {
    fn from(rect: Rect) -> Self {
        if rect.is_empty() {
            return Self::new();
        }
        Self {
            rects: vec![rect],
            reach: vec![rect.end()],
        }
    }
}

impl From<Interval> for RectSet {
    fn from(span: Interval) -> Self {
        Self::from(Rect::from(span))
    }
}

impl<'a> IntoIterator for &'a RectSet {
    type Item = &'a Rect;
    type IntoIter = core::slice::Iter<'a, Rect>;

    fn into_iter(self) -> Self::IntoIter {
        self.rects.iter()
    }
}

impl FromIterator<Rect> for RectSet {
    fn from_iter<I: IntoIterator<Item = Rect>>(rects: I) -> Self {
        let mut set = Self::new();
        for rect in rects {
            set.insert(&rect);
        }
        set
    }
}
