//! [`RectSet`]: disjoint rectangles as one set of bytes.
//!
//! Questions cost one pass over the fragments and do not allocate when the answer is "all" or "none";
//! changes may allocate. Rectangles of different strides are exact too, at a cost per run.

use super::{Interval, Rect, RectSet, merge};

impl RectSet {
    /// The set without bytes.
    #[must_use]
    pub const fn new() -> Self {
        Self { rects: Vec::new() }
    }

    /// Adds the bytes of `rect` and merges them with their neighbours where that leaves fewer fragments.
    pub fn insert(&mut self, rect: &Rect) {
        if rect.is_empty() || self.rects.iter().any(|have| have.contains(rect)) {
            return;
        }
        self.rects.retain(|have| !rect.contains(have));
        if self.rects.iter().any(|have| have.overlaps(rect)) {
            for piece in self.missing(rect) {
                merge::absorb(&mut self.rects, piece);
            }
        } else {
            merge::absorb(&mut self.rects, *rect);
        }
        merge::tidy(&mut self.rects);
    }

    /// Takes the bytes of `rect` out.
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
    }

    /// Whether every byte of `rect` is in the set.
    #[must_use]
    pub fn contains(&self, rect: &Rect) -> bool {
        rect.is_empty()
            || self.rects.iter().any(|have| have.contains(rect))
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

    /// Its fragments, in the order of their starts.
    pub fn iter(&self) -> core::slice::Iter<'_, Rect> {
        self.rects.iter()
    }

    /// Number of fragments.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rects.len()
    }

    /// Whether it has no bytes.
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
        let end = self.rects.iter().map(Rect::end).max().unwrap_or(0);
        Interval::new(start, end)
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.rects.clear();
    }

    /// Checks the invariants: normal form, none empty, ordered by start, disjoint.
    ///
    /// # Errors
    ///
    /// The first one found broken, in words.
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
        Ok(())
    }

    /// The fragments that start before the end of `rect`: the others cannot share a byte with it.
    fn near(&self, rect: &Rect) -> impl Iterator<Item = &Rect> {
        let end = rect.end();
        self.rects.iter().take_while(move |have| have.start < end)
    }

    /// How many bytes of `rect` are in the set.
    fn shared(&self, rect: &Rect) -> usize {
        self.near(rect).map(|have| have.shared_bytes(rect)).sum()
    }
}

impl From<Rect> for RectSet {
    fn from(rect: Rect) -> Self {
        Self {
            rects: if rect.is_empty() {
                Vec::new()
            } else {
                vec![rect]
            },
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
