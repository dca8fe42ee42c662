//! Factorizations and solutions of dense systems on the streams of a machine, by cuSOLVER.
#![expect(unsafe_code, reason = "launches kernels on raw device memory")]

use std::sync::PoisonError;

use super::dense::Solver;
use super::driver::{self, CUstream, Status};
use super::library;
use super::machine::{CudaMachine, Queues, queues};
use crate::base::dense::{DenseKernel, DenseWork, Step};
use crate::base::kernel::Operand;
use crate::base::timed::Operation;
use crate::base::{DeviceId, Dtype};
use crate::device::api::{DeviceError, Lane, Ticket};
use crate::process::driver_scope::DriverScope;
use crate::process::loads::Loading;

/// Alignment of operands.
const ALIGNED: usize = 256;

impl CudaMachine {
    /// Whether cuSOLVER is there, which is looked for once.
    fn has_cusolver(&self) -> bool {
        let load = || {
            let _scope = DriverScope::new();
            let _loading = Loading::new();
            library::cusolver(&self.hooks.environment, self.hooks.secure)
        };
        *self.cusolver.get_or_init(load)
    }

    /// Loads cuSOLVER and the code of a kernel's kind, which runs once on memory and a stream that no call uses.
    pub(super) fn bring_up_solver(
        &self,
        device: DeviceId,
        kernel: &DenseKernel,
    ) -> Result<(), DeviceError> {
        if !self.has_cusolver() {
            return Err(DeviceError::Refused {
                device,
                what: "cusolver",
                code: 0,
            });
        }
        let _scope = DriverScope::new();
        let _loading = Loading::new();
        let (up, _current) = self.enter(device)?;
        let mut rehearsal = up.rehearsal.lock().unwrap_or_else(PoisonError::into_inner);
        let ran = match &mut *rehearsal {
            Some(made) => made.run(kernel),
            none => Rehearsal::new().and_then(|made| none.insert(made).run(kernel)),
        };
        ran.map_err(|s| self.failed(device, "load", s))
    }

    /// Bytes of scratch memory that a kernel needs.
    pub(super) fn solver_scratch(
        &self,
        device: DeviceId,
        kernel: &DenseKernel,
    ) -> Result<usize, DeviceError> {
        let (_, _current) = self.enter(device)?;
        let mut all = self.lock();
        let q = queues(&mut all, device)?;
        let asked = q.solver().and_then(|solver| solver.scratch(kernel));
        asked.map_err(|s| self.failed(device, "solve", s))
    }

    /// Queues a kernel.
    ///
    /// # Safety
    /// As `Backend::solve`.
    pub(super) unsafe fn queue_solver(
        &self,
        device: DeviceId,
        after: &[Ticket],
        kernel: &DenseKernel,
    ) -> Result<Ticket, DeviceError> {
        let (_, _current) = self.enter(device)?;
        let mut all = self.lock();
        self.order(&mut all, device, Lane::Compute, after)?;
        let q = queues(&mut all, device)?;
        let lane = &mut q.lanes[Lane::Compute as usize];
        lane.takes_long();
        lane.begins(&mut q.clock);
        let numbers = (lane.completed(), lane.next());
        // SAFETY: the caller's promise; the context of the handle is current.
        let launched = q
            .solver()
            .and_then(|solver| unsafe { solver.launch(kernel, numbers) });
        if let Err(status) = launched {
            // Parts may run, on memory that is free from now on.
            let _ = driver::stream_wait(q.lanes[Lane::Compute as usize].raw);
            return Err(self.failed(device, "solve", status));
        }
        Ok(Ticket {
            device,
            lane: Lane::Compute,
            seq: q.lanes[Lane::Compute as usize]
                .queued(true, Some(Operation::Dense(DenseWork::of(kernel)))),
        })
    }
}

impl Queues {
    /// The handle of cuSOLVER, which is loaded. The device's context is current.
    fn solver(&mut self) -> Result<&mut Solver, Status> {
        match &mut self.solver {
            Some(made) => Ok(made),
            none => {
                // cuSOLVER loads libraries of its own.
                let _loading = Loading::new();
                Ok(none.insert(Solver::new(self.lanes[Lane::Compute as usize].raw)?))
            }
        }
    }
}

/// A stream and a handle that no call uses, on which each kind of kernel runs once before a call needs it.
#[derive(Debug)]
pub(super) struct Rehearsal {
    stream: CUstream,
    solver: Solver,
    /// Kernels that are complete.
    runs: u64,
}

// SAFETY: the driver's handles may be used by any thread, one at a time: every use takes `&mut self`.
unsafe impl Send for Rehearsal {}

impl Rehearsal {
    fn new() -> Result<Rehearsal, Status> {
        let stream = driver::create_stream()?;
        Ok(Rehearsal {
            stream,
            solver: Solver::new(stream)?,
            runs: 0,
        })
    }

    /// Runs a kernel of this kind, on identities. The context is current.
    fn run(&mut self, kernel: &DenseKernel) -> Result<(), Status> {
        const ORDER: usize = 512;
        let size = kernel.dtype.size();
        let (stream, runs, solver) = (self.stream, self.runs, &mut self.solver);
        let mut small = DenseKernel {
            m: ORDER,
            n: ORDER,
            sides: kernel.sides.min(ORDER),
            a: Operand::matrix(0, ORDER),
            b: Operand::matrix(0, ORDER),
            // A solution by LU factors has pivots only after them.
            step: match kernel.step {
                Step::LuSolve => Step::Lu,
                other => other,
            },
            ..*kernel
        };
        small.scratch_bytes = solver.scratch(&small)?;
        let mut bytes = 0;
        let mut place = |of: usize| {
            let at = bytes;
            bytes += of.next_multiple_of(ALIGNED);
            at as u64
        };
        let matrix = ORDER * ORDER * size;
        let all = [
            place(matrix),
            place(matrix),
            place(ORDER * DenseKernel::PIVOT),
            place(DenseKernel::INFO),
            place(small.scratch_bytes),
        ];
        let identity = identity(ORDER, kernel.dtype);
        let block = driver::alloc(bytes)?;
        [
            small.a.addr,
            small.b.addr,
            small.pivots,
            small.info,
            small.scratch,
        ] = all.map(|at| at + block);
        // SAFETY: all operands lie in the block; the host memory lives until the stream is idle.
        let launched = unsafe {
            driver::clear(block, bytes, stream)
                .and_then(|()| {
                    driver::copy_in(small.a.addr, identity.as_ptr().addr(), matrix, stream)
                })
                .and_then(|()| solver.launch(&small, (runs, runs + 1)))
                .and_then(|()| match kernel.step {
                    Step::LuSolve => solver.launch(
                        &DenseKernel {
                            step: kernel.step,
                            ..small
                        },
                        (runs, runs + 2),
                    ),
                    _ => Ok(()),
                })
        };
        let done = driver::stream_wait(stream);
        if done.is_ok() {
            // SAFETY: allocated above, and the kernels are complete. Memory that cannot be waited for stays allocated.
            let _ = unsafe { driver::free(block) };
            self.runs += 2;
        } else {
            std::mem::forget(identity);
        }
        launched.and(done)
    }
}

/// The identity of this order.
fn identity(order: usize, dtype: Dtype) -> Vec<u8> {
    let size = dtype.size();
    let mut all = vec![0; order * order * size];
    for i in 0..order {
        let at = (i * order + i) * size;
        match dtype {
            Dtype::S | Dtype::C => all[at..at + 4].copy_from_slice(&1f32.to_ne_bytes()),
            Dtype::D | Dtype::Z => all[at..at + 8].copy_from_slice(&1f64.to_ne_bytes()),
        }
    }
    all
}
