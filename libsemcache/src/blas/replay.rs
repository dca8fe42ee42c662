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

use super::call::{Call, Outcome};
use super::checks::Item;
use super::mapped::{self, Inputs, Landed, Place, Sends};
use super::plain::{self, Plain};
use super::{names, section, value};
use crate::base::counters::{self, COUNTERS, PAGE, on_device};
use crate::base::heuristics::Heuristic;
use crate::base::{Interval, Value};
use crate::cache::call::Made;
use crate::cache::hot::Resident;
use crate::cache::lost;
use crate::cache::task::Use;
use crate::cache::{self, Cache};
use crate::device::api::{BUFFER_BYTES, Kernel, Operand};
use crate::host::{self, Block};
use crate::plan::{Access, Plan, Task};
use crate::policy::call_sites::{self, CallSites};
use crate::sched;
use crate::sched::kernel::kernel;

/// The note of a call that can be replayed.
#[derive(Debug)]
pub struct Note {
    /// The call with its scalars reduced to zero, one or another number.
    like: Call,
    resident: Resident,
    /// The kernel of the last ordinary call. A replay replaces its scalars and the address of a reduction's value.
    kernel: Kernel,
    blocks: Vec<Block>,
    reduces: bool,
    /// Bytes that copying all operands at every call would move.
    bytes: u64,
    /// The result, if the kernel leaves it in mapped memory.
    mapped: Option<(Place, Use)>,
    /// Inputs in memory of unknown lifetime, which each replay uploads.
    sent: Vec<Sent>,
    sends: Sends,
    /// Replays since the note was made.
    replays: u32,
    /// What the host BLAS would take.
    plain: Plain,
}

/// An input that each replay uploads from a buffer.
#[derive(Clone, Copy, Debug)]
struct Sent {
    part: usize,
    /// Where it begins in the buffer, and its step there.
    begin: usize,
    step: isize,
}

/// One in this many replays with operands in buffers takes the ordinary path: nothing else would ask again whether the call belongs on
/// devices, as the CPU's accesses to these operands change nothing.
const ASKED: u32 = 32;

/// The call sites of the program.
pub type Sites = CallSites<Note>;

/// A call that may be replayed.
#[derive(Debug)]
pub struct Known<'a> {
    call: &'a Call,
    place: call_sites::Place<'a, Note>,
}

/// Whether the call of this key may be replayed. Takes no lock, so signals need not be blocked.
#[must_use]
pub fn known<'a>(sites: &'a Sites, call: &'a Call, key: u64) -> Option<Known<'a>> {
    let place = sites.replays(key)?;
    Some(Known { call, place })
}

impl Known<'_> {
    /// Whether a replay may write host memory. Then the caller first touches the first and last bytes of the operands:
    /// while the replay runs signals are blocked, so the program's handlers could not see a fault.
    #[must_use]
    pub fn writes_back(&self) -> bool {
        self.place.writes_back()
    }

    /// The inputs that a replay uploads.
    #[must_use]
    pub fn sends(&self) -> Sends {
        Sends::of_site(self.place.sends())
    }

    /// Replays the call if its operands are unchanged, and counts it as offloaded. A result in mapped memory is returned, too.
    /// `None`: nothing was launched, and the call takes the ordinary path.
    #[must_use]
    pub fn again(
        &self,
        cache: &Cache,
        inputs: Option<&Inputs>,
    ) -> Option<(Outcome, Option<Landed>)> {
        let (outcome, landed, plain) = self.launched(cache, inputs)?;
        plain::set(plain);
        counters::offloaded(names::index(self.call.routine, self.call.dtype));
        Some((outcome, landed))
    }

    /// As [`Known::again`] without counting a call, for a product of a batch.
    pub(super) fn launch(&self, cache: &Cache) -> Option<Option<Landed>> {
        self.launched(cache, None).map(|(_, landed, _)| landed)
    }

    fn launched(
        &self,
        cache: &Cache,
        inputs: Option<&Inputs>,
    ) -> Option<(Outcome, Option<Landed>, Plain)> {
        // If another thread replays the same call, this one takes the ordinary path.
        let mut site = self.place.site()?;
        let like = like(self.call);
        let note_of = site.replay.as_deref_mut().filter(|n| n.like == like)?;
        if note_of.mapped.is_some() && section::is_open() {
            return None;
        }
        if !note_of.blocks.iter().all(host::stands) {
            return None;
        }
        if note_of.mapped.is_some() || !note_of.sent.is_empty() {
            note_of.replays += 1;
            if note_of.replays.is_multiple_of(ASKED) {
                return None;
            }
        }
        let record = self.call.routine.record();
        let mut kernel = Kernel {
            alpha: record.alpha.take(self.call.alpha),
            beta: record.beta.take(self.call.beta),
            ..note_of.kernel
        };
        let on = note_of.resident.device();
        let sent = match inputs {
            _ if note_of.sent.is_empty() => None,
            Some(inputs) if inputs.sends == note_of.sends => {
                let (base, upload) = inputs.upload(cache)?;
                for sent in &note_of.sent {
                    let addr = base + sent.begin as u64;
                    let step = sent.step;
                    kernel.at[sent.part] = Operand { addr, step };
                }
                Some(upload)
            }
            _ => return None,
        };
        // Before the buffer of the inputs is given back.
        let refused = || {
            if let Some(upload) = sent {
                let _ = cache.backend().wait(upload);
            }
        };
        let cell = match &note_of.mapped {
            None if note_of.reduces => {
                let Some(cell) = cache.take_cell(on) else {
                    refused();
                    return None;
                };
                kernel.out = cell.addr();
                Some(cell)
            }
            None => None,
            Some((place, _)) => {
                let Some(buffer) = cache.take_buffer(on) else {
                    refused();
                    return None;
                };
                kernel.at[place.part] = place.at(&buffer);
                Some(buffer)
            }
        };
        // A result in memory of unknown lifetime always goes this way.
        let result = note_of.mapped.as_ref().map(|(_, u)| (u.id, u.view));
        let result = result.filter(|(id, _)| !cache::is_transient(*id));
        // SAFETY: the kernel was made from the addresses that came with `resident`; only its scalars were changed, and
        // the address of a value or a result, which is that of a cell or a buffer taken for this call alone.
        let launched = unsafe { cache.again(&mut note_of.resident, &kernel, result, sent) };
        let device = on_device(note_of.resident.device());
        let Ok(Some(launched)) = launched else {
            if let Some(cell) = cell {
                cache.give_cell(cell);
            }
            refused();
            // If a device refused the launch, the ordinary path meets the refusal again and handles it.
            return None;
        };
        for block in &note_of.blocks {
            if let Some(matrix) = PAGE.matrices.find(block.start) {
                matrix.calls.add(1);
            }
        }
        let (bytes, mapped, plain) = (note_of.bytes, note_of.mapped.clone(), note_of.plain);
        // The site is unlocked before the call waits for the kernel, so that other threads can replay calls meanwhile.
        let writes_back = note_of.resident.writes_back();
        self.place.set_writes_back(writes_back);
        let written = note_of.resident.written();
        if let Some(id) = written {
            section::writes(id, Interval::new(0, usize::MAX), &|id| cache.knows(id));
        }
        let result = note_of
            .blocks
            .iter()
            .find(|block| Some(block.id) == written);
        let result = result.map_or(0, |block| block.start);
        drop(site);
        if let Err(error) = launched.pending.and_then(|c| cache.arrive(&c)) {
            // The kernel has changed its operands, so the host cannot compute the result again.
            lost::end_process(result, &error);
        }
        let (outcome, landed) = match (cell, mapped) {
            // If the device is lost, so is the value or the result; the call has changed no operand.
            (Some(buffer), Some((_, operand))) => {
                cache.backend().wait(launched.kernel).ok()?;
                let landed = mapped::land(cache, buffer, &operand);
                (Outcome::Done(Value::ZERO), landed)
            }
            (Some(cell), None) => {
                let value = cache.collect(cell, launched.kernel).ok()?;
                let outcome = value::outcome(self.call.routine, self.call.dtype, &[value]);
                (outcome, None)
            }
            (None, _) => (Outcome::Done(Value::ZERO), None),
        };
        COUNTERS.bytes.per_call.add(bytes);
        COUNTERS.cache.replayed.add(1);
        self.place.count_replay();
        device.calls.add(1);
        device.tasks.add(1);
        Some((outcome, landed, plain))
    }
}

/// Ends a call that ran on devices. If the same call could be launched again without any change of state, its note is
/// stored, but not at the first time: most calls are never repeated.
pub(super) fn conclude(
    (cache, sites): (&Cache, &Sites),
    item: &Item,
    plan: &Plan,
    (placed, mapped): (&[Use], Option<Place>),
    made: Made<'_>,
) {
    let Item {
        call, problem, key, ..
    } = item;
    let repeats = || {
        // A replay launches one kernel; a part of the call is not the call.
        let [task] = plan.tasks.as_slice() else {
            return None;
        };
        if item.divided {
            return None;
        }
        let mut again = false;
        if sites.uses(Heuristic::Replay) {
            sites.with(*key, |site| {
                again = core::mem::replace(&mut site.computed, true)
            });
        }
        again.then_some(task)
    };
    let reduces = problem.routine.reduces();
    let found = repeats().and_then(|task| {
        // A replay that uploads inputs waits for its kernel, which reads them.
        let waits = reduces || mapped.is_some();
        let sent = sent(item, task, placed, mapped.as_ref(), waits)?;
        let operands = sent.iter().map(|s| task.parts[s.part].operand);
        let sends = Sends::new(task.device, operands);
        let uses = sites.uses(Heuristic::Mapped) && cache.takes_inputs(task.device);
        (sends.is_empty() || uses).then_some((task, sent, sends))
    });
    let Some((task, sent, sends)) = found else {
        cache.conclude(&made);
        return;
    };
    let absent =
        |j: usize| mapped.is_some_and(|place| place.part == j) || sent.iter().any(|s| s.part == j);
    // A replay sets the kernel's scalars from the call, so they must be the same here, and the task must use whole
    // operands.
    let whole = task.kernel.alpha == problem.alpha
        && task.kernel.beta == problem.beta
        && task
            .parts
            .iter()
            .copied()
            .eq((0..placed.len()).map(|i| problem.whole(i)));
    let uses: Option<Vec<Use>> = whole.then(|| {
        let uses = sched::uses(problem, task, placed).into_iter().enumerate();
        let present = uses.filter(|(j, _)| !absent(*j));
        present.map(|(_, u)| u).collect()
    });
    let found = cache.conclude(&Made {
        repeats: uses.as_deref().map(|uses| (task.device, uses)),
        ..made
    });
    let note = found.map(|(resident, at)| {
        let mut at = at.into_iter();
        let each = (0..task.parts.len()).map(|j| {
            // Each replay has buffers of its own.
            let present = (!absent(j)).then(|| at.next());
            present.flatten().unwrap_or_default()
        });
        let each: Vec<Operand> = each.collect();
        Note {
            like: like(call),
            resident,
            kernel: kernel(task, &each),
            blocks: distinct(item.blocks.iter().copied().flatten().collect()),
            reduces,
            bytes: per_call_bytes(placed),
            mapped: mapped.map(|place| (place, placed[place.operand].clone())),
            sent: sent.clone(),
            sends,
            replays: 0,
            plain: plain::get().each(),
        }
    });
    let writes_back = note
        .as_ref()
        .is_some_and(|note| note.resident.writes_back());
    // Without a note, an older one of the call is removed: the call cannot be replayed now.
    sites.with(*key, |site| {
        site.set_replay(note, writes_back, sends.number());
    });
}

/// The inputs that a replay of a call uploads, as their memory belongs to no block; `None` if the call cannot be replayed.
fn sent(
    item: &Item,
    task: &Task,
    placed: &[Use],
    mapped: Option<&Place>,
    waits: bool,
) -> Option<Vec<Sent>> {
    let problem = &item.problem;
    let mut found = Vec::new();
    for (part, operand) in task.parts.iter().map(|p| p.operand).enumerate() {
        if item.blocks[operand].is_some() || mapped.is_some_and(|place| place.part == part) {
            continue;
        }
        let read = problem.access(operand) == Access::Read;
        let all = problem.routine.triangle() != Some(operand);
        if !(waits && read && all && mapped::passes(&placed[operand].view)) {
            return None;
        }
        let step = placed[operand].step_at(placed[operand].view.stride);
        found.push((part, operand, step));
    }
    // As `Known::sends` names them: in the order of the operands.
    found.sort_by_key(|(_, operand, _)| *operand);
    let views = found.iter().map(|(_, operand, _)| &placed[*operand].view);
    let (begins, bytes) = mapped::in_a_row(views);
    let sent = found
        .iter()
        .zip(begins)
        .map(|(&(part, _, step), begin)| Sent { part, begin, step });
    (bytes <= BUFFER_BYTES).then(|| sent.collect())
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
