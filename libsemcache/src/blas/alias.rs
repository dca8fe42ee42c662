//! Aliasing: whether an output of a call shares bytes with another operand. The host BLAS runs such calls, because
//! devices would compute on copies, and a copy does not see what the call itself writes.

use crate::base::Rect;
use crate::plan::{Access, Problem};

/// Whether an operand that is written shares a byte with any other operand. Exact: rectangles that interleave (two
/// halves of one matrix, two rows) without a common byte do not conflict. Two inputs may share bytes.
#[must_use]
pub fn conflicts(problem: &Problem, placed: &[Rect]) -> bool {
    placed.iter().enumerate().any(|(out, written)| {
        problem.access(out) != Access::Read
            && placed
                .iter()
                .enumerate()
                .any(|(other, operand)| other != out && written.overlaps(operand))
    })
}

/// Whether, among the operands of all calls of a batch, one that is written shares a byte with any other. Also true if
/// the rectangles interleave so much that an exact answer would take more than 64 comparisons for each operand on
/// average.
#[must_use]
pub fn any_conflict<'a>(operands: impl Iterator<Item = (Access, &'a Rect)>) -> bool {
    let mut all: Vec<(bool, &Rect)> = operands
        .map(|(access, place)| (access != Access::Read, place))
        .collect();
    all.sort_by_key(|(_, p)| p.start);
    let mut looks = all.len() * 64;
    // Operands that begin before this one and have not ended: inputs often overlap many of these, outputs seldom
    // overlap each other.
    let mut open: Vec<(bool, &Rect)> = Vec::new();
    for (written, place) in all {
        open.retain(|(_, p)| p.end() > place.start);
        for (other, p) in &open {
            if !written && !other {
                continue;
            }
            if looks == 0 || p.overlaps(place) {
                return true;
            }
            looks -= 1;
        }
        // An input that is open already needs no second comparison.
        let again = !written && open.iter().any(|(w, p)| !w && *p == place);
        if !again {
            open.push((written, place));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn p(addr: usize, width: usize, stride: usize, count: usize) -> Rect {
        Rect::new(addr, width, stride, count)
    }

    fn naive(a: &Rect, b: &Rect) -> bool {
        let bytes = |p: &Rect| {
            (0..p.count)
                .flat_map(|i| {
                    let start = p.start + i * p.stride;
                    start..start + p.width
                })
                .collect::<std::collections::BTreeSet<_>>()
        };
        !bytes(a).is_disjoint(&bytes(b))
    }

    #[test]
    fn interleaved_blocks_do_not_overlap() {
        // Upper and lower half of one matrix of 8 rows.
        assert!(!p(800, 32, 64, 5).overlaps(&p(832, 32, 64, 5)));
        assert!(p(800, 40, 64, 5).overlaps(&p(832, 32, 64, 5)));
        // Two rows, as vectors.
        assert!(!p(800, 8, 64, 5).overlaps(&p(808, 8, 64, 5)));
        // A row and a column cross.
        assert!(p(800, 8, 64, 5).overlaps(&p(864, 64, 64, 1)));
        // Two elements side by side.
        assert!(!p(800, 8, 8, 1).overlaps(&p(808, 8, 8, 1)));
    }

    proptest! {
        #[test]
        fn equals_the_byte_sets(
            a in (50usize..110, 1usize..9, 0usize..9, 1usize..7),
            b in (50usize..110, 1usize..9, 0usize..9, 1usize..7),
            same in any::<bool>(),
        ) {
            let x = p(a.0, a.1, a.1 + a.2, a.3);
            let y = if same {
                p(b.0, b.1.min(x.stride), x.stride, b.3)
            } else {
                p(b.0, b.1, b.1 + b.2, b.3)
            };
            prop_assert_eq!(x.overlaps(&y), naive(&x, &y));
            prop_assert_eq!(y.overlaps(&x), naive(&x, &y));
        }
    }

    proptest! {
        #[test]
        fn many_conflict_as_pairs_do(
            all in prop::collection::vec((any::<bool>(), 1usize..400, 1usize..9, 0usize..9, 1usize..7), 1..12),
        ) {
            let all: Vec<(Access, Rect)> = all
                .into_iter()
                .map(|(written, addr, width, gap, count)| {
                    let access = if written { Access::Update } else { Access::Read };
                    (access, p(addr, width, width + gap, count))
                })
                .collect();
            let pairs = (0..all.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
            let expected = pairs.into_iter().any(|(i, j)| {
                let read = all[i].0 == Access::Read && all[j].0 == Access::Read;
                !read && all[i].1.overlaps(&all[j].1)
            });
            let found = any_conflict(all.iter().map(|(access, place)| (*access, place)));
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_large_batch_is_checked_quickly() {
        // Blocks of one large matrix, each of which lies between the columns of all others.
        let wide: Vec<Rect> = (0..4096).map(|i| p(8 + i * 8, 8, 1 << 20, 64)).collect();
        assert!(any_conflict(wide.iter().map(|w| (Access::Update, w))));
        // One input that all products read, and nearly a hundred thousand results.
        let input = p(8, 4096, 4096, 1);
        let results: Vec<Rect> = (1..100_000).map(|i| p(i * 8192, 4096, 4096, 1)).collect();
        let all = results
            .iter()
            .flat_map(|r| [(Access::Read, &input), (Access::Update, r)]);
        assert!(!any_conflict(all));
    }

    #[test]
    fn only_outputs_conflict() {
        use crate::base::{Dtype, Op, Routine, Value};
        use crate::blas::{Call, Checked, check};
        let gemm = |a, b, c| {
            let call = Call {
                op_a: Op::None,
                op_b: Op::None,
                beta: Value::ZERO,
                ..Call::new(
                    Routine::Gemm,
                    Dtype::D,
                    &[2, 2, 2],
                    &[(a, 8), (b, 8), (c, 8)],
                )
            };
            match check(&call) {
                Checked::Run(problem, placed) => conflicts(&problem, &placed),
                _ => panic!("runs"),
            }
        };
        assert!(!gemm(8000, 8000, 16000));
        assert!(gemm(8000, 9000, 8000));
        assert!(gemm(8000, 9000, 9008));
        assert!(!gemm(8000, 8016, 8032));
        let swap = |y| {
            let call = Call::new(Routine::Swap, Dtype::D, &[4], &[(8000, 2), (y, -2)]);
            match check(&call) {
                Checked::Run(problem, placed) => conflicts(&problem, &placed),
                _ => panic!("runs"),
            }
        };
        assert!(!swap(8008));
        assert!(swap(8016));
    }
}
