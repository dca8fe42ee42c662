//! NVIDIA GPUs behind the device contract: a context of our own per GPU, one stream per lane, events where
//! somebody may wait, cuBLAS for the kernels.
//!
//! `library` finds the driver and cuBLAS, `driver` and `blas` are their functions with results,
//! `stream` turns events into tickets, `machine` is the contract. Host memory that is page-locked
//! (`pins`) is copied in place, in the shapes that `probe` proved (`copies`); everything else passes through page-locked
//! staging memory (`staged`, `ring`, `host`).
//!
//! A missing driver, library, function or GPU is a normal state ([`CudaError`]).

mod blas;
mod copies;
mod driver;
mod host;
mod library;
mod machine;
mod order;
mod pins;
mod probe;
mod ring;
mod staged;
mod start;
mod stream;

pub use machine::CudaMachine;
pub use start::open;

/// Why there are no CUDA devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CudaError {
    /// No driver, or no GPU: nothing to mention unless GPUs were asked for.
    NoDriver,
    /// A library or a function is missing.
    Missing(String),
    /// No such GPU.
    NoSuchGpu(usize),
    /// The driver refused something, with its status.
    Refused(&'static str, i32),
    /// `/proc/self/mem` cannot reach closed pages.
    HostAccess(String),
}

impl core::fmt::Display for CudaError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            CudaError::NoDriver => f.write_str("no NVIDIA driver (libcuda.so.1) or no GPU"),
            CudaError::Missing(what) => f.write_str(what),
            CudaError::NoSuchGpu(i) => write!(f, "there is no GPU {i}"),
            CudaError::Refused(what, code) => write!(f, "{what} failed with CUDA status {code}"),
            CudaError::HostAccess(why) => {
                write!(
                    f,
                    "closed pages cannot be reached through /proc/self/mem: {why}"
                )
            }
        }
    }
}

impl core::error::Error for CudaError {}

/// What the machine needs of the floors above.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// Looks an environment variable up (to find cuBLAS where installers put it).
    pub environment: fn(&str) -> Option<String>,
    /// Which of the GPUs this process uses, by their numbers.
    pub choose: fn(&[usize]) -> Vec<usize>,
    /// Whether the process runs with more rights than its user: then neither the environment nor where the program
    /// lies (a link to it may lie anywhere) says what is loaded.
    pub secure: bool,
}
