//! Whether the output of a call shares bytes with another of its operands. Such calls are the host's: the
//! devices would compute on copies, and a copy does not see what the call itself writes.

use super::args::Placed;
use crate::plan::{Access, Problem};

/// Whether some operand that is written shares a byte with any other one. Exact: rectangles that
/// interleave (two halves of one matrix, two rows) without a common byte do not conflict. Inputs may
/// share.
#[must_use]
pub fn conflicts(problem: &Problem, placed: &[Placed]) -> bool {
    placed.iter().enumerate().any(|(out, written)| {
        problem.access(out) != Access::Read
            && placed
                .iter()
                .enumerate()
                .any(|(other, operand)| other != out && overlap(written, operand))
    })
}

/// Whether two operands share a byte. Constant time when they cannot touch, when one is a single run, or
/// when the strides are equal (blocks of one matrix); else linear in the smaller number of runs that lie
/// within the other's extent.
#[must_use]
pub fn overlap(a: &Placed, b: &Placed) -> bool {
    if a.end() <= b.addr || b.end() <= a.addr {
        return false;
    }
    if a.stride == b.stride && a.count > 1 && b.count > 1 {
        return overlap_same_stride(a, b);
    }
    let (few, many) = if runs_within(a, b) <= runs_within(b, a) {
        (a, b)
    } else {
        (b, a)
    };
    let (first, last) = clip(few, many);
    (first..last).any(|i| {
        let start = few.addr + i * few.stride;
        touches(many, start, start + few.width)
    })
}

/// The runs `first .. last` of `a` that meet the extent of `b`.
fn clip(a: &Placed, b: &Placed) -> (usize, usize) {
    // Run i is out when it ends at or before b starts, or starts at or after b ends.
    let first = if b.addr < a.addr + a.width {
        0
    } else {
        (b.addr - a.addr - a.width) / a.stride + 1
    };
    let last = if b.end() <= a.addr {
        0
    } else {
        (b.end() - a.addr).div_ceil(a.stride).min(a.count)
    };
    (first.min(last), last)
}

fn runs_within(a: &Placed, b: &Placed) -> usize {
    let (first, last) = clip(a, b);
    last - first
}

/// Whether some run of `p` meets the bytes `start .. end`, which are not empty.
fn touches(p: &Placed, start: usize, end: usize) -> bool {
    if end <= p.addr {
        return false;
    }
    // The last run that starts before `end` is the only candidate: earlier ones end sooner.
    let run = ((end - 1 - p.addr) / p.stride).min(p.count - 1);
    p.addr + run * p.stride + p.width > start
}

/// Two blocks of one matrix: they share a byte if the rows of some pair of columns do. Seen from the
/// lower block, the other one starts `lag` columns and `shift` bytes later.
fn overlap_same_stride(a: &Placed, b: &Placed) -> bool {
    let (low, high) = if a.addr <= b.addr { (a, b) } else { (b, a) };
    let lag = (high.addr - low.addr) / low.stride;
    let shift = (high.addr - low.addr) % low.stride;
    // Run j of `high` lies in column lag + j of `low`, at shift; what passes the stride is in the next.
    (shift < low.width && lag < low.count)
        || (shift + high.width > low.stride && lag + 1 < low.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn p(addr: usize, width: usize, stride: usize, count: usize) -> Placed {
        Placed {
            addr,
            width,
            stride: if count == 1 { width } else { stride },
            count,
        }
    }

    fn naive(a: &Placed, b: &Placed) -> bool {
        let bytes = |p: &Placed| {
            (0..p.count)
                .flat_map(|i| {
                    let start = p.addr + i * p.stride;
                    start..start + p.width
                })
                .collect::<std::collections::BTreeSet<_>>()
        };
        !bytes(a).is_disjoint(&bytes(b))
    }

    #[test]
    fn interleaved_blocks_do_not_overlap() {
        // Upper and lower half of one matrix of 8 rows.
        assert!(!overlap(&p(800, 32, 64, 5), &p(832, 32, 64, 5)));
        assert!(overlap(&p(800, 40, 64, 5), &p(832, 32, 64, 5)));
        // Two rows, as vectors.
        assert!(!overlap(&p(800, 8, 64, 5), &p(808, 8, 64, 5)));
        // A row and a column cross.
        assert!(overlap(&p(800, 8, 64, 5), &p(864, 64, 64, 1)));
        // Neighbours.
        assert!(!overlap(&p(800, 8, 8, 1), &p(808, 8, 8, 1)));
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
            prop_assert_eq!(overlap(&x, &y), naive(&x, &y));
            prop_assert_eq!(overlap(&y, &x), naive(&x, &y));
        }
    }

    #[test]
    fn only_outputs_conflict() {
        use crate::base::{Dtype, Value};
        use crate::blas::{Args, Call, Checked, check};
        use crate::device::api::Op;
        use crate::plan::Routine;
        let gemm = |a, b, c| {
            let call = Call {
                routine: Routine::Gemm,
                dtype: Dtype::D,
                args: Args::Gemm {
                    op_a: Op::None,
                    op_b: Op::None,
                    m: 2,
                    n: 2,
                    k: 2,
                    alpha: Value::ONE,
                    a,
                    lda: 8,
                    b,
                    ldb: 8,
                    beta: Value::ZERO,
                    c,
                    ldc: 8,
                },
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
            let call = Call {
                routine: Routine::Swap,
                dtype: Dtype::D,
                args: Args::Two {
                    n: 4,
                    alpha: Value::ONE,
                    x: 8000,
                    incx: 2,
                    y,
                    incy: -2,
                },
            };
            match check(&call) {
                Checked::Run(problem, placed) => conflicts(&problem, &placed),
                _ => panic!("runs"),
            }
        };
        assert!(!swap(8008));
        assert!(swap(8016));
    }
}
