//! A ring of page-locked staging memory: copies that cannot be made in place pass through it in pieces.

use std::collections::VecDeque;

use super::driver::{self, Status};

/// Alignment of a piece.
const ALIGN: usize = 256;

/// Page-locked memory whose pieces are taken from one end to the other, and then from the start again. Pieces are freed
/// in the order in which they were taken, those that were not used at once.
#[derive(Debug)]
pub(super) struct Ring {
    base: usize,
    len: usize,
    /// The offset at which the next piece begins.
    head: usize,
    /// Pieces in use, oldest first: start, end, and the last operation of the ring's stream that uses the piece.
    taken: VecDeque<(usize, usize, u64)>,
}

impl Ring {
    /// # Errors
    /// The driver allocates no page-locked memory.
    pub(super) fn new(len: usize) -> Result<Ring, Status> {
        Ok(Ring {
            base: driver::alloc_staging(len)?,
            len,
            head: 0,
            taken: VecDeque::new(),
        })
    }

    /// Bytes of the largest piece: four such pieces fit in the ring at the same time, so that while copy engines read some the CPU
    /// fills others.
    pub(super) fn largest(&self) -> usize {
        (self.len / 4) & !(ALIGN - 1)
    }

    /// The address of this number of bytes while no piece is taken; `None` if the ring is smaller, or in use.
    pub(super) fn start_of(&self, bytes: usize) -> Option<usize> {
        (self.taken.is_empty() && bytes <= self.len).then_some(self.base)
    }

    /// The address of a free piece of at most [`Ring::largest`] bytes; or, as an error, the operation to wait for
    /// before asking again. The caller owns the piece until [`Ring::used_until`].
    pub(super) fn take(&mut self, bytes: usize) -> Result<usize, u64> {
        let bytes = bytes.max(1).next_multiple_of(ALIGN);
        if self.taken.is_empty() {
            self.head = 0;
        }
        let Some(&(oldest, _, until)) = self.taken.front() else {
            return Ok(self.give(bytes));
        };
        // In use: [oldest, head), or from oldest to the end and from the start to head.
        let newest = self.taken.back().map_or(0, |t| t.0);
        if newest >= oldest {
            if self.head + bytes <= self.len {
                return Ok(self.give(bytes));
            }
            if bytes <= oldest {
                self.head = 0;
                return Ok(self.give(bytes));
            }
        } else if self.head + bytes <= oldest {
            return Ok(self.give(bytes));
        }
        Err(until)
    }

    fn give(&mut self, bytes: usize) -> usize {
        let at = self.head;
        self.head += bytes;
        self.taken.push_back((at, self.head, u64::MAX));
        self.base + at
    }

    /// The piece at this address is free once operation `seq` is complete.
    pub(super) fn used_until(&mut self, at: usize, seq: u64) {
        let start = at - self.base;
        if let Some(t) = self.taken.iter_mut().rfind(|t| t.0 == start) {
            t.2 = seq;
        }
    }

    /// Frees the piece at this address, which no operation uses.
    pub(super) fn give_back(&mut self, at: usize) {
        let start = at - self.base;
        if let Some(i) = self.taken.iter().rposition(|t| t.0 == start) {
            self.taken.remove(i);
            // The next piece follows the newest one, also if that lies before the end of the ring and this one at its start.
            self.head = self.taken.back().map_or(0, |t| t.1);
        }
    }

    /// Frees the pieces whose operations, up to `seq`, are complete.
    pub(super) fn complete(&mut self, seq: u64) {
        while self.taken.front().is_some_and(|t| t.2 <= seq) {
            self.taken.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(len: usize) -> Ring {
        Ring {
            base: 0,
            len,
            head: 0,
            taken: VecDeque::new(),
        }
    }

    #[test]
    fn pieces_never_overlap_and_all_are_found_again() {
        let mut r = ring(16 * ALIGN);
        let mut live: VecDeque<(u64, usize, usize)> = VecDeque::new();
        let mut seq = 0;
        for step in 0..10_000_usize {
            let bytes = (step * 7919 % 8 + 1) * ALIGN - step % 3;
            loop {
                match r.take(bytes) {
                    Ok(at) => {
                        assert!(at + bytes <= 16 * ALIGN);
                        for &(_, a, b) in &live {
                            assert!(at + bytes <= a || b <= at, "{step}");
                        }
                        seq += 1;
                        r.used_until(at, seq);
                        live.push_back((seq, at, at + bytes));
                        break;
                    }
                    Err(until) => {
                        assert!(!live.is_empty());
                        r.complete(until);
                        live.retain(|l| l.0 > until);
                    }
                }
            }
            if step % 5 == 0 {
                let until = live[live.len() / 2].0;
                r.complete(until);
                live.retain(|l| l.0 > until);
            }
        }
    }

    #[test]
    fn a_piece_that_is_not_used_leaves_no_trace() {
        let mut r = ring(8 * ALIGN);
        let first = r.take(3 * ALIGN).unwrap();
        r.give_back(first);
        assert_eq!(r.take(3 * ALIGN), Ok(first));
        // Also if another piece was taken after it: the newer one stays.
        let newer = r.take(3 * ALIGN).unwrap();
        r.give_back(first);
        assert_eq!(r.take(2 * ALIGN), Ok(newer + 3 * ALIGN));
        assert_eq!(r.take(3 * ALIGN), Ok(first));
        assert_eq!(r.take(ALIGN), Err(u64::MAX));
        // Also if it lies at the start of the ring again, and the newest one before its end.
        let mut r = ring(8 * ALIGN);
        let pieces = [2, 3, 3].map(|n| r.take(n * ALIGN).unwrap());
        for (seq, at) in (1..).zip(pieces) {
            r.used_until(at, seq);
        }
        r.complete(1);
        let again = r.take(2 * ALIGN).unwrap();
        assert_eq!(again, pieces[0]);
        r.give_back(again);
        assert_eq!(r.take(4 * ALIGN), Err(2));
        assert_eq!(r.take(2 * ALIGN), Ok(again));
    }
}
