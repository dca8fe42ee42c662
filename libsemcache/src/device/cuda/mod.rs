//! NVIDIA GPUs behind the device contract. This build has none: [`open`] always finds no driver.

#![expect(unsafe_code, reason = "the device contract moves raw bytes")]

use crate::base::DeviceId;
use crate::base::config::{CudaSet, Memory};
use crate::device::api::{Backend, Caps, DeviceError, Kernel, Region, Shape, Ticket};

/// Why there are no CUDA devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CudaError {
    /// No driver, or no GPU: nothing to mention unless GPUs were asked for.
    NoDriver,
    /// A library or a function is missing.
    Missing(String),
    /// No such GPU.
    NoSuchGpu(usize),
}

impl core::fmt::Display for CudaError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            CudaError::NoDriver => f.write_str("no NVIDIA driver (libcuda.so.1) or no GPU"),
            CudaError::Missing(what) => f.write_str(what),
            CudaError::NoSuchGpu(i) => write!(f, "there is no GPU {i}"),
        }
    }
}

impl core::error::Error for CudaError {}

/// What the machine needs of the floors above.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// Looks an environment variable up (to find cuBLAS where installers put it).
    pub environment: fn(&str) -> Option<String>,
}

/// The GPUs of a process; nobody can make one in this build.
#[derive(Debug)]
pub enum CudaMachine {}

/// Finds the GPUs. None of them can be used before [`CudaMachine::bring_up`].
///
/// # Errors
/// Why there are none.
pub fn open(set: &CudaSet, memory: Memory, hooks: &Hooks) -> Result<CudaMachine, CudaError> {
    let _ = (set, memory, hooks);
    Err(CudaError::NoDriver)
}

impl CudaMachine {
    /// Makes contexts, streams and handles, one GPU after the other; each can be used as soon as it is up. Ends at
    /// the first that fails, and says why.
    ///
    /// # Errors
    /// Why the GPUs from some number on cannot be used.
    pub fn bring_up(&self) -> Result<(), CudaError> {
        match *self {}
    }

    /// What the self-test found of a device, for people; `None` if it is not up.
    #[must_use]
    pub fn describe(&self, device: DeviceId) -> Option<String> {
        let _ = device;
        match *self {}
    }

    /// Whether some device copies no shape at all from closed pages without the CPU.
    #[must_use]
    pub fn staged(&self) -> bool {
        match *self {}
    }
}

impl Backend for CudaMachine {
    fn devices(&self) -> &[Caps] {
        match *self {}
    }
    fn alloc(&self, _: DeviceId, _: usize) -> Result<u64, DeviceError> {
        match *self {}
    }
    unsafe fn free(&self, _: DeviceId, _: u64) {
        match *self {}
    }
    unsafe fn upload(
        &self,
        _: DeviceId,
        _: &[Ticket],
        _: Region,
        _: Region,
        _: Shape,
    ) -> Result<Ticket, DeviceError> {
        match *self {}
    }
    unsafe fn download(
        &self,
        _: DeviceId,
        _: &[Ticket],
        _: Region,
        _: Region,
        _: Shape,
    ) -> Result<Ticket, DeviceError> {
        match *self {}
    }
    unsafe fn copy_peer(
        &self,
        _: DeviceId,
        _: DeviceId,
        _: &[Ticket],
        _: Region,
        _: Region,
        _: Shape,
    ) -> Result<Ticket, DeviceError> {
        match *self {}
    }
    unsafe fn launch(&self, _: DeviceId, _: &[Ticket], _: &Kernel) -> Result<Ticket, DeviceError> {
        match *self {}
    }
    fn done(&self, _: Ticket) -> Result<bool, DeviceError> {
        match *self {}
    }
    fn wait(&self, _: Ticket) -> Result<(), DeviceError> {
        match *self {}
    }
}
