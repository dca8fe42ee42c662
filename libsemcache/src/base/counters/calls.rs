//! Call counters by routine: how many calls ran on devices, how many on the host, and why.
//!
//! A routine is named by a small index that the caller chooses; [`CallTable::calls`] gets the names. Calls that run on the host
//! are counted by many threads at once, so those counters are sharded: threads that call at the same time mostly write
//! to different cache lines.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::passed::{OWNED, PASSED, Passed};
use super::reasons::WhyHost;
use super::sites::{Kind, NUMBERED, SiteTable};
use crate::base::routine::MAX_ROUTINES;

/// Shards of the host-call counters.
const SHARDS: usize = 16;
const REASONS: usize = WhyHost::ALL.len();

/// Two cache lines, because the prefetcher fetches lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Shard {
    host: [[AtomicU64; REASONS]; MAX_ROUTINES],
}

/// The numbers of calls of all routines.
#[derive(Debug)]
#[repr(C)]
pub struct CallTable {
    offloaded: [AtomicU64; MAX_ROUTINES],
    host: [Shard; SHARDS],
    /// How many threads have taken counters of their own among `passed`, the first ones. The pages of the others have never been
    /// touched, and reading them would make the kernel provide them.
    taken: AtomicU64,
    passed: [Passed; OWNED + 1],
}

impl CallTable {
    #[expect(clippy::declare_interior_mutable_const, reason = "an initial value")]
    pub(super) const NEW: CallTable = CallTable {
        offloaded: [const { AtomicU64::new(0) }; MAX_ROUTINES],
        host: [const {
            Shard {
                host: [const { [const { AtomicU64::new(0) }; REASONS] }; MAX_ROUTINES],
            }
        }; SHARDS],
        taken: AtomicU64::new(0),
        passed: [const { Passed::new() }; OWNED + 1],
    };

    /// Counts a call that ran on devices. An index of [`MAX_ROUTINES`] or more is not counted.
    #[inline]
    pub fn offloaded(&self, routine: usize) {
        if let Some(count) = self.offloaded.get(routine) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Counts a call that ran on the host, and why. An index of [`MAX_ROUTINES`] or more is not counted.
    #[inline]
    pub fn host(&self, routine: usize, why: WhyHost) {
        if let Some(reasons) = self.host[shard()].host.get(routine) {
            reasons[why as usize].fetch_add(1, Relaxed);
        }
    }

    /// Counters for one more thread, in which it alone counts the calls that it passes to the host BLAS without a decision. `None`
    /// once [`OWNED`] threads have theirs: all others count in [`shared`](Self::shared).
    #[must_use]
    pub fn take(&self) -> Option<&Passed> {
        // The number stops at the limit, so that it cannot wrap.
        let one_more = |n: u64| (n < OWNED as u64).then_some(n + 1);
        let index = self.taken.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        self.passed.get(index as usize)
    }

    /// The counters of the threads that have none of their own.
    #[must_use]
    pub fn shared(&self) -> &Passed {
        &self.passed[OWNED]
    }

    /// The counters in which threads may have counted. In the memory of another process that number may be anything.
    fn passed(&self) -> impl Iterator<Item = &Passed> {
        let taken = (self.taken.load(Relaxed) as usize).min(OWNED);
        let shared = (taken == OWNED).then_some(&self.passed[OWNED]);
        self.passed[..taken].iter().chain(shared)
    }

    /// The calls so far of the routines that were called, by plain name (`dgemm`). `names` gives the name of each index;
    /// the calls of two indices with the same name are added, and an index without a name is reported as `routine<index>`.
    #[must_use]
    pub fn calls<S: AsRef<str>>(&self, names: &[S], sites: &SiteTable) -> BTreeMap<String, Calls> {
        let mut all = BTreeMap::<String, Calls>::new();
        let passed = self.all_passed(sites);
        for (routine, offloaded) in self.offloaded.iter().enumerate() {
            let mut calls = Calls {
                offloaded: offloaded.load(Relaxed),
                ..Calls::default()
            };
            for why in WhyHost::ALL {
                let shards = self.host.iter().map(|s| &s.host[routine][*why as usize]);
                calls.add_host(why.name(), shards.map(|n| n.load(Relaxed)).sum());
            }
            for (why, n) in PASSED.iter().zip(passed[routine]) {
                calls.add_host(why.name(), n);
            }
            if calls != Calls::default() {
                let name = names.get(routine);
                let name =
                    name.map_or_else(|| format!("routine{routine}"), |n| n.as_ref().to_owned());
                all.entry(name).or_default().add(&calls);
            }
        }
        all
    }

    /// How many calls of each routine were passed to the host BLAS without a decision, by the reasons of [`PASSED`].
    #[must_use]
    pub fn all_passed(&self, sites: &SiteTable) -> Vec<[u64; PASSED.len()]> {
        let of =
            |routine| PASSED.map(|why| self.passed().map(|p| p.get(routine, why)).sum::<u64>());
        let mut all: Vec<_> = (0..MAX_ROUTINES).map(of).collect();
        for (site, _, kind) in sites.all() {
            if let Kind::Call(routine) = kind
                && let Some(counts) = all.get_mut(routine)
            {
                // The first reason is that of small calls.
                counts[0] += self.small_at(site);
            }
        }
        all
    }

    /// How many small calls of a routine were made, and by how many threads that have counters of their own.
    #[must_use]
    pub fn small(&self, routine: usize, sites: &SiteTable) -> (u64, u64) {
        let (mut numbers, mut used) = ([0; NUMBERED], 0);
        for (to, number) in numbers.iter_mut().zip(sites.calling(routine)) {
            (*to, used) = (number, used + 1);
        }
        let (mut calls, mut threads) = (0, 0);
        for own in self.passed() {
            let at_sites: u64 = numbers[..used].iter().map(|site| own.small(*site)).sum();
            let of_thread = own.get(routine, WhyHost::Small) + at_sites;
            calls += of_thread;
            threads += u64::from(of_thread > 0);
        }
        (calls, threads)
    }

    /// How many small calls were made at the call site of a number.
    #[must_use]
    pub fn small_at(&self, site: usize) -> u64 {
        self.passed().map(|p| p.small(site)).sum()
    }
}

/// The shard of the calling thread, which mostly differs between threads: a hash of the address of its stack, whose
/// upper bits differ between threads. Faster than a thread-local; a collision costs time only.
#[inline]
fn shard() -> usize {
    let here = 0_u8;
    let stack = (&raw const here).addr() >> 18;
    stack.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - SHARDS.ilog2())
}

/// The calls of one routine.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Calls {
    /// Calls that ran on devices.
    pub offloaded: u64,
    /// Calls that ran on the host.
    pub host: u64,
    /// Calls that ran on the host, by the name of the reason ([`WhyHost::name`]).
    pub why_host: BTreeMap<String, u64>,
}

impl Calls {
    /// Adds `n` calls that ran on the host.
    pub fn add_host(&mut self, why: &str, n: u64) {
        if n > 0 {
            self.host += n;
            *self.why_host.entry(why.to_owned()).or_default() += n;
        }
    }

    /// Adds the calls of another process.
    pub fn add(&mut self, other: &Calls) {
        self.offloaded += other.offloaded;
        for (why, n) in &other.why_host {
            self.add_host(why, *n);
        }
    }
}
