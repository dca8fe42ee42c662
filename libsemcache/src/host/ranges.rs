//! The table of adopted blocks: address ranges in ascending order, which can be split, cut and joined. Pure
//! bookkeeping, no system calls.

#![expect(unsafe_code, reason = "declares a table element zeroable")]

use super::observer::adopted_id;
use super::sys::{Table, Zeroed};
use super::{Block, Provenance};
use crate::base::AllocId;

/// The most blocks in the table, which is shifted at each insertion; further memory is not adopted.
const MOST: usize = 16_384;

/// Why the lifetime of the block is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub(super) enum Kind {
    /// The program mapped it through semcache's `mmap` hook.
    #[default]
    Mapped = 0,
    /// Static data of a loaded object.
    Static,
}

/// One adopted block.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub(super) struct Range {
    pub start: usize,
    pub len: usize,
    pub id: u64,
    pub kind: Kind,
    pub in_use: bool,
    /// The range is a stack, or static data in whose place the program has mapped other memory: it never becomes a
    /// block.
    pub shunned: bool,
    /// The program guards these pages at present (see `guards`): the range is no block until the program stops guarding
    /// it.
    pub guarded: bool,
    /// A part of a block that was split because the program guarded some of its pages.
    pub piece: bool,
}

// SAFETY: numbers, bools and a fieldless enum whose zero is Mapped.
unsafe impl Zeroed for Range {}

impl Range {
    /// A new block with a new identity.
    pub(super) fn new(start: usize, len: usize, kind: Kind) -> Self {
        Self {
            start,
            len,
            id: adopted_id().0,
            kind,
            in_use: false,
            shunned: false,
            guarded: false,
            piece: false,
        }
    }

    /// The same bytes with the same flags, as a block with a new identity that is not in use.
    pub(super) fn renewed(&self) -> Self {
        Self {
            shunned: self.shunned,
            guarded: self.guarded,
            piece: self.piece,
            ..Range::new(self.start, self.len, self.kind)
        }
    }

    pub(super) fn end(&self) -> usize {
        self.start + self.len
    }

    pub(super) fn block(&self) -> Block {
        Block {
            id: AllocId(self.id),
            start: self.start,
            len: self.len,
            content: self.len,
            provenance: Provenance::Adopted,
        }
    }
}

/// Disjoint ranges by address.
pub(super) struct Ranges {
    table: Table<Range>,
    count: usize,
}

impl Ranges {
    pub(super) const fn none() -> Self {
        Self {
            table: Table::none(),
            count: 0,
        }
    }

    pub(super) fn all(&self) -> &[Range] {
        &self.table.all()[..self.count]
    }

    pub(super) fn all_mut(&mut self) -> &mut [Range] {
        &mut self.table.all_mut()[..self.count]
    }

    /// The range that contains `addr`.
    pub(super) fn position(&self, addr: usize) -> Option<usize> {
        let i = self.first_overlapping(addr, 1)?;
        (self.all()[i].start <= addr).then_some(i)
    }

    /// The first range that shares a byte with `[addr, addr + len)`.
    pub(super) fn first_overlapping(&self, addr: usize, len: usize) -> Option<usize> {
        let i = self.all().partition_point(|r| r.end() <= addr);
        (i < self.count && self.all()[i].start < addr.saturating_add(len)).then_some(i)
    }

    /// Adds a range that overlaps no other. False if it does overlap or the table is full: the memory is then not
    /// adopted.
    pub(super) fn insert(&mut self, range: Range) -> bool {
        if self.table.all().is_empty() {
            match Table::map(MOST) {
                Some(t) => self.table = t,
                None => return false,
            }
        }
        if self.count == MOST
            || range.len == 0
            || self.first_overlapping(range.start, range.len).is_some()
        {
            return false;
        }
        let at = self.all().partition_point(|r| r.start < range.start);
        let count = self.count;
        self.table.all_mut().copy_within(at..count, at + 1);
        self.table.all_mut()[at] = range;
        self.count += 1;
        true
    }

    pub(super) fn remove(&mut self, i: usize) -> Range {
        let gone = self.all()[i];
        let count = self.count;
        self.table.all_mut().copy_within(i + 1..count, i);
        self.count -= 1;
        gone
    }

    /// Removes `[addr, addr + len)` from every range that is not in use. What remains of a range on either side stays
    /// in the table as a new block if it has at least `least` bytes, or is a piece. Static data is shunned as a whole.
    pub(super) fn cut(&mut self, addr: usize, len: usize, least: usize) {
        let end = addr.saturating_add(len);
        let mut from = addr;
        while let Some(i) = self.first_overlapping(from, end.saturating_sub(from)) {
            let r = self.all()[i];
            from = r.end();
            if r.in_use {
                continue;
            }
            if r.kind == Kind::Static {
                self.all_mut()[i].shunned = true;
                continue;
            }
            let _ = self.remove(i);
            for (s, e) in [(r.start, addr.min(r.end())), (end.max(r.start), r.end())] {
                if s < e && (r.piece || e - s >= least) {
                    self.insert(Range {
                        start: s,
                        len: e - s,
                        ..r.renewed()
                    });
                }
            }
        }
    }

    /// Sets or clears (`on`) the flag `guarded` of `[addr, addr + len)` in every range that is not in use. A range is
    /// split at `addr` and at `addr + len`; its parts outside keep their flags and become blocks of any size. If the
    /// table is full, a range that cannot be split is flagged as a whole.
    pub(super) fn guard(&mut self, addr: usize, len: usize, on: bool) {
        let end = addr.saturating_add(len);
        for at in [addr, end] {
            self.split(at, on);
        }
        let mut from = addr;
        while let Some(i) = self.first_overlapping(from, end.saturating_sub(from)) {
            let r = self.all()[i];
            from = r.end();
            // If a range could not be split, only a call for the whole range clears its flag.
            let whole = addr <= r.start && r.end() <= end;
            if !r.in_use && r.guarded != on && (on || whole) {
                self.all_mut()[i] = Range {
                    guarded: on,
                    piece: true,
                    ..r.renewed()
                };
            }
        }
        self.merge(addr.saturating_sub(1), end.saturating_add(1));
    }

    /// Splits the range around an address in two, if it is not in use, its guard differs from `on`, and the table has
    /// room.
    fn split(&mut self, at: usize, on: bool) {
        let Some(i) = self.position(at) else { return };
        let r = self.all()[i];
        if r.start == at || r.in_use || r.guarded == on || self.count == MOST {
            return;
        }
        self.all_mut()[i] = Range {
            len: at - r.start,
            piece: true,
            ..r.renewed()
        };
        self.insert(Range {
            start: at,
            len: r.end() - at,
            piece: true,
            ..r.renewed()
        });
    }

    /// Merges neighbouring pieces that have a byte in `[from, to)`, have the same flags and are not in use.
    fn merge(&mut self, from: usize, to: usize) {
        let Some(mut i) = self.first_overlapping(from, to.saturating_sub(from)) else {
            return;
        };
        while i + 1 < self.count && self.all()[i + 1].start < to {
            let (r, next) = (self.all()[i], self.all()[i + 1]);
            let alike = |r: &Range| (r.kind, r.guarded, r.shunned, r.piece, r.in_use);
            if r.end() == next.start && alike(&r) == alike(&next) && r.piece && !r.in_use {
                self.remove(i + 1);
                self.all_mut()[i] = Range {
                    len: r.len + next.len,
                    ..r.renewed()
                };
            } else {
                i += 1;
            }
        }
    }

    /// The positions of the neighbouring pieces that together contain `[addr, end)`, if none of them is guarded or
    /// shunned.
    pub(super) fn pieces(&self, addr: usize, end: usize) -> Option<core::ops::Range<usize>> {
        let first = self.position(addr)?;
        let kind = self.all()[first].kind;
        let mut at = self.all()[first].start;
        for (i, r) in self.all().iter().enumerate().skip(first) {
            if r.start != at || r.guarded || r.shunned || !r.piece || r.kind != kind {
                return None;
            }
            at = r.end();
            if at >= end {
                return Some(first..i + 1);
            }
        }
        None
    }

    /// Replaces the ranges at these positions, none of which is in use, by one range.
    pub(super) fn join(&mut self, pieces: core::ops::Range<usize>) -> Range {
        let (first, last) = (self.all()[pieces.start], self.all()[pieces.end - 1]);
        for _ in pieces.start + 1..pieces.end {
            self.remove(pieces.start + 1);
        }
        let whole = Range {
            len: last.end() - first.start,
            ..first.renewed()
        };
        self.all_mut()[pieces.start] = whole;
        whole
    }

    /// Adds bytes under a name (`id`). Ranges that overlap the bytes are merged with them into one. If the table is
    /// full, the nearest range is extended to cover the bytes.
    pub(super) fn cover(&mut self, addr: usize, len: usize, id: u64) {
        let (mut start, mut end, mut id) = (addr, addr.saturating_add(len), id);
        while let Some(i) = self.first_overlapping(start, end - start) {
            let r = self.all()[i];
            if r.id != id {
                // The removal of either name must not remove the merged range: it gets the name 0, which no descriptor
                // has.
                id = 0;
            }
            (start, end) = (start.min(r.start), end.max(r.end()));
            self.remove(i);
        }
        if self.count == MOST {
            let near = self.all().partition_point(|r| r.start < start);
            let r = self.remove(near.min(MOST - 1));
            (start, end, id) = (start.min(r.start), end.max(r.end()), 0);
            return self.cover(start, end - start, id);
        }
        self.insert(Range {
            id,
            ..Range::new(start, end - start, Kind::Mapped)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(r: &Ranges) -> Vec<(usize, usize)> {
        r.all().iter().map(|r| (r.start, r.len)).collect()
    }

    fn of(list: &[(usize, usize)]) -> Ranges {
        let mut r = Ranges::none();
        for (s, l) in list {
            assert!(r.insert(Range::new(*s, *l, Kind::Mapped)));
        }
        r
    }

    #[test]
    fn lookup() {
        let r = of(&[(300, 100), (100, 100), (200, 50)]);
        assert_eq!(spans(&r), [(100, 100), (200, 50), (300, 100)]);
        let cases = [
            (99, None),
            (100, Some(0)),
            (199, Some(0)),
            (200, Some(1)),
            (250, None),
            (399, Some(2)),
            (400, None),
        ];
        for (addr, want) in cases {
            assert_eq!(r.position(addr), want, "{addr}");
        }
        assert_eq!(r.first_overlapping(250, 50), None);
        assert_eq!(r.first_overlapping(250, 51), Some(2));
    }

    #[test]
    fn overlapping_insert_is_refused() {
        let mut r = of(&[(100, 100)]);
        for (s, l) in [
            (50, 51),
            (150, 10),
            (199, 5),
            (0, 1000),
            (100, 100),
            (500, 0),
        ] {
            assert!(!r.insert(Range::new(s, l, Kind::Mapped)), "{s} {l}");
        }
        assert!(r.insert(Range::new(200, 1, Kind::Mapped)));
    }

    #[test]
    fn cutting() {
        for (at, len, want) in [
            (120, 10, vec![(100, 20), (130, 70), (300, 100)]),
            (0, 150, vec![(150, 50), (300, 100)]),
            (150, 200, vec![(100, 50), (350, 50)]),
            (0, 1000, vec![]),
            (195, 2, vec![(100, 95), (300, 100)]),
        ] {
            let mut r = of(&[(100, 100), (300, 100)]);
            let ids: Vec<_> = r.all().iter().map(|r| r.id).collect();
            r.cut(at, len, 10);
            assert_eq!(spans(&r), want);
            for x in r.all().iter().filter(|x| x.len != 100) {
                assert!(!ids.contains(&x.id), "pieces are new blocks");
            }
        }
    }

    #[test]
    fn in_use_is_not_cut_and_static_is_shunned() {
        let mut r = of(&[(100, 100)]);
        r.all_mut()[0].in_use = true;
        r.insert(Range::new(300, 100, Kind::Static));
        r.cut(0, 350, 1);
        assert_eq!(spans(&r), [(100, 100), (300, 100)]);
        assert!(r.all()[1].shunned);
    }

    #[test]
    fn guards_split_and_what_is_open_again_is_one() {
        let flags = |r: &Ranges| -> Vec<(usize, usize, bool)> {
            r.all()
                .iter()
                .map(|r| (r.start, r.len, r.guarded))
                .collect()
        };
        let mut r = of(&[(100, 100), (200, 100)]);
        let before = r.all()[0].id;
        r.guard(140, 20, true);
        assert_eq!(
            flags(&r),
            [
                (100, 40, false),
                (140, 20, true),
                (160, 40, false),
                (200, 100, false)
            ]
        );
        assert!(r.all().iter().all(|x| x.id != before));
        assert_eq!((r.pieces(100, 160), r.pieces(110, 130)), (None, Some(0..1)));
        // A neighbouring block that was never split is not a piece.
        assert_eq!(r.pieces(170, 210), None);
        r.guard(150, 60, true);
        assert_eq!(
            flags(&r),
            [(100, 40, false), (140, 70, true), (210, 90, false)]
        );
        r.guard(145, 5, false);
        r.guard(140, 5, false);
        assert_eq!(
            flags(&r),
            [(100, 50, false), (150, 60, true), (210, 90, false)]
        );
        // A range that is in use keeps its identity and is not merged; `join` merges the pieces later.
        r.all_mut()[0].in_use = true;
        r.guard(0, 1000, false);
        assert_eq!(flags(&r), [(100, 50, false), (150, 150, false)]);
        assert_eq!(r.pieces(120, 301), None);
        let pieces = r.pieces(120, 300).unwrap();
        let whole = r.join(pieces);
        assert_eq!((whole.start, whole.len, whole.piece), (100, 200, true));
        assert_eq!(spans(&r), [(100, 200)]);
    }

    #[test]
    fn covering_never_forgets() {
        let mut r = Ranges::none();
        r.cover(100, 10, 7);
        r.cover(105, 10, 7);
        assert_eq!((spans(&r), r.all()[0].id), (vec![(100, 15)], 7));
        r.cover(90, 12, 8);
        assert_eq!((spans(&r), r.all()[0].id), (vec![(90, 25)], 0));
        r.cut(102, 4, 1);
        assert_eq!(spans(&r), [(90, 12), (106, 9)]);
        for at in 0..MOST + 100 {
            r.cover(1000 + 4 * at, 1, 7);
        }
        assert!((0..MOST + 100).all(|at| r.position(1000 + 4 * at).is_some()));
    }
}
