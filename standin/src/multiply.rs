//! Queues products of sparse matrices on simulated devices. As cuSPARSE may, they depend on what
//! `cusparseSpMV_preprocess` left behind: the result is wrong if the scratch memory has changed since, and the row offsets and
//! column indices are those of then. Every other product overwrites its scratch memory.

#![expect(unsafe_code, reason = "queues kernels on the program's operands")]

use semcache::base::sparse::CsrKernel;
use semcache::base::{Dtype, Op, Routine, Value};
use semcache::device::api::{Backend, Kernel, Operand, Region, Shape, Ticket};

use crate::blas::Call;
use crate::descriptors::Prepared;
use crate::machine::{machine, status};
use crate::memory::Place;
use crate::misuse::complain;
use crate::names::{Outcome, Status};

/// Blocks of a device are aligned so.
const ALIGNED: usize = 256;

/// Bytes of scratch memory that a product needs: a power of two, at least those that a simulated device asks for.
pub(crate) fn scratch_bytes(kernel: &CsrKernel) -> usize {
    (4096 + (kernel.rows + kernel.cols) / 8).next_power_of_two()
}

fn real(re: f64) -> Value {
    Value { re, im: 0.0 }
}

/// The bytes of a number.
#[expect(clippy::cast_possible_truncation, reason = "a power of two")]
fn bytes_of(dtype: Dtype, re: f64) -> Vec<u8> {
    let single = |re: f64| (re as f32).to_ne_bytes().to_vec();
    let double = |re: f64| re.to_ne_bytes().to_vec();
    match dtype {
        Dtype::S => single(re),
        Dtype::D => double(re),
        Dtype::C => [single(re), single(0.0)].concat(),
        Dtype::Z => [double(re), double(0.0)].concat(),
    }
}

impl Call {
    /// Checks that the operands and the scratch memory are device memory of the handle's device and aligned to their elements, and
    /// that nothing which is written overlaps another operand. Of X, some of it has to be device memory: the library does not read rows
    /// that no entry of the matrix multiplies.
    pub(crate) fn checked(&self, kernel: &CsrKernel) -> Outcome {
        let device = self.state.device_of(self.stream)?;
        let (index, element) = (kernel.index.size() as u64, kernel.dtype.size() as u64);
        let aligned = [
            (kernel.offsets, index),
            (kernel.columns, index),
            (kernel.values, element),
            (kernel.x.addr, element),
            (kernel.y.addr, element),
            (kernel.scratch, ALIGNED as u64),
        ];
        for (addr, to) in aligned {
            if !addr.is_multiple_of(to) {
                complain(format_args!(
                    "{addr:#x} is not aligned to {to} bytes: {kernel:x?}"
                ));
                return Err(Status::LaunchFailed);
            }
        }
        let scratch = (kernel.scratch, scratch_bytes(kernel));
        // A zero alpha does not change what memory the program promises.
        let all = CsrKernel {
            alpha: Value::ONE,
            ..*kernel
        };
        let spans: Vec<(u64, usize)> = all.spans().chain([scratch]).collect();
        for &(addr, bytes) in &spans {
            let (region, shape) = (
                Region { addr, pitch: bytes },
                Shape {
                    width: bytes,
                    count: 1,
                },
            );
            if self.state.memory.place(region, shape) != Ok(Place::Device(device)) {
                complain(format_args!(
                    "{bytes} bytes at {addr:#x} are no memory of {device:?}: {kernel:x?}"
                ));
                return Err(Status::IllegalAddress);
            }
        }
        let (length, _) = kernel.lengths();
        let columns = kernel.vectors.saturating_sub(1) * kernel.x.ld();
        let x = kernel.x.addr as usize;
        let end = x.saturating_add((columns + length) * kernel.dtype.size());
        if kernel.vectors > 0 && length > 0 && !self.state.memory.meets_block(x, end, device) {
            complain(format_args!("X is no memory of {device:?}: {kernel:x?}"));
            return Err(Status::IllegalAddress);
        }
        let meet =
            |a: (u64, usize), b: (u64, usize)| a.0 < b.0 + b.1 as u64 && b.0 < a.0 + a.1 as u64;
        let written = spans
            .iter()
            .filter(|s| **s == scratch || s.0 == kernel.y.addr);
        for w in written {
            if spans.iter().filter(|s| meet(**s, *w)).count() > 1 {
                complain(format_args!(
                    "what is written overlaps another operand: {kernel:x?}"
                ));
                return Err(Status::LaunchFailed);
            }
        }
        Ok(())
    }

    /// Fills the scratch memory with a pattern, in stream order.
    unsafe fn fill_scratch(&mut self, kernel: &CsrKernel, pattern: &[u8]) -> Outcome {
        let width = scratch_bytes(kernel);
        let (region, shape) = (
            Region {
                addr: kernel.scratch,
                pitch: width,
            },
            Shape { width, count: 1 },
        );
        // SAFETY: the program's scratch memory, as `checked`.
        unsafe { self.state.fill(self.stream, region, shape, pattern) }
    }

    /// Copies bytes of the matrix, in stream order.
    unsafe fn keep(&mut self, from: u64, to: u64, bytes: usize) -> Outcome {
        let words = [from, to].map(|addr| Operand::vector(addr, 1));
        let kernel = Kernel {
            m: bytes / Dtype::S.size(),
            ..Kernel::of(Routine::Copy, Dtype::S, words)
        };
        if kernel.m == 0 {
            return Ok(());
        }
        // SAFETY: the program's matrix, as `checked`, and a block of this module's.
        unsafe { self.launch_one(kernel) }
    }

    /// The last operation that was queued in the stream.
    fn last(&self) -> Outcome<Ticket> {
        let order = self.state.order(self.stream);
        order.as_slice().last().copied().ok_or(Status::Unknown)
    }

    /// Marks the scratch memory, and copies row offsets and column indices: what is queued from now on with this matrix and this
    /// memory depends on both.
    ///
    /// # Safety
    /// The kernel is as [`Call::checked`] says.
    pub(crate) unsafe fn prepare(&mut self, matrix: usize, kernel: &CsrKernel) -> Outcome {
        let device = self.state.device_of(self.stream)?;
        let index = kernel.index.size();
        let (rows, entries) = ((kernel.rows + 1) * index, kernel.nnz * index);
        let columns = rows.next_multiple_of(ALIGNED);
        let block = machine()?
            .alloc(device, columns + entries.max(1))
            .map_err(status)?;
        // Another one for each of the last matrices.
        let turn = i32::try_from(self.state.fresh() / 16 % 16).unwrap_or(0);
        let mark = 2f64.powi(turn - 8);
        // SAFETY: the caller keeps this function's contract; the block is fresh.
        let queued = unsafe {
            self.keep(kernel.offsets, block, rows)
                .and_then(|()| self.keep(kernel.columns, block + columns as u64, entries))
                .and_then(|()| self.fill_scratch(kernel, &bytes_of(kernel.dtype, mark)))
        };
        let last = self.last()?;
        let fresh = Prepared {
            device,
            scratch: kernel.scratch,
            mark,
            op: kernel.op,
            block,
            columns,
            last,
        };
        let gone = match queued {
            Ok(()) => self
                .state
                .descriptors
                .matrix_mut(matrix)?
                .prepared
                .replace(fresh),
            Err(_) => Some(fresh),
        };
        if let Some(gone) = gone {
            self.state
                .staging
                .hold_block(gone.last, gone.device, gone.block);
        }
        queued
    }

    /// Queues a product that uses its scratch memory as it likes.
    ///
    /// # Safety
    /// The kernel is as [`Call::checked`] says.
    pub(crate) unsafe fn multiply(&mut self, kernel: &CsrKernel) -> Outcome {
        // SAFETY: the caller keeps this function's contract.
        unsafe {
            self.fill_scratch(kernel, &[0xff])?;
            self.launch_sparse(kernel)
        }
    }

    unsafe fn launch_sparse(&mut self, kernel: &CsrKernel) -> Outcome {
        let device = self.state.device_of(self.stream)?;
        let after = self.state.order(self.stream);
        // SAFETY: the machine checks that operands lie within its blocks.
        let done = unsafe { machine()?.multiply_csr(device, after.as_slice(), kernel) };
        let done = done.map_err(status)?;
        self.state.book(self.stream, done);
        Ok(())
    }

    /// Queues a product that relies on the scratch memory: the sum of the squares of its elements, divided by what it has to be, is a
    /// factor of the product.
    ///
    /// # Safety
    /// The kernel is as [`Call::checked`] says.
    pub(crate) unsafe fn multiply_prepared(
        &mut self,
        matrix: usize,
        prepared: &Prepared,
        kernel: &CsrKernel,
    ) -> Outcome {
        let device = self.state.device_of(self.stream)?;
        if prepared.op != kernel.op || prepared.device != device {
            complain(format_args!("a product unlike its preprocess: {kernel:x?}"));
            return Err(Status::InvalidValue);
        }
        let (size, (_, length)) = (kernel.dtype.size(), kernel.lengths());
        if length == 0 {
            return Ok(());
        }
        let elements = scratch_bytes(kernel) / size;
        let product = (length * size).next_multiple_of(ALIGNED);
        let block = machine()?.alloc(device, product + size).map_err(status)?;
        let factor = block + product as u64;
        #[expect(clippy::cast_precision_loss, reason = "a power of two")]
        let squares = elements as f64 * prepared.mark * prepared.mark;
        let scratch = |ld| Operand::matrix(kernel.scratch, ld);
        let sum = Kernel {
            op_a: Op::None,
            m: 1,
            n: elements,
            alpha: real(1.0 / squares),
            beta: Value::ZERO,
            ..Kernel::of(
                Routine::Gemv,
                kernel.dtype,
                [
                    scratch(1),
                    Operand::vector(kernel.scratch, 1),
                    Operand::vector(factor, 1),
                ],
            )
        };
        let plain = CsrKernel {
            alpha: Value::ONE,
            beta: Value::ZERO,
            offsets: prepared.block,
            columns: prepared.block + prepared.columns as u64,
            y: Operand::matrix(block, length),
            ..*kernel
        };
        let result = Kernel {
            op_a: Op::None,
            m: length,
            n: 1,
            alpha: kernel.alpha,
            beta: kernel.beta,
            ..Kernel::of(
                Routine::Gemv,
                kernel.dtype,
                [
                    Operand::matrix(block, length),
                    Operand::vector(factor, 1),
                    Operand::vector(kernel.y.addr, 1),
                ],
            )
        };
        // SAFETY: the caller keeps this function's contract; the block is fresh.
        let queued = unsafe {
            self.launch_one(sum)
                .and_then(|()| self.launch_sparse(&plain))
                .and_then(|()| self.launch_one(result))
        };
        let last = self.last()?;
        self.state.staging.hold_block(last, device, block);
        if let Some(prepared) = &mut self.state.descriptors.matrix_mut(matrix)?.prepared {
            prepared.last = last;
        }
        queued
    }
}
