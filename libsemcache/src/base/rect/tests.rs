//! Every operation against a bitmap, and how well sets merge.

use proptest::prelude::*;

use super::{Interval, MAX_OFFSET, Rect, RectSet};

const LIMIT: usize = 600;

/// The reference: one flag per byte.
#[derive(Clone, PartialEq, Debug)]
struct Bitmap(Vec<bool>);

impl Bitmap {
    fn new() -> Self {
        Self(vec![false; LIMIT])
    }

    fn of(rects: &[Rect]) -> Self {
        let mut map = Self::new();
        for rect in rects {
            assert!(rect.is_normal() && !rect.is_empty(), "{rect:?}");
            for run in rect.runs() {
                for at in run.start..run.end {
                    assert!(
                        !core::mem::replace(&mut map.0[at], true),
                        "{at} twice in {rects:?}"
                    );
                }
            }
        }
        map
    }

    fn zip(&self, other: &Self, f: impl Fn(bool, bool) -> bool) -> Self {
        Self(
            self.0
                .iter()
                .zip(&other.0)
                .map(|(a, b)| f(*a, *b))
                .collect(),
        )
    }

    fn any(&self) -> bool {
        self.0.contains(&true)
    }

    fn count(&self) -> usize {
        self.0.iter().filter(|b| **b).count()
    }
}

fn bits(set: &RectSet) -> Bitmap {
    set.check().unwrap();
    Bitmap::of(&set.iter().copied().collect::<Vec<_>>())
}

/// Mostly a few shared strides, as views of the same matrices have; also free ones and intervals.
fn any_rect() -> impl Strategy<Value = Rect> {
    let stride =
        prop_oneof![3 => Just(40usize), 2 => Just(24usize), 1 => Just(41usize), 2 => 1..90usize];
    (0..LIMIT, stride, 0..90usize, 0..20usize, 0..4u8).prop_map(
        |(start, stride, width, count, kind)| {
            if kind == 0 {
                return Rect::interval(start, (start + 3 * width).min(LIMIT));
            }
            let width = (1 + width % stride).min(LIMIT - start);
            let room = (LIMIT - start - width) / stride + 1;
            Rect::try_new(start, width, stride, (1 + count).min(room)).unwrap()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn pairs_match_the_bitmap(a in any_rect(), b in any_rect()) {
        let list = |rect: &Rect| if rect.is_empty() { vec![] } else { vec![*rect] };
        let (x, y) = (Bitmap::of(&list(&a)), Bitmap::of(&list(&b)));
        let both = x.zip(&y, |p, q| p && q);
        prop_assert_eq!(Bitmap::of(&a.intersect(&b)), both.clone());
        prop_assert_eq!(Bitmap::of(&a.subtract(&b)), x.zip(&y, |p, q| p && !q));
        prop_assert_eq!(a.overlaps(&b), both.any());
        prop_assert_eq!(a.contains(&b), both == y);
        prop_assert_eq!(a.shared_bytes(&b), both.count());
        prop_assert_eq!(a.bytes(), x.count());
        for at in [0, 1, a.start, a.end(), b.start, b.end()] {
            prop_assert_eq!(a.contains_offset(at), at < LIMIT && x.0[at]);
        }
        let span = a.span();
        prop_assert!(a.is_empty() || (x.0[span.start] && x.0[span.end - 1]));
        prop_assert!(x.0.iter().enumerate().all(|(at, set)| !set || span.contains(at)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn sets_match_the_bitmap(ops in prop::collection::vec((0..3u8, any_rect()), 1..40), probe in any_rect()) {
        let mut set = RectSet::new();
        let mut map = Bitmap::new();
        let probed = Bitmap::of(RectSet::from(probe).iter().copied().collect::<Vec<_>>().as_slice());
        for (op, rect) in ops {
            let part = Bitmap::of(RectSet::from(rect).iter().copied().collect::<Vec<_>>().as_slice());
            if op == 0 {
                set.remove(&rect);
                map = map.zip(&part, |p, q| p && !q);
            } else {
                set.insert(&rect);
                map = map.zip(&part, |p, q| p || q);
                prop_assert!(set.contains(&rect));
            }
            prop_assert_eq!(&bits(&set), &map);
            let both = map.zip(&probed, |p, q| p && q);
            prop_assert_eq!(set.contains(&probe), both == probed);
            prop_assert_eq!(set.overlaps(&probe), both.any());
            prop_assert_eq!(Bitmap::of(&set.common(&probe)), both);
            prop_assert_eq!(Bitmap::of(&set.missing(&probe)), map.zip(&probed, |p, q| !p && q));
            prop_assert_eq!(set.bytes(), map.count());
            prop_assert_eq!(set.is_empty(), !map.any());
            let ends = (map.0.iter().position(|b| *b), map.0.iter().rposition(|b| *b));
            if let (Some(first), Some(last)) = ends {
                prop_assert_eq!(set.span(), Interval::new(first, last + 1));
            }
        }
    }

    /// A matrix filled tile by tile is one fragment, for every tiling and order, and so is its removal.
    #[test]
    fn a_matrix_filled_by_tiles_is_one_fragment(
        start in 0..100usize, rows in 1..60usize, cols in 2..60usize, pad in 0..9usize,
        tile_rows in 1..20usize, tile_cols in 2..20usize, order in any::<u64>(), neighbour in any::<bool>(),
    ) {
        let stride = rows + pad;
        let mut tiles = Vec::new();
        for col in (0..cols).step_by(tile_cols) {
            for row in (0..rows).step_by(tile_rows) {
                let (h, w) = (tile_rows.min(rows - row), tile_cols.min(cols - col));
                tiles.push(Rect::new(start + col * stride + row, h, stride, w));
            }
        }
        let mut state = order;
        for i in (1..tiles.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            tiles.swap(i, usize::try_from(state >> 33).unwrap() % (i + 1));
        }
        let mut set = RectSet::new();
        let far = Rect::new(1 << 20, 3, 50, 7);
        if neighbour {
            set.insert(&far);
        }
        for tile in &tiles {
            set.insert(tile);
        }
        set.check().unwrap();
        set.remove(&far);
        prop_assert_eq!(set.iter().copied().collect::<Vec<_>>(), vec![Rect::new(start, rows, stride, cols)]);
    }
}

#[test]
fn construction_normalises() {
    assert_eq!(Rect::new(5, 8, 8, 4), Rect::interval(5, 37));
    assert_eq!(Rect::new(5, 8, 100, 1), Rect::interval(5, 13));
    assert_eq!(Rect::new(5, 0, 8, 4), Rect::EMPTY);
    assert_eq!(Rect::new(5, 8, 8, 0), Rect::EMPTY);
    assert_eq!(
        Rect::new(5, 8, 3, 4),
        Rect::interval(5, 22),
        "overlapping runs cover an interval"
    );
    assert_eq!(Rect::new(5, 8, 0, 4), Rect::interval(5, 13));
    assert_eq!(Rect::try_new(5, 8, 3, 4), None);
    assert_eq!(Rect::try_new(5, 8, 0, 1), Some(Rect::interval(5, 13)));
    assert_eq!(Rect::try_new(5, 0, 0, 9), Some(Rect::EMPTY));
    assert_eq!(Rect::interval(9, 9), Rect::EMPTY);
    assert_eq!(Rect::interval(9, 3), Rect::EMPTY);
    assert_eq!(Rect::EMPTY.span(), Interval::default());
    assert_eq!(Rect::EMPTY.runs().len(), 0);
}

#[test]
fn offsets_may_be_large() {
    assert_eq!(Rect::try_new(MAX_OFFSET - 7, 8, 8, 1), None);
    assert_eq!(
        Rect::try_new(usize::MAX, usize::MAX, usize::MAX, usize::MAX),
        None
    );
    assert_eq!(
        Rect::new(MAX_OFFSET - 7, 8, 9, 3),
        Rect::interval(MAX_OFFSET - 7, MAX_OFFSET)
    );
    assert_eq!(
        Rect::new(0, 1, usize::MAX, usize::MAX),
        Rect::interval(0, 1)
    );
    let high = Rect::try_new(MAX_OFFSET - 1000, 10, 100, 10).unwrap();
    let huge = Rect::try_new(0, 10, MAX_OFFSET - 10, 2).unwrap();
    assert_eq!(high.intersect(&huge), vec![]);
    assert_eq!(huge.subtract(&high), vec![huge]);
    let all = Rect::interval(0, MAX_OFFSET);
    assert_eq!(all.intersect(&high), vec![high]);
    assert!(all.contains(&huge) && !huge.contains(&all));
    let mut set = RectSet::from(all);
    set.remove(&high);
    set.remove(&huge);
    set.check().unwrap();
    assert_eq!(set.bytes(), MAX_OFFSET - 100 - 20);
    for rect in [huge, high] {
        assert_eq!(
            set.missing(&rect).iter().map(Rect::bytes).sum::<usize>(),
            rect.bytes()
        );
        set.insert(&rect);
    }
    set.check().unwrap();
    assert!(set.contains(&all));
}

#[test]
fn intervals_align() {
    let span = Interval::new(5, 21);
    assert_eq!(span.align_out(8), Interval::new(0, 24));
    assert_eq!(span.align_in(8), Interval::new(8, 16));
    assert!(Interval::new(9, 15).align_in(8).is_empty());
    assert!(Interval::new(9, 9).align_out(8).is_empty());
    assert_eq!(Interval::new(8, 16).align_out(8), Interval::new(8, 16));
    assert_eq!(Interval::new(8, 16).align_in(8), Interval::new(8, 16));
    assert!(Interval::new(7, 3).is_empty());
    assert!(span.contains(5) && !span.contains(21) && !span.contains(4));
    assert!(span.encloses(Interval::new(5, 21)) && !span.encloses(Interval::new(5, 22)));
    assert!(span.encloses(Interval::new(99, 99)));
    assert!(!span.overlaps(Interval::new(21, 30)) && span.overlaps(Interval::new(20, 30)));
}

#[test]
fn panels_leave_a_row_block_in_few_fragments() {
    for (start, width, stride) in [
        (0, 4000, 10_000),
        (3333, 8000, 12_345),
        (16, 100, 5000),
        (8, 4096, 4104),
    ] {
        let block = Rect::new(start, width, stride, 50);
        let mut set = RectSet::from(block);
        let mut at = 0;
        while !set.is_empty() {
            set.remove(&Rect::interval(at, at + 4096));
            set.check().unwrap();
            assert!(set.len() <= 4, "{set:?}");
            at += 4096;
        }
        // The same from the end to the start.
        while at > 0 {
            at -= 4096;
            for piece in block.intersect(&Rect::interval(at, at + 4096)) {
                set.insert(&piece);
            }
            assert!(set.len() <= 4, "{set:?}");
        }
        assert_eq!(set, RectSet::from(block));
    }
}

#[test]
fn columns_one_by_one_become_few_fragments() {
    let mut set = RectSet::new();
    for col in 0..1000 {
        set.insert(&Rect::interval(col * 100, col * 100 + 60));
        assert!(set.len() <= 16);
    }
    assert_eq!(set, RectSet::from(Rect::new(0, 60, 100, 1000)));
    for col in (0..1000).rev() {
        set.remove(&Rect::interval(col * 100, col * 100 + 60));
        assert!(set.len() <= 1);
    }
}

#[test]
fn a_pinwheel_is_resolved() {
    let tile = |row: usize, col: usize, h: usize, w: usize| {
        Rect::new(col * 100 + row * 10, h * 10, 100, w * 2)
    };
    let mut set: RectSet = [
        tile(0, 0, 2, 1),
        tile(2, 0, 1, 4),
        tile(1, 4, 2, 1),
        tile(0, 2, 1, 4),
    ]
    .into_iter()
    .collect();
    set.insert(&tile(1, 2, 1, 2));
    set.check().unwrap();
    let rect = Rect::new(0, 10, 100, 3);
    let answer: Vec<Rect> = [rect].iter().flat_map(|r| set.missing(r)).collect();
    assert!(answer.len() <= 1);
}
