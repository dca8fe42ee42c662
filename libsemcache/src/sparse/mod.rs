//! Products of sparse matrices in compressed rows (CSR) and dense vectors (SemCache++, section 4.3).
//!
//! A sparse matrix is three arrays of the program that mean one thing: row offsets, column indices, entries. The arrays lie on devices
//! as any matrix does, cut by rows so that each device has entries by its rate; of X it gets what its columns touch, and it computes its
//! rows of Y, which stay there. Of a transposed product each device adds up what its rows add to Y; then the sums are added. What is
//! *derived* from the row offsets and column indices holds as long as no byte of these is written, by the CPU, a system call or a device
//! (`cache::watches`): that they lie within the matrix, row offsets of each part counted from its first entry, and what a device has
//! prepared. Entries may change: of these the changed panels are sent again, as of any input.
//!
//! [`csr`] is the matrix as the program has it, [`cut`] says which rows are whose, [`arrays`] is the memory of the program and of the
//! library as operands, [`link`](mod@link) keeps what is derived as long as its [`pattern`] holds, [`product`] checks and computes on the host, [`parts`] links a matrix,
//! [`queue`] computes on devices, [`again`] repeats what it did, [`worth`] says where.

pub mod again;
pub mod arrays;
pub mod csr;
pub mod cut;
pub mod link;
pub mod parts;
pub mod pattern;
pub mod product;
pub mod queue;
mod task;
pub mod worth;
