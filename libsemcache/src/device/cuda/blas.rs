//! cuBLAS: the kernels of [`Kernel`], queued on the compute stream of one device.
//!
//! Results of reductions are written to device addresses; scalars are read during the call. Sizes, leading dimensions
//! and increments beyond 32 bits are refused, and such calls run on the host BLAS.
#![expect(unsafe_code, reason = "calls cuBLAS")]

use crate::device::api::Kernel;

mod args;
mod geam;
mod handle;
mod level1;
mod level2;
mod level3;
mod scratch;

use args::{Args, Result};
pub(super) use handle::Blas;

/// The functions of cuBLAS that are called in this file.
const OWN: &[&str] = &[
    "cublasCreate_v2",
    "cublasGetVersion_v2",
    "cublasSetStream_v2",
    "cublasSetPointerMode_v2",
];

/// The functions that cuBLAS must export: all that this file and those below it call.
pub(super) fn functions() -> impl Iterator<Item = &'static str> {
    let lists = [OWN, geam::FUNCTIONS, level1::FUNCTIONS, level2::FUNCTIONS];
    let all = lists.into_iter().chain(level3::FUNCTIONS.iter().copied());
    all.flatten().copied()
}

impl Blas {
    /// Queues a kernel. The context of the handle is current.
    ///
    /// # Errors
    /// Refused; no operation that changes an operand was queued.
    ///
    /// # Safety
    /// As `Backend::launch`.
    pub(super) unsafe fn launch(&mut self, kernel: &Kernel) -> Result {
        self.results_on_device(kernel.routine.reduces())?;
        let args = Args::of(kernel)?;
        match kernel.routine.level() {
            3 => self.level3(kernel, &args),
            2 => self.level2(kernel, &args),
            _ => self.level1(kernel, &args),
        }
    }
}

#[cfg(test)]
mod tests;
