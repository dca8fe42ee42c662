//! Replay of calls: a BLAS call that the program repeats on operands that have not changed is launched again without a
//! new check, decision or plan.
//!
//! A program that works on resident operands makes the same calls over and over. The second call of a kind leaves a
//! note: its kernel, and the replicas that its operands lie in ([`Cache::conclude`]). From then on the call needs no
//! check of its arguments, no decision, no plan and no step of the protocol, as long as its operands are untouched,
//! which [`Cache::again`] checks, and as long as their host memory still belongs to the same blocks, which
//! [`host::stands`] checks. If either check fails, the call takes the ordinary path, as if there were no note.
//!
//! Two calls are the same if they differ in the values of alpha and beta only, and not in whether these are zero or
//! one: that changes what is read and written, and what is computed at all.
#![expect(unsafe_code, reason = "launches a kernel on addresses noted before")]

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, TryLockError};

use super::call::{Call, Outcome};
use super::checks::Item;
use super::{names, value};
use crate::base::Value;
use crate::base::counters::{self, COUNTERS, devices};
use crate::cache::Cache;
use crate::cache::call::Made;
use crate::cache::hot::Resident;
use crate::cache::lost;
use crate::cache::task::Use;
use crate::device::api::Kernel;
use crate::host::{self, Block};
use crate::plan::{Access, Plan};
use crate::sched;
use crate::sched::kernel::kernel;

/// Sets and ways of the table of notes, as in a set-associative cache. The hash of a call names one set, and any way of
/// this set can hold its note: with a single way, two calls that a program makes in turn and whose hashes name the same
/// set would never be replayed.
const SETS: usize = 1 << 8;
const WAYS: usize = 4;

/// The note of a call that can be replayed.
#[derive(Debug)]
struct Note {
    /// The call with its scalars reduced to zero, one or another number.
    like: Call,
    resident: Resident,
    /// The kernel of the last ordinary call. A replay replaces its scalars and the address of a reduction's value.
    kernel: Kernel,
    blocks: Vec<Block>,
    reduces: bool,
    /// Bytes that copying all operands at every call would move.
    bytes: u64,
}

/// One place for the note of a call.
#[derive(Debug, Default)]
struct Way {
    /// The hash of the noted call, read without the lock; zero if there is no note.
    hash: AtomicU64,
    /// Whether a replay writes results back to the host before the call returns.
    writes_back: AtomicBool,
    note: Mutex<Option<Box<Note>>>,
}

/// Places for the notes of calls whose hashes name this set.
#[derive(Debug, Default)]
struct Set {
    ways: [Way; WAYS],
    /// The hashes of the last calls that found no note in this set.
    missed: [AtomicU64; WAYS],
    /// Counts replacements: modulo the number of ways, the index of the next note or missed hash to replace.
    turn: AtomicUsize,
}

impl Set {
    fn of(sets: &[Set], hash: u64) -> Option<&Set> {
        sets.get((hash >> 32) as usize % SETS)
    }

    fn find(&self, hash: u64) -> Option<&Way> {
        let of_this = |p: &&Way| p.hash.load(Ordering::Relaxed) == hash;
        self.ways.iter().find(of_this)
    }

    /// Whether the call of this hash has found no note here before; if not, its hash is stored.
    fn missed_before(&self, hash: u64) -> bool {
        if self
            .missed
            .iter()
            .any(|m| m.load(Ordering::Relaxed) == hash)
        {
            return true;
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.missed[turn % WAYS].store(hash, Ordering::Relaxed);
        false
    }

    /// The way for the note of a call of this hash: the way of its old note, a free one, or the next one to replace.
    fn room(&self, hash: u64) -> &Way {
        self.find(hash).or_else(|| self.find(0)).unwrap_or_else(|| {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            &self.ways[turn % WAYS]
        })
    }
}

static SETS_OF_NOTES: OnceLock<Box<[Set]>> = OnceLock::new();

/// A call for which the table may have a note.
#[derive(Debug)]
pub struct Known<'a> {
    call: &'a Call,
    like: Call,
    way: &'static Way,
}

/// Looks for a note of the call. Takes no lock, so signals need not be blocked.
#[must_use]
pub fn known(call: &Call) -> Option<Known<'_>> {
    let hash = hash(call);
    let way = Set::of(SETS_OF_NOTES.get()?, hash)?.find(hash)?;
    let like = like(call);
    Some(Known { call, like, way })
}

impl Known<'_> {
    /// Whether a replay may write host memory. Then the caller first touches the first and last bytes of the operands:
    /// while the replay runs signals are blocked, so the program's handlers could not see a fault.
    #[must_use]
    pub fn writes_back(&self) -> bool {
        self.way.writes_back.load(Ordering::Relaxed)
    }

    /// Replays the call if its operands are unchanged, and counts it as offloaded. `None`: nothing was launched, and
    /// the call takes the ordinary path.
    #[must_use]
    pub fn again(&self, cache: &Cache) -> Option<Outcome> {
        let outcome = self.launch(cache)?;
        counters::offloaded(names::index(self.call.routine, self.call.dtype));
        Some(outcome)
    }

    /// As [`Known::again`] without counting a call, for a product of a batch.
    pub(super) fn launch(&self, cache: &Cache) -> Option<Outcome> {
        let mut note = match self.way.note.try_lock() {
            Ok(note) => note,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            // Another thread replays a call of the same way.
            Err(TryLockError::WouldBlock) => return None,
        };
        let note_of = note.as_deref_mut().filter(|n| n.like == self.like)?;
        if !note_of.blocks.iter().all(host::stands) {
            return None;
        }
        let record = self.call.routine.record();
        let mut kernel = Kernel {
            alpha: record.alpha.take(self.call.alpha),
            beta: record.beta.take(self.call.beta),
            ..note_of.kernel
        };
        let cell = if note_of.reduces {
            let cell = cache.take_cell(note_of.resident.device())?;
            kernel.out = cell.addr();
            Some(cell)
        } else {
            None
        };
        // SAFETY: the kernel was made from the addresses that came with `resident`; only its scalars were changed, and
        // the address of the value, which is that of a cell taken for this call alone.
        let launched = unsafe { cache.again(&mut note_of.resident, &kernel) };
        let device = devices::on(note_of.resident.device());
        let Ok(Some(launched)) = launched else {
            if let Some(cell) = cell {
                cache.give_cell(cell);
            }
            // If a device refused the launch, the ordinary path meets the refusal again and handles it.
            return None;
        };
        let bytes = note_of.bytes;
        // The note is unlocked before the call waits for the kernel, so that other threads can replay calls meanwhile.
        let writes_back = note_of.resident.writes_back();
        self.way.writes_back.store(writes_back, Ordering::Relaxed);
        let written = note_of.resident.written();
        let result = note_of
            .blocks
            .iter()
            .find(|block| Some(block.id) == written);
        let result = result.map_or(0, |block| block.start);
        drop(note);
        if let Err(error) = launched.pending.and_then(|c| cache.arrive(&c)) {
            // The kernel has changed its operands, so the host cannot compute the result again.
            lost::end_process(result, &error);
        }
        let outcome = match cell {
            // If the device is lost, so is the value; a reduction has changed no operand.
            Some(cell) => {
                let value = cache.collect(cell, launched.kernel).ok()?;
                value::outcome(self.call.routine, self.call.dtype, &[value])
            }
            None => Outcome::Done(Value::ZERO),
        };
        COUNTERS.bytes.per_call.add(bytes);
        COUNTERS.cache.replayed.add(1);
        device.calls.add(1);
        device.tasks.add(1);
        Some(outcome)
    }
}

/// Ends a call that ran on devices. If the same call could be launched again without any change of state, its note is
/// stored, but not at the first time: most calls are never repeated.
pub(super) fn conclude(cache: &Cache, item: &Item, plan: &Plan, placed: &[Use], made: Made<'_>) {
    let Item { call, problem, .. } = item;
    let hash = hash(call);
    let repeats = || {
        // A replay launches one kernel; a part of the call is not the call.
        let [task] = plan.tasks.as_slice() else {
            return None;
        };
        if item.divided {
            return None;
        }
        let sets = SETS_OF_NOTES.get_or_init(|| (0..SETS).map(|_| Set::default()).collect());
        let set = Set::of(sets, hash).filter(|s| s.missed_before(hash))?;
        let blocks = item.blocks.iter().copied();
        Some((task, set, blocks.collect::<Option<Vec<Block>>>()?))
    };
    let Some((task, set, blocks)) = repeats() else {
        cache.conclude(&made);
        return;
    };
    // A replay sets the kernel's scalars from the call, so they must be the same here, and the task must use whole
    // operands.
    let whole = task.kernel.alpha == problem.alpha
        && task.kernel.beta == problem.beta
        && task
            .parts
            .iter()
            .copied()
            .eq((0..placed.len()).map(|i| problem.whole(i)));
    let reduces = problem.routine.reduces();
    let uses = whole.then(|| sched::uses(problem, task, placed));
    let found = cache.conclude(&Made {
        repeats: uses.as_deref().map(|uses| (task.device, uses)),
        ..made
    });
    let Some((resident, at)) = found else {
        // The call cannot be replayed now, so an older note of it is removed from the lookup.
        if let Some(way) = set.find(hash) {
            let _ = way
                .hash
                .compare_exchange(hash, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        return;
    };
    let note = Note {
        like: like(call),
        resident,
        kernel: kernel(task, &at),
        blocks: distinct(blocks),
        reduces,
        bytes: per_call_bytes(placed),
    };
    let way = set.room(hash);
    let Ok(mut held) = way.note.try_lock() else {
        return;
    };
    let writes_back = note.resident.writes_back();
    way.writes_back.store(writes_back, Ordering::Relaxed);
    *held = Some(Box::new(note));
    way.hash.store(hash, Ordering::Relaxed);
}

fn distinct(mut blocks: Vec<Block>) -> Vec<Block> {
    blocks.sort_by_key(|b| b.start);
    blocks.dedup_by_key(|b| b.id);
    blocks
}

/// Reduces a scalar to zero, one, or 2 for any other number.
fn kind(v: Value) -> Value {
    if v.is_zero() {
        Value::ZERO
    } else if v.is_one() {
        Value::ONE
    } else {
        Value { re: 2.0, im: 0.0 }
    }
}

/// The call with its scalars reduced by [`kind`].
fn like(call: &Call) -> Call {
    Call {
        alpha: kind(call.alpha),
        beta: kind(call.beta),
        ..*call
    }
}

/// A hash of the call that is never zero and the same for all calls that [`like`] makes equal.
fn hash(call: &Call) -> u64 {
    let flags = [
        call.form.side as u64,
        call.form.uplo as u64,
        call.form.diag as u64,
        call.op_a as u64,
        call.op_b as u64,
    ];
    let flags = flags.into_iter().fold(0, |all, flag| all << 2 | flag);
    let like = |v: Value| u64::from(v.is_zero()) + 2 * u64::from(v.is_one());
    let scalars = like(call.alpha) << 2 | like(call.beta);
    let head = call.routine as u64 | (call.dtype as u64) << 8 | scalars << 16 | flags << 24;
    let sizes = [call.m, call.n << 20, call.k << 40];
    let sizes = sizes
        .into_iter()
        .fold(0, |all, size| all ^ size.cast_unsigned());
    let places = call.operands().iter();
    let places = places.map(|p| p.addr as u64 ^ p.ld.cast_unsigned() << 47);
    let mixed = [sizes].into_iter().chain(places).fold(head, |h, word| {
        // The high bits of the product depend on all bits of the factors; the rotation moves them down, so that the
        // next product mixes them further.
        ((h ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)).rotate_left(29)
    });
    mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
}

/// What copying every operand in and every result out at this call would have moved.
pub(super) fn per_call_bytes(placed: &[Use]) -> u64 {
    let bytes = |o: &Use| {
        let times = match o.access {
            Access::Read | Access::Overwrite => 1,
            Access::Update => 2,
        };
        (o.view.bytes() * times) as u64
    };
    placed.iter().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Dtype, Op, Routine};

    fn gemv(beta: f64, y: usize, ldy: i64) -> Call {
        Call {
            op_a: Op::None,
            beta: Value { re: beta, im: 0.0 },
            ..Call::new(
                Routine::Gemv,
                Dtype::D,
                &[7, 8],
                &[(0x1000, 7), (0x2000, 1), (y, ldy)],
            )
        }
    }

    #[test]
    fn calls_that_meet_in_a_set_are_all_replayed() {
        let set = Set::default();
        let hashes: Vec<u64> = (1..=WAYS as u64).collect();
        for _ in 0..2 {
            for &h in &hashes {
                let again = set.missed_before(h);
                let way = set.room(h);
                if again {
                    way.hash.store(h, Ordering::Relaxed);
                }
            }
        }
        assert!(hashes.iter().all(|&h| set.find(h).is_some()));
        // A note beyond the number of ways replaces an older one.
        set.room(99).hash.store(99, Ordering::Relaxed);
        let left = hashes.iter().filter(|&&h| set.find(h).is_some());
        assert_eq!(left.count(), WAYS - 1);
    }

    #[test]
    fn calls_are_alike_up_to_the_value_of_scalars() {
        let base = gemv(0.5, 0x3000, 1);
        assert_eq!(like(&base), like(&gemv(-3.0, 0x3000, 1)));
        assert_eq!(hash(&base), hash(&gemv(f64::NAN, 0x3000, 1)));
        for other in [
            gemv(0.0, 0x3000, 1),
            gemv(1.0, 0x3000, 1),
            gemv(0.5, 0x3008, 1),
            gemv(0.5, 0x3000, -1),
        ] {
            assert_ne!(like(&base), like(&other));
            assert_ne!(hash(&base), hash(&other));
        }
    }
}
