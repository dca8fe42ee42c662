//! Products of sparse matrices on the streams of a machine: by cuSPARSE, or, where the matrix adds nothing, by cuBLAS and the driver.
#![expect(unsafe_code, reason = "launches kernels on raw device memory")]

use super::driver::{self, Status};
use super::library;
use super::machine::{CudaMachine, Queues, queues};
use super::sparse::Sparse;
use crate::base::timed::Operation;
use crate::base::{DeviceId, Routine};
use crate::device::api::{Backend as _, CsrKernel, DeviceError, Kernel, Lane, Operand, Ticket};
use crate::process::driver_scope::DriverScope;
use crate::process::loads::Loading;

/// Products that read and write fewer bytes get no event of their own. Recording it takes 1 us, and these bytes 0.1 ms.
const WORTH_AN_EVENT: usize = 512 << 20;
/// Products that read and write fewer bytes take less than about 20 us.
const LONG: usize = 64 << 20;

impl CudaMachine {
    /// Whether a device is up and cuSPARSE is there, which is looked for once.
    pub(super) fn has_cusparse(&self, device: DeviceId) -> bool {
        let load = || {
            let _scope = DriverScope::new();
            let _loading = Loading::new();
            library::cusparse(&self.hooks.environment, self.hooks.secure)
        };
        self.up(device.index()).is_some() && *self.libraries.cusparse.get_or_init(load)
    }

    /// Bytes of scratch memory that a product needs.
    pub(super) fn sparse_scratch(
        &self,
        device: DeviceId,
        kernel: &CsrKernel,
    ) -> Result<usize, DeviceError> {
        let (_, _current) = self.enter(device)?;
        let mut all = self.lock();
        let q = queues(&mut all, device)?;
        let asked = q.sparse().and_then(|sparse| sparse.scratch(kernel));
        asked.map_err(|s| self.failed(device, "sparse", s))
    }

    /// Queues a product.
    ///
    /// # Safety
    /// As `Backend::multiply_csr`.
    pub(super) unsafe fn queue_sparse(
        &self,
        device: DeviceId,
        after: &[Ticket],
        kernel: &CsrKernel,
    ) -> Result<Ticket, DeviceError> {
        let (_, _current) = self.enter(device)?;
        let mut all = self.lock();
        self.order(&mut all, device, Lane::Compute, after)?;
        let q = queues(&mut all, device)?;
        if kernel.bytes() >= LONG && self.usable() > 1 {
            q.lanes[Lane::Compute as usize].takes_long();
        }
        q.lanes[Lane::Compute as usize].begins(&mut q.clock);
        let launched = if kernel.alpha.is_zero() || kernel.nnz == 0 {
            // SAFETY: the caller's promise; the context of the handle is current.
            unsafe { q.scale(kernel) }
        } else {
            // SAFETY: as above.
            q.sparse()
                .and_then(|sparse| unsafe { sparse.launch(kernel) })
        };
        launched.map_err(|s| self.failed(device, "launch", s))?;
        Ok(Ticket {
            device,
            lane: Lane::Compute,
            seq: q.lanes[Lane::Compute as usize].queued(
                kernel.bytes() >= WORTH_AN_EVENT,
                Some(Operation::Sparse(kernel.bytes())),
            ),
        })
    }
}

impl Queues {
    /// The handle of cuSPARSE, which is loaded. The device's context is current.
    fn sparse(&mut self) -> Result<&mut Sparse, Status> {
        match &mut self.sparse {
            Some(made) => Ok(made),
            none => {
                // cuSPARSE loads libraries of its own.
                let _loading = Loading::new();
                Ok(none.insert(Sparse::new(self.lanes[Lane::Compute as usize].raw)?))
            }
        }
    }

    /// `Y := beta Y`, for a product that adds nothing.
    ///
    /// # Safety
    /// As [`Backend::multiply_csr`].
    unsafe fn scale(&mut self, kernel: &CsrKernel) -> Result<(), Status> {
        let (_, length) = kernel.lengths();
        let size = kernel.dtype.size();
        for v in 0..kernel.vectors {
            let at = kernel.y.addr + (v * kernel.y.ld() * size) as u64;
            let scaled = Kernel {
                m: length,
                alpha: kernel.beta,
                ..Kernel::of(Routine::Scal, kernel.dtype, [Operand::vector(at, 1)])
            };
            // SAFETY: column `v` of Y.
            unsafe {
                match kernel.beta.is_zero() {
                    _ if length == 0 || kernel.beta.is_one() => {}
                    true => {
                        driver::clear(at, length * size, self.lanes[Lane::Compute as usize].raw)?
                    }
                    false => self.blas.launch(&scaled)?,
                }
            }
        }
        Ok(())
    }
}
