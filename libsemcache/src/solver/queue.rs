//! What a system queues: copies of its matrices, kernels of solvers, and the way of the results into their place.

#![expect(
    unsafe_code,
    reason = "queues solvers on replicas of the program's matrices"
)]

use super::pivoting::WIDTH;
use super::system::{System, adjoint};
use crate::base::counters::COUNTERS;
use crate::base::dense::{DenseKernel, Step};
use crate::base::{DeviceId, Intent, Rect, Routine, Solver};
use crate::cache::lost::{self, HostCopy};
use crate::cache::room::Room;
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError};
use crate::device::api::{Kernel, Operand};
use crate::hints::Status;
use crate::hints::view::View;
use crate::sparse::arrays::{Own, Placed};

/// Replicas of what a kernel uses, gaps between columns included.
pub(super) const ROOM: Room<'static> = Room::Whole { flat: true };
/// An address that no kernel is launched with: a question to a device needs one.
const SOME_ADDRESS: u64 = 1 << 40;
/// Bytes before the pivots, or the scalar factors of reflectors, in a device's answer. The first are INFO of the factorization, those at
/// `OF_SECOND` INFO of the step by its factor; those between `SUMS` and `OF_SECOND` are sums, of 8 bytes at most each.
pub(super) const HEAD: usize = 256;
pub(super) const OF_SECOND: usize = 128;
pub(super) const SUMS: usize = 8;

/// Why a device did not compute a system. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It has no room for the matrices and their copies.
    NoRoom,
    /// It refused an operation or is lost, or cannot use the program's memory.
    Other,
}

impl From<CacheError> for Refused {
    fn from(error: CacheError) -> Refused {
        log::debug!("a solver: {error:?}");
        match error {
            CacheError::NoRoom => Refused::NoRoom,
            _ => Refused::Other,
        }
    }
}

impl From<Status> for Refused {
    fn from(status: Status) -> Refused {
        match status {
            Status::NoRoom => Refused::NoRoom,
            _ => Refused::Other,
        }
    }
}

/// Memory of the program, or of the library, in the cache.
#[derive(Debug)]
enum Memory {
    Program(Placed),
    Own(Own),
    /// It has left the cache.
    Ended,
}

/// A copy that is to take the place of a matrix of the program, or of a part of one.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) view: View,
    pub(super) copy: Use,
    /// The program's matrix.
    pub(super) to: Use,
    /// The device that puts it there.
    pub(super) device: DeviceId,
}

impl Made {
    fn read(&self) -> Use {
        Use {
            access: Intent::Read,
            ..self.copy.clone()
        }
    }
}

/// Results, or parts of them, that the calling thread writes: the bytes have no gaps between columns.
pub type Home = Vec<(View, Vec<u8>)>;

/// A call that is being queued. Its memory leaves the cache when this is dropped.
pub(super) struct Queueing<'a> {
    pub(super) system: &'a System,
    pub(super) cache: &'a Cache,
    /// The device that runs what is queued next.
    pub(super) device: DeviceId,
    memory: Vec<Memory>,
    /// Where in `memory` the scratch memory of kernels of solvers on a device is. A device runs one such kernel at a time.
    scratch: Vec<(DeviceId, usize)>,
    /// Of the program's memory, what kernels use.
    pub(super) used: Vec<Use>,
}

impl<'a> Queueing<'a> {
    /// A call of which nothing is queued.
    pub(super) const fn new(system: &'a System, cache: &'a Cache, device: DeviceId) -> Self {
        Queueing {
            system,
            cache,
            device,
            memory: Vec::new(),
            scratch: Vec::new(),
            used: Vec::new(),
        }
    }
}

impl Drop for Queueing<'_> {
    fn drop(&mut self) {
        for memory in self.memory.drain(..) {
            match memory {
                Memory::Program(placed) => placed.end(self.cache),
                Memory::Own(own) => own.end(self.cache),
                Memory::Ended => {}
            }
        }
    }
}

impl System {
    /// A kernel of one step, with operands at no known address.
    #[must_use]
    pub fn kernel(&self, step: Step) -> DenseKernel {
        let (m, n) = self.factor_size(step);
        DenseKernel {
            step,
            dtype: self.dtype,
            uplo: self.uplo,
            op: self.op_of(step),
            side: self.side,
            m,
            n,
            sides: self.sides(),
            a: Operand::matrix(SOME_ADDRESS, self.worked().ld),
            b: Operand::matrix(SOME_ADDRESS, self.b.map_or(m, |b| b.ld)),
            pivots: SOME_ADDRESS,
            tau: SOME_ADDRESS,
            info: SOME_ADDRESS,
            scratch: SOME_ADDRESS,
            scratch_bytes: 0,
        }
    }

    /// Bytes of device memory that the call takes besides the program's matrices: copies of those that it writes or needs transposed,
    /// identities, and triangles beside zeros.
    #[must_use]
    pub fn copies(&self) -> usize {
        if self.condition.is_some() {
            return 0;
        }
        let copied = match self.solver {
            Solver::Potri | Solver::Trtri => 1,
            Solver::Lauum => 2,
            Solver::Geqp3 => 1,
            _ if self.solver.is_finished_by_host() => 2,
            _ => usize::from(self.factors().is_some() || self.by_rows()),
        };
        let a = (copied + self.of_identity() as usize) * self.a.bytes();
        let panel = match self.solver {
            Solver::Geqp3 => self.a.cols * WIDTH * self.a.element,
            _ => 0,
        };
        a + panel + self.b.map_or(0, |b| b.bytes()) + self.pivot_count() * DenseKernel::PIVOT
    }
}

impl Queueing<'_> {
    /// Keeps memory of the library until the end. Returns where.
    pub(super) fn own(&mut self, own: Own) -> usize {
        self.memory.push(Memory::Own(own));
        self.memory.len() - 1
    }

    /// A matrix of the program, as an operand that is read.
    pub(super) fn placed(&mut self, view: View) -> Result<Use, Refused> {
        let (at, operand) = self.program(view)?;
        if let Some(Memory::Program(placed)) = self.memory.get(at) {
            placed.send(self.cache, self.device);
        }
        Ok(operand)
    }

    /// As [`Queueing::placed`], without beginning to send it to a device. Returns also where it is kept.
    pub(super) fn program(&mut self, view: View) -> Result<(usize, Use), Refused> {
        let placed = Placed::of(self.cache, view, Intent::Update, false)?;
        let placed = placed.ok_or(Refused::Other)?;
        let operand = placed.operand(self.cache, view, Intent::Read);
        self.memory.push(Memory::Program(placed));
        let operand = operand?;
        self.used.push(operand.clone());
        Ok((self.memory.len() - 1, operand))
    }

    /// A part of a matrix of the program that is kept there, as an operand that is read.
    pub(super) fn part(&self, at: usize, part: View) -> Result<Use, Refused> {
        match self.memory.get(at) {
            Some(Memory::Program(placed)) => Ok(placed.operand(self.cache, part, Intent::Read)?),
            _ => Err(Refused::Other),
        }
    }

    /// Memory of the library for a matrix of this size, without gaps, which is yet to be written.
    pub(super) fn unset(&mut self, view: View) -> Result<Use, Refused> {
        let own = Own::zeroed(self.cache, view.bytes()).ok_or(Refused::NoRoom)?;
        let whole = Rect::interval(0, view.bytes());
        let matrix = own.part(whole, (view.element, view.rows), Intent::Overwrite);
        self.own(own);
        Ok(matrix)
    }

    /// A copy of a matrix in memory of the library, without gaps.
    pub(super) fn copied(&mut self, view: View, from: &Use) -> Result<Use, Refused> {
        let to = self.unset(view)?;
        self.queue_copy(view, &[from.clone(), to.clone()])?;
        Ok(Use {
            access: Intent::Update,
            ..to
        })
    }

    /// Queues a kernel of these operands.
    pub(super) fn run(&self, kernel: Kernel, uses: &[Use]) -> Result<(), Refused> {
        self.cache.queue(self.device, uses, ROOM, &|at| Kernel {
            at: core::array::from_fn(|i| at.get(i).copied().unwrap_or_default()),
            ..kernel
        })?;
        Ok(())
    }

    /// Queues the copy of a matrix within the device.
    pub(super) fn queue_copy(&self, view: View, uses: &[Use; 2]) -> Result<(), CacheError> {
        // The parts of complex numbers are copied as real numbers: a complex product of (1, 0) and an infinite number has NaN in it, and
        // the triangle that LAPACK does not read may hold any.
        let dtype = self.system.dtype.real();
        let parts = self.system.dtype.size() / dtype.size();
        let copy = Kernel {
            m: view.rows * parts,
            n: view.cols,
            ..Kernel::of(Routine::Geadd, dtype, [Operand::default(); 2])
        };
        let of_parts = |at: Operand| Operand::matrix(at.addr, at.ld() * parts);
        self.cache.queue(self.device, uses, ROOM, &|at| Kernel {
            at: [of_parts(at[0]), of_parts(at[1]), Operand::default()],
            ..copy
        })?;
        Ok(())
    }

    /// Queues a copy of the conjugate transpose of a matrix within the device. All elements that are read later are numbers.
    pub(super) fn queue_adjoint(&self, view: View, uses: &[Use; 2]) -> Result<(), CacheError> {
        let turn = Kernel {
            m: view.rows,
            n: view.cols,
            op_a: adjoint(self.system.dtype),
            ..Kernel::of(
                Routine::Omatcopy,
                self.system.dtype,
                [Operand::default(); 2],
            )
        };
        self.cache.queue(self.device, uses, ROOM, &|at| Kernel {
            at: [at[0], at[1], Operand::default()],
            ..turn
        })?;
        Ok(())
    }

    /// A copy of the matrix that the device works on, A or its conjugate transpose, without gaps.
    pub(super) fn copied_to_work(&mut self, a: &Use) -> Result<Use, Refused> {
        let system = self.system;
        if !system.by_rows() {
            return self.copied(system.a, a);
        }
        let to = self.unset(system.worked())?;
        self.queue_adjoint(system.a, &[a.clone(), to.clone()])?;
        Ok(Use {
            access: Intent::Update,
            ..to
        })
    }

    /// Queues a factorization of a copy, or what is computed with a factor on one.
    pub(super) fn step(
        &mut self,
        step: Step,
        a: &Use,
        b: Option<&Use>,
        answer: usize,
        access: Intent,
    ) -> Result<(), Refused> {
        let kernel = self.system.kernel(step);
        self.dense(kernel, Some(a), b, (answer, access))
    }

    /// As [`Queueing::step`], by this kernel, whose addresses are set here; exchanges of rows have no A.
    pub(super) fn dense(
        &mut self,
        mut kernel: DenseKernel,
        a: Option<&Use>,
        b: Option<&Use>,
        (answer, access): (usize, Intent),
    ) -> Result<(), Refused> {
        let ld = |of: &Use| of.step.unsigned_abs();
        kernel.a = Operand::matrix(SOME_ADDRESS, a.map_or(1, ld));
        kernel.b = Operand::matrix(SOME_ADDRESS, b.map_or(1, ld));
        let backend = self.cache.backend();
        let bytes = backend
            .dense_scratch(self.device, &kernel)
            .map_err(CacheError::from)?;
        let mut uses = vec![self.answer_operand(answer, access)?];
        uses.extend(a.map(|a| Use {
            access: if b.is_some() {
                Intent::Read
            } else {
                Intent::Update
            },
            ..a.clone()
        }));
        uses.extend(b.cloned());
        if bytes > 0 {
            uses.push(self.scratch(bytes)?);
        }
        let (second, b_at) = (b.is_some(), 1 + usize::from(a.is_some()));
        self.cache
            .queue_with(self.device, &uses, ROOM, |backend, after, at| {
                kernel.info = at[0].addr + if second { OF_SECOND as u64 } else { 0 };
                let beside = at[0].addr + HEAD as u64;
                (kernel.pivots, kernel.tau) = (beside, beside);
                if a.is_some() {
                    kernel.a = at[1];
                }
                if second {
                    kernel.b = at[b_at];
                }
                if bytes > 0 {
                    kernel.scratch = at[uses.len() - 1].addr;
                    kernel.scratch_bytes = bytes;
                }
                // SAFETY: all operands lie in replicas of this device that cover them, and are recorded in their operations; pivots that
                // are read were checked, or come from a factorization of the same matrix.
                Ok(unsafe { backend.solve(self.device, after, &kernel) }?)
            })?;
        Ok(())
    }

    /// Scratch memory of the device, of this many bytes at least.
    fn scratch(&mut self, bytes: usize) -> Result<Use, Refused> {
        let device = self.device;
        let at = self.scratch.iter().find(|(of, _)| *of == device);
        if let Some(Memory::Own(own)) = at.and_then(|(_, at)| self.memory.get(*at))
            && own.extent() >= bytes
        {
            return Ok(own.operand(Intent::Overwrite));
        }
        let own = Own::zeroed(self.cache, bytes).ok_or(Refused::NoRoom)?;
        let scratch = own.operand(Intent::Overwrite);
        let at = self.own(own);
        self.scratch.retain(|(of, _)| *of != device);
        self.scratch.push((device, at));
        Ok(scratch)
    }

    /// The answer of the device as an operand.
    pub(super) fn answer_operand(&self, at: usize, access: Intent) -> Result<Use, Refused> {
        match self.memory.get(at) {
            Some(Memory::Own(own)) => Ok(own.operand(access)),
            _ => Err(Refused::Other),
        }
    }

    /// What a device computed into memory of the library, once it has.
    pub(super) fn answer(&self, at: usize) -> Result<&[u8], Refused> {
        match self.memory.get(at) {
            Some(Memory::Own(own)) => Ok(own.bytes(self.cache)?),
            _ => Err(Refused::Other),
        }
    }

    /// Puts the copies in the place of the program's matrices, or of parts of them, each on its device. Returns the bytes of those that
    /// cannot be put there, after others have been.
    ///
    /// # Errors
    /// Nothing is stored.
    pub(super) fn store(&mut self, results: &[Made]) -> Result<Home, Refused> {
        let mut stored: Vec<(Use, HostCopy)> = Vec::new();
        for (i, made) in results.iter().enumerate() {
            let read = made.read();
            let written = Use {
                access: Intent::Overwrite,
                ..made.to.clone()
            };
            written.begun();
            let before = self.cache.host_copy(written.id, &written.view);
            self.device = made.device;
            let uses = [read, written.clone()];
            // What takes the place of A is of the matrix that the device works on.
            let queued = match self.system.by_rows() && made.view == self.system.a {
                true => self.queue_adjoint(self.system.worked(), &uses),
                false => self.queue_copy(made.view, &uses),
            };
            let Err(error) = queued else {
                self.used.push(written.clone());
                stored.push((written, before));
                self.end(&made.copy);
                continue;
            };
            let Some((first, _)) = stored.first() else {
                return Err(error.into());
            };
            log::debug!("results of a solver come home: {error:?}");
            // Its bytes would be those of the transpose; the one result by rows that there may be is the first.
            debug_assert!(!(self.system.by_rows() && made.view == self.system.a));
            COUNTERS.fallbacks.add(1);
            let left = results[i..].iter();
            let home = left.map(|made| Ok((made.view, self.bytes(&made.read())?)));
            return home.collect::<Result<Home, CacheError>>().or_else(|error| {
                let mut all = stored.iter();
                match all.all(|(of, before)| self.cache.takes_back(&error, of, before)) {
                    true => Err(error.into()),
                    false => lost::end_process(first.addr(), &error),
                }
            });
        }
        Ok(Vec::new())
    }

    /// Ends a copy that nothing reads any more, so that no device that needs memory writes it back to the host.
    fn end(&mut self, copy: &Use) {
        let found = self.memory.iter_mut().find(|memory| match memory {
            Memory::Own(own) => own.is(copy),
            _ => false,
        });
        if let Some(memory) = found
            && let Memory::Own(own) = core::mem::replace(memory, Memory::Ended)
        {
            own.end(self.cache);
        }
    }

    /// A copy on the device that is to take the place of a matrix.
    pub(super) fn made(&self, view: View, copy: &Use, to: &Use) -> Made {
        let (copy, to, device) = (copy.clone(), to.clone(), self.device);
        Made {
            view,
            copy,
            to,
            device,
        }
    }

    /// The newest bytes of a copy.
    fn bytes(&self, copy: &Use) -> Result<Vec<u8>, CacheError> {
        let own = self.memory.iter().find_map(|memory| match memory {
            Memory::Own(own) if own.is(copy) => Some(own),
            _ => None,
        });
        let newest = own.ok_or(CacheError::Gone)?.bytes(self.cache)?;
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(newest.len())
            .map_err(|_| CacheError::NoRoom)?;
        bytes.extend_from_slice(newest);
        Ok(bytes)
    }
}
