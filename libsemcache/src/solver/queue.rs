//! A system on one device.

#![expect(
    unsafe_code,
    reason = "queues solvers on replicas of the program's matrices"
)]

use super::blas::values;
use super::system::System;
use crate::base::counters::COUNTERS;
use crate::base::dense::{DenseKernel, Step};
use crate::base::{DeviceId, Intent, Solver, Value};
use crate::cache::lost;
use crate::cache::room::Room;
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError};
use crate::device::api::Operand;
use crate::hints::Status;
use crate::hints::view::View;
use crate::sparse::arrays::{Own, Placed};

/// Replicas of what a kernel uses, gaps between columns included.
pub(super) const ROOM: Room<'static> = Room::Whole { flat: true };
/// An address that no kernel is launched with: a question to a device needs one.
const SOME_ADDRESS: u64 = 1 << 40;
/// Bytes before the pivots, or the scalar factors of reflectors, in a device's answer. The first are INFO of the factorization, those at
/// `OF_SECOND` INFO of the step by its factor.
const HEAD: usize = 256;
const OF_SECOND: u64 = 128;

/// What became of a system.
#[derive(Debug)]
pub enum Ended {
    /// Its results are in place, on the device, but for what the solution says.
    Solved(Solution),
    /// INFO is not 0: the matrix is singular or not positive definite; or it has elements that are no numbers. Nothing has changed.
    Info,
}

/// What the CPU has to write of the results.
#[derive(Debug, Default)]
pub struct Solution {
    /// The pivots of a factorization.
    pub pivots: Vec<i64>,
    /// The scalar factors of its reflectors, as elements of the matrix.
    pub tau: Vec<u8>,
    /// The reciprocal condition number of gecon and pocon.
    pub condition: Option<f64>,
    /// A matrix that could not get its result on the device after another one had got its own: another thread of the program has
    /// changed the mapping of its memory meanwhile, or the device has no room. The bytes have no gaps between columns.
    pub home: Option<(View, Vec<u8>)>,
}

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
}

/// A call that is being queued. Its memory leaves the cache when this is dropped.
pub(super) struct Queueing<'a> {
    pub(super) system: &'a System,
    pub(super) cache: &'a Cache,
    pub(super) device: DeviceId,
    memory: Vec<Memory>,
    /// Of the program's memory, what kernels use.
    used: Vec<Use>,
}

impl Drop for Queueing<'_> {
    fn drop(&mut self) {
        for memory in self.memory.drain(..) {
            match memory {
                Memory::Program(placed) => placed.end(self.cache),
                Memory::Own(own) => own.end(self.cache),
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
            op: self.op,
            side: self.side,
            m,
            n,
            sides: self.sides(),
            a: Operand::matrix(SOME_ADDRESS, self.a.ld),
            b: Operand::matrix(SOME_ADDRESS, self.b.map_or(self.a.rows, |b| b.ld)),
            pivots: SOME_ADDRESS,
            tau: SOME_ADDRESS,
            info: SOME_ADDRESS,
            scratch: SOME_ADDRESS,
            scratch_bytes: 0,
        }
    }

    /// Bytes of device memory that the call takes besides the program's matrices: copies of those that it writes, and identities.
    #[must_use]
    pub fn copies(&self) -> usize {
        if self.condition.is_some() {
            return 0;
        }
        let copied = self.factors().is_some() || self.solver == Solver::Potri;
        let a = (copied as usize + self.of_identity() as usize) * bytes(&self.a);
        a + self.b.as_ref().map_or(0, bytes) + self.pivot_count() * DenseKernel::PIVOT
    }

    /// Computes the call on a device, which has loaded what it needs, and waits until it knows how that ended. `given` are the pivots of a
    /// factor, as 64-bit integers within the matrix, or the scalar factors of its reflectors. The results stay on the device until the CPU
    /// touches them. The cache's lock is not held, and signals are blocked.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn solve(&self, cache: &Cache, device: DeviceId, given: &[u8]) -> Result<Ended, Refused> {
        let mut queueing = Queueing {
            system: self,
            cache,
            device,
            memory: Vec::new(),
            used: Vec::new(),
        };
        let solved = queueing.solved(given);
        // Replicas drop inputs on pages that cannot be protected, whatever became of the call.
        let (pending, settled) = cache.settle(queueing.used.iter(), &[]);
        let arrived = cache.arrive(&pending).and(settled);
        let stored = matches!(solved, Ok(Ended::Solved(_)));
        if let Err(error) = arrived
            && stored
        {
            let mut written = queueing.used.iter().filter(|u| u.access != Intent::Read);
            lost::end_process(written.next().map_or(0, Use::addr), &error);
        }
        solved
    }
}

impl Queueing<'_> {
    fn solved(&mut self, given: &[u8]) -> Result<Ended, Refused> {
        let system = self.system;
        // INFO, and the pivots or scalar factors.
        let found = match system.factors() {
            Some(Step::Lu) => system.pivot_count() * DenseKernel::PIVOT,
            Some(Step::Qr) => system.beside().map_or(0, |(_, bytes)| bytes),
            _ => 0,
        };
        let mut answer = vec![0; HEAD + found];
        answer.extend_from_slice(given);
        let answer = self.own(Own::new(self.cache, answer.into()));
        let a = self.placed(system.a)?;
        if let Some(condition) = system.condition {
            return self.estimated(&a, condition);
        }
        let mut results = Vec::new();
        let mut factor = a.clone();
        if let Some(step) = system.factors() {
            factor = self.copied(system.a, &a)?;
            self.step(step, &factor, None, answer, Intent::Overwrite)?;
            results.push((system.a, factor.clone(), a.clone()));
        }
        let diagonal = match system.factors().is_some() || system.divides() {
            true => Some(self.diagonal(&factor)?),
            false => None,
        };
        let second = match system.b {
            Some(view) => {
                let b = self.placed(view)?;
                Some((view, self.copied(view, &b)?, b))
            }
            None if system.of_identity() => Some((system.a, self.identity()?, a.clone())),
            None => None,
        };
        if let Some((view, result, to)) = second {
            match system.applies() {
                Some(step) => {
                    self.step(step, &factor, Some(&result), answer, Intent::Update)?;
                }
                None => self.triangular(&factor, &result)?,
            }
            let result = match system.solver {
                Solver::Potri => self.squared(&result, &a)?,
                _ => result,
            };
            results.push((view, result, to));
        }
        if let Some(diagonal) = diagonal {
            // INFO of LAPACK names a zero; of what is no number LAPACKs make different things, and devices yet others.
            let unlike =
                |x: Value| x.re.is_nan() || x.im.is_nan() || x.is_zero() && system.divides();
            if values(system.dtype, self.answer(diagonal)?).any(unlike) {
                return Ok(Ended::Info);
            }
        }
        let answer = self.answer(answer)?;
        let info = |bytes: &[u8]| {
            bytes
                .first_chunk()
                .map_or(-1, |info| i32::from_ne_bytes(*info))
        };
        if system.factors().is_some() && info(answer) != 0 {
            return Ok(Ended::Info);
        }
        let found = answer[HEAD..][..found].to_vec();
        let (mut pivots, mut tau) = (Vec::new(), Vec::new());
        if system.factors() == Some(Step::Qr) {
            tau = found;
        } else {
            let (each, _) = found.as_chunks::<{ DenseKernel::PIVOT }>();
            pivots.extend(each.iter().map(|pivot| i64::from_ne_bytes(*pivot)));
        }
        let last = i64::try_from(system.a.rows).unwrap_or(i64::MAX);
        if pivots.iter().any(|pivot| !(1..=last).contains(pivot)) {
            return Err(Refused::Other);
        }
        let home = self.store(results)?;
        Ok(Ended::Solved(Solution {
            pivots,
            tau,
            condition: None,
            home,
        }))
    }

    /// Keeps memory of the library until the end. Returns where.
    pub(super) fn own(&mut self, own: Own) -> usize {
        self.memory.push(Memory::Own(own));
        self.memory.len() - 1
    }

    /// A matrix of the program, as an operand that is read.
    fn placed(&mut self, view: View) -> Result<Use, Refused> {
        let placed = Placed::of(self.cache, view, Intent::Update, false)?;
        let placed = placed.ok_or(Refused::Other)?;
        placed.send(self.cache, self.device);
        let operand = placed.operand(self.cache, view, Intent::Read);
        self.memory.push(Memory::Program(placed));
        let operand = operand?;
        self.used.push(operand.clone());
        Ok(operand)
    }

    /// Queues a factorization of a copy, or what is computed with a factor on one.
    fn step(
        &mut self,
        step: Step,
        a: &Use,
        b: Option<&Use>,
        answer: usize,
        access: Intent,
    ) -> Result<(), Refused> {
        let ld = |of: &Use| of.step.unsigned_abs();
        let mut kernel = self.system.kernel(step);
        kernel.a = Operand::matrix(SOME_ADDRESS, ld(a));
        kernel.b = Operand::matrix(SOME_ADDRESS, b.map_or(1, ld));
        let backend = self.cache.backend();
        let scratch = backend
            .dense_scratch(self.device, &kernel)
            .map_err(CacheError::from)?;
        let Some(Memory::Own(own)) = self.memory.get(answer) else {
            return Err(Refused::Other);
        };
        let mut uses = vec![own.operand(access)];
        uses.push(Use {
            access: if b.is_some() {
                Intent::Read
            } else {
                Intent::Update
            },
            ..a.clone()
        });
        uses.extend(b.cloned());
        if scratch > 0 {
            let own = Own::zeroed(self.cache, scratch).ok_or(Refused::NoRoom)?;
            uses.push(own.operand(Intent::Overwrite));
            self.own(own);
        }
        let second = b.is_some();
        self.cache
            .queue_with(self.device, &uses, ROOM, |backend, after, at| {
                kernel.info = at[0].addr + if second { OF_SECOND } else { 0 };
                let beside = at[0].addr + HEAD as u64;
                (kernel.pivots, kernel.tau) = (beside, beside);
                kernel.a = at[1];
                if second {
                    kernel.b = at[2];
                }
                if scratch > 0 {
                    kernel.scratch = at[uses.len() - 1].addr;
                    kernel.scratch_bytes = scratch;
                }
                // SAFETY: all operands lie in replicas of this device that cover them, and are recorded in their operations; pivots that
                // are read were checked, or come from a factorization of the same matrix.
                Ok(unsafe { backend.solve(self.device, after, &kernel) }?)
            })?;
        Ok(())
    }

    /// What a device computed into memory of the library, once it has.
    pub(super) fn answer(&self, at: usize) -> Result<&[u8], Refused> {
        match self.memory.get(at) {
            Some(Memory::Own(own)) => Ok(own.bytes(self.cache)?),
            _ => Err(Refused::Other),
        }
    }

    /// Puts the copies, of which there are at most two, in the place of the program's matrices. Returns the second one's bytes if it
    /// cannot be put there.
    ///
    /// # Errors
    /// Nothing is stored.
    fn store(&mut self, copies: Vec<(View, Use, Use)>) -> Result<Option<(View, Vec<u8>)>, Refused> {
        let mut stored = None;
        for (view, copy, to) in copies {
            let read = Use {
                access: Intent::Read,
                ..copy
            };
            let written = Use {
                access: Intent::Overwrite,
                ..to
            };
            written.begun();
            let before = self.cache.host_copy(written.id, &written.view);
            let queued = self.queue_copy(view, &[read.clone(), written.clone()]);
            match (queued, &stored) {
                (Ok(()), _) => {
                    stored = Some((written.clone(), before));
                    self.used.push(written);
                }
                (Err(error), None) => return Err(error.into()),
                (Err(error), Some((first, before))) => {
                    log::debug!("a solver's second result comes home: {error:?}");
                    COUNTERS.fallbacks.add(1);
                    return match self.bytes(&read) {
                        Ok(bytes) => Ok(Some((view, bytes))),
                        Err(error) if self.cache.takes_back(&error, first, before) => {
                            Err(error.into())
                        }
                        Err(error) => lost::end_process(first.addr(), &error),
                    };
                }
            }
        }
        Ok(None)
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

/// Bytes of a matrix, without gaps.
fn bytes(view: &View) -> usize {
    view.rows * view.cols * view.element
}
