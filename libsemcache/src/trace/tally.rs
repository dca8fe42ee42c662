//! Numbers and bytes of events by kind.

use super::event::Kind;

const KINDS: usize = Kind::ALL.len();

/// For each kind, a number of events and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally([(u64, u64); KINDS]);

impl Tally {
    /// Adds one event.
    pub(super) fn add(&mut self, (kind, bytes): (Kind, u64)) {
        let (count, sum) = &mut self.0[kind as usize];
        *count += 1;
        *sum += bytes;
    }

    /// Each kind's name, with its number of events and their bytes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, (u64, u64))> {
        Kind::ALL
            .iter()
            .map(|(k, name)| (*name, self.0[*k as usize]))
    }
}

mod dropped {
    use super::{KINDS, Kind, Tally};
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

    static DROPPED: [[AtomicU64; 2]; KINDS] = [const { [const { AtomicU64::new(0) }; 2] }; KINDS];

    /// Counts an event that is not in the trace.
    pub(in crate::trace) fn drop_one((kind, bytes): (Kind, u64)) {
        let [count, sum] = &DROPPED[kind as usize];
        count.fetch_add(1, Relaxed);
        sum.fetch_add(bytes, Relaxed);
    }

    /// Counts events that are not in the trace.
    pub(in crate::trace) fn drop_all(tally: &Tally) {
        for ([count, sum], (n, bytes)) in DROPPED.iter().zip(tally.0) {
            count.fetch_add(n, Relaxed);
            sum.fetch_add(bytes, Relaxed);
        }
    }

    /// The events that are not in the trace.
    pub(in crate::trace) fn dropped() -> Tally {
        let of = |[count, sum]: &[AtomicU64; 2]| (count.load(Relaxed), sum.load(Relaxed));
        Tally(core::array::from_fn(|i| of(&DROPPED[i])))
    }

    /// Sets the counts to zero, in the child of a fork.
    pub(in crate::trace) fn forget() {
        for n in DROPPED.iter().flatten() {
            n.store(0, Relaxed);
        }
    }
}
pub(super) use dropped::{drop_all, drop_one, dropped, forget};
