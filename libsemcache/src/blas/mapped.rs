//! Small operands that pass through page-locked buffers of the runtime's own, contiguous ones of up to [`BUFFER_BYTES`].
//!
//! *Mapped results*: the kernel of a call writes its result to a buffer, and the calling thread copies it to the program's memory. No copy
//! by the device is queued, and no page is protected for the result: where only the CPU reads it, a device need not keep it. (Mapped
//! memory: van Werkhoven et al., CCGrid 2014, section III-A.)
//!
//! *Inputs of replays*: where an input lies in memory of unknown lifetime, the calling thread copies it to a buffer, from which it is
//! uploaded.
//!
//! The driver's page-locked memory is shared with a child of `fork`. So while a call has a buffer, its thread blocks signals: no handler
//! of the program forks meanwhile. A copy that faults gives up: of an input, the call takes the ordinary path; a result is moved to memory
//! of the process's own first, and stored when signals are no longer blocked.
#![expect(unsafe_code, reason = "loads inputs and stores results of a call")]

use smallvec::SmallVec;

use crate::base::counters::COUNTERS;
use crate::base::{DeviceId, Rect};
use crate::cache::cells::Taken;
use crate::cache::copied::copied;
use crate::cache::task::Use;
use crate::cache::{Cache, changed};
use crate::device::api::{BUFFER_BYTES, Operand, Ticket};
use crate::plan::{Access, Plan, Problem};

/// Operands in a buffer begin at multiples of this.
const ALIGN: usize = 256;

/// Whether an operand can pass through a buffer. A matrix keeps its leading dimension there, as in a replica: kernels of a library may
/// depend on it.
pub(super) fn passes(view: &Rect) -> bool {
    view.count == 1 && view.width <= BUFFER_BYTES
}

/// Where operands lie in one buffer, one behind the other: of each its first byte, and then the number of all bytes.
pub(super) fn in_a_row<'a>(views: impl Iterator<Item = &'a Rect>) -> (SmallVec<[usize; 3]>, usize) {
    let (mut begins, mut end) = (SmallVec::new(), 0_usize);
    for view in views {
        begins.push(end);
        end = (end + view.width).next_multiple_of(ALIGN);
    }
    (begins, end)
}

/// The inputs that a replay uploads, and the device that it runs on, as the number that a call's site keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sends(u64);

impl Sends {
    /// The bits that stand for operands; the device follows.
    const OPERANDS: u32 = 8;

    pub(super) fn new(device: DeviceId, operands: impl Iterator<Item = usize>) -> Sends {
        let mask = operands.fold(0, |all, operand| all | 1 << operand);
        let device = (device.index() as u64) << Self::OPERANDS;
        Sends(if mask == 0 { 0 } else { mask | device })
    }

    /// What a site keeps.
    pub(super) const fn of_site(number: u64) -> Sends {
        Sends(number)
    }

    pub(super) const fn number(self) -> u64 {
        self.0
    }

    /// Whether a replay uploads nothing.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn device(self) -> DeviceId {
        DeviceId::at((self.0 >> Self::OPERANDS) as usize)
    }

    pub(super) const fn has(self, operand: usize) -> bool {
        self.0 >> operand & 1 == 1
    }
}

/// Inputs of a call that the calling thread has copied to a buffer, from which a replay uploads them.
#[derive(Debug)]
pub struct Inputs {
    taken: Taken,
    pub(super) bytes: usize,
    pub(super) sends: Sends,
}

impl Inputs {
    /// Copies inputs at these addresses, those that `sends` names, to a buffer of its device; `None` if they do not fit, a load faults,
    /// or all buffers are in use. The caller holds no lock, and has blocked signals.
    pub(super) fn copy(cache: &Cache, places: &[Rect], sends: Sends) -> Option<Inputs> {
        let (begins, bytes) = in_a_row(places.iter());
        if bytes > BUFFER_BYTES || !places.iter().all(passes) {
            return None;
        }
        let taken = cache.take_buffer(sends.device())?;
        let all = places.iter().zip(begins).all(|(place, begin)| {
            // SAFETY: the source are bytes of an input, which the program's call promises to be readable, or the load faults; the
            // destination are bytes of the buffer that this call has taken, as many as `in_a_row` has found to fit.
            unsafe { copied(place.start, taken.host() + begin, place.width) }
        });
        let inputs = Inputs {
            taken,
            bytes,
            sends,
        };
        if !all {
            inputs.give(cache);
            return None;
        }
        Some(inputs)
    }

    /// Queues the upload: the address on the device, and the copy's ticket.
    pub(super) fn upload(&self, cache: &Cache) -> Option<(u64, Ticket)> {
        cache.upload_buffer(&self.taken, self.bytes)
    }

    /// Gives the buffer back: no copy in flight reads it, and the kernel that read what was uploaded is complete.
    pub fn give(self, cache: &Cache) {
        cache.give_cell(self.taken);
    }
}

/// A result that a kernel leaves in a buffer.
#[derive(Debug)]
pub(super) struct Mapped {
    taken: Taken,
    pub(super) place: Place,
}

/// Where a result lies in a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The index of the operand in the call, and in its kernel.
    pub(super) operand: usize,
    pub(super) part: usize,
    /// [`Operand::step`].
    step: isize,
}

impl Place {
    /// Where the result of a call would lie in a buffer; `None` if it cannot be left in one: the call has several tasks or results, reads
    /// the old result or writes it in part, or the buffer is too small.
    pub(super) fn of(problem: &Problem, plan: &Plan, operands: &[Use]) -> Option<Place> {
        let [task] = plan.tasks.as_slice() else {
            return None;
        };
        let mut written = (0..operands.len()).filter(|&i| problem.access(i) != Access::Read);
        let operand = written.next().filter(|_| written.next().is_none())?;
        let mut parts = (0..task.parts.len()).filter(|&j| task.parts[j].operand == operand);
        let part = parts.next().filter(|_| parts.next().is_none())?;
        let whole = problem.whole(operand);
        let overwritten = whole.access == Access::Overwrite && task.parts[part] == whole;
        let all = problem.routine.triangle() != Some(operand);
        let view = &operands[operand].view;
        (overwritten && all && passes(view)).then(|| Place {
            operand,
            part,
            step: operands[operand].step_at(view.stride),
        })
    }

    /// The result in a buffer, as a kernel's operand.
    pub(super) fn at(&self, taken: &Taken) -> Operand {
        Operand {
            addr: taken.addr(),
            step: self.step,
        }
    }
}

impl Mapped {
    /// Takes a buffer for a result; `None` if all are in use.
    pub(super) fn new(cache: &Cache, plan: &Plan, place: Place) -> Option<Mapped> {
        let device = plan.tasks.first()?.device;
        let taken = cache.take_buffer(device)?;
        Some(Mapped { taken, place })
    }

    /// The operand of the kernel.
    pub(super) fn at(&self) -> Operand {
        self.place.at(&self.taken)
    }

    /// Gives the buffer back: no kernel was queued that writes it.
    pub(super) fn give(self, cache: &Cache) {
        cache.give_cell(self.taken);
    }

    /// As [`land`]; `operands` are those of the call.
    pub(super) fn land(self, cache: &Cache, operands: &[Use]) -> Option<Landed> {
        land(cache, self.taken, &operands[self.place.operand])
    }
}

/// Copies a result from its buffer, whose kernel is complete, to the program's memory, and gives the buffer back. If a store faults, as the
/// page is protected, the result is returned. The caller holds no lock, and has blocked signals.
pub(super) fn land(cache: &Cache, taken: Taken, operand: &Use) -> Option<Landed> {
    let (at, len) = (operand.addr(), operand.view.width);
    changed::begun(at);
    // SAFETY: the source are bytes of the buffer that this call has taken, which its kernel has written; the destination are bytes of
    // the call's result, which the program promised to be writable, or the store faults.
    let stored = unsafe { copied(taken.host(), at, len) };
    let landed = (!stored).then(|| {
        let from = core::ptr::with_exposed_provenance::<u8>(taken.host());
        // SAFETY: as above; no kernel writes them any more.
        let bytes = unsafe { core::slice::from_raw_parts(from, len) };
        let bytes = bytes.into();
        Landed { at, bytes }
    });
    COUNTERS.bytes.mapped.add(len as u64);
    COUNTERS.cache.mapped.add(1);
    cache.give_cell(taken);
    landed
}

/// A result that is to be stored to the program's memory.
#[derive(Debug)]
#[must_use = "the call's result is there only"]
pub struct Landed {
    at: usize,
    bytes: Box<[u8]>,
}

impl Landed {
    /// Stores the result. The caller holds no lock and has blocked no signal: a store to a page that is inaccessible or read-only faults
    /// and is served as a store of the program is, and the program's handlers may leave by a jump.
    pub fn store(self) {
        let to = core::ptr::with_exposed_provenance_mut::<u8>(self.at);
        // SAFETY: bytes of the call's result, which the program promised to be writable.
        unsafe { core::ptr::copy_nonoverlapping(self.bytes.as_ptr(), to, self.bytes.len()) };
    }
}
