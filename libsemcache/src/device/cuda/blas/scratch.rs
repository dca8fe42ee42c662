//! Scratch device memory for kernels that need a place besides their operands. All kernels of a device are queued on
//! one stream, so one kernel uses the scratch memory at a time.
#![expect(unsafe_code, reason = "calls the driver")]

use super::super::driver::{self, Status};
use super::args::Result;
use super::handle::Blas;
use crate::device::api::{Operand, Shape};

/// After a refused allocation, this number of products is computed without scratch before the next attempt.
const PATIENCE: u32 = 1000;

impl Blas {
    /// The address of scratch memory of at least `bytes` bytes.
    ///
    /// # Errors
    /// The driver refuses to allocate or free.
    pub(super) fn scratch(&mut self, bytes: usize) -> core::result::Result<u64, Status> {
        let bytes = bytes.next_power_of_two();
        if self.scratch.bytes >= bytes {
            return Ok(self.scratch.addr);
        }
        if self.scratch.bytes > 0 {
            driver::stream_wait(self.stream)?;
            self.scratch.bytes = 0;
            // SAFETY: the kernels that used this memory are complete, since the stream was waited for.
            unsafe { driver::free(self.scratch.addr) }?;
        }
        self.scratch.addr = driver::alloc(bytes)?;
        self.scratch.bytes = bytes;
        Ok(self.scratch.addr)
    }

    /// Copies a matrix of `rows` x `columns` elements to scratch memory, if there is room: the kernel that is queued
    /// next may read the copy and write the matrix in place.
    ///
    /// # Errors
    /// The driver refuses the copy.
    pub(super) fn copied_to_scratch(
        &mut self,
        from: Operand,
        (rows, columns): (usize, usize),
        element: usize,
    ) -> core::result::Result<Option<Operand>, Status> {
        let shape = Shape {
            width: rows * element,
            count: columns,
        };
        let bytes = shape.width * shape.count;
        if bytes.next_power_of_two() > self.scratch.most {
            return Ok(None);
        }
        if self.scratch.refused > 0 {
            self.scratch.refused -= 1;
            return Ok(None);
        }
        let Ok(addr) = self.scratch(bytes) else {
            self.scratch.refused = PATIENCE;
            return Ok(None);
        };
        let to = Operand::matrix(addr, rows);
        self.copy(to, from, shape, element)?;
        Ok(Some(to))
    }

    /// Queues a copy from matrix to matrix of this device.
    ///
    /// # Errors
    /// The driver refuses the copy.
    pub(super) fn copy(&self, to: Operand, from: Operand, shape: Shape, element: usize) -> Result {
        let at = |m: Operand| (driver::End::Device(m.addr), m.ld() * element);
        // SAFETY: one matrix is an operand of the kernel that is being launched, for which the caller of `launch`
        // vouches; the other one lies in this object's scratch memory.
        unsafe { driver::copy(at(to), at(from), shape, self.stream) }
    }
}
