//! Stand-in for the `cublas` functions, except level 3 and triangular matrices. The elements of vectors with negative
//! increments lie where the reference BLAS has them; reductions of empty vectors give zero.

#![expect(
    unsafe_code,
    reason = "the program's pointers, as the C functions take them"
)]

use core::ffi::{c_int, c_void};
use std::sync::MutexGuard;

use semcache::base::{Dtype, Op, Routine, Value};
use semcache::device::api::{Kernel, Operand, Region, Shape};

use crate::cpu;
use crate::kernel::Target;
use crate::misuse::complain;
use crate::names::{Outcome, Status};
use crate::platform::put;
use crate::state::{Handle, State, lock};

/// cuBLAS 13.0.
const VERSION: c_int = 130_000;

/// One call of a function of cuBLAS, cuSPARSE or cuSOLVER: the locked state, and the settings of its handle.
pub(crate) struct Call {
    pub(crate) state: MutexGuard<'static, State>,
    pub(crate) stream: usize,
    device_pointers: bool,
}

impl Call {
    pub(crate) fn new(handle: usize) -> Outcome<Self> {
        let state = lock()?;
        let known = *state.handles.get(&handle).ok_or(Status::InvalidHandle)?;
        Call::with(state, known)
    }

    pub(crate) fn with(state: MutexGuard<'static, State>, known: Handle) -> Outcome<Self> {
        let current = state.current()?;
        let stream = state.stream(known.stream)?;
        // A kernel is not launched into a stream of another context.
        let home = state.streams.get(&stream).map(|s| s.context);
        if current != known.context || home != Some(current) {
            complain(format_args!(
                "a handle of context {:#x} with a stream of {home:x?} is used in {current:#x}",
                known.context
            ));
            return Err(Status::LaunchFailed);
        }
        Ok(Call {
            state,
            stream,
            device_pointers: known.device_pointers,
        })
    }

    /// The scalar at `at`, read at this moment.
    ///
    /// # Safety
    /// It is the program's scalar of this type.
    pub(crate) unsafe fn scalar(&mut self, dtype: Dtype, at: *const c_void) -> Outcome<Value> {
        if at.is_null() {
            return Err(Status::InvalidValue);
        }
        let addr = at.expose_provenance() as u64;
        let mut bytes = [0u8; 16];
        let size = dtype.size();
        // SAFETY: the caller vouches for the scalar; the buffer holds the largest.
        unsafe {
            if self.device_pointers {
                self.state.read_now(self.stream, addr, &mut bytes[..size])?;
            } else {
                let shape = Shape {
                    width: size,
                    count: 1,
                };
                cpu::gather(Region { addr, pitch: size }, shape, bytes.as_mut_ptr());
            }
        }
        let single = |i: usize| f64::from(f32::from_ne_bytes(part(&bytes, i)));
        let double = |i: usize| f64::from_ne_bytes(part(&bytes, i));
        let (re, im) = match dtype {
            Dtype::S => (single(0), 0.0),
            Dtype::D => (double(0), 0.0),
            Dtype::C => (single(0), single(1)),
            Dtype::Z => (double(0), double(1)),
        };
        Ok(Value { re, im })
    }

    /// # Safety
    /// The operands are the program's.
    pub(crate) unsafe fn launch(mut self, kernel: Kernel) -> Outcome {
        // SAFETY: the caller keeps this function's contract.
        unsafe { self.state.launch(self.stream, kernel) }
    }

    /// Queues one kernel of a call that needs several.
    ///
    /// # Safety
    /// As [`Call::launch`].
    pub(crate) unsafe fn launch_one(&mut self, kernel: Kernel) -> Outcome {
        // SAFETY: the caller keeps this function's contract.
        unsafe { self.state.launch(self.stream, kernel) }
    }

    /// # Safety
    /// The operands and the result are the program's.
    unsafe fn reduce(mut self, kernel: Kernel, bytes: usize, result: u64) -> Outcome {
        if result == 0 {
            return Err(Status::InvalidValue);
        }
        let target = if self.device_pointers {
            Target::Device(result)
        } else {
            Target::Host(result)
        };
        // SAFETY: the caller keeps this function's contract.
        unsafe { self.state.reduce(self.stream, kernel, bytes, target) }
    }
}

/// The `i`-th number of `N` bytes.
fn part<const N: usize>(bytes: &[u8; 16], i: usize) -> [u8; N] {
    core::array::from_fn(|k| bytes[(i * N + k) % 16])
}

pub(crate) fn size(n: c_int) -> Outcome<usize> {
    usize::try_from(n).map_err(|_| Status::InvalidValue)
}

/// A length of a level-1 operation: a negative length is an empty vector.
pub(crate) fn length(n: c_int) -> usize {
    usize::try_from(n).unwrap_or(0)
}

pub(crate) fn op(code: c_int) -> Outcome<Op> {
    match code {
        0 => Ok(Op::None),
        1 => Ok(Op::Trans),
        2 => Ok(Op::ConjTrans),
        _ => Err(Status::InvalidValue),
    }
}

pub(crate) fn matrix(addr: u64, ld: c_int, rows: usize) -> Outcome<Operand> {
    let ld = size(ld)?;
    if ld < rows.max(1) {
        return Err(Status::InvalidValue);
    }
    Ok(Operand::matrix(addr, ld))
}

pub(crate) fn vector(addr: u64, inc: c_int) -> Outcome<Operand> {
    if inc == 0 {
        return Err(Status::InvalidValue);
    }
    Ok(Operand::vector(addr, inc as isize))
}

/// A vector of an operation that takes positive increments only, and its length (zero for other increments).
fn forward(addr: u64, inc: c_int, n: c_int) -> (Operand, usize) {
    let n = if inc > 0 { length(n) } else { 0 };
    (Operand::vector(addr, inc.max(1) as isize), n)
}

/// The real type of the same precision.
pub(crate) fn real(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::S | Dtype::C => Dtype::S,
        Dtype::D | Dtype::Z => Dtype::D,
    }
}

pub(crate) unsafe fn create(handle: *mut usize) -> Outcome {
    let mut state = lock()?;
    let context = state.current()?;
    let number = state.fresh();
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(handle, number)? };
    let fresh = Handle {
        context,
        stream: 0,
        device_pointers: false,
    };
    state.handles.insert(number, fresh);
    Ok(())
}

pub(crate) fn destroy(handle: usize) -> Outcome {
    let removed = lock()?.handles.remove(&handle);
    removed.map(drop).ok_or(Status::InvalidHandle)
}

/// Changes the settings of a handle.
fn change(handle: usize, how: impl FnOnce(&mut Handle)) -> Outcome {
    let mut state = lock()?;
    let known = state.handles.get_mut(&handle);
    how(known.ok_or(Status::InvalidHandle)?);
    Ok(())
}

pub(crate) fn set_stream(handle: usize, stream: usize) -> Outcome {
    change(handle, |h| h.stream = stream)
}

pub(crate) fn set_pointer_mode(handle: usize, mode: c_int) -> Outcome {
    if !(0..=1).contains(&mode) {
        return Err(Status::InvalidValue);
    }
    change(handle, |h| h.device_pointers = mode == 1)
}

pub(crate) fn set_workspace(handle: usize, workspace: u64, _bytes: usize) -> Outcome {
    if !workspace.is_multiple_of(256) {
        return Err(Status::InvalidValue);
    }
    change(handle, |_| ())
}

/// The math and atomics modes, on which the results of the stand-in do not depend.
pub(crate) fn set_mode(handle: usize, _mode: c_int) -> Outcome {
    change(handle, |_| ())
}

pub(crate) unsafe fn version(_handle: usize, version: *mut c_int) -> Outcome {
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(version, VERSION) }
}

pub(crate) unsafe fn property(which: c_int, value: *mut c_int) -> Outcome {
    let part = match which {
        0 => VERSION / 10_000,
        1 => VERSION / 100 % 100,
        2 => VERSION % 100,
        _ => return Err(Status::InvalidValue),
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(value, part) }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn gemv(
    dtype: Dtype,
    handle: usize,
    turn: c_int,
    m: c_int,
    n: c_int,
    alpha: *const c_void,
    a: u64,
    lda: c_int,
    x: u64,
    incx: c_int,
    beta: *const c_void,
    y: u64,
    incy: c_int,
) -> Outcome {
    let mut call = Call::new(handle)?;
    let op_a = op(turn)?;
    let (m, n) = (size(m)?, size(n)?);
    let a = matrix(a, lda, m)?;
    let (x, y) = (vector(x, incx)?, vector(y, incy)?);
    if m == 0 || n == 0 {
        return Ok(());
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe {
        let (alpha, beta) = (call.scalar(dtype, alpha)?, call.scalar(dtype, beta)?);
        call.launch(Kernel {
            op_a,
            m,
            n,
            alpha,
            beta,
            ..Kernel::of(Routine::Gemv, dtype, [a, x, y])
        })
    }
}

/// `ger`, `geru` and `gerc`.
#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn ger(
    (dtype, routine): (Dtype, Routine),
    handle: usize,
    m: c_int,
    n: c_int,
    alpha: *const c_void,
    x: u64,
    incx: c_int,
    y: u64,
    incy: c_int,
    a: u64,
    lda: c_int,
) -> Outcome {
    let mut call = Call::new(handle)?;
    let (m, n) = (size(m)?, size(n)?);
    let a = matrix(a, lda, m)?;
    let (x, y) = (vector(x, incx)?, vector(y, incy)?);
    if m == 0 || n == 0 {
        return Ok(());
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe {
        let alpha = call.scalar(dtype, alpha)?;
        call.launch(Kernel {
            m,
            n,
            alpha,
            ..Kernel::of(routine, dtype, [x, y, a])
        })
    }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn axpy(
    dtype: Dtype,
    handle: usize,
    n: c_int,
    alpha: *const c_void,
    x: u64,
    incx: c_int,
    y: u64,
    incy: c_int,
) -> Outcome {
    let mut call = Call::new(handle)?;
    let (x, y, n) = (vector(x, incx)?, vector(y, incy)?, length(n));
    if n == 0 {
        return Ok(());
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe {
        let alpha = call.scalar(dtype, alpha)?;
        call.launch(Kernel {
            m: n,
            alpha,
            ..Kernel::of(Routine::Axpy, dtype, [x, y])
        })
    }
}

/// `scal` by a scalar of the vector's type or of the real type of the same precision.
pub(crate) unsafe fn scal(
    (dtype, scalar): (Dtype, Dtype),
    handle: usize,
    n: c_int,
    alpha: *const c_void,
    x: u64,
    incx: c_int,
) -> Outcome {
    let mut call = Call::new(handle)?;
    let (x, n) = forward(x, incx, n);
    if n == 0 {
        return Ok(());
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe {
        let alpha = call.scalar(scalar, alpha)?;
        call.launch(Kernel {
            m: n,
            alpha,
            ..Kernel::of(Routine::Scal, dtype, [x])
        })
    }
}

/// `copy`, or `swap`.
pub(crate) unsafe fn two_vectors(
    (dtype, routine): (Dtype, Routine),
    handle: usize,
    n: c_int,
    x: u64,
    incx: c_int,
    y: u64,
    incy: c_int,
) -> Outcome {
    let call = Call::new(handle)?;
    let (x, y, n) = (vector(x, incx)?, vector(y, incy)?, length(n));
    if n == 0 {
        return Ok(());
    }
    let kernel = Kernel {
        m: n,
        ..Kernel::of(routine, dtype, [x, y])
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { call.launch(kernel) }
}

/// `dot`, `dotu` and `dotc`.
#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn dot(
    (dtype, routine): (Dtype, Routine),
    handle: usize,
    n: c_int,
    x: u64,
    incx: c_int,
    y: u64,
    incy: c_int,
    result: u64,
) -> Outcome {
    let call = Call::new(handle)?;
    let (x, y, n) = (vector(x, incx)?, vector(y, incy)?, length(n));
    let kernel = Kernel {
        m: n,
        ..Kernel::of(routine, dtype, [x, y])
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { call.reduce(kernel, dtype.size(), result) }
}

/// `nrm2`, `asum` and `amax`.
pub(crate) unsafe fn reduction(
    (dtype, routine): (Dtype, Routine),
    handle: usize,
    n: c_int,
    x: u64,
    incx: c_int,
    result: u64,
) -> Outcome {
    let (x, n) = forward(x, incx, n);
    let kernel = Kernel {
        m: n,
        ..Kernel::of(routine, dtype, [x])
    };
    let bytes = match routine {
        // The index has 32 bits: the lower half of the kernel's 64 bits, which comes first in memory.
        Routine::Iamax => 4,
        _ => real(dtype).size(),
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { Call::new(handle)?.reduce(kernel, bytes, result) }
}
