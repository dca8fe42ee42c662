//! A stand-in for `libcuda.so.1` and `libcublas.so.13`: what the CUDA backend calls, carried out by the
//! simulated devices of `semcache::device::sim`. One library exports both families, so that both names
//! may be links to one file and share its state. It exists for tests: where the real libraries leave
//! something open, it does what hurts most.
//!
//! * A context is a device, a stream is the list of tickets that its next operation is behind, an event is
//!   a copy of such a list (`state`).
//! * Host memory from `cuMemHostAlloc` or under `cuMemHostRegister` is copied asynchronously and through
//!   `/proc/self/mem`, as a copy engine ignores page protection; other host memory is touched by the CPU
//!   inside the call. So is the source of small copies, as measured on real hardware: one piece below
//!   32 KiB, or a 2-D copy of one row of up to 16 KiB (`copy`). The stand-in's lock is held then, as the
//!   driver holds its own: whoever serves a fault there must not call CUDA.
//! * Registered pages that the process replaces (`MADV_DONTNEED`) stay with the copy engines, which then see
//!   other bytes than the CPU (`pages`).
//! * Kernels may take operands in pinned host memory: they are brought to the device and back (`kernel`).
//!
//! | variable | meaning |
//! |---|---|
//! | `SEMCACHE_STANDIN` | comma list: `late`, `poison`, `seed=N`, `devices=N`, `memory=BYTES`, `taken=BYTES@CALL` (by others, from an allocation on), `loads=N` (of libraries, while it comes up), `files=N` (that it has open, five descriptors each; without one of them the devices are lost), `system` |
//! | `SEMCACHE_STANDIN_FAIL` | `NAME:K` or `any:K`, the Kth call of the function (of any but getters) fails without effect; `:sticky` appended, so does every later call of every function |
//! | `SEMCACHE_STANDIN_COUNTS` | a file that gets a line `NAME CALLS` per function at exit |
//!
//! `system` makes every call begin as the driver may: holding a lock that all calls take, it allocates from the
//! process's heap, maps memory, writes to a file and closes a library of its own.
//! Misuse that the real libraries answer by an asynchronous error, a hang or a signal is also told in one
//! line on stderr that begins with `semcache-standin:`.

mod allocate;
mod blas;
mod calls;
mod context;
mod copy;
mod cpu;
mod end;
mod exports;
mod files;
mod kernel;
mod level2;
mod level3;
mod machine;
mod matrices;
mod memory;
mod misuse;
mod names;
mod order;
mod packed;
mod pages;
mod platform;
mod settings;
mod staging;
mod state;
mod stream;
mod table;
mod transfer;

/// The process's own heap may be locked by a thread whose fault waits for a call of this library.
#[global_allocator]
static HEAP: semcache::host::RuntimeHeap = semcache::host::RuntimeHeap;
