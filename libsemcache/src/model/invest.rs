//! Uploads made for calls to come, and how they turned out.
//!
//! The number of earlier calls on the same bytes is what an upload is shared among. It is a guess: a program that
//! rewrites a matrix on the host before each call looks the same until the matrix is on a device and the write is
//! noticed. So each upload that was overwritten before it paid (the block was written, or what was sent is there no more)
//! halves what earlier calls count for on that
//! block, and each that paid takes one such loss back: what a bad loop wastes grows with the logarithm of its
//! length only.

use std::collections::HashMap;

use crate::base::{AllocId, Interval};

/// Blocks remembered; beyond this the memory starts afresh.
const BLOCKS_MAX: usize = 1024;
/// Losses that are counted: a million calls then count as none.
const MOST_LOST: u32 = 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Bet {
    /// Calls that it counted on; zero: no upload is waiting to be paid.
    on: u32,
    /// What was sent.
    span: Interval,
    /// Calls that used it.
    used: u32,
    /// Earlier calls when last looked.
    seen: u32,
    lost: u32,
}

/// The uploads by block.
#[derive(Clone, Debug, Default)]
pub struct Bets(HashMap<AllocId, Bet>);

impl Bets {
    /// What `seen` earlier calls since the last write on the host count for. `gone`: the call reads bytes there, and most
    /// of them are on no device.
    pub fn count_for(&mut self, id: AllocId, seen: u32, gone: Option<Interval>) -> u32 {
        let Some(bet) = self.0.get_mut(&id) else {
            return seen;
        };
        // Bytes beside those that were sent tell nothing of them.
        let lost = gone.is_some_and(|g| bet.span.start <= g.start && g.end <= bet.span.end);
        if (seen < bet.seen || lost) && bet.on > 0 {
            bet.lost = if bet.used < bet.on {
                (bet.lost + 1).min(MOST_LOST)
            } else {
                bet.lost.saturating_sub(1)
            };
            bet.on = 0;
        }
        bet.seen = seen;
        seen >> bet.lost
    }

    /// A call used the block on a device. `sent`: what an upload for it counted on, if one was made that the call alone
    /// did not pay, and what of the block was sent.
    pub fn used(&mut self, id: AllocId, sent: Option<(u32, Interval)>) {
        if let Some((on, span)) = sent.filter(|(n, _)| *n > 0) {
            if self.0.len() >= BLOCKS_MAX {
                self.0.clear();
            }
            let bet = self.0.entry(id).or_default();
            if bet.on == 0 {
                (bet.on, bet.used, bet.span) = (on, 0, span);
            }
        } else if let Some(bet) = self.0.get_mut(&id) {
            bet.used = bet.used.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Interval = Interval { start: 0, end: 100 };

    /// A program that writes the block after every `period` calls on a device; an upload needs `price` calls.
    fn uploads(calls: u32, price: u32, period: u32) -> u32 {
        let (mut bets, id) = (Bets::default(), AllocId(1));
        let (mut seen, mut resident, mut used, mut uploads) = (0, false, 0, 0);
        for _ in 0..calls {
            let count = bets.count_for(id, seen, None);
            seen += 1;
            if resident {
                bets.used(id, None);
                used += 1;
            } else if count >= price {
                bets.used(id, Some((count, ALL)));
                (resident, used) = (true, 0);
                uploads += 1;
            }
            if resident && used >= period {
                (resident, seen) = (false, 0);
            }
        }
        uploads
    }

    #[test]
    fn a_loop_that_rewrites_its_matrix_wastes_little() {
        let wasted = uploads(10_000, 6, 0);
        assert!((8..=12).contains(&wasted), "{wasted}");
        // Of a thousand times as many, ten more.
        assert!(uploads(1_000_000, 6, 0) <= wasted + 8);
    }

    #[test]
    fn uploads_that_pay_are_made_again() {
        assert_eq!(uploads(10_000, 6, 93), 100);
        assert_eq!(uploads(10_000, 6, u32::MAX), 1);
    }

    #[test]
    fn a_win_takes_a_loss_back() {
        let (mut bets, id) = (Bets::default(), AllocId(7));
        assert_eq!(bets.count_for(id, 8, None), 8);
        bets.used(id, Some((8, ALL)));
        assert_eq!(
            (bets.count_for(id, 9, None), bets.count_for(id, 0, None)),
            (9, 0)
        );
        assert_eq!(bets.count_for(id, 8, None), 4);
        bets.used(id, Some((4, ALL)));
        for seen in 9..20 {
            bets.count_for(id, seen, None);
            bets.used(id, None);
        }
        assert_eq!(
            (bets.count_for(id, 0, None), bets.count_for(id, 8, None)),
            (0, 8)
        );
        // Other blocks are not concerned.
        assert_eq!(bets.count_for(AllocId(8), 5, None), 5);
    }

    /// LAPACK's QR: the host's own loops write what was sent, unseen among calls that were sent to the host.
    #[test]
    fn an_upload_that_is_gone_is_lost() {
        let (mut bets, id) = (Bets::default(), AllocId(1));
        let mut counted = Vec::new();
        for k in 0..5 {
            let rest = Interval::new(10 * k, 100);
            let count = bets.count_for(id, 32, Some(rest));
            bets.used(id, Some((count, rest)));
            counted.push(count);
        }
        assert_eq!(counted, [32, 16, 8, 4, 2]);
        // Others of its bytes were never sent.
        let (mut bets, part) = (Bets::default(), |k: usize| {
            Interval::new(10 * k, 10 * k + 10)
        });
        for k in 0..5 {
            assert_eq!(bets.count_for(id, 32, Some(part(k))), 32);
            bets.used(id, Some((32, part(k))));
        }
    }
}
