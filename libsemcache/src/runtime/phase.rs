//! Phases of start-up: one futex word that threads may wait for, and which thread is starting the devices.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use rustix::thread::futex;

use super::started::get;
use crate::base::ids::MAX_DEVICES;
use crate::process::ending;

/// The phases, in their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub(crate) enum Phase {
    /// Nothing was started.
    Cold = 0,
    /// One thread is starting the devices; the other threads wait.
    Claimed = 1,
    /// Devices come up in the background.
    Starting = 2,
    /// Devices can be used, or none will come up.
    Settled = 3,
}

/// Which thread starts the devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// The calling thread, from now on.
    Mine,
    /// Another thread.
    Theirs,
    /// The calling thread is already starting them.
    Inside,
    /// A thread of the process that this one was forked from: no thread here will finish the start-up.
    Inherited,
}

/// Number of threads that start devices: one for each, and one that waits for them.
const HELPERS: usize = MAX_DEVICES + 1;
/// A waiting thread looks at the phase this often: in a child of fork no thread wakes it.
const LOOK: Duration = Duration::from_millis(500);

/// See [`Phase`].
#[derive(Debug)]
pub(crate) struct Phases {
    word: AtomicU32,
    /// Process and thread that began; zero: none.
    owner: AtomicU64,
    helpers: [AtomicU32; HELPERS],
}

impl Phases {
    pub(crate) const fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            owner: AtomicU64::new(0),
            helpers: [const { AtomicU32::new(0) }; HELPERS],
        }
    }

    pub(crate) fn get(&self) -> Phase {
        match self.word.load(Acquire) {
            0 => Phase::Cold,
            1 => Phase::Claimed,
            2 => Phase::Starting,
            _ => Phase::Settled,
        }
    }

    /// Asks for the right to start the devices; says which thread has it otherwise.
    pub(crate) fn claim(&self) -> Claim {
        let (pid, tid) = me();
        let mine = u64::from(pid) << 32 | u64::from(tid);
        match self.owner.compare_exchange(0, mine, AcqRel, Acquire) {
            Ok(_) => {
                self.advance(Phase::Claimed);
                Claim::Mine
            }
            Err(owner) if owner >> 32 != u64::from(pid) => Claim::Inherited,
            Err(owner) if owner == mine && self.get() == Phase::Claimed => Claim::Inside,
            Err(_) if self.helps(tid) => Claim::Inside,
            Err(_) => Claim::Theirs,
        }
    }

    /// Advances to a later phase; an earlier one changes nothing.
    pub(crate) fn advance(&self, to: Phase) {
        if self.word.fetch_max(to as u32, AcqRel) < to as u32 {
            // An error means that no thread was waiting.
            let _ = futex::wake(&self.word, futex::Flags::PRIVATE, i32::MAX as u32);
        }
    }

    /// Waits for a phase. False if the time is over first, or if no thread of this process will reach the phase.
    pub(crate) fn wait(&self, least: Phase, until: Option<Instant>) -> bool {
        loop {
            let now = self.word.load(Acquire);
            if now >= least as u32 {
                return true;
            }
            if matches!(self.claim_of(), Some(pid) if pid != me().0) {
                return false;
            }
            let left = match until.map(|t| t.saturating_duration_since(Instant::now())) {
                Some(left) if left.is_zero() => return false,
                Some(left) => left.min(LOOK),
                None => LOOK,
            };
            let timeout = rustix::time::Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            // Errors (the word changed, a signal came, the time is over) only mean: look again.
            let _ = futex::wait(&self.word, futex::Flags::PRIVATE, now, Some(&timeout));
        }
    }

    fn claim_of(&self) -> Option<u32> {
        let owner = self.owner.load(Acquire);
        (owner != 0).then_some((owner >> 32) as u32)
    }

    /// Notes the calling thread as one that starts devices: the driver functions that it calls may make BLAS calls.
    pub(crate) fn enter(&self) {
        let (_, tid) = me();
        for h in &self.helpers {
            if h.compare_exchange(0, tid, AcqRel, Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Ends what [`Phases::enter`] began.
    pub(crate) fn leave(&self) {
        let (_, tid) = me();
        for h in &self.helpers {
            let _ = h.compare_exchange(tid, 0, Release, Relaxed);
        }
    }

    fn helps(&self, tid: u32) -> bool {
        self.helpers.iter().any(|h| h.load(Acquire) == tid)
    }
}

/// This process and thread. Both ids are positive.
fn me() -> (u32, u32) {
    let id = |p: rustix::process::Pid| p.as_raw_nonzero().get().unsigned_abs();
    (id(rustix::process::getpid()), id(rustix::thread::gettid()))
}

pub(super) static PHASES: Phases = Phases::new();

/// How long the end of the process waits for the driver: longer than the contexts of eight GPUs take, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(6);

/// At the end of the process: no further device comes up, and the driver is not left in the middle of
/// something while its own exit handlers run.
pub(crate) fn stop() {
    ending::end();
    if let Some(runtime) = get() {
        runtime.policy.stop_loads(PATIENCE);
    }
    if matches!(PHASES.get(), Phase::Cold | Phase::Settled) {
        return;
    }
    // A thread of start-up would wait for itself; a forked child, for a thread of its parent.
    if PHASES.claim() == Claim::Theirs {
        PHASES.wait(Phase::Settled, Some(Instant::now() + PATIENCE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_begins_and_the_others_wait() {
        let p = Phases::new();
        assert_eq!((p.get(), p.claim()), (Phase::Cold, Claim::Mine));
        assert_eq!((p.get(), p.claim()), (Phase::Claimed, Claim::Inside));
        let soon = Instant::now() + Duration::from_millis(5);
        assert!(!p.wait(Phase::Settled, Some(soon)));
        std::thread::scope(|s| {
            let other = s.spawn(|| (p.claim(), p.wait(Phase::Settled, None)));
            let helper = s.spawn(|| {
                p.enter();
                assert_eq!(p.claim(), Claim::Inside);
                p.leave();
                assert_eq!(p.claim(), Claim::Theirs);
            });
            helper.join().unwrap();
            p.advance(Phase::Starting);
            assert_eq!(p.claim(), Claim::Theirs);
            std::thread::sleep(Duration::from_millis(10));
            p.advance(Phase::Settled);
            assert_eq!(other.join().unwrap(), (Claim::Theirs, true));
        });
        p.advance(Phase::Starting);
        assert_eq!(p.get(), Phase::Settled);
    }

    #[test]
    fn what_a_parent_began_is_never_waited_for() {
        let p = Phases::new();
        p.owner.store(1 << 32 | 1, Release);
        p.advance(Phase::Starting);
        assert_eq!(p.claim(), Claim::Inherited);
        assert!(!p.wait(Phase::Settled, None));
    }
}
