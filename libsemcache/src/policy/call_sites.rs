//! Call sites: what is known of a call that the program makes again, found by one key of its routine, flags, sizes and operands.
//!
//! A set-associative table of bounded size. It is looked at without a lock, also where no signal is blocked: a call that a decision
//! just left to the host BLAS runs there again without another one (host-decision cache). A decision takes microseconds, and a
//! call that is just not worth a device takes tens of them; so it is left there as many times as makes the decision a hundredth of
//! the time that these calls take together. All else is under the lock of one site, which is taken only with signals blocked, and
//! never by the fault service nor by the child of a fork. Correctness does not depend on this table.

use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};

use super::ab_probe::AbProbe;
use crate::base::heuristics::{Heuristic, Without};

/// Sets and ways of the table. A QR factorisation of 4096 x 1024 by LAPACK makes 3400 calls, each of other sizes; Octave's copy of the matrix
/// lies at one of four addresses. With a single way, two calls that a program makes in turn and whose keys name the same set would
/// replace each other at every call.
const SETS: usize = 1 << 13;
const WAYS: usize = 4;

/// The most calls that stay on the host without a decision.
const MOST: u64 = 0xFFFF;
/// Seconds of one decision, from the stub in the shim to the answer: 5 us, or 15 on the host of an H100 beside the threads of the host BLAS.
const DECISION_S: f64 = 15e-6;
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

/// A place of the table, without the key.
#[derive(Debug)]
struct Way<R> {
    /// How many times the call still runs on the host without a decision.
    left: AtomicU64,
    /// The table's epoch in which the replay was decided.
    epoch: AtomicU64,
    /// Whether the call was made again since the place was last considered for another one.
    again: AtomicBool,
    /// How often the call was replayed.
    replayed: AtomicU64,
    /// Whether there is a replay, and whether it writes host memory before the call returns.
    replays: AtomicBool,
    writes_back: AtomicBool,
    /// What a replay uploads: see [`Place::sends`].
    sends: AtomicU64,
    site: Mutex<Site<R>>,
}

impl<R> Default for Way<R> {
    fn default() -> Self {
        Way {
            left: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            again: AtomicBool::new(false),
            replayed: AtomicU64::new(0),
            replays: AtomicBool::new(false),
            writes_back: AtomicBool::new(false),
            sends: AtomicU64::new(0),
            site: Mutex::default(),
        }
    }
}

impl<R> Way<R> {
    fn try_lock(&self) -> Option<MutexGuard<'_, Site<R>>> {
        match self.site.try_lock() {
            Ok(site) => Some(site),
            Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The places of the calls whose keys name this set. The keys lie together, apart from the rest: most calls are looked up in vain.
#[derive(Debug)]
struct Set<R> {
    /// The key of each place's call; zero if it is free.
    keys: [AtomicU64; WAYS],
    ways: [Way<R>; WAYS],
    /// Modulo the number of ways, the place that is considered next for a new call.
    hand: AtomicUsize,
}

impl<R> Default for Set<R> {
    fn default() -> Self {
        Set {
            keys: [const { AtomicU64::new(0) }; WAYS],
            ways: core::array::from_fn(|_| Way::default()),
            hand: AtomicUsize::new(0),
        }
    }
}

/// The place of one call.
#[derive(Debug)]
pub struct Place<'a, R> {
    key: u64,
    of: &'a AtomicU64,
    way: &'a Way<R>,
    /// The table's epoch when the place was looked up.
    epoch: u64,
}

impl<R> Place<'_, R> {
    /// What is known of the call; `None` if another thread uses it now, or the place is another call's by now.
    #[must_use]
    pub fn site(&self) -> Option<Held<'_, R>> {
        let site = self.way.try_lock()?;
        let Place { way, epoch, .. } = *self;
        (self.of.load(Relaxed) == self.key).then_some(Held { way, site, epoch })
    }

    /// Whether the replay was decided by the present rates.
    fn is_current(&self) -> bool {
        self.way.epoch.load(Relaxed) == self.epoch
    }

    /// Whether a replay of the call writes host memory.
    #[must_use]
    pub fn writes_back(&self) -> bool {
        self.way.writes_back.load(Relaxed)
    }

    /// What a replay uploads before its kernel, by a number that [`Held::set_replay`] was given; zero: nothing.
    #[must_use]
    pub fn sends(&self) -> u64 {
        self.way.sends.load(Relaxed)
    }

    /// Notes whether a replay of the call writes host memory. The caller holds the call's site.
    pub fn set_writes_back(&self, writes: bool) {
        self.way.writes_back.store(writes, Relaxed);
    }

    /// Counts a replay. The caller holds the call's site.
    pub fn count_replay(&self) {
        self.way.replayed.fetch_add(1, Relaxed);
    }

    /// How often the call was replayed.
    #[must_use]
    pub fn replayed(&self) -> u64 {
        self.way.replayed.load(Relaxed)
    }

    /// How many times the call still runs on the host without a decision.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.way.left.load(Relaxed)
    }
}

/// What is known of a call, and the lock of it.
#[derive(Debug)]
pub struct Held<'a, R> {
    way: &'a Way<R>,
    site: MutexGuard<'a, Site<R>>,
    epoch: u64,
}

impl<R> Deref for Held<'_, R> {
    type Target = Site<R>;

    fn deref(&self) -> &Site<R> {
        &self.site
    }
}

impl<R> DerefMut for Held<'_, R> {
    fn deref_mut(&mut self) -> &mut Site<R> {
        &mut self.site
    }
}

impl<R> Held<'_, R> {
    /// From now on, the call is replayed by `replay`; `writes_back`: that writes host memory; `sends`: what it uploads.
    pub fn set_replay(&mut self, replay: Option<R>, writes_back: bool, sends: u64) {
        self.way.epoch.store(self.epoch, Relaxed);
        self.way.writes_back.store(writes_back, Relaxed);
        self.way.sends.store(sends, Relaxed);
        self.way.replays.store(replay.is_some(), Relaxed);
        self.site.replay = replay.map(Box::new);
    }

    /// How often the call was replayed.
    #[must_use]
    pub fn replayed(&self) -> u64 {
        self.way.replayed.load(Relaxed)
    }

    /// Notes that a group of `calls` calls runs on the host, where it takes `host_s` seconds, and returns how many times it does so
    /// again without a decision, `most` times at most.
    pub fn stay_on_host(&mut self, calls: usize, host_s: f64, most: u64) -> u64 {
        let decision_s = DECISION_S + LOOK_S * calls.saturating_sub(1) as f64;
        let times = (decision_s / (SHARE * host_s)).clamp(0.0, most.min(MOST) as f64) as u64;
        self.way.left.store(times, Relaxed);
        times
    }
}

impl<R> Set<R> {
    fn at(&self, i: usize, key: u64, epoch: u64) -> Place<'_, R> {
        let (of, way) = (&self.keys[i], &self.ways[i]);
        Place {
            key,
            of,
            way,
            epoch,
        }
    }

    fn find(&self, key: u64, epoch: u64) -> Option<Place<'_, R>> {
        let i = self.keys.iter().position(|of| of.load(Relaxed) == key)?;
        Some(self.at(i, key, epoch))
    }

    /// The place of the call of this key, a new one if it has none. Calls that were made again are passed over once (the clock
    /// algorithm), so a flood of calls that are made once replaces none of those that repeat.
    fn place(&self, key: u64, epoch: u64) -> Option<Place<'_, R>> {
        if let Some(place) = self.find(key, epoch) {
            return Some(place);
        }
        for _ in 0..2 * WAYS {
            let i = self.hand.fetch_add(1, Relaxed) % WAYS;
            let (of, way) = (&self.keys[i], &self.ways[i]);
            if of.load(Relaxed) != 0 && way.again.swap(false, Relaxed) {
                continue;
            }
            let Some(mut site) = way.try_lock() else {
                continue;
            };
            of.store(0, Relaxed);
            *site = Site::default();
            way.left.store(0, Relaxed);
            way.replayed.store(0, Relaxed);
            way.replays.store(false, Relaxed);
            way.writes_back.store(false, Relaxed);
            way.sends.store(0, Relaxed);
            of.store(key, Relaxed);
            return Some(self.at(i, key, epoch));
        }
        None
    }
}

/// A set, which is made with its first call.
type Lazy<R> = OnceLock<Box<Set<R>>>;

/// The table of call sites.
#[derive(Debug)]
pub struct CallSites<R> {
    sets: OnceLock<Box<[Lazy<R>]>>,
    /// How often the rates have moved.
    epoch: AtomicU64,
    without: Without,
}

impl<R> CallSites<R> {
    /// An empty table; `without` says which heuristics are left out.
    #[must_use]
    pub fn new(without: Without) -> CallSites<R> {
        CallSites {
            sets: OnceLock::new(),
            epoch: AtomicU64::new(0),
            without,
        }
    }

    /// The place of a call that is known. Takes no lock.
    #[must_use]
    pub fn known(&self, key: u64) -> Option<Place<'_, R>> {
        let place = self.sets.get()?[set(key)]
            .get()?
            .find(key, self.epoch.load(Relaxed))?;
        if !place.way.again.load(Relaxed) {
            place.way.again.store(true, Relaxed);
        }
        Some(place)
    }

    fn place(&self, key: u64) -> Option<Place<'_, R>> {
        let sets = self
            .sets
            .get_or_init(|| (0..SETS).map(|_| OnceLock::new()).collect());
        let set = sets[set(key)].get_or_init(Box::default);
        set.place(key, self.epoch.load(Relaxed))
    }

    /// Whether a heuristic is used.
    #[must_use]
    pub fn uses(&self, heuristic: Heuristic) -> bool {
        self.without.uses(heuristic)
    }

    /// The place of a call that can be replayed. Takes no lock.
    #[must_use]
    pub fn replays(&self, key: u64) -> Option<Place<'_, R>> {
        self.known(key)
            .filter(|place| place.way.replays.load(Relaxed) && place.is_current())
    }

    /// The rates have moved so far that other decisions may follow from them: each call gets one more before it is replayed again. Calls
    /// that stay on the host soon get one anyway.
    pub fn decide_again(&self) {
        self.epoch.fetch_add(1, Relaxed);
    }

    /// Calls `with` with what is known of the call of this key, which is made if nothing is, under its lock. Signals are blocked. Not if
    /// other threads use all places that it could have: no thread waits here.
    pub fn with<T>(&self, key: u64, with: impl FnOnce(&mut Held<'_, R>) -> T) -> Option<T> {
        let place = self.place(key)?;
        let mut held = place.site()?;
        Some(with(&mut held))
    }

    /// Whether the call runs on the host once more without a decision; if so, counts it. Takes no lock.
    pub fn stays_on_host(&self, key: u64) -> bool {
        if !self.without.uses(Heuristic::HostDecisions) {
            return false;
        }
        let Some(Place { way, .. }) = self.known(key) else {
            return false;
        };
        let left = way.left.load(Relaxed);
        // If another thread changes the number first, this call is not counted.
        left > 0 && {
            let _ = way.left.compare_exchange(left, left - 1, Relaxed, Relaxed);
            true
        }
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

    fn sites() -> Sites {
        Sites::new(Without::default())
    }

    /// The key with this number of those that name the first set.
    fn key(n: u64) -> u64 {
        (n * SETS as u64) << 1 | 1
    }

    #[test]
    fn a_call_is_asked_again_in_the_end() {
        let sites = sites();
        let stay = |host_s| sites.with(key(1), |site| site.stay_on_host(1, host_s, u64::MAX));
        assert!(!sites.stays_on_host(key(1)));
        // At 59 us for each call, 25 calls go to the host without a decision.
        assert_eq!(stay(59e-6), Some(25));
        let stayed = (0..1000).take_while(|_| sites.stays_on_host(key(1)));
        assert_eq!(stayed.count(), 25);
        assert!(!sites.stays_on_host(key(2)));
        // A call of two milliseconds gets a decision every time.
        stay(2e-3);
        assert!(!sites.stays_on_host(key(1)));
        stay(0.0);
        assert!(sites.stays_on_host(key(1)));
    }

    #[test]
    fn replays_are_decided_again_when_the_rates_have_moved() {
        let sites = sites();
        let replay = || sites.with(key(2), |site| site.set_replay(Some(7), false, 0));
        replay();
        assert!(sites.replays(key(2)).is_some());
        sites.decide_again();
        assert!(sites.replays(key(2)).is_none());
        replay();
        assert!(sites.replays(key(2)).is_some());
    }

    #[test]
    fn calls_that_meet_in_a_set_are_all_replayed() {
        let sites = sites();
        let keys: Vec<u64> = (1..=WAYS as u64).map(key).collect();
        for (&key, replay) in keys.iter().zip(0..) {
            sites.with(key, |site| site.set_replay(Some(replay), replay == 1, 0));
        }
        for (&key, replay) in keys.iter().zip(0..) {
            let place = sites.replays(key).expect("it has a place");
            assert_eq!(place.writes_back(), replay == 1);
            let site = place.site();
            assert!(site.is_some_and(|s| s.replay.as_deref() == Some(&replay)));
        }
        sites.with(keys[0], |site| site.set_replay(None, false, 0));
        assert!(sites.replays(keys[0]).is_none());
    }

    #[test]
    fn a_flood_of_other_calls_replaces_none_that_repeats() {
        let sites = sites();
        sites.with(key(1), |site| site.set_replay(Some(7), false, 0));
        for n in 2..1000 {
            assert!(sites.replays(key(1)).is_some());
            assert_eq!(sites.with(key(n), |site| site.computed), Some(false));
        }
        // Once it is made no more, its place is another's.
        let place = sites.known(key(1)).expect("it has a place");
        for n in 1000..1010 {
            assert!(sites.with(key(n), |_| ()).is_some());
        }
        assert!(place.site().is_none() && sites.replays(key(1)).is_none());
        assert_eq!(sites.with(key(1), |site| site.replay.is_none()), Some(true));
    }

    #[test]
    fn a_place_in_use_is_not_taken() {
        let sites = sites();
        let keys: Vec<u64> = (1..=WAYS as u64).map(key).collect();
        let places: Vec<_> = keys.iter().map(|&key| sites.place(key)).collect();
        let held: Vec<_> = places.iter().flatten().map(Place::site).collect();
        assert!(held.len() == WAYS && held.iter().all(Option::is_some));
        assert!(sites.with(key(9), |_| ()).is_none());
        drop(held);
        assert!(sites.with(key(9), |_| ()).is_some());
    }
}
