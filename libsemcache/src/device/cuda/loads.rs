//! Loads the code of kernels ahead of the calls that need it: each runs once, on memory, a stream and a cuBLAS handle that no call
//! uses. The driver loads code when a kernel is first launched in a context, and meanwhile other threads launch theirs: on an H100 such a launch took at
//! most 1.1 ms while the code of dgemm was loaded in 57 ms.
#![expect(unsafe_code, reason = "calls the driver and cuBLAS")]

use std::time::Instant;

use super::blas::Blas;
use super::driver::{self, CUstream, Status};
use crate::base::Dtype;
use crate::base::kernel::{Kernel, Operand};
use crate::base::routine::Routine;
use crate::device::api::CELL_BYTES;

/// The most bytes that the operands of such a kernel may have, and the largest share (1/`SHARE`) of a device's memory.
const MOST: usize = 256 << 20;
const SHARE: usize = 64;
/// Alignment of operands.
const ALIGNED: usize = 256;

/// The stream and the handle of one device.
#[derive(Debug)]
pub(super) struct Loader {
    stream: CUstream,
    blas: Blas,
    most: usize,
}

// SAFETY: the driver's handles may be used by any thread, one at a time: every use takes `&mut self`.
unsafe impl Send for Loader {}

impl Loader {
    /// For the device whose context is current, of which semcache may use `memory` bytes.
    pub(super) fn new(memory: usize) -> Result<Loader, Status> {
        let stream = driver::create_stream()?;
        Ok(Loader {
            stream,
            // No scratch memory that a product can do without.
            blas: Blas::new(stream, 0)?,
            most: MOST.min(memory / SHARE),
        })
    }

    /// Runs a kernel of these flags and sizes, whose operands have no addresses yet. The device's context is current. A kernel with
    /// larger operands than may be allocated is not run: its call gains more than loading costs.
    pub(super) fn run(&mut self, kernel: &Kernel) -> Result<(), Status> {
        let mut kernel = *kernel;
        let bytes = placed(&mut kernel);
        if bytes > self.most {
            return Ok(());
        }
        let block = driver::alloc(bytes)?;
        kernel
            .at
            .iter_mut()
            .for_each(|operand| operand.addr += block);
        kernel.out += block;
        // SAFETY: `placed` has put all operands into the block.
        let launched = unsafe { self.blas.launch(&kernel) };
        let done = driver::stream_wait(self.stream);
        if done.is_ok() {
            // SAFETY: allocated above, and the kernel is complete. One that cannot be waited for keeps its memory.
            let _ = unsafe { driver::free(block) };
        }
        launched.and(done)
    }
}

/// Gives the operands of a kernel, and its value, their places in a block of memory, and returns the bytes of the block. Matrices
/// have as leading dimension their number of rows, vectors consecutive elements.
fn placed(kernel: &mut Kernel) -> usize {
    let size = kernel.dtype.size();
    let mut bytes = CELL_BYTES.next_multiple_of(ALIGNED);
    let mut at = [Operand::default(); 3];
    for (to, (slot, (rows, cols), _)) in at.iter_mut().zip(kernel.operands()) {
        let addr = bytes as u64;
        *to = if slot.extent.is_vector() {
            Operand::vector(addr, 1)
        } else {
            Operand::matrix(addr, rows.max(1))
        };
        let all = rows.saturating_mul(cols).saturating_mul(size);
        bytes = bytes.saturating_add(all.checked_next_multiple_of(ALIGNED).unwrap_or(usize::MAX));
    }
    kernel.at = at;
    kernel.out = 0;
    bytes
}

/// Seconds of the first launch of a kernel in the current context, of the least that there is; zero if it fails. `at` is memory for
/// two vectors.
pub(super) fn first_launch(blas: &mut Blas, stream: CUstream, at: u64) -> f64 {
    let (x, y) = (
        Operand::vector(at, 1),
        Operand::vector(at + ALIGNED as u64, 1),
    );
    let kernel = Kernel::of(Routine::Axpy, Dtype::D, [x, y]);
    let begun = Instant::now();
    // SAFETY: the caller's memory holds both vectors, of one element.
    let launched = unsafe { blas.launch(&kernel) };
    let done = driver::stream_wait(stream);
    match launched.and(done) {
        Ok(()) => begun.elapsed().as_secs_f64(),
        Err(_) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Op;

    #[test]
    fn operands_lie_apart() {
        let mut gemv = Kernel {
            m: 100,
            n: 3,
            op_a: Op::Trans,
            ..Kernel::of(Routine::Gemv, Dtype::D, [])
        };
        let bytes = placed(&mut gemv);
        // A of 2,400 bytes, x of 100 elements, y of 3.
        let places = [(256, 100), (256 + 2560, 1), (256 + 2560 + 1024, 1)];
        assert_eq!(gemv.at.map(|o| (o.addr, o.step)), places);
        assert_eq!(bytes, 256 + 2560 + 1024 + 256);
        let mut huge = Kernel {
            m: usize::MAX / 2,
            n: usize::MAX / 2,
            ..gemv
        };
        assert_eq!(placed(&mut huge), usize::MAX);
    }
}
