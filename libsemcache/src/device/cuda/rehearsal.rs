//! The first run of each kind of solver, which loads its code, before a call needs it.
#![expect(unsafe_code, reason = "launches kernels on raw device memory")]

use super::dense::{self, Solver};
use super::driver::{self, CUstream, Status};
use crate::base::Dtype;
use crate::base::dense::{DenseKernel, Step};
use crate::base::kernel::Operand;

/// Alignment of operands, and an address for questions about work space.
const ALIGNED: usize = 256;

/// A stream and a handle that no call uses, on which each kind of kernel runs once before a call needs it.
#[derive(Debug)]
pub(super) struct Rehearsal {
    stream: CUstream,
    solver: Solver,
    /// Kernels that are complete.
    runs: u64,
}

// SAFETY: the driver's handles may be used by any thread, one at a time: every use takes `&mut self`.
unsafe impl Send for Rehearsal {}

impl Rehearsal {
    pub(super) fn new() -> Result<Rehearsal, Status> {
        let stream = driver::create_stream()?;
        Ok(Rehearsal {
            stream,
            solver: Solver::new(stream)?,
            runs: 0,
        })
    }

    /// Runs a kernel of this kind, on identities. The context is current.
    pub(super) fn run(&mut self, kernel: &DenseKernel) -> Result<(), Status> {
        const ORDER: usize = 512;
        let size = kernel.dtype.size();
        let (stream, runs, solver) = (self.stream, self.runs, &mut self.solver);
        let mut small = DenseKernel {
            m: ORDER,
            n: ORDER,
            sides: match kernel.step {
                Step::Exchange => ORDER,
                _ => kernel.sides.min(ORDER),
            },
            a: Operand::matrix(ALIGNED as u64, ORDER),
            b: Operand::matrix(ALIGNED as u64, ORDER),
            pivots: ALIGNED as u64,
            tau: ALIGNED as u64,
            // A solution by LU factors has pivots only after them.
            step: match kernel.step {
                Step::LuSolve => Step::Lu,
                other => other,
            },
            ..*kernel
        };
        small.scratch_bytes = solver.scratch(&small)?;
        let mut bytes = 0;
        let mut place = |of: usize| {
            let at = bytes;
            bytes += of.next_multiple_of(ALIGNED);
            at as u64
        };
        let matrix = ORDER * ORDER * size;
        let all = [
            place(matrix),
            place(matrix),
            place(ORDER * DenseKernel::PIVOT),
            // Zeros: reflectors that are identities.
            place(ORDER * size),
            place(DenseKernel::INFO),
            place(small.scratch_bytes),
        ];
        let identity = identity(ORDER, kernel.dtype);
        // Each row is exchanged with the last one, or none is.
        let pivots: Vec<u8> = match kernel.step {
            Step::Exchange => (ORDER as i64).to_ne_bytes().repeat(ORDER),
            _ => (1..=ORDER as i64).flat_map(i64::to_ne_bytes).collect(),
        };
        let mut exchanged = match kernel.step {
            Step::Exchange => vec![0_u8; matrix],
            _ => Vec::new(),
        };
        let block = driver::alloc(bytes)?;
        [
            small.a.addr,
            small.b.addr,
            small.pivots,
            small.tau,
            small.info,
            small.scratch,
        ] = all.map(|at| at + block);
        // SAFETY: all operands lie in the block; the host memory lives until the stream is idle.
        let launched = unsafe {
            driver::clear(block, bytes, stream)
                .and_then(|()| {
                    driver::copy_in(small.a.addr, identity.as_ptr().addr(), matrix, stream)
                })
                .and_then(|()| match kernel.step {
                    Step::Exchange => {
                        driver::copy_in(small.b.addr, identity.as_ptr().addr(), matrix, stream)
                    }
                    _ => Ok(()),
                })
                .and_then(|()| match kernel.step {
                    Step::Exchange | Step::SymmetricSolve => driver::copy_in(
                        small.pivots,
                        pivots.as_ptr().expose_provenance(),
                        pivots.len(),
                        stream,
                    ),
                    _ => Ok(()),
                })
                .and_then(|()| solver.launch(&small, (runs, runs + 1)))
                .and_then(|()| match kernel.step {
                    Step::Exchange => driver::copy_out(
                        exchanged.as_mut_ptr().expose_provenance(),
                        small.b.addr,
                        matrix,
                        stream,
                    ),
                    Step::LuSolve => solver.launch(
                        &DenseKernel {
                            step: kernel.step,
                            ..small
                        },
                        (runs, runs + 2),
                    ),
                    _ => Ok(()),
                })
        };
        let done = driver::stream_wait(stream);
        if done.is_ok() {
            // SAFETY: allocated above, and the kernels are complete. Memory that cannot be waited for stays allocated.
            let _ = unsafe { driver::free(block) };
            self.runs += 2;
        } else {
            std::mem::forget((identity, pivots, exchanged));
            return launched.and(done);
        }
        // NVIDIA's documentation does not say how the function for exchanges counts rows and pivots.
        let size = kernel.dtype.size();
        let row = |i: usize| {
            if i + 1 == ORDER {
                ORDER - 2
            } else if i == 0 {
                ORDER - 1
            } else {
                i - 1
            }
        };
        let right = exchanged
            .chunks_exact(ORDER * size)
            .enumerate()
            .all(|(j, column)| {
                let mut elements = column.chunks_exact(size).enumerate();
                elements.all(|(i, element)| element.iter().any(|byte| *byte != 0) == (row(i) == j))
            });
        launched.and(if right { Ok(()) } else { Err(dense::INVALID) })
    }
}

/// The identity of this order.
fn identity(order: usize, dtype: Dtype) -> Vec<u8> {
    let size = dtype.size();
    let mut all = vec![0; order * order * size];
    for i in 0..order {
        let at = (i * order + i) * size;
        match dtype {
            Dtype::S | Dtype::C => all[at..at + 4].copy_from_slice(&1f32.to_ne_bytes()),
            Dtype::D | Dtype::Z => all[at..at + 8].copy_from_slice(&1f64.to_ne_bytes()),
        }
    }
    all
}
