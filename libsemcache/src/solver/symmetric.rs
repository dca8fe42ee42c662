//! What a device finds of a symmetric matrix that need not be definite: pivots, and the blocks of D.

use super::queue::{HEAD, Queueing, Refused};
use super::system::System;
use super::triangle::block;
use crate::base::{Intent, Uplo};
use crate::cache::task::Use;
use crate::sparse::arrays::Own;

/// Whether LAPACK's sytrf may have given these pivots, counted from 1: each names a row of what was left of the matrix, and the two of a
/// block of order two are the same negative number.
#[must_use]
pub fn are_pivots(uplo: Uplo, pivots: &[i64]) -> bool {
    let count = i64::try_from(pivots.len()).unwrap_or(i64::MAX);
    let mut first = 1;
    let mut rest = pivots.iter();
    while let Some(pivot) = rest.next() {
        let order = if *pivot < 0 { 2 } else { 1 };
        let left = match uplo {
            Uplo::Lower => first + order - 1..=count,
            Uplo::Upper => 1..=first,
        };
        let paired = order == 1 || rest.next() == Some(pivot);
        if !paired || !left.contains(&pivot.saturating_abs()) {
            return false;
        }
        first += order;
    }
    true
}

/// The bytes of pivots that a device reads.
#[must_use]
pub fn bytes_of(pivots: &[i64]) -> Vec<u8> {
    pivots
        .iter()
        .flat_map(|pivot| pivot.to_ne_bytes())
        .collect()
}

/// The pivots that a device has found, which have 32 bits; `None` if they are none, of a matrix that it could not factor.
pub(super) fn pivots_of(system: &System, answer: &[u8]) -> Option<Vec<i64>> {
    let (each, _) = answer.get(HEAD..HEAD + system.found())?.as_chunks();
    let pivots = each.iter().map(|pivot| i32::from_ne_bytes(*pivot).into());
    let pivots: Vec<i64> = pivots.collect();
    are_pivots(system.uplo, &pivots).then_some(pivots)
}

/// Whether all elements of D are numbers, of which those beside the diagonal are of D or of L, and no block of order one is zero, for which
/// LAPACK sets INFO.
pub(super) fn is_usual(system: &System, pivots: &[i64], [diagonal, beside]: [&[u8]; 2]) -> bool {
    let values = |bytes| super::blas::values(system.dtype, bytes);
    let finite = values(diagonal)
        .chain(values(beside))
        .all(|x| x.re.is_finite() && x.im.is_finite());
    let mut alone = pivots.iter().zip(values(diagonal));
    finite && !alone.any(|(pivot, x)| *pivot > 0 && x.is_zero())
}

impl Queueing<'_> {
    /// Memory like the device's answer, with these pivots as the solution reads them. Returns where.
    pub(super) fn widened(&mut self, pivots: &[i64]) -> usize {
        let mut all = vec![0; HEAD];
        all.extend(bytes_of(pivots));
        self.own(Own::new(self.cache, all.into()))
    }

    /// The elements beside the diagonal of a factor, in memory of the library, if there are any. Returns where.
    pub(super) fn beside_diagonal(&mut self, factor: &Use) -> Result<Option<usize>, Refused> {
        let System { a, uplo, .. } = *self.system;
        let order = a.rows - 1;
        if order == 0 {
            return Ok(None);
        }
        let at = match uplo {
            Uplo::Lower => (1, 0),
            Uplo::Upper => (0, 1),
        };
        let part = block(factor, at, (order, order), Intent::Read);
        self.diagonal(a.block(at, (order, order)), &part).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Dtype;

    #[test]
    fn pivots_of_blocks_come_in_pairs() {
        let lower = |pivots: &[i64]| are_pivots(Uplo::Lower, pivots);
        assert!(lower(&[1, -3, -3, 4]) && lower(&[4, 2, -4, -4]));
        assert!(!lower(&[1, -3, 3, 4]) && !lower(&[1, 2, 3, -4]));
        // A row that is done with, or none.
        assert!(!lower(&[1, 1, 3]) && !lower(&[0, 2, 3]) && !lower(&[1, 2, 4]));
        assert!(!lower(&[-1, -1]) && !lower(&[i64::MIN, i64::MIN]));
        let upper = |pivots: &[i64]| are_pivots(Uplo::Upper, pivots);
        assert!(upper(&[1, -2, -2, 1]) && upper(&[-1, -1, 2]));
        assert!(!upper(&[2, 2, 3]) && !upper(&[-2, -2]));
    }

    #[test]
    fn a_zero_of_a_block_of_order_two_is_usual() {
        let numbers = |all: &[f64]| all.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<_>>();
        let system = System::potrf(3);
        assert_eq!(system.dtype, Dtype::D);
        let usual = |pivots: &[i64], diagonal: &[f64], beside: &[f64]| {
            is_usual(&system, pivots, [&numbers(diagonal), &numbers(beside)])
        };
        assert!(usual(&[-2, -2, 3], &[0.0, 0.0, 1.0], &[1.0, 0.0]));
        assert!(!usual(&[1, 2, 3], &[0.0, 1.0, 1.0], &[1.0, 0.0]));
        assert!(!usual(&[1, -3, -3], &[1.0, 1.0, 1.0], &[1.0, f64::NAN]));
    }
}
