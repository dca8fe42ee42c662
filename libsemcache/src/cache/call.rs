//! What a call asks of the cache, each question with one lock: [`Cache::survey`] before it is decided upon, [`Cache::expect`]
//! before its first kernel, [`Cache::settle`] behind its last one, and [`Cache::conclude`] when nothing of it is left.

use std::collections::BTreeMap;

use super::edges::Homecoming;
use super::history::{History, Push};
use super::hot::{OPERANDS, Resident};
use super::lost::HostCopy;
use super::task::Use;
use super::{Cache, CacheError, Residency, State};
use crate::base::{AllocId, DeviceId, Intent, Rect};
use crate::device::api::Operand;
use crate::host::Block;

/// An operand before a call.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Where its bytes are.
    pub residency: Residency,
    /// Whether the cache knows its block ([`Cache::add_block`]).
    pub known: bool,
}

/// What the program did with each block of a call before the call. Boxed: a node of a map of whole histories takes kilobytes, and
/// glibc's malloc tidies its small free blocks before each allocation of that size.
pub type Histories = BTreeMap<AllocId, Box<History>>;

/// An output before a call.
#[derive(Clone, Copy, Debug)]
pub struct Outlook {
    /// Whether it goes home as it becomes final.
    pub push: Push,
    /// What the host holds of it.
    pub before: HostCopy,
}

/// A call that devices have made.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a> {
    /// The number of this call ([`Cache::number`]).
    pub number: u64,
    /// How many seconds longer it took than predicted (less than zero: shorter), and the block whose operand is the cause.
    pub excess: Option<(AllocId, f64)>,
    /// Results that are home, and that the CPU is to find readable.
    pub landed: &'a [(AllocId, Rect)],
    /// Its kernel, if it may be launched again: the device, and the whole operands.
    pub repeats: Option<(DeviceId, &'a [Use])>,
}

impl Cache {
    /// Where the operands of a call are that is to be decided upon, given by their addresses and blocks. An operand without a
    /// block is on no device, and is home again when the call returns. What the CPU has written of the operands where
    /// nothing traps it is dropped from the replicas first.
    ///
    /// The call uses its blocks, as the histories of the blocks note by its `key` (see [`History::alone`]). Blocks in `used`
    /// have that noted already, by an earlier product of the same batch; the others are added there, with what their histories
    /// were before.
    ///
    /// `sample` makes a number of the bytes of an operand that changes with them. It is asked, with nothing locked, for one
    /// operand of each block of those that `inputs` holds for and of which no device has anything.
    ///
    /// # Errors
    /// A device is lost. The call must not run on devices.
    pub fn survey(
        &self,
        places: &[Rect],
        blocks: &[Option<Block>],
        key: u64,
        used: &mut Histories,
        inputs: &dyn Fn(usize) -> bool,
        sample: fn(&Rect) -> u64,
    ) -> Result<Vec<Found>, CacheError> {
        let mut guard = self.lock();
        let in_block = |i: usize| blocks[i].map(|b| (b, places[i].counted_from(b.start)));
        for (b, rect) in (0..places.len()).filter_map(in_block) {
            self.inspect_locked(&mut guard, b.id, rect.span())?;
        }
        let residency = |i| match in_block(i) {
            Some((b, rect)) => self.residency_locked(&guard, b.id, &rect),
            None => Residency::default(),
        };
        let all: Vec<Residency> = (0..places.len()).map(residency).collect();
        let id = |i: usize| blocks[i].map(|b| b.id);
        let cold = |i: usize| {
            let unused = id(i).is_some_and(|id| !used.contains_key(&id));
            unused && all[i].union == 0 && inputs(i)
        };
        let sampled = |i: usize| cold(i) && !(0..i).any(|j| id(j) == id(i) && cold(j));
        let mut samples = [None; OPERANDS];
        if (0..all.len()).any(cold) {
            // To read an operand may fault, and the fault takes the lock.
            drop(guard);
            for (i, place) in places.iter().enumerate() {
                samples[i] = sampled(i).then(|| sample(place));
            }
            guard = self.lock();
        }
        let mut found = Vec::with_capacity(all.len());
        for (i, residency) in all.into_iter().enumerate() {
            if let Some((b, rect)) = in_block(i) {
                if let Some(sample) = samples[i] {
                    guard.history_of(&b).sampled(&rect, sample);
                }
                used.entry(b.id).or_insert_with(|| guard.note_use(&b, key));
            }
            let known = blocks[i].is_some_and(|b| guard.entries.contains_key(&b.id));
            found.push(Found { residency, known });
        }
        Ok(found)
    }

    /// The call of this number ([`Cache::number`]) is about to use these operands on devices. Their pages may be closed from
    /// now on. For each output, what the program is expected to do with it, from what it did so far.
    pub fn expect(&self, number: u64, operands: &[Use]) -> Vec<Option<Outlook>> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut found: Vec<(AllocId, Rect, Option<Push>)> = Vec::with_capacity(4);
        for operand in operands {
            let (id, rect) = (operand.id, operand.view);
            self.enclose(state, id, &rect);
            if operand.access == Intent::Read {
                self.expect_input(state, number, id, &rect);
                found.push((id, rect, None));
                continue;
            }
            // Two outputs in one block are one result.
            let known = found.iter().find(|f| f.0 == id && f.2.is_some());
            let push = match known {
                Some((_, _, push)) => *push,
                None => Some(self.expect_result(state, number, id, &rect)),
            };
            found.push((id, rect, push));
        }
        let outlook = |(id, rect, push): (AllocId, Rect, Option<Push>)| {
            Some(Outlook {
                push: push?,
                before: state.host_copy(id, &rect),
            })
        };
        found.into_iter().map(outlook).collect()
    }

    /// Ends a call's access to operands: what of them no trap guards is queued for the host and left open, and inputs
    /// that are not watched are let go of. `landing`: results that were sent home, and are to be there.
    ///
    /// Returns what the call must wait for, without the lock, and the first operand's error: one operand that fails does
    /// not excuse the others.
    pub fn settle<'a>(
        &self,
        operands: impl Iterator<Item = &'a Use>,
        landing: &[(AllocId, Rect)],
    ) -> (Homecoming, Result<(), CacheError>) {
        let mut coming = Homecoming::default();
        let mut first = Ok(());
        let mut guard = self.lock();
        for Use { id, view, .. } in operands {
            first = first.and(self.settle_locked(&mut guard, *id, view, &mut coming));
        }
        for (id, rect) in landing {
            if let Some(e) = guard.entries.get(id) {
                e.host.ops.deps(rect, false, &mut coming.deps);
            }
        }
        (coming, first)
    }

    /// Notes a call that devices have made, and looks whether its kernel could be launched again just so.
    pub fn conclude(&self, made: &Made<'_>) -> Option<(Resident, Vec<Operand>)> {
        let mut guard = self.lock();
        let state = &mut *guard;
        for (id, rect) in made.landed {
            if let Some(e) = state.entries.get_mut(id) {
                // If the pages cannot be opened now, the CPU's first access to the result faults, and the fault opens them.
                let _ = self.apply_derived(e, rect.span());
            }
        }
        if let Some((id, seconds)) = made.excess
            && let Some(h) = state.history.get_mut(&id)
        {
            h.toll().took(made.number, seconds);
        }
        self.called(state);
        let (device, uses) = made.repeats?;
        self.resident(state, device, uses)
    }

    /// Counts a call that ran on devices; panels that were left open long enough may be closed again.
    fn called(&self, state: &mut State) {
        state.calls += 1;
        if state.calls < state.forgive_at {
            return;
        }
        let State {
            entries,
            pools,
            calls,
            forgive_at,
            ..
        } = state;
        *forgive_at = u64::MAX;
        for e in entries.values_mut().filter(|e| !e.pingpong.is_empty()) {
            self.forgive_pingpong(e, pools, *calls);
            *forgive_at = e.next_forgiven().min(*forgive_at);
        }
    }
}
