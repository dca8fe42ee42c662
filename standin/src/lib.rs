//! A stand-in for `libcuda.so.1`, `libcublas.so.13`, `libcusparse.so.12` and `libcusolver.so.12`: the functions that the CUDA
//! backend calls, carried out by the simulated devices of `semcache::device::sim`. One library exports the functions of all four, so
//! that the file names can be links to one file and share its state. The stand-in exists for tests: where the behaviour of the real
//! libraries is not specified, it does what is most likely to break a caller.
//!
//! * A context is a device, a stream is the list of tickets that its next operation waits for, an event is a copy of
//!   such a list (`state`).
//! * Host memory from `cuMemHostAlloc` or under `cuMemHostRegister` is copied asynchronously and through
//!   `/proc/self/mem`, as a copy engine ignores page protection; other host memory is accessed by the CPU inside the
//!   call. The CPU also reads the source of small copies, as measured on real hardware: one piece below 32 KiB, or a
//!   2-D copy of one row of up to 16 KiB (`copy`). Meanwhile the stand-in's lock is held, as the driver holds its own:
//!   a thread that serves a fault of such an access must not call CUDA.
//! * If the process replaces registered pages (`MADV_DONTNEED`), copy engines keep using the old pages, and see other
//!   bytes than the CPU (`pages`).
//! * Kernels accept operands in pinned host memory, which are copied to the device and back (`kernel`); products of sparse
//!   matrices and cuSOLVER's functions do not.
//! * `cusparseSpMV` depends on what `cusparseSpMV_preprocess` left in scratch memory, and on the row offsets and column
//!   indices of that moment; all other products overwrite their scratch memory (`multiply`).
//! * cuSOLVER's factorizations (LU, Cholesky: `solver`; QR: `qr`; of symmetric matrices: `indefinite`), products with the Q of QR and
//!   solutions of symmetric systems overwrite all of the work space that they ask for: the part in device memory in stream order, the
//!   part in host memory inside the call and again when the operation is complete (`dense`).
//!
//! | variable | meaning |
//! |---|---|
//! | `SEMCACHE_STANDIN` | comma list: `late`, `poison`, `seed=N`, `devices=N`, `memory=BYTES`, `taken=BYTES@CALL` (by others, from an allocation on), `loads=N` (of libraries, while it comes up), `files=N` (that it has open, five descriptors each; without one of them the devices are lost), `code=MICROSECONDS` (of the first call of each function of cuBLAS, cuSPARSE or cuSOLVER that queues a kernel), `system` |
//! | `SEMCACHE_STANDIN_FAIL` | `NAME:K` or `any:K`, the Kth call of the function (of any but getters) fails without effect; `:sticky` appended, so does every later call of every function |
//! | `SEMCACHE_STANDIN_COUNTS` | a file that gets a line `NAME CALLS` per function at exit |
//!
//! `system` makes every call begin as the driver's calls may: while it holds a lock that all calls take, it allocates
//! from the process's heap, maps memory, writes to a file and closes a library of its own. Misuse that the real
//! libraries answer by an asynchronous error, a hang or a signal is also reported in one line on stderr that begins
//! with `semcache-standin:`.

mod allocate;
mod blas;
mod calls;
mod context;
mod copy;
mod cpu;
mod dense;
mod descriptors;
mod end;
mod exchange;
mod exports;
mod files;
mod indefinite;
mod kernel;
mod level2;
mod level3;
mod machine;
mod matrices;
mod memory;
mod misuse;
mod multiply;
mod names;
mod order;
mod packed;
mod pages;
mod platform;
mod qr;
mod settings;
mod solver;
mod sparse;
mod staging;
mod state;
mod stream;
mod table;
mod times;
mod transfer;

/// Not the process's heap: a thread that holds a lock of that heap may wait, in a page fault, for a call of this
/// library.
#[global_allocator]
static HEAP: semcache::host::RuntimeHeap = semcache::host::RuntimeHeap;
