//! Uploads made for calls to come, and how they turned out.
//!
//! The number of earlier calls on the same block is what an upload is shared among. It is a guess: a program that
//! rewrites a matrix on the host before each call looks the same until the matrix is on a device and the write is
//! noticed, and one that works its way through an arena never comes back to the same bytes. So each upload that was lost
//! before it paid (the block was written, what was sent is there no more, or many others followed and nobody used it)
//! halves what earlier calls count for on that block, and each that paid, or a use of bytes that were there already, takes
//! one such loss back: what a bad loop wastes grows with the logarithm of its length only.

use std::collections::{HashMap, VecDeque};

use crate::base::{AllocId, Interval};

/// Blocks remembered; beyond this the memory starts afresh.
const BLOCKS_MAX: usize = 1024;
/// Losses that are counted: a million calls then count as none.
const MOST_LOST: u32 = 20;
/// Uploads of a block that wait to be paid; the oldest of more is lost.
const WAITING_MAX: usize = 8;

/// An upload that is waiting to be paid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bet {
    /// Calls that it counted on.
    on: u32,
    /// What was sent.
    span: Interval,
    /// Calls that used it.
    used: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Ledger {
    /// The oldest first.
    waiting: VecDeque<Bet>,
    /// Earlier calls when last looked.
    seen: u32,
    lost: u32,
}

/// What a call on devices did with bytes of a block that it read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// It found them there.
    Found,
    /// It sent them, and their upload is to be paid by so many more calls.
    Sent {
        /// Calls that it counted on.
        on: u32,
    },
}

/// The uploads by block.
#[derive(Clone, Debug, Default)]
pub struct Bets(HashMap<AllocId, Ledger>);

impl Ledger {
    fn judge(&mut self, paid: bool) {
        self.lost = if paid {
            self.lost.saturating_sub(1)
        } else {
            (self.lost + 1).min(MOST_LOST)
        };
    }

    /// Ends the wait of the uploads that are named: one loss, however many they are.
    fn lose(&mut self, which: impl Fn(&Bet) -> bool) {
        let before = self.waiting.len();
        self.waiting.retain(|bet| !which(bet));
        if self.waiting.len() < before {
            self.judge(false);
        }
    }
}

impl Bets {
    /// What `seen` earlier calls since the last write on the host count for. `gone`: the call reads bytes there, and most
    /// of them are on no device.
    pub fn count_for(&mut self, id: AllocId, seen: u32, gone: Option<Interval>) -> u32 {
        let Some(ledger) = self.0.get_mut(&id) else {
            return seen;
        };
        if seen < ledger.seen {
            ledger.lose(|_| true);
        } else if let Some(gone) = gone {
            // Bytes beside those that were sent tell nothing of them.
            ledger.lose(|bet| bet.span.encloses(gone));
        }
        ledger.seen = seen;
        seen >> ledger.lost
    }

    /// A call on a device read these bytes of the block.
    pub fn used(&mut self, id: AllocId, span: Interval, how: Use) {
        match how {
            Use::Sent { on: 0 } => {}
            Use::Sent { on } => {
                if self.0.len() >= BLOCKS_MAX && !self.0.contains_key(&id) {
                    self.0.clear();
                }
                let ledger = self.0.entry(id).or_default();
                if ledger.waiting.iter().any(|bet| bet.span == span) {
                    return;
                }
                ledger.waiting.push_back(Bet { on, span, used: 0 });
                if ledger.waiting.len() > WAITING_MAX {
                    ledger.waiting.pop_front();
                    ledger.judge(false);
                }
            }
            Use::Found => {
                let Some(ledger) = self.0.get_mut(&id) else {
                    return;
                };
                let of = |bet: &Bet| bet.span.overlaps(span);
                let known = ledger.waiting.iter().any(of);
                ledger
                    .waiting
                    .iter_mut()
                    .filter(|bet| of(bet))
                    .for_each(|bet| bet.used += 1);
                let before = ledger.waiting.len();
                ledger.waiting.retain(|bet| bet.used < bet.on);
                // Bytes of an upload that waits no more pay, too.
                if ledger.waiting.len() < before || !known {
                    ledger.judge(true);
                }
            }
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
                bets.used(id, ALL, Use::Found);
                used += 1;
            } else if count >= price {
                bets.used(id, ALL, Use::Sent { on: count });
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
        bets.used(id, ALL, Use::Sent { on: 8 });
        assert_eq!(
            (bets.count_for(id, 9, None), bets.count_for(id, 0, None)),
            (9, 0)
        );
        assert_eq!(bets.count_for(id, 8, None), 4);
        bets.used(id, ALL, Use::Sent { on: 4 });
        for seen in 9..20 {
            bets.count_for(id, seen, None);
            bets.used(id, ALL, Use::Found);
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
            bets.used(id, rest, Use::Sent { on: count });
            counted.push(count);
        }
        assert_eq!(counted, [32, 16, 8, 4, 2]);
        // Others of its bytes were never sent.
        let (mut bets, part) = (Bets::default(), |k: usize| {
            Interval::new(10 * k, 10 * k + 10)
        });
        for k in 0..5 {
            assert_eq!(bets.count_for(id, 32, Some(part(k))), 32);
            bets.used(id, part(k), Use::Sent { on: 32 });
        }
    }

    /// A program that works its way through an arena: what is sent is never used again, and never sent again either.
    #[test]
    fn uploads_of_ever_other_bytes_are_given_up() {
        let (mut bets, id) = (Bets::default(), AllocId(1));
        let part = |k: u32| Interval::new(10 * k as usize, 10 * k as usize + 10);
        let mut uploads = 0;
        for k in 0..10_000 {
            let count = bets.count_for(id, k, Some(part(k)));
            if count >= 2 {
                bets.used(id, part(k), Use::Sent { on: count });
                uploads += 1;
            } else {
                // It pays alone, or goes to the host: nothing is counted on.
                bets.used(id, part(k), Use::Sent { on: 0 });
            }
        }
        assert!((9..32).contains(&uploads), "{uploads}");
        // It comes back to what is there: that was worth it.
        for k in 0..MOST_LOST {
            bets.used(id, part(k), Use::Found);
        }
        assert_eq!(bets.count_for(id, 10_000, None), 10_000);
    }

    /// Many matrices in one arena, each used once in each pass: they are all sent in the end.
    #[test]
    fn an_arena_of_many_matrices_is_sent() {
        const PARTS: u32 = 100;
        let (mut bets, id) = (Bets::default(), AllocId(1));
        let part = |k: u32| Interval::new(10 * k as usize, 10 * k as usize + 10);
        let (mut there, mut seen) = ([false; PARTS as usize], 0);
        for _ in 0..20 {
            for k in 0..PARTS {
                let at = &mut there[k as usize];
                let count = bets.count_for(id, seen, (!*at).then_some(part(k)));
                seen += 1;
                if *at {
                    bets.used(id, part(k), Use::Found);
                } else if count >= 4 {
                    bets.used(id, part(k), Use::Sent { on: count });
                    *at = true;
                }
            }
        }
        assert!(there.iter().all(|at| *at), "{there:?}");
    }
}
