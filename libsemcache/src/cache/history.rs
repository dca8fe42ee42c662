//! What the program did with a block so far, for predictions: never for correctness.

use super::Cache;
use crate::base::counters::COUNTERS;
use crate::base::{AllocId, Rect};

/// Blocks remembered; beyond this the memory starts afresh.
const BLOCKS_MAX: usize = 4096;

/// How a block was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Calls that used it since the CPU was last seen writing it.
    uses: u32,
    /// Results that devices left in it.
    results: u32,
    /// Of these, those that the CPU read before the next one.
    read_back: u32,
    /// The last result was not read yet.
    fresh: bool,
}

impl History {
    /// Memory that is home again when the call returns.
    pub const TRANSIENT: History = History {
        uses: 0,
        results: 1,
        read_back: 1,
        fresh: false,
    };

    /// Earlier calls on the same contents: an upload is shared among as many more.
    #[must_use]
    pub fn seen(self) -> u32 {
        self.uses
    }

    /// Share of results that the CPU looked at.
    #[must_use]
    pub fn read_back(self) -> f64 {
        if self.results == 0 {
            0.0
        } else {
            f64::from(self.read_back) / f64::from(self.results)
        }
    }
}

/// Results in a row that the CPU read before a block's next ones are sent home unasked.
const HABIT: u32 = 3;

impl Cache {
    /// A result that the CPU has read after each of the last calls goes home while it is still being waited
    /// for (decision D7). Its panels stay closed until then.
    pub fn push_home(&self, id: AllocId, rect: &Rect) {
        let mut guard = self.lock();
        let habit = guard
            .history
            .get(&id)
            .is_some_and(|h| h.results > HABIT && h.read_back + 1 >= h.results);
        let super::State { entries, pools, .. } = &mut *guard;
        if habit
            && let Some(e) = entries.get_mut(&id)
            && self.send_home(e, pools, rect).is_err()
        {
            // It comes home when it is touched, or fails there with its consequences.
            COUNTERS.fallbacks.add(1);
        }
    }

    /// Notes a call on a block, and tells what was before it.
    pub fn note_use(&self, id: AllocId, written: bool) -> History {
        self.lock().note_use(id, written)
    }
}

impl super::State {
    /// Whether the next result in a block would be sent home unasked ([`Cache::push_home`]).
    pub(crate) fn sends_home(&self, id: AllocId) -> bool {
        let next = |h: &History| h.results.saturating_add(1);
        self.history
            .get(&id)
            .is_some_and(|h| next(h) > HABIT && h.read_back + 1 >= next(h))
    }

    /// See [`Cache::note_use`].
    pub(crate) fn note_use(&mut self, id: AllocId, written: bool) -> History {
        if self.history.len() >= BLOCKS_MAX {
            self.history.clear();
        }
        let h = self.history.entry(id).or_default();
        let before = *h;
        h.uses = h.uses.saturating_add(1);
        if written {
            h.results = h.results.saturating_add(1);
            h.fresh = true;
            if h.results > 64 {
                // Old habits fade.
                h.results /= 2;
                h.read_back /= 2;
            }
        }
        before
    }

    /// Notes that the CPU touched a block.
    pub(crate) fn note_cpu(&mut self, id: AllocId, write: bool) {
        if let Some(h) = self.history.get_mut(&id) {
            if write {
                h.uses = 0;
            }
            if h.fresh {
                h.fresh = false;
                h.read_back = h.read_back.saturating_add(1).min(h.results);
            }
        }
    }
}
