//! Replay of calls: a BLAS call that the program repeats on operands that have not changed is launched again without a
//! new check, decision or plan.
//!
//! A program that works on resident operands makes the same calls over and over. The second call of a kind leaves a
//! note: its kernels (one, but of a call of level 1 one for each part of its vectors), and the replicas that their operands lie in
//! ([`Cache::conclude`]). From then on the call needs no
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
use crate::base::ids::MAX_DEVICES;
use crate::base::{DeviceId, Interval, Value};
use crate::cache::call::Made;
use crate::cache::cells::Taken;
use crate::cache::hot::{Again, Resident};
use crate::cache::lost;
use crate::cache::task::Use;
use crate::cache::{self, Cache};
use crate::device::api::{BUFFER_BYTES, Kernel, Operand};
use crate::host::{self, Block};
use crate::plan::{self, Access, Plan, Task};
use crate::policy::call_sites::{self, CallSites};
use crate::sched;
use crate::sched::kernel::kernel;
use smallvec::SmallVec;

/// The note of a call that can be replayed.
#[derive(Debug)]
pub struct Note {
    /// The call with its scalars reduced to zero, one or another number.
    like: Call,
    parts: Vec<Part>,
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

/// A kernel of the last ordinary call, and where its operands lie. A replay replaces the kernel's scalars and the address of a reduction's
/// value.
#[derive(Debug)]
struct Part {
    resident: Resident,
    kernel: Kernel,
}

/// How a replay ended.
#[derive(Debug)]
pub enum Replayed {
    /// The call is done. A result in mapped memory is still to be copied.
    Whole(Outcome, Option<Landed>),
    /// A device has refused a part: of the vectors the elements from this one on are not computed.
    Until(usize),
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

    /// Replays the call if its operands are unchanged, and counts it as offloaded if it is done.
    /// `None`: no operand has changed, and the call takes the ordinary path.
    #[must_use]
    pub fn again(&self, cache: &Cache, inputs: Option<&Inputs>) -> Option<Replayed> {
        let (replayed, plain) = self.launched(cache, inputs)?;
        if matches!(replayed, Replayed::Whole(..)) {
            plain::set(plain);
            counters::offloaded(names::index(self.call.routine, self.call.dtype));
        }
        Some(replayed)
    }

    /// As [`Known::again`] without counting a call, for a product of a batch, which has no parts.
    pub(super) fn launch(&self, cache: &Cache) -> Option<Option<Landed>> {
        match self.launched(cache, None)? {
            (Replayed::Whole(_, landed), _) => Some(landed),
            (Replayed::Until(_), _) => None,
        }
    }

    fn launched(&self, cache: &Cache, inputs: Option<&Inputs>) -> Option<(Replayed, Plain)> {
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
        let again = note_of.parts.iter_mut().map(|part| Again {
            kernel: Kernel {
                alpha: record.alpha.take(self.call.alpha),
                beta: record.beta.take(self.call.beta),
                ..part.kernel
            },
            resident: &mut part.resident,
        });
        let mut parts: SmallVec<[Again<'_>; 1]> = again.collect();
        let first = parts.first_mut()?;
        let on = first.resident.device();
        // Only calls of one kernel have inputs that are sent, or a result in mapped memory.
        let sent = match inputs {
            _ if note_of.sent.is_empty() => None,
            Some(inputs) if inputs.sends == note_of.sends => {
                let (base, upload) = inputs.upload(cache)?;
                for sent in &note_of.sent {
                    let addr = base + sent.begin as u64;
                    let step = sent.step;
                    first.kernel.at[sent.part] = Operand { addr, step };
                }
                Some(upload)
            }
            _ => return None,
        };
        let mut cells: SmallVec<[Taken; 1]> = SmallVec::new();
        // Before the buffer of the inputs is given back.
        let refused = |cells: SmallVec<[Taken; 1]>| {
            cells.into_iter().for_each(|cell| cache.give_cell(cell));
            if let Some(upload) = sent {
                let _ = cache.backend().wait(upload);
            }
        };
        match &note_of.mapped {
            None if note_of.reduces => {
                for part in &mut parts {
                    let Some(cell) = cache.take_cell(part.resident.device()) else {
                        refused(cells);
                        return None;
                    };
                    part.kernel.out = cell.addr();
                    cells.push(cell);
                }
            }
            None => {}
            Some((place, _)) => {
                let Some(buffer) = cache.take_buffer(on) else {
                    refused(cells);
                    return None;
                };
                first.kernel.at[place.part] = place.at(&buffer);
                cells.push(buffer);
            }
        }
        // A result in memory of unknown lifetime always goes this way.
        let result = note_of.mapped.as_ref().map(|(_, u)| (u.id, u.view));
        let result = result.filter(|(id, _)| !cache::is_transient(*id));
        // SAFETY: the kernels were made from the addresses that came with `resident`; only their scalars were changed, and
        // the addresses of a value or a result, which are those of cells or a buffer taken for this call alone.
        let launched = unsafe { cache.again(&mut parts, result, sent) };
        let Ok(Some(launched)) = launched else {
            refused(cells);
            // If a device refused the launch, the ordinary path meets the refusal again and handles it.
            return None;
        };
        for block in &note_of.blocks {
            if let Some(matrix) = PAGE.matrices.find(block.start) {
                matrix.calls.add(1);
            }
        }
        let begun = launched.kernels.len();
        let devices: SmallVec<[DeviceId; 2]> =
            parts[..begun].iter().map(|p| p.resident.device()).collect();
        let done: usize = parts[..begun].iter().map(|p| p.kernel.m).sum();
        let complete = begun == parts.len();
        // The site is unlocked before the call waits for the kernels, so that other threads can replay calls meanwhile.
        let writes_back = parts.iter().any(|p| p.resident.writes_back());
        let written = parts.first().and_then(|p| p.resident.written());
        drop(parts);
        let (bytes, mapped, plain) = (note_of.bytes, note_of.mapped.clone(), note_of.plain);
        self.place.set_writes_back(writes_back);
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
        if !complete {
            let reduces = !cells.is_empty();
            // The cells are given back when no kernel will write them.
            for kernel in launched.kernels {
                let _ = cache.backend().wait(kernel);
            }
            refused(cells);
            return (!reduces).then_some((Replayed::Until(done), plain));
        }
        let (outcome, landed) = match mapped {
            // If a device is lost, so is the value or the result; the call has changed no operand.
            Some((_, operand)) => {
                let (kernel, buffer) = (launched.kernels.first(), cells.pop());
                cache.backend().wait(*kernel?).ok()?;
                let landed = mapped::land(cache, buffer?, &operand);
                (Outcome::Done(Value::ZERO), landed)
            }
            None if !cells.is_empty() => {
                let kernels = launched.kernels.iter();
                let values = cells.into_iter().zip(kernels);
                let values = values.map(|(cell, kernel)| cache.collect(cell, *kernel));
                // Each cell is given back, also if another one's device is lost.
                let values: SmallVec<[_; 1]> = values.collect();
                let values: Result<SmallVec<[_; 1]>, _> = values.into_iter().collect();
                let outcome = value::outcome(self.call.routine, self.call.dtype, &values.ok()?);
                (outcome, None)
            }
            None => (Outcome::Done(Value::ZERO), None),
        };
        COUNTERS.bytes.per_call.add(bytes);
        COUNTERS.cache.replayed.add(1);
        self.place.count_replay();
        for (i, id) in devices.iter().enumerate() {
            let device = on_device(*id);
            device.tasks.add(1);
            if !devices[..i].contains(id) {
                device.calls.add(1);
            }
        }
        Some((Replayed::Whole(outcome, landed), plain))
    }
}

/// The most kernels of a call that is replayed.
const MOST_PARTS: usize = 2 * MAX_DEVICES;

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
        // A part of the call is not the call.
        if item.divided || plan.tasks.len() > MOST_PARTS {
            return None;
        }
        let (first, others) = plan.tasks.split_first()?;
        if !others.is_empty() && !plan::divides(problem) {
            return None;
        }
        let mut again = false;
        if sites.uses(Heuristic::Replay) {
            sites.with(*key, |site| {
                again = core::mem::replace(&mut site.computed, true)
            });
        }
        again.then_some(first)
    };
    let reduces = problem.routine.reduces();
    let found = repeats().and_then(|task| {
        // A replay that uploads inputs waits for its kernel, which reads them.
        let waits = reduces || mapped.is_some();
        let sent = sent(item, task, placed, mapped.as_ref(), waits)?;
        let operands = sent.iter().map(|s| task.parts[s.part].operand);
        let sends = Sends::new(task.device, operands);
        let uses = sites.uses(Heuristic::Mapped) && cache.takes_inputs(task.device);
        let alone = plan.tasks.len() == 1;
        let may = sends.is_empty() && (alone || mapped.is_none()) || alone && uses;
        may.then_some((sent, sends))
    });
    let Some((sent, sends)) = found else {
        cache.conclude(&made);
        return;
    };
    let absent =
        |j: usize| mapped.is_some_and(|place| place.part == j) || sent.iter().any(|s| s.part == j);
    // A replay sets the kernels' scalars from the call, so they must be the same here, and the tasks must use whole
    // operands: one all of them, several of a call of level 1 each a part.
    let whole = plan.tasks.iter().all(|task| {
        let scalars = task.kernel.alpha == problem.alpha && task.kernel.beta == problem.beta;
        let all = (0..placed.len()).map(|i| problem.whole(i));
        scalars && (plan.tasks.len() > 1 || task.parts.iter().copied().eq(all))
    });
    let uses_of = |task: &Task| {
        let uses = sched::uses(problem, task, placed).into_iter().enumerate();
        let present = uses.filter(|(j, _)| !absent(*j));
        (task.device, present.map(|(_, u)| u).collect())
    };
    let repeats: Vec<(DeviceId, Vec<Use>)> = match whole {
        true => plan.tasks.iter().map(uses_of).collect(),
        false => Vec::new(),
    };
    let found = cache.conclude(&Made {
        repeats: &repeats,
        ..made
    });
    let note = found.map(|found| {
        let part = |(task, (resident, at)): (&Task, (Resident, Vec<Operand>))| {
            let mut at = at.into_iter();
            let each = (0..task.parts.len()).map(|j| {
                // Each replay has buffers of its own.
                let present = (!absent(j)).then(|| at.next());
                present.flatten().unwrap_or_default()
            });
            let each: Vec<Operand> = each.collect();
            let kernel = kernel(task, &each);
            Part { resident, kernel }
        };
        Note {
            like: like(call),
            parts: plan.tasks.iter().zip(found).map(part).collect(),
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
        .is_some_and(|note| note.parts.iter().any(|part| part.resident.writes_back()));
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
