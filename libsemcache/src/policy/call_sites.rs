//! Call sites: what is known of a call that the program makes again, found by one key of its routine, flags, sizes and operands.
//!
//! A set-associative table of bounded size. It is looked at without a lock, also where no signal is blocked: a call that a decision
//! just left to the host BLAS runs there again without another one (host-decision cache). A decision takes microseconds, and a
//! call that is just not worth a device takes tens of them; so it is left there as many times as makes the decision a hundredth of
//! the time that these calls take together. All else is under the lock of one site, which is taken only with signals blocked, and
//! never by the fault service nor by the child of a fork. Correctness does not depend on this table.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use super::ab_probe::AbProbe;

/// Sets and ways of the table. With a single way, two calls that a program makes in turn and whose keys name the same set would
/// replace each other at every call.
const SETS: usize = 1 << 9;
const WAYS: usize = 4;

/// The most calls that stay on the host without a decision.
const MOST: u64 = 0xFFFF;
/// Seconds of one decision, from the stub in the shim to the answer.
const DECISION_S: f64 = 5e-6;
/// Seconds that a batch adds to its decision for each product after the first, because its operands are looked up.
const LOOK_S: f64 = 2e-6;
/// The share of the calls' time that decisions may take.
const SHARE: f64 = 0.01;

/// What is known of one call; `R` is how it is replayed.
#[derive(Debug)]
pub struct Site<R> {
    /// The A/B probes of its predictions.
    pub probe: AbProbe,
    /// Whether devices have computed it before: most calls are never made again.
    pub computed: bool,
    /// How it is replayed.
    pub replay: Option<Box<R>>,
}

impl<R> Default for Site<R> {
    fn default() -> Self {
        Site {
            probe: AbProbe::default(),
            computed: false,
            replay: None,
        }
    }
}

/// A place of the table.
#[derive(Debug)]
pub struct Way<R> {
    /// The key of its call; zero if it is free.
    key: AtomicU64,
    /// How many times the call still runs on the host without a decision.
    left: AtomicU64,
    /// Whether the call was made again since the place was last considered for another one.
    again: AtomicBool,
    /// Whether there is a replay, and whether it writes host memory before the call returns.
    replays: AtomicBool,
    writes_back: AtomicBool,
    site: Mutex<Site<R>>,
}

impl<R> Default for Way<R> {
    fn default() -> Self {
        Way {
            key: AtomicU64::new(0),
            left: AtomicU64::new(0),
            again: AtomicBool::new(false),
            replays: AtomicBool::new(false),
            writes_back: AtomicBool::new(false),
            site: Mutex::default(),
        }
    }
}

impl<R> Way<R> {
    /// The site of the call of this key; `None` if another thread has its lock, or the place is another call's by now.
    pub fn try_site(&self, key: u64) -> Option<MutexGuard<'_, Site<R>>> {
        let site = match self.site.try_lock() {
            Ok(site) => site,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        (self.key.load(Relaxed) == key).then_some(site)
    }

    /// Whether a replay of the call writes host memory.
    #[must_use]
    pub fn writes_back(&self) -> bool {
        self.writes_back.load(Relaxed)
    }

    /// Notes whether a replay of the call writes host memory.
    pub fn set_writes_back(&self, writes: bool) {
        self.writes_back.store(writes, Relaxed);
    }
}

#[derive(Debug)]
struct Set<R> {
    ways: [Way<R>; WAYS],
    /// Modulo the number of ways, the place that is considered next for a new call.
    hand: AtomicUsize,
}

impl<R> Default for Set<R> {
    fn default() -> Self {
        Set {
            ways: core::array::from_fn(|_| Way::default()),
            hand: AtomicUsize::new(0),
        }
    }
}

impl<R> Set<R> {
    fn find(&self, key: u64) -> Option<&Way<R>> {
        self.ways.iter().find(|way| way.key.load(Relaxed) == key)
    }

    /// The place of the call of this key, a new one if it has none. Calls that were made again are passed over once (the clock
    /// algorithm), so a flood of calls that are made once replaces none of those that repeat.
    fn place(&self, key: u64) -> Option<&Way<R>> {
        if let Some(way) = self.find(key) {
            return Some(way);
        }
        for _ in 0..2 * WAYS {
            let way = &self.ways[self.hand.fetch_add(1, Relaxed) % WAYS];
            if way.key.load(Relaxed) != 0 && way.again.swap(false, Relaxed) {
                continue;
            }
            let mut site = match way.site.try_lock() {
                Ok(site) => site,
                Err(TryLockError::Poisoned(e)) => e.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            way.key.store(0, Relaxed);
            *site = Site::default();
            way.left.store(0, Relaxed);
            way.replays.store(false, Relaxed);
            way.writes_back.store(false, Relaxed);
            way.key.store(key, Relaxed);
            return Some(way);
        }
        None
    }
}

/// The table of call sites.
#[derive(Debug)]
pub struct CallSites<R>(OnceLock<Box<[Set<R>]>>);

impl<R> Default for CallSites<R> {
    fn default() -> Self {
        CallSites(OnceLock::new())
    }
}

impl<R> CallSites<R> {
    fn known(&self, key: u64) -> Option<&Way<R>> {
        let way = self.0.get()?[set(key)].find(key)?;
        way.again.store(true, Relaxed);
        Some(way)
    }

    fn place(&self, key: u64) -> Option<&Way<R>> {
        let sets = self
            .0
            .get_or_init(|| (0..SETS).map(|_| Set::default()).collect());
        sets[set(key)].place(key)
    }

    /// The place of a call that can be replayed. Takes no lock.
    #[must_use]
    pub fn replays(&self, key: u64) -> Option<&Way<R>> {
        self.known(key).filter(|way| way.replays.load(Relaxed))
    }

    /// What is known of the call of this key, made if nothing is; `None` if there is no room for it, as other threads use all places
    /// that it could have. Signals are blocked.
    pub fn site(&self, key: u64) -> Option<MutexGuard<'_, Site<R>>> {
        let way = self.place(key)?;
        let site = way.site.lock().unwrap_or_else(PoisonError::into_inner);
        (way.key.load(Relaxed) == key).then_some(site)
    }

    /// From now on, the call is replayed by `replay`; `writes_back`: that writes host memory. Not if another thread has the site.
    pub fn set_replay(&self, key: u64, replay: Option<R>, writes_back: bool) {
        if let Some(way) = self.place(key)
            && let Some(mut site) = way.try_site(key)
        {
            way.writes_back.store(writes_back, Relaxed);
            way.replays.store(replay.is_some(), Relaxed);
            site.replay = replay.map(Box::new);
        }
    }

    /// Whether the call runs on the host once more without a decision; if so, counts it. Takes no lock.
    pub fn stays_on_host(&self, key: u64) -> bool {
        let Some(way) = self.known(key) else {
            return false;
        };
        let left = way.left.load(Relaxed);
        // If another thread changes the number first, this call is not counted.
        left > 0 && {
            let _ = way.left.compare_exchange(left, left - 1, Relaxed, Relaxed);
            true
        }
    }

    /// Notes that a group of `calls` calls runs on the host, where it takes `host_s` seconds, and returns how many times it does so
    /// again without a decision.
    pub fn stay_on_host(&self, key: u64, calls: usize, host_s: f64) -> u64 {
        let decision_s = DECISION_S + LOOK_S * calls.saturating_sub(1) as f64;
        let times = (decision_s / (SHARE * host_s)).clamp(0.0, MOST as f64) as u64;
        let Some(way) = self.place(key) else {
            return 0;
        };
        way.left.store(times, Relaxed);
        times
    }

    /// How many times the call still runs on the host without a decision; `None` if it has no place any more.
    pub fn left(&self, key: u64) -> Option<u64> {
        Some(self.known(key)?.left.load(Relaxed))
    }
}

/// The set of a key: keys are hashes, whose lowest bit is always set.
fn set(key: u64) -> usize {
    (key >> 1) as usize % SETS
}

#[cfg(test)]
mod tests {
    use super::*;

    type Sites = CallSites<u32>;

    /// The key with this number of those that name the first set.
    fn key(n: u64) -> u64 {
        (n * SETS as u64) << 1 | 1
    }

    #[test]
    fn a_call_is_asked_again_in_the_end() {
        let sites = Sites::default();
        assert!(!sites.stays_on_host(key(1)));
        // At 20 us for each call, 25 calls go to the host without a decision.
        sites.stay_on_host(key(1), 1, 20e-6);
        let stayed = (0..1000).take_while(|_| sites.stays_on_host(key(1)));
        assert_eq!(stayed.count(), 25);
        assert!(!sites.stays_on_host(key(2)));
        // A call of a millisecond gets a decision every time.
        sites.stay_on_host(key(1), 1, 1e-3);
        assert!(!sites.stays_on_host(key(1)));
        sites.stay_on_host(key(1), 1, 0.0);
        assert!(sites.stays_on_host(key(1)));
    }

    #[test]
    fn calls_that_meet_in_a_set_are_all_replayed() {
        let sites = Sites::default();
        let keys: Vec<u64> = (1..=WAYS as u64).map(key).collect();
        for (&key, replay) in keys.iter().zip(0..) {
            sites.set_replay(key, Some(replay), replay == 1);
        }
        for (&key, replay) in keys.iter().zip(0..) {
            let way = sites.replays(key).expect("it has a place");
            assert_eq!(way.writes_back(), replay == 1);
            assert!(
                way.try_site(key)
                    .is_some_and(|s| s.replay.as_deref() == Some(&replay))
            );
            assert!(way.try_site(key + 2).is_none());
        }
        sites.set_replay(keys[0], None, false);
        assert!(sites.replays(keys[0]).is_none());
    }

    #[test]
    fn a_flood_of_other_calls_replaces_none_that_repeats() {
        let sites = Sites::default();
        sites.set_replay(key(1), Some(7), false);
        for n in 2..1000 {
            assert!(sites.replays(key(1)).is_some());
            assert!(sites.site(key(n)).is_some_and(|site| !site.computed));
        }
        // Once it is made no more, its place is another's.
        for n in 1000..1010 {
            assert!(sites.site(key(n)).is_some());
        }
        assert!(sites.replays(key(1)).is_none());
        assert!(sites.site(key(1)).is_some_and(|site| site.replay.is_none()));
    }

    #[test]
    fn a_place_in_use_is_not_taken() {
        let sites = Sites::default();
        let held: Vec<_> = (1..=WAYS as u64).map(|n| sites.site(key(n))).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(sites.site(key(9)).is_none());
        assert_eq!(sites.stay_on_host(key(9), 1, 1e-6), 0);
        drop(held);
        assert!(sites.site(key(9)).is_some());
    }
}
