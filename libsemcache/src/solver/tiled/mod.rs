//! Factorizations on several devices, or with less device memory than the matrix takes (out of core): Cholesky by square tiles, LU with
//! partial pivoting by block columns.
//!
//! Each tile or block column is memory of the library that the cache knows, so that it is sent to the devices that read it, and evicted to
//! the host where memory is scarce, as any matrix. A device computes what it owns. The program's matrix is read at the beginning of a
//! column's work, and written once all is known to have gone well.

mod blocked;
mod cholesky;
mod lu;
mod order;
mod products;
pub mod run;
mod sides;
pub mod tiling;
