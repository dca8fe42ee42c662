//! What is known of the operands of calls before the offload decision.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::call_key;
use super::checks::Item;
use super::offload_policy::{Policy, state};
use super::sample::sample;
use crate::base::counters::WhyHost;
use crate::base::{AllocId, DeviceId, DeviceSet, Interval, Rect};
use crate::cache::Cache;
use crate::cache::call::{Before, Found, Survey};
use crate::cache::hot::OPERANDS;
use crate::model::decide::{Mode, OperandState};
use crate::model::rates::{DeviceRates, LinkRate};
use crate::plan::{Access, Problem};
use crate::policy::block_use::Expected;

/// The operands of all calls at one position (A, B or C), added up.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) bytes: usize,
    pub(super) resident: usize,
    stale: usize,
    unpinned: usize,
    on: Vec<usize>,
    /// Whether any call reads its operand.
    pub(super) read: bool,
    /// For each operand, its bytes times the share of them that the CPU reads back; added up.
    read_back: f64,
    /// The highest probability that the CPU reads any byte of one of these results.
    looked: f64,
    /// For how many calls in a row the same call, and no other, has used a block; the minimum over the blocks.
    alone: Option<u32>,
    /// How many earlier calls used a block since the CPU last wrote to it; the minimum over the blocks.
    seen: Option<u32>,
    /// How many earlier calls used a block; the minimum over the blocks.
    calls: Option<u32>,
    /// Uploads of a block have not paid yet, or were lost.
    pub(super) owes: bool,
}

/// The bytes of a block that the calls use.
#[derive(Debug)]
pub(super) struct Reach {
    /// At each operand position, from the first to the last byte.
    pub(super) spans: [Interval; OPERANDS],
    /// The sum of the panels of all operands, counted as in [`Cache::expect`].
    panels: usize,
    /// Whether any call writes an operand in the block.
    pub(super) written: bool,
    /// Whether pages of the block may be protected, and bytes of it that are on devices.
    closable: bool,
    resident: usize,
}

/// What is known of the operands of all calls before a decision.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) sums: [Sum; OPERANDS],
    pub(super) reaches: BTreeMap<AllocId, Reach>,
    before: Before,
}

impl Gathered {
    pub(super) fn of(
        cache: &Cache,
        policy: &Policy,
        items: &mut [Item],
    ) -> Result<Gathered, WhyHost> {
        let mut all = Gathered::default();
        // A matrix that is an input of several products counts once.
        let mut counted = BTreeSet::new();
        let (auto, single) = (policy.mode == Mode::Auto, items.len() == 1);
        let user = user(items);
        for item in items {
            let of_each = |is: &dyn Fn(usize) -> bool| {
                core::array::from_fn(|i| i < item.places.len() && is(i))
            };
            let survey = Survey {
                places: &item.places,
                blocks: &item.blocks,
                user,
                inputs: of_each(&|i| auto && item.problem.access(i) == Access::Read),
                fetched: of_each(&|i| item.problem.fetches(i)),
                sample,
            };
            let found = cache.survey(&survey, &mut all.before);
            let found = found.map_err(|_| WhyHost::Refused)?;
            for (i, found) in found.iter().enumerate() {
                item.known[i] = found.known;
                if single || counted.insert(item.places[i]) {
                    all.add(cache, item, i, found);
                }
            }
        }
        Ok(all)
    }

    /// Adds the operand with index `i` of a call.
    fn add(&mut self, cache: &Cache, item: &Item, i: usize, found: &Found) {
        let residency = &found.residency;
        let expected = item.blocks[i].and_then(|b| self.before.get(&b.id));
        let expected = expected.map_or(&Expected::TRANSIENT, |expected| expected);
        let place = &item.places[i];
        let bytes = place.bytes();
        let sum = &mut self.sums[i];
        sum.bytes += bytes;
        sum.resident += residency.union.min(bytes);
        sum.stale += residency.stale;
        sum.read |= item.problem.fetches(i);
        add_each(&mut sum.on, &residency.resident);
        sum.read_back += bytes as f64 * expected.read_back;
        sum.looked = sum.looked.max(expected.looked);
        if let Some(b) = &item.blocks[i] {
            let rect = place.counted_from(b.start);
            let reach = self.reaches.entry(b.id).or_insert_with(|| {
                sum.unpinned += cache.unpinned(b, place.start, place.end() - place.start);
                Reach {
                    spans: [Interval::default(); OPERANDS],
                    panels: 0,
                    written: false,
                    closable: found.closable,
                    resident: 0,
                }
            });
            reach.add(i, rect.span());
            reach.panels += cache.panels(&rect);
            reach.written |= item.problem.access(i) != Access::Read;
            reach.resident += residency.union;
        }
        sum.alone = least(sum.alone, expected.alone);
        sum.seen = least(sum.seen, found.seen);
        sum.calls = least(sum.calls, expected.calls);
        sum.owes |= found.owes;
    }

    /// The device that has most bytes of the operands, the fastest one if none has any. Levels 1 and 2 mostly run on one
    /// device, and bytes that are on other devices must be copied to it.
    pub(super) fn prefer(&self, usable: &DeviceSet) -> DeviceId {
        let on = |d: DeviceId| -> usize {
            let each = self.sums.iter().filter_map(|s| s.on.get(d.index()));
            each.sum()
        };
        // Of several that have the same number of bytes the last one is returned.
        let all = (0..usable.len()).rev().map(|at| usable.id(at));
        all.max_by_key(|&d| on(d)).unwrap_or(DeviceId(0))
    }

    /// For each operand the bytes that are on devices, but not on the one that has most of them.
    pub(super) fn apart(&self) -> [usize; OPERANDS] {
        let of = |sum: &Sum| {
            let most = sum.on.iter().max().copied().unwrap_or(0);
            sum.resident.saturating_sub(most)
        };
        self.sums.each_ref().map(of)
    }

    /// The operands as the model is asked about them. `owned`: each device computes with what it holds; `beyond_s`: the prediction error
    /// of the whole call.
    pub(super) fn states(
        &self,
        problem: &Problem,
        owned: bool,
        beyond_s: f64,
    ) -> Vec<OperandState<'_>> {
        let sums = self.sums[..problem.operands.len()].iter().enumerate();
        let of = |(i, s): (usize, &'_ Sum)| OperandState {
            resident: s.resident,
            unpinned: s.unpinned,
            stale: s.stale,
            read: s.read,
            read_back: s.read_back / s.bytes.max(1) as f64,
            looked: s.looked,
            // The model adds up this value of all operands, so only the first one carries it.
            beyond_s: if i == 0 { beyond_s } else { 0.0 },
            alone: s.alone.unwrap_or(0),
            seen: s.seen.unwrap_or(0),
            calls: s.calls.unwrap_or(0),
            ..state(problem, i, s.bytes)
        };
        let mut states: Vec<OperandState<'_>> = sums.map(of).collect();
        if !owned {
            for (state, s) in states.iter_mut().zip(&self.sums) {
                state.on = &s.on;
            }
        }
        states
    }

    /// The prediction error, in seconds, that earlier uses of these blocks lead to expect.
    pub(super) fn beyond_s(&self) -> f64 {
        let now = Instant::now();
        self.reaches.keys().map(|id| self.beyond_of(*id, now)).sum()
    }

    fn beyond_of(&self, id: AllocId, now: Instant) -> f64 {
        let known = self.before.get(&id).zip(self.reaches.get(&id));
        known.map_or(0.0, |(h, r)| h.beyond_s(r.panels, r.written, now))
    }

    /// A single call with the blocks write-through whose uses take at least `least_s` longer than predicted: it uploads what it reads of
    /// them and writes its results back, and the CPU does not fault there. `None` if there is no such block.
    pub(super) fn write_through(
        &self,
        cache: &Cache,
        item: &Item,
        (rates, least_s): (&DeviceRates, f64),
    ) -> Option<WriteThrough<'_>> {
        let now = Instant::now();
        let errs = |id: &AllocId| {
            let through = self.before.get(id).is_none_or(|h| h.writes_through);
            let closable = self.reaches.get(id).is_some_and(|r| r.closable);
            !through && closable && self.beyond_of(*id, now) >= least_s
        };
        let blocks: Vec<AllocId> = self.reaches.keys().copied().filter(errs).collect();
        if blocks.is_empty() {
            return None;
        }
        let of = |i: usize| item.blocks.get(i).copied().flatten();
        let is_in = |i: usize| of(i).is_some_and(|b| blocks.contains(&b.id));
        let left = |(id, r): (&AllocId, &Reach)| match self.before.get(id) {
            Some(h) if blocks.contains(id) => {
                // All of the block's newest bytes come home, and later calls upload again what this one does not use of it.
                let len = item.blocks.iter().flatten().find(|b| b.id == *id);
                let whole = Rect::interval(0, len.map_or(0, |b| b.len));
                let all = cache.residency(*id, &whole);
                let others = all.union.saturating_sub(r.resident);
                let seconds =
                    |n: usize, link: &LinkRate| if n > 0 { link.time(n as f64) } else { 0.0 };
                seconds(all.stale, &rates.d2h)
                    + seconds(others, &rates.h2d)
                    + h.beyond_through_s(r.panels, r.written, now)
            }
            _ => self.beyond_of(*id, now),
        };
        let beyond_s = self.reaches.iter().map(left).sum::<f64>();
        let mut states = self.states(&item.problem, false, beyond_s);
        for (_, state) in states.iter_mut().enumerate().filter(|(i, _)| is_in(*i)) {
            // The host would have to wait for stale bytes as before.
            *state = OperandState {
                resident: 0,
                on: &[],
                read_back: 1.0,
                looked: 0.0,
                alone: 0,
                seen: 0,
                ..*state
            };
        }
        Some(WriteThrough {
            blocks,
            states,
            beyond_s,
        })
    }

    /// Whether a block is write-through for results of devices.
    pub(super) fn writes_through(&self) -> bool {
        self.before.values().any(|h| h.writes_through)
    }
}

/// A call with blocks that are write-through.
#[derive(Debug)]
pub(super) struct WriteThrough<'a> {
    pub(super) blocks: Vec<AllocId>,
    pub(super) states: Vec<OperandState<'a>>,
    /// The prediction error that is left, and the write-back of what devices have the newest copy of.
    pub(super) beyond_s: f64,
}

/// The calls as a user of blocks: by the first call, the last one and their number.
fn user(items: &[Item]) -> u64 {
    let ends = [items.first(), items.last()].into_iter().flatten();
    let users = ends.map(|item| call_key::user(&item.call));
    users.fold(items.len() as u64, |all, user| all.rotate_left(1) ^ user)
}

impl Reach {
    fn add(&mut self, position: usize, span: Interval) {
        let all = &mut self.spans[position];
        *all = if all.is_empty() {
            span
        } else {
            all.around(span)
        };
    }
}

fn add_each(sums: &mut Vec<usize>, more: &[usize]) {
    sums.resize(sums.len().max(more.len()), 0);
    for (sum, n) in sums.iter_mut().zip(more) {
        *sum += n;
    }
}

fn least(one: Option<u32>, other: u32) -> Option<u32> {
    Some(one.map_or(other, |one| one.min(other)))
}
