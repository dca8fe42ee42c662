//! The parts of a BLAS call that take the cache's lock, each once: [`Cache::survey`] before the offload decision,
//! [`Cache::expect`] before the first kernel, [`Cache::settle`] behind the last one, and [`Cache::conclude`] at the
//! end.

use std::collections::BTreeMap;

use super::edges::PendingCopies;
use super::hot::{OPERANDS, Resident};
use super::lost::HostCopy;
use super::task::Use;
use super::{Cache, CacheError, Residency, State};
use crate::base::{AllocId, DeviceId, Intent, Rect};
use crate::device::api::Operand;
use crate::host::Block;
use crate::policy::block_use::Expected;
use crate::policy::results::Push;

/// What the cache knows of an operand before the call.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Where the operand's bytes are.
    pub residency: Residency,
    /// Whether the cache has an entry for the operand's block ([`Cache::add_block`]).
    pub known: bool,
    /// The number of earlier calls on which the decision may count to amortise an upload of the operand.
    pub seen: u32,
    /// Uploads of the block have not paid yet, or were lost: a use of bytes that are on a device is to be noted.
    pub owes: bool,
    /// Whether pages of the block may be protected.
    pub closable: bool,
}

/// For each block of a call, what its use before the call lets expect. Boxed: a node of a map of whole ones takes kilobytes,
/// and glibc's malloc tidies its small free blocks before each allocation of that size.
pub type Before = BTreeMap<AllocId, Box<Expected>>;

/// The operands of a call, whose places are looked up for the offload decision.
#[derive(Clone, Copy, Debug)]
pub struct Survey<'a> {
    /// The bytes of each operand, as a rectangle whose offsets are addresses, and its block.
    pub places: &'a [Rect],
    /// See `places`.
    pub blocks: &'a [Option<Block>],
    /// The call, or the batch that it belongs to, as a user of blocks: calls that differ in flags, scalars or the order of their
    /// operands only are one.
    pub user: u64,
    /// Whether an operand may be sampled, if no device holds a byte of it.
    pub inputs: [bool; OPERANDS],
    /// Whether devices need an operand's bytes.
    pub fetched: [bool; OPERANDS],
    /// Computes a number from an operand's bytes that changes if the bytes change. It is called with no lock held.
    pub sample: fn(&Rect) -> u64,
}

/// What is expected of an output before a call.
#[derive(Clone, Copy, Debug)]
pub struct Outlook {
    /// Whether the output is written back as it becomes final.
    pub push: Push,
    /// What the host holds of the output before the call.
    pub before: HostCopy,
    /// The kernel leaves the output in mapped memory, from which the calling thread copies it.
    pub mapped: bool,
}

/// A call that devices have computed.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a> {
    /// The number of this call ([`Cache::number`]).
    pub number: u64,
    /// The prediction error in seconds (less than zero: the call was faster than predicted), and the block whose
    /// operand caused it.
    pub excess: Option<(AllocId, f64)>,
    /// Results that have been written back, and whose pages the CPU is to find readable.
    pub landed: &'a [(AllocId, Rect)],
    /// The devices and operands of the call's kernels, if these may be replayed; else none.
    pub repeats: &'a [(DeviceId, Vec<Use>)],
}

impl Cache {
    /// Says where the operands of a call are, given by their addresses and blocks, for the offload decision. An operand
    /// without a block is on no device, and its results are written back before the call returns. Before that, if pages
    /// of the operands are write-tracked, replicas drop the bytes that a scan finds written by the CPU.
    ///
    /// Notes that the call uses the blocks, by the call's key. Blocks in `before` are left out: an earlier product of the same
    /// batch has noted them. The other blocks are added there, with what their use before this call lets expect.
    ///
    /// Samples are taken of one operand of each block, among those that may be sampled and of which no device holds a byte.
    ///
    /// # Errors
    /// A device is lost. The call must not run on devices.
    pub fn survey(
        &self,
        survey: &Survey<'_>,
        before: &mut Before,
    ) -> Result<Vec<Found>, CacheError> {
        let Survey { places, blocks, .. } = *survey;
        let mut guard = self.lock();
        let in_block = |i: usize| blocks[i].map(|b| (b, places[i].counted_from(b.start)));
        for (b, rect) in (0..places.len()).filter_map(in_block) {
            self.inspect_locked(&mut guard, b.id, rect.span())?;
            self.end_write_through_if_over(&mut guard, b.id);
        }
        let residency = |i| match in_block(i) {
            Some((b, rect)) => self.residency_locked(&guard, b.id, &rect),
            None => Residency::default(),
        };
        let all: Vec<Residency> = (0..places.len()).map(residency).collect();
        let id = |i: usize| blocks[i].map(|b| b.id);
        let cold = |i: usize| {
            let unused = id(i).is_some_and(|id| !before.contains_key(&id));
            unused && all[i].union == 0 && survey.inputs[i]
        };
        let sampled = |i: usize| cold(i) && !(0..i).any(|j| id(j) == id(i) && cold(j));
        let mut samples = [None; OPERANDS];
        if guard.uses.samples() && (0..all.len()).any(cold) {
            // A load from an operand may fault, and serving the fault takes the lock.
            drop(guard);
            for (i, place) in places.iter().enumerate() {
                samples[i] = sampled(i).then(|| (survey.sample)(place));
            }
            guard = self.lock();
        }
        let mut found = Vec::with_capacity(all.len());
        for (i, residency) in all.into_iter().enumerate() {
            let mut one = Found {
                residency,
                ..Found::default()
            };
            if let Some((b, rect)) = in_block(i) {
                guard.make_room_for_uses();
                let State { entries, uses, .. } = &mut *guard;
                if let Some(sample) = samples[i] {
                    uses.sampled(b.id, b.len, &rect, sample);
                }
                let expected = before
                    .entry(b.id)
                    .or_insert_with(|| Box::new(uses.note(b.id, b.len, survey.user)));
                // Fewer than half of the bytes that the call reads here are on a device.
                let missing = one.residency.union < places[i].bytes() / 2 && survey.fetched[i];
                let gone = missing.then(|| rect.span());
                (one.seen, one.owes) = uses.count_for(b.id, expected.seen, gone);
                let entry = entries.get(&b.id);
                one.known = entry.is_some();
                one.closable = entry.is_some_and(|e| !e.dir.tracked().is_empty());
            }
            found.push(one);
        }
        Ok(found)
    }

    /// Before a call of this number ([`Cache::number`]) uses these operands on devices: allows their pages to be
    /// protected from now on. For each output, returns what the CPU is expected to do with it, according to how
    /// the block was used so far.
    ///
    /// `mappable`: the index of the output that the kernel could leave in mapped memory. It does if only the CPU is expected to read
    /// it, or if its memory is never protected.
    pub fn expect(
        &self,
        number: u64,
        operands: &[Use],
        mappable: Option<usize>,
    ) -> Vec<Option<Outlook>> {
        let mut guard = self.lock();
        let state = &mut *guard;
        if self.mixed {
            self.take_turns(state, number, operands);
        }
        let mut found: Vec<(AllocId, Rect, Option<Push>)> = Vec::with_capacity(4);
        let mut mapped = None;
        for (i, operand) in operands.iter().enumerate() {
            let (id, rect) = (operand.id, operand.view);
            if mappable == Some(i) && self.expect_mapped(state, number, id, &rect) {
                mapped = Some(i);
                found.push((id, rect, Some(Push::Awaited)));
                continue;
            }
            if !state.writes_through(id) {
                self.enclose(state, id, &rect);
            }
            if operand.access == Intent::Read {
                self.expect_input(state, number, id, &rect);
                found.push((id, rect, None));
                continue;
            }
            // Two outputs in one block count as one result.
            let known = found.iter().find(|f| f.0 == id && f.2.is_some());
            let push = match known {
                Some((_, _, push)) => *push,
                None => Some(self.expect_result(state, number, id, &rect)),
            };
            if operand.access == Intent::Update {
                state.uses.updated(id);
            }
            found.push((id, rect, push));
        }
        let outlook = |(i, (id, rect, push)): (usize, (AllocId, Rect, Option<Push>))| {
            Some(Outlook {
                push: push?,
                before: state.host_copy(id, &rect),
                mapped: mapped == Some(i),
            })
        };
        found.into_iter().enumerate().map(outlook).collect()
    }

    /// Ends a call's access to its operands: queues the write-back of result bytes on pages that are not trapped, which
    /// stay accessible, and replicas drop inputs on pages that are neither trapped nor write-tracked. `landing`:
    /// results of streamed write-back that must be on the host when the call returns.
    ///
    /// Returns what the call must wait for, without the lock, and the first operand's error; the other operands are
    /// settled all the same.
    pub fn settle<'a>(
        &self,
        operands: impl Iterator<Item = &'a Use>,
        landing: &[(AllocId, Rect)],
    ) -> (PendingCopies, Result<(), CacheError>) {
        let mut pending = PendingCopies::default();
        let mut first = Ok(());
        let mut guard = self.lock();
        for Use { id, view, .. } in operands {
            first = first.and(self.settle_locked(&mut guard, *id, view, &mut pending));
        }
        for (id, rect) in landing {
            if let Some(e) = guard.entries.get(id) {
                e.host.ops.deps(rect, false, &mut pending.deps);
            }
        }
        (pending, first)
    }

    /// Notes a call that devices have computed, and returns the placement of each kernel's operands if the call could be
    /// replayed.
    pub fn conclude(&self, made: &Made<'_>) -> Option<Vec<(Resident, Vec<Operand>)>> {
        let mut guard = self.lock();
        let state = &mut *guard;
        for (id, rect) in made.landed {
            if let Some(e) = state.entries.get_mut(id) {
                // If the pages cannot be made accessible now, the CPU's first access to the result faults, and the
                // fault makes them accessible.
                let _ = self.apply_derived(e, rect.span());
            }
        }
        if let Some((id, seconds)) = made.excess
            && let Some(h) = state.uses.get_mut(id)
        {
            h.prediction_error().took(made.number, seconds);
        }
        self.called(state);
        if made.repeats.is_empty() {
            return None;
        }
        let kernels = made.repeats.iter();
        kernels
            .map(|(device, uses)| self.resident(state, *device, uses))
            .collect()
    }

    /// Counts a call that ran on devices. Panels that were write-through for long enough may be protected again.
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
