//! The ordered table of adopted blocks. Pure bookkeeping.

#![expect(unsafe_code, reason = "declares a table element zeroable")]

use super::observer::adopted_id;
use super::sys::{Table, Zeroed};
use super::{Block, Provenance};
use crate::base::AllocId;

/// More blocks than this are not adopted: the table is shifted at each insertion.
const MOST: usize = 16_384;

/// Why we know the lifetime.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub(super) enum Kind {
    /// The program mapped it through our hook.
    #[default]
    Mapped = 0,
    /// Static data of a loaded object.
    Static,
}

/// One block.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub(super) struct Range {
    pub start: usize,
    pub len: usize,
    pub id: u64,
    pub kind: Kind,
    pub in_use: bool,
    /// A stack, or static data that the program has changed access to: known, and left alone.
    pub shunned: bool,
}

// SAFETY: numbers, two bools and a fieldless enum whose zero is Mapped.
unsafe impl Zeroed for Range {}

impl Range {
    /// A new block.
    pub(super) fn new(start: usize, len: usize, kind: Kind) -> Self {
        Self {
            start,
            len,
            id: adopted_id().0,
            kind,
            in_use: false,
            shunned: false,
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

    /// Adds a range that overlaps none. False if it does, or there is no room: it is then not adopted.
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

    /// Takes the bytes out of every range that is not in use; what is left on either side and has at least
    /// `least` bytes stays, as a new block. Static data is shunned as a whole.
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
                if s < e && e - s >= least {
                    self.insert(Range {
                        shunned: r.shunned,
                        ..Range::new(s, e - s, r.kind)
                    });
                }
            }
        }
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
}
