//! Freed blocks that keep their pages, as a cache for the next request of about their size.

use super::{CACHED, Run, Space, State, Taken, Victim, index, link};
use crate::host::sys;

pub(super) const CACHED_PER_CLASS: usize = 4;
const CACHED_BYTES: usize = 256 << 20;
/// A larger block is returned at once, as glibc does above its largest dynamic threshold (32 MiB). Operands are the
/// exception: a program that frees a matrix often allocates one of the same size, and touching and page-locking its
/// pages costs two tenths of a second per gigabyte. Operands and all pinned blocks have a limit of their own, set by
/// `idle`.
const CACHED_BLOCK: usize = 64 << 20;
/// A kept block is returned after this many milliseconds without reuse, if the thread of `idle` runs.
pub(super) const KEEP_MS: u64 = 5000;
/// A kept block is returned after this many large allocations and frees that did not reuse it.
const MAX_AGE: u64 = 512;

impl Run {
    /// Whether the block counts against the limit of operands rather than that of all blocks.
    fn big(&self) -> bool {
        self.pinned || self.len > CACHED_BLOCK
    }
}

/// Which kept blocks are to be returned to the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::host) enum Due {
    /// The blocks over a limit or too old by the count of requests; none that is pinned.
    Passing,
    /// All blocks that are not pinned.
    Unpinned,
    /// The blocks over the limit of operands or freed long before now (milliseconds), pinned or not.
    Idle(u64),
    /// All blocks.
    All,
}

impl Space {
    /// Takes a kept block for a request of `len` bytes, with `pinned` only a pinned one. A pinned block is never
    /// extended: its pin would not cover the new pages.
    pub(super) fn take_cached(&mut self, len: usize, align: usize, pinned: bool) -> Option<Taken> {
        let fit = |position: usize| {
            let i = index(self.cached[position])?;
            let r = self.run(i)?;
            let off = r.len.abs_diff(len);
            let fits = off <= len / 4
                && self.capacity(i) >= len
                && r.start.is_multiple_of(align)
                && (!r.pinned || r.len >= len)
                && (!pinned || r.pinned);
            fits.then_some((off, position))
        };
        let best = (0..self.n_cached).filter_map(fit).min()?.1;
        let i = self.uncache(best)?;
        let r = self.run(i)?;
        Some(Taken {
            index: i,
            start: r.start,
            open: r.len,
            huge: r.huge,
        })
    }

    /// Whether a block's pages may be kept when it dies.
    pub(in crate::host) fn keeps(&self, index: usize) -> bool {
        self.run(index).is_some_and(|r| {
            let limit = if r.used || r.pinned {
                self.big_limit.max(CACHED_BLOCK)
            } else {
                CACHED_BLOCK
            };
            !r.odd && r.len <= limit
        })
    }

    /// Keeps a dead block's pages for reuse if its size permits. Returns a block whose pages the caller has to discard:
    /// this one if it is not kept, or an older one that it displaces; [`Space::overdue`] then finds further blocks to
    /// return.
    pub(in crate::host) fn retire(&mut self, index: usize) -> Option<Victim> {
        self.clock += 1;
        let r = *self.run(index)?;
        if !self.keeps(index) {
            return Some(Victim {
                index,
                start: r.start,
                len: r.len,
            });
        }
        let class = r.len.ilog2();
        let same = |s: &Self, l: u32| {
            self::index(l)
                .and_then(|i| s.run(i))
                .is_some_and(|o| o.len.ilog2() == class && !o.big())
        };
        let of_class = (0..self.n_cached)
            .filter(|i| same(self, self.cached[*i]))
            .count();
        let victim = if of_class >= CACHED_PER_CLASS && !r.big() {
            self.oldest(|s, l| same(s, l))
        } else if self.n_cached == CACHED {
            // Pinned blocks alone cannot fill the list, which has more places than there may be pins.
            self.oldest(|s, l| s.is(l, |r| !r.pinned))
        } else {
            None
        };
        let victim = victim.and_then(|v| self.evict(v));
        if self.n_cached == CACHED {
            return Some(Victim {
                index,
                start: r.start,
                len: r.len,
            });
        }
        let stamp = self.clock;
        let when = if self.big_limit > 0 { sys::now_ms() } else { 0 };
        let r = self.run_mut(index)?;
        (r.state, r.stamp, r.when, r.in_use) = (State::Cached, stamp, when, false);
        self.cached[self.n_cached] = link(index);
        self.n_cached += 1;
        victim
    }

    /// Whether the run that a link names satisfies a predicate.
    fn is(&self, link: u32, like: impl Fn(&Run) -> bool) -> bool {
        index(link).and_then(|i| self.run(i)).is_some_and(like)
    }

    /// Bytes of the kept blocks that count as operands (`big`), or of the others.
    pub(super) fn cached_bytes(&self, big: bool) -> usize {
        let runs = self.cached[..self.n_cached].iter();
        runs.filter_map(|l| self.run(index(*l)?))
            .filter(|r| r.big() == big)
            .map(|r| r.len)
            .sum()
    }

    /// Whether the kept operands exceed their limit.
    pub(in crate::host) fn crowded(&self) -> bool {
        self.big_limit > 0 && self.cached_bytes(true) > self.big_limit
    }

    /// Whether memory may be short for a request of `len` bytes because kept operands hold it.
    pub(in crate::host) fn tight(&self, len: usize) -> bool {
        // `big_limit` is a quarter of the memory: the answer is yes if all blocks together would exceed three quarters.
        len > CACHED_BLOCK && self.big_limit > 0 && self.cached_bytes(true) > 0 && {
            let held: usize = self.runs.all()[..self.count].iter().map(|r| r.len).sum();
            held.saturating_add(len) > 3 * self.big_limit
        }
    }

    /// Whether any freed block is kept.
    pub(in crate::host) fn any_cached(&self) -> bool {
        self.n_cached > 0
    }

    /// Freed operands are kept from now on, up to `limit` bytes.
    pub(in crate::host) fn keep_operands(&mut self, limit: usize) {
        self.big_limit = limit;
    }

    /// A kept block that is to be returned to the system, if any; it is Busy then.
    pub(in crate::host) fn overdue(&mut self, due: Due) -> Option<Victim> {
        if self.n_cached == 0 {
            return None;
        }
        let found = match due {
            Due::All => self.oldest(|_, _| true),
            Due::Unpinned => self.oldest(|s, l| s.is(l, |r| !r.pinned)),
            Due::Passing => {
                let small = self.cached_bytes(false) > CACHED_BYTES;
                let big = self.crowded();
                let clock = self.clock;
                self.oldest(|s, l| {
                    s.is(l, |r| {
                        let over = if r.big() { big } else { small };
                        !r.pinned && (over || !r.big() && clock - r.stamp > MAX_AGE)
                    })
                })
            }
            Due::Idle(now) => {
                let big = self.crowded();
                self.oldest(|s, l| {
                    s.is(l, |r| {
                        now.saturating_sub(r.when) >= KEEP_MS || big && r.big()
                    })
                })
            }
        };
        self.evict(found?)
    }

    fn oldest(&self, of: impl Fn(&Self, u32) -> bool) -> Option<usize> {
        let stamp = |i: usize| {
            index(self.cached[i])
                .and_then(|r| self.run(r))
                .map_or(0, |r| r.stamp)
        };
        (0..self.n_cached)
            .filter(|i| of(self, self.cached[*i]))
            .min_by_key(|i| stamp(*i))
    }

    fn evict(&mut self, position: usize) -> Option<Victim> {
        let i = self.uncache(position)?;
        let r = self.run(i)?;
        Some(Victim {
            index: i,
            start: r.start,
            len: r.len,
        })
    }

    fn uncache(&mut self, position: usize) -> Option<usize> {
        let i = index(self.cached[position])?;
        self.n_cached -= 1;
        self.cached[position] = self.cached[self.n_cached];
        let r = self.run_mut(i)?;
        r.state = State::Busy;
        Some(i)
    }
}
