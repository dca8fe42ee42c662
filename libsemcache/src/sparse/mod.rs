//! Products of sparse matrices in compressed rows (CSR) and dense vectors (SemCache++, section 4.3).
//!
//! A sparse matrix is three arrays of the program that mean one thing: row offsets, column indices, entries. The arrays lie on devices
//! as any matrix does, cut by rows so that each device has its share of the entries; X is copied where it is needed, and each device
//! computes its rows of Y, which stay there. What is *derived* from the row offsets and column indices holds as long as no byte of
//! these is written, by the CPU, a system call or a device (`cache::watches`): that they lie within the matrix, row offsets of each
//! share counted from its first entry, and what a device has prepared. Entries may change: of these the changed panels are sent again,
//! as of any input.
//!
//! [`csr`] is the matrix as the program has it, [`cut`] says which rows are whose, [`link`](mod@link) keeps what is derived,
//! [`product`] computes.

pub mod csr;
pub mod cut;
pub mod link;
pub mod product;
