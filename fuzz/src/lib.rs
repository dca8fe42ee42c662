//! Random programs with one right answer.
//!
//! A [`Program`](program::Program) is a list of operations over one to four threads: BLAS calls, accesses by the CPU,
//! copies, allocating and freeing memory, system calls that read and write it, forks and signals, and uses of data
//! beside a matrix: names, structures, words on which threads sleep, pages that the program guards; products of sparse matrices.
//! [`play()`](play::play) executes a program in this process, on real memory and on a shadow that the tests' oracle
//! computes; a difference ends in a panic that names the operation and the element. Numbers are small integers, so
//! every order of summation is exact.
//!
//! Each operation carries a seed and is interpreted against the blocks that exist when it runs, so every part of a
//! program is a program: that is how [`shrink`] works. [`drive`] runs many of them, each in a process of its own under
//! the preloaded library in a random [`Setting`](setting::Setting); without a preload they check the host BLAS and the
//! oracle.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "plays an unmodified program, not the library in a user's process; a panic is how it fails"
)]

mod beside;
pub mod block;
mod call;
mod csr;
pub mod drive;
pub mod element;
mod fortran;
mod ops;
pub mod play;
pub mod program;
pub mod setting;
pub mod shrink;
mod system;
mod world;
