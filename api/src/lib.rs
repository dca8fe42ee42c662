//! semcache for programs in Rust: views of matrices, hints, and scopes of BLAS calls that may return before they are complete.
//!
//! semcache is a BLAS that keeps matrices on the machine's devices, preloaded into programs. A program that uses this crate is not linked
//! with it: the library is looked up when it runs. Without it each hint fails with [`Error::Absent`] and does nothing, calls are made by
//! the program's own BLAS, and results are the same.
//!
//! * [`View`] and [`ViewMut`] are matrices in column-major order, of slices, and with the features `ndarray` and `faer` of these crates'
//!   arrays and matrices.
//! * [`Hints`] are what can be said of a matrix, for instance that it will be needed on a device ([`Hints::prefetch`]).
//! * [`scope`] makes BLAS calls that borrow their operands until they are complete.
//!
//! ```
//! use semcache_api::{Device, Error, Hints, Transpose, View, ViewMut, scope};
//! # unsafe { libc::dlopen(c"libblas.so.3".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
//!
//! let (a, mut c) = (vec![1.0; 64 * 64], vec![0.0; 64 * 64]);
//! let view = View::new(&a, 64, 64, 64)?;
//! let sent = view.prefetch(Device::All);
//! // The host prepares something else here.
//! scope(|s| {
//!     let c = ViewMut::new(&mut c, 64, 64, 64)?;
//!     s.gemm(Transpose::No, Transpose::No, 1.0, view, view, 0.0, c)?;
//!     Ok(())
//! })?;
//! assert_eq!(c[0], 64.0);
//! assert!(sent.is_ok() || sent == Err(Error::Absent));
//! # Ok::<(), Error>(())
//! ```
//!
//! The BLAS is that of the process: `dgemm_` and its kin, found by name when they are first called. Linking one is the program's matter.

#![deny(missing_docs)]

mod blas;
mod calls;
mod device;
mod distribution;
mod error;
mod event;
mod flags;
#[cfg(feature = "faer")]
mod from_faer;
#[cfg(feature = "ndarray")]
mod from_ndarray;
mod gpu;
mod hints;
mod operand;
mod placed;
mod process;
mod scalar;
mod scope;
mod sparse;
mod table;
mod view;

pub use device::{Device, Place};
pub use distribution::Distribution;
pub use error::{Error, Result, ShapeError};
pub use event::Event;
pub use flags::{Diag, Side, Transpose, Uplo};
pub use gpu::DeviceMatrix;
pub use hints::{Hints, Pinned};
pub use operand::{Operand, Pending};
pub use process::{
    Prediction, Range, Rates, Statistics, devices, predict, range, rates, statistics,
};
pub use scalar::Scalar;
pub use scope::{Scope, scope};
pub use sparse::{Csr, Index};
pub use view::{View, ViewMut};
