//! Upload amortisation: uploads that only later calls make pay, and whether they did.
//!
//! The cost of an upload is shared among this call and as many later ones as there were earlier calls on the same
//! block. That number is a guess: a program that rewrites a matrix on the host before each call looks the same until
//! the matrix is on a device and the write is noticed, and one that works its way through an arena never uses the same
//! bytes again. So each upload that was lost before it paid (the program wrote to the block, the device no longer holds
//! the bytes, or `WAITING_MAX` other uploads of the block followed) halves the weight of earlier calls on that block.
//! Each upload that paid, and each use of bytes that were on the device already, cancels one such loss. So the waste in
//! an unfavourable loop grows only with the logarithm of its length.

use std::collections::VecDeque;

use crate::base::Interval;

/// The most losses that count: then a million earlier calls count as none.
const MOST_LOST: u32 = 20;
/// Uploads of a block that have not paid yet; if there are more, the oldest counts as lost.
const WAITING_MAX: usize = 8;

/// An upload that has not paid yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Upload {
    /// Number of later calls that the decision to upload expected.
    on: u32,
    /// The bytes that were uploaded, as offsets in the block.
    span: Interval,
    /// Number of later calls that used these bytes on the device.
    used: u32,
}

/// The account of a block's uploads.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ledger {
    /// Uploads that have not paid yet, the oldest first.
    waiting: VecDeque<Upload>,
    /// The number of earlier calls at the last call of [`Ledger::count_for`].
    seen: u32,
    lost: u32,
}

/// How a call on devices obtained the bytes of a block that it read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// The bytes were on the device already.
    Found,
    /// The call uploaded the bytes.
    Sent {
        /// Number of later calls that are to amortise the upload; zero if it pays at once.
        on: u32,
    },
}

impl Ledger {
    fn judge(&mut self, paid: bool) {
        self.lost = if paid {
            self.lost.saturating_sub(1)
        } else {
            (self.lost + 1).min(MOST_LOST)
        };
    }

    /// Removes the selected uploads; that counts as one loss, whatever their number.
    fn lose(&mut self, which: impl Fn(&Upload) -> bool) {
        let before = self.waiting.len();
        self.waiting.retain(|upload| !which(upload));
        if self.waiting.len() < before {
            self.judge(false);
        }
    }

    /// Whether nothing is owed and nothing was lost, so that a use of bytes that are on the device already changes nothing.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.waiting.is_empty() && self.lost == 0
    }

    /// The weight of `seen` earlier calls since the last write on the host. `gone`: the bytes that the call reads, if
    /// most of them are on no device.
    pub fn count_for(&mut self, seen: u32, gone: Option<Interval>) -> u32 {
        if seen < self.seen {
            self.lose(|_| true);
        } else if let Some(gone) = gone {
            // Missing bytes outside the span of an upload say nothing about that upload.
            self.lose(|upload| upload.span.encloses(gone));
        }
        self.seen = seen;
        seen >> self.lost
    }

    /// Records that a call on a device read these bytes of the block.
    pub fn used(&mut self, span: Interval, how: Use) {
        match how {
            Use::Sent { on: 0 } => {}
            Use::Sent { on } => {
                if self.waiting.iter().any(|upload| upload.span == span) {
                    return;
                }
                self.waiting.push_back(Upload { on, span, used: 0 });
                if self.waiting.len() > WAITING_MAX {
                    self.waiting.pop_front();
                    self.judge(false);
                }
            }
            Use::Found => {
                let of = |upload: &Upload| upload.span.overlaps(span);
                let known = self.waiting.iter().any(of);
                self.waiting
                    .iter_mut()
                    .filter(|upload| of(upload))
                    .for_each(|upload| upload.used += 1);
                let before = self.waiting.len();
                self.waiting.retain(|upload| upload.used < upload.on);
                // A use of bytes whose upload has paid before cancels a loss, too.
                if self.waiting.len() < before || !known {
                    self.judge(true);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Interval = Interval { start: 0, end: 100 };

    /// The number of uploads by a program that writes the block after every `period` calls on a device, if an upload
    /// takes `price` earlier calls.
    fn uploads(calls: u32, price: u32, period: u32) -> u32 {
        let mut account = Ledger::default();
        let (mut seen, mut resident, mut used, mut uploads) = (0, false, 0, 0);
        for _ in 0..calls {
            let count = account.count_for(seen, None);
            seen += 1;
            if resident {
                account.used(ALL, Use::Found);
                used += 1;
            } else if count >= price {
                account.used(ALL, Use::Sent { on: count });
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
        // A hundred times as many calls waste at most eight more uploads.
        assert!(uploads(1_000_000, 6, 0) <= wasted + 8);
    }

    #[test]
    fn uploads_that_pay_are_made_again() {
        assert_eq!(uploads(10_000, 6, 93), 100);
        assert_eq!(uploads(10_000, 6, u32::MAX), 1);
    }

    #[test]
    fn a_win_takes_a_loss_back() {
        let mut account = Ledger::default();
        assert_eq!(account.count_for(8, None), 8);
        account.used(ALL, Use::Sent { on: 8 });
        assert_eq!(
            (account.count_for(9, None), account.count_for(0, None)),
            (9, 0)
        );
        assert_eq!(account.count_for(8, None), 4);
        account.used(ALL, Use::Sent { on: 4 });
        for seen in 9..20 {
            account.count_for(seen, None);
            account.used(ALL, Use::Found);
        }
        assert_eq!(
            (account.count_for(0, None), account.count_for(8, None)),
            (0, 8)
        );
    }

    /// LAPACK's QR factorisation: the host's own loops write to uploaded bytes, and calls that run on the host hide
    /// these writes.
    #[test]
    fn an_upload_that_is_gone_is_lost() {
        let mut account = Ledger::default();
        let mut counted = Vec::new();
        for k in 0..5 {
            let rest = Interval::new(10 * k, 100);
            let count = account.count_for(32, Some(rest));
            account.used(rest, Use::Sent { on: count });
            counted.push(count);
        }
        assert_eq!(counted, [32, 16, 8, 4, 2]);
        // If each call reads bytes that were never uploaded before, no upload counts as lost.
        let (mut account, part) = (Ledger::default(), |k: usize| {
            Interval::new(10 * k, 10 * k + 10)
        });
        for k in 0..5 {
            assert_eq!(account.count_for(32, Some(part(k))), 32);
            account.used(part(k), Use::Sent { on: 32 });
        }
    }

    /// A program that works its way through an arena: uploaded bytes are neither used nor uploaded again.
    #[test]
    fn uploads_of_ever_other_bytes_are_given_up() {
        let mut account = Ledger::default();
        let part = |k: u32| Interval::new(10 * k as usize, 10 * k as usize + 10);
        let mut uploads = 0;
        for k in 0..10_000 {
            let count = account.count_for(k, Some(part(k)));
            if count >= 2 {
                account.used(part(k), Use::Sent { on: count });
                uploads += 1;
            } else {
                // The upload pays at once, or the call goes to the host: no later call is expected.
                account.used(part(k), Use::Sent { on: 0 });
            }
        }
        assert!((9..32).contains(&uploads), "{uploads}");
        // The program uses the uploaded bytes after all: each use cancels a loss.
        for k in 0..MOST_LOST {
            account.used(part(k), Use::Found);
        }
        assert_eq!(account.count_for(10_000, None), 10_000);
    }

    /// A program that uses each of many matrices in one arena once in each pass: in the end all of them are uploaded.
    #[test]
    fn an_arena_of_many_matrices_is_sent() {
        const PARTS: u32 = 100;
        let mut account = Ledger::default();
        let part = |k: u32| Interval::new(10 * k as usize, 10 * k as usize + 10);
        let (mut there, mut seen) = ([false; PARTS as usize], 0);
        for _ in 0..20 {
            for k in 0..PARTS {
                let at = &mut there[k as usize];
                let count = account.count_for(seen, (!*at).then_some(part(k)));
                seen += 1;
                if *at {
                    account.used(part(k), Use::Found);
                } else if count >= 4 {
                    account.used(part(k), Use::Sent { on: count });
                    *at = true;
                }
            }
        }
        assert!(there.iter().all(|at| *at), "{there:?}");
    }
}
