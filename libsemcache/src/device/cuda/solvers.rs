//! Factorizations and solutions of dense systems on the streams of a machine, by cuSOLVER.
#![expect(unsafe_code, reason = "launches kernels on raw device memory")]

use std::sync::PoisonError;

use super::dense::Solver;
use super::driver::{self, Status};
use super::library;
use super::machine::{CudaMachine, Queues, queues};
use super::rehearsal::Rehearsal;
use crate::base::DeviceId;
use crate::base::dense::{DenseKernel, DenseWork};
use crate::base::timed::Operation;
use crate::device::api::{DeviceError, Lane, Ticket};
use crate::process::driver_scope::DriverScope;
use crate::process::loads::Loading;

impl CudaMachine {
    /// Whether cuSOLVER is there, which is looked for once.
    fn has_cusolver(&self) -> bool {
        let load = || {
            let _scope = DriverScope::new();
            let _loading = Loading::new();
            library::cusolver(&self.hooks.environment, self.hooks.secure)
        };
        *self.libraries.cusolver.get_or_init(load)
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
