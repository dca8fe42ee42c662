//! Dense systems on a device: factorizations, and solutions with their factors, each as one operation of a device
//! ([`crate::base::dense`]); or by tiles, on several devices or in little memory ([`tiled`]).
//!
//! A device works on copies. They take the place of the program's matrices once all is known to have gone well: until then nothing that
//! the program sees has changed, and the host's LAPACK can compute the call after a refusal, a lost device, or an INFO other than 0,
//! of which it leaves what LAPACK leaves. A copy within a device's memory takes a hundredth of the time of the factorization.

mod blas;
pub mod compute;
mod condition;
mod least_squares;
mod pivoted;
mod pivoting;
pub mod queue;
pub mod symmetric;
pub mod system;
pub mod tiled;
mod triangle;
pub mod worth;
