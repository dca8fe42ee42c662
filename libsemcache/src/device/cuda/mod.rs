//! CUDA backend: NVIDIA GPUs behind the device contract, with a context of our own per GPU, one stream per lane, events
//! behind the operations that a thread may wait for, and cuBLAS for the kernels.
//!
//! `library` finds the driver and cuBLAS, `driver` and `blas` wrap their functions, which return results instead of
//! statuses, `stream` turns events into tickets, `times` and `clock` tell when operations began and ended, and
//! `machine` implements the contract; `loads` has kernels' code loaded ahead. Page-locked host memory
//! (`pins`) is copied in place, in the shapes that `probe` found safe (`copies`); all other bytes pass through
//! page-locked staging memory (`staged`, `ring`, `host`).
//!
//! A missing driver, library, function or GPU is a normal state ([`CudaError`]).

mod blas;
mod clock;
mod copies;
mod dense;
mod driver;
mod hardware;
mod host;
mod library;
mod loads;
mod machine;
mod order;
mod pins;
mod probe;
mod products;
mod rehearsal;
mod ring;
mod solvers;
mod sparse;
mod staged;
mod start;
mod stream;
mod times;
mod told;

pub use machine::CudaMachine;
pub use start::open;

/// Why there are no CUDA devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CudaError {
    /// No driver, or no GPU: reported only if the settings ask for GPUs.
    NoDriver,
    /// A library or a function is missing.
    Missing(String),
    /// No such GPU.
    NoSuchGpu(usize),
    /// The driver refused a call, with this status.
    Refused(&'static str, i32),
    /// `/proc/self/mem` cannot reach inaccessible pages.
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

/// What the machine calls in the floors above.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// Looks up an environment variable (to find cuBLAS and cuSPARSE where installers put them).
    pub environment: fn(&str) -> Option<String>,
    /// Chooses among the GPUs, by their numbers, those that this process uses; and says how many processes of its job use each.
    pub choose: fn(&[usize]) -> (Vec<usize>, usize),
    /// Whether the process runs with more rights than its user: then neither the environment nor the program's own path
    /// (a link to the program may lie anywhere) decides which libraries are loaded.
    pub secure: bool,
}
