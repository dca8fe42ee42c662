//! Uploads made for calls to come, and how they turned out.
//!
//! The number of earlier calls on the same bytes is what an upload is shared among. It is a guess: a program that
//! rewrites a matrix on the host before each call looks the same until the matrix is on a device and the write is
//! noticed. So each upload that was overwritten before it paid halves what earlier calls count for on that
//! block, and each that paid takes one such loss back: what a bad loop wastes grows with the logarithm of its
//! length only.

use std::collections::HashMap;

use crate::base::AllocId;

/// Blocks remembered; beyond this the memory starts afresh.
const BLOCKS_MAX: usize = 1024;
/// Losses that are counted: a million calls then count as none.
const MOST_LOST: u32 = 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Bet {
    /// Calls that it counted on; zero: no upload is waiting to be paid.
    on: u32,
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
    /// What `seen` earlier calls since the last write on the host count for.
    pub fn count_for(&mut self, id: AllocId, seen: u32) -> u32 {
        let Some(bet) = self.0.get_mut(&id) else {
            return seen;
        };
        if seen < bet.seen && bet.on > 0 {
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

    /// A call used the block on a device. `counted` is what an upload for it counted on, if one was made that the
    /// call alone did not pay.
    pub fn used(&mut self, id: AllocId, counted: Option<u32>) {
        if let Some(on) = counted.filter(|n| *n > 0) {
            if self.0.len() >= BLOCKS_MAX {
                self.0.clear();
            }
            let bet = self.0.entry(id).or_default();
            if bet.on == 0 {
                (bet.on, bet.used) = (on, 0);
            }
        } else if let Some(bet) = self.0.get_mut(&id) {
            bet.used = bet.used.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that writes the block after every `period` calls on a device; an upload needs `price` calls.
    fn uploads(calls: u32, price: u32, period: u32) -> u32 {
        let (mut bets, id) = (Bets::default(), AllocId(1));
        let (mut seen, mut resident, mut used, mut uploads) = (0, false, 0, 0);
        for _ in 0..calls {
            let count = bets.count_for(id, seen);
            seen += 1;
            if resident {
                bets.used(id, None);
                used += 1;
            } else if count >= price {
                bets.used(id, Some(count));
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
        assert_eq!(bets.count_for(id, 8), 8);
        bets.used(id, Some(8));
        assert_eq!((bets.count_for(id, 9), bets.count_for(id, 0)), (9, 0));
        assert_eq!(bets.count_for(id, 8), 4);
        bets.used(id, Some(4));
        for seen in 9..20 {
            bets.count_for(id, seen);
            bets.used(id, None);
        }
        assert_eq!((bets.count_for(id, 0), bets.count_for(id, 8)), (0, 8));
        // Other blocks are not concerned.
        assert_eq!(bets.count_for(AllocId(8), 5), 5);
    }
}
