//! Small operands that pass through page-locked buffers of the runtime's own. Results in mapped host memory: the kernel of a call writes a small result to a page-locked buffer of the runtime's own, and the
//! calling thread copies it to the program's memory. No copy by the device is queued, and no page is protected for the result: where
//! only the CPU reads it, a device need not keep it. (Mapped memory: van Werkhoven et al., CCGrid 2014, section III-A.)
#![expect(unsafe_code, reason = "loads inputs and stores results of a call")]

use crate::base::counters::{COUNTERS, devices};
use crate::base::{DeviceId, Rect};
use crate::cache::cells::Taken;
use crate::cache::task::{Use, packed};
use crate::cache::{Cache, changed};
use crate::device::api::{BUFFER_BYTES, Operand, Ticket};
use crate::plan::{Access, Plan, Problem};

/// Columns of fewer bytes than this are not copied one by one.
const NARROW: usize = 64;

/// Operands in a buffer begin at multiples of this.
const ALIGN: usize = 256;

/// Whether an operand can pass through a buffer: it is small, and has no short columns.
pub(super) fn passes(view: &Rect) -> bool {
    let (bytes, _) = packed(view);
    bytes <= BUFFER_BYTES && (view.count == 1 || view.width >= NARROW)
}

/// Where operands lie in one buffer, one behind the other: of each its first byte, and then the number of all bytes.
pub(super) fn in_a_row<'a>(views: impl Iterator<Item = &'a Rect>) -> (Vec<usize>, usize) {
    let (mut begins, mut end) = (Vec::with_capacity(3), 0_usize);
    for view in views {
        begins.push(end);
        end = (end + packed(view).0).next_multiple_of(ALIGN);
    }
    (begins, end)
}

/// Inputs of a call that the calling thread has copied to a buffer, from which a replay uploads them.
#[derive(Debug)]
pub struct Inputs {
    taken: Taken,
    pub(super) bytes: usize,
}

impl Inputs {
    /// Copies inputs at these addresses to a buffer of the device; `None` if they do not fit, or all buffers are in use. The caller holds
    /// no lock and has blocked no signal, as in [`Landed::store`].
    pub(super) fn copy(cache: &Cache, device: DeviceId, places: &[Rect]) -> Option<Inputs> {
        let (begins, bytes) = in_a_row(places.iter());
        if bytes > BUFFER_BYTES {
            return None;
        }
        let taken = cache.take_buffer(device)?;
        for (place, begin) in places.iter().zip(begins) {
            let (_, pitch) = packed(place);
            for (i, run) in place.runs().enumerate() {
                let from = core::ptr::with_exposed_provenance::<u8>(run.start);
                let at = taken.host() + begin + i * pitch;
                let to = core::ptr::with_exposed_provenance_mut::<u8>(at);
                // SAFETY: the source are bytes of an input, which the program's call promises to be readable; the destination
                // are bytes of the buffer that this call has taken, as many as `in_a_row` has found to fit.
                unsafe { core::ptr::copy_nonoverlapping(from, to, run.len()) };
            }
        }
        Some(Inputs { taken, bytes })
    }

    /// Queues the upload: the address on the device, and the copy's ticket.
    pub(super) fn upload(&self, cache: &Cache) -> Option<(u64, Ticket)> {
        cache.upload_buffer(&self.taken, self.bytes)
    }

    /// The device whose buffer it is.
    pub(super) fn device(&self) -> DeviceId {
        self.taken.device()
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
    /// Distance between columns in the buffer, and [`Operand::step`] there.
    pitch: usize,
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
        let view = &operands[operand].view;
        let (_, pitch) = operands[operand].packed();
        let fits = passes(view);
        let all = problem.routine.triangle() != Some(operand);
        (overwritten && fits && all).then(|| Place {
            operand,
            part,
            pitch,
            step: operands[operand].step_at(pitch),
        })
    }

    /// The result in this buffer, once its kernel is complete.
    pub(super) fn landed(&self, taken: Taken, operand: &Use) -> Landed {
        let Rect {
            width,
            stride,
            count,
            ..
        } = operand.view;
        Landed {
            taken,
            pitch: self.pitch,
            place: Rect::new(operand.addr(), width, stride, count),
        }
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

    /// The result, once its kernel is complete; `operands` are those of the call.
    pub(super) fn landed(self, operands: &[Use]) -> Landed {
        self.place.landed(self.taken, &operands[self.place.operand])
    }
}

/// A result in a buffer that no kernel writes any more, to be copied to the program's memory.
#[derive(Debug)]
#[must_use = "the call's result is there only"]
pub struct Landed {
    taken: Taken,
    pitch: usize,
    /// The addresses of the result.
    place: Rect,
}

impl Landed {
    /// Copies the result. The caller holds no lock and has blocked no signal: a store to a page that is inaccessible or read-only faults
    /// and is served as a store of the program is. If a handler of the program leaves by a jump, the buffer is never used again.
    pub fn store(self, cache: &Cache) {
        let Landed {
            taken,
            pitch,
            place,
        } = self;
        changed::begun(place.start);
        for (i, run) in place.runs().enumerate() {
            let from = core::ptr::with_exposed_provenance::<u8>(taken.host() + i * pitch);
            let to = core::ptr::with_exposed_provenance_mut::<u8>(run.start);
            // SAFETY: the source are bytes of the buffer that this call has taken, which its kernel has written; the destination
            // are bytes of the call's result, which the program promised to be writable.
            unsafe { core::ptr::copy_nonoverlapping(from, to, run.len()) };
        }
        let bytes = place.bytes() as u64;
        COUNTERS.bytes.d2h.add(bytes);
        devices::on(taken.device()).d2h.add(bytes);
        COUNTERS.cache.mapped.add(1);
        cache.give_cell(taken);
    }
}
