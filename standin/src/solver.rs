//! Stand-in for the `cusolverDn` functions with 64-bit integers: factorizations by LU and Cholesky, and solutions by them. The work
//! space has sizes that depend on the matrix, in host memory, too, for some; device memory of the work space is overwritten in stream
//! order before the step, host memory by the call and in stream order behind the step, as the library may use both until then.

#![expect(
    unsafe_code,
    reason = "the program's pointers, as the C functions take them"
)]

use core::ffi::{c_int, c_void};

use semcache::base::dense::{DenseKernel, Step};
use semcache::base::{Op, Uplo};
use semcache::device::api::{Backend, Operand, Region, Shape};

use crate::blas::{self, Call};
use crate::cpu;
use crate::level3;
use crate::machine::{machine, status};
use crate::memory::Place;
use crate::misuse::complain;
use crate::names::{Outcome, Status};
use crate::platform::put;
use crate::sparse::{dtype, size};
use crate::state::{Handle, lock};

/// Device memory of the work space is aligned so.
const ALIGNED: usize = 256;

/// Bytes of host memory that a factorization by LU of an odd number of columns needs.
const HOST: usize = 64;

/// What the work space is overwritten with.
const GARBAGE: u8 = 0xff;

/// A matrix by columns, at an address that is given if it has elements.
fn matrix(addr: u64, ld: i64, (rows, cols): (usize, usize)) -> Outcome<Operand> {
    let ld = size(ld)?;
    if ld < rows.max(1) || addr == 0 && rows > 0 && cols > 0 {
        return Err(Status::InvalidValue);
    }
    Ok(Operand::matrix(addr, ld))
}

/// One piece of memory.
fn piece(addr: u64, bytes: usize) -> (Region, Shape) {
    let shape = Shape {
        width: bytes,
        count: 1,
    };
    (Region { addr, pitch: bytes }, shape)
}

/// Bytes of work space in device memory, a power of two, and in host memory.
fn space(kernel: &DenseKernel) -> (usize, usize) {
    let device = 4096 + (kernel.m + kernel.n) * kernel.dtype.size();
    let host = match kernel.step {
        Step::Lu if kernel.n % 2 == 1 => HOST,
        _ => 0,
    };
    (device.next_power_of_two(), host)
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
    state.solver_handles.insert(number, fresh);
    Ok(())
}

pub(crate) fn set_stream(handle: usize, stream: usize) -> Outcome {
    let mut state = lock()?;
    let known = state.solver_handles.get_mut(&handle);
    known.ok_or(Status::InvalidHandle)?.stream = stream;
    Ok(())
}

/// Parameters belong to no context.
pub(crate) unsafe fn create_params(params: *mut usize) -> Outcome {
    let mut state = lock()?;
    let number = state.fresh();
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(params, number)? };
    state.solver_params.insert(number);
    Ok(())
}

/// The call of a function with this handle and these parameters.
fn call(handle: usize, params: usize) -> Outcome<Call> {
    let state = lock()?;
    let known = state.solver_handles.get(&handle).copied();
    let known = known.ok_or(Status::InvalidHandle)?;
    if !state.solver_params.contains(&params) {
        if params != 0 {
            complain(format_args!("{params:#x} are no parameters of cuSOLVER"));
        }
        return Err(Status::InvalidValue);
    }
    Call::with(state, known)
}

/// A step without addresses. Both types are those of A and of B, or of the computation.
fn step(step: Step, types: [c_int; 2], sizes: [i64; 3]) -> Outcome<DenseKernel> {
    let [m, n, sides] = sizes.map(size);
    let [of_a, other] = types.map(dtype);
    let dtype = of_a?;
    if other? != dtype {
        return Err(Status::NotSupported);
    }
    Ok(DenseKernel {
        step,
        dtype,
        uplo: Uplo::Lower,
        op: Op::None,
        m: m?,
        n: n?,
        sides: sides?,
        a: Operand::default(),
        b: Operand::default(),
        pivots: 0,
        info: 0,
        scratch: 0,
        scratch_bytes: 0,
    })
}

/// A factorization by LU, without its work space and what else it writes.
fn lu_of(m: i64, n: i64, types: [c_int; 2]) -> Outcome<DenseKernel> {
    step(Step::Lu, types, [m, n, 0])
}

/// As [`lu_of`], by Cholesky.
fn cholesky_of(uplo: c_int, n: i64, types: [c_int; 2]) -> Outcome<DenseKernel> {
    Ok(DenseKernel {
        uplo: level3::uplo(uplo)?,
        ..step(Step::Cholesky, types, [n, n, 0])?
    })
}

/// Stores the sizes of the work space; the matrix may be null, as nothing is read.
unsafe fn put_space(kernel: &DenseKernel, lda: i64, to: [*mut usize; 2]) -> Outcome {
    matrix(0, lda, (kernel.m, 0))?;
    let [device, host] = to;
    if device.is_null() || host.is_null() {
        return Err(Status::InvalidValue);
    }
    let sizes = space(kernel);
    // SAFETY: the caller keeps this function's contract.
    unsafe {
        put(device, sizes.0)?;
        put(host, sizes.1)
    }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn lu_space(
    handle: usize,
    params: usize,
    m: i64,
    n: i64,
    type_a: c_int,
    _a: u64,
    lda: i64,
    compute: c_int,
    device: *mut usize,
    host: *mut usize,
) -> Outcome {
    call(handle, params)?;
    let kernel = lu_of(m, n, [type_a, compute])?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put_space(&kernel, lda, [device, host]) }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn cholesky_space(
    handle: usize,
    params: usize,
    uplo: c_int,
    n: i64,
    type_a: c_int,
    _a: u64,
    lda: i64,
    compute: c_int,
    device: *mut usize,
    host: *mut usize,
) -> Outcome {
    call(handle, params)?;
    let kernel = cholesky_of(uplo, n, [type_a, compute])?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put_space(&kernel, lda, [device, host]) }
}

/// Work space as the program passes it.
struct Space {
    device: (u64, usize),
    host: (*mut c_void, usize),
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn lu(
    handle: usize,
    params: usize,
    m: i64,
    n: i64,
    type_a: c_int,
    a: u64,
    lda: i64,
    pivots: u64,
    compute: c_int,
    device: u64,
    device_bytes: usize,
    host: *mut c_void,
    host_bytes: usize,
    info: u64,
) -> Outcome {
    let call = call(handle, params)?;
    let kernel = lu_of(m, n, [type_a, compute])?;
    let kernel = DenseKernel {
        a: matrix(a, lda, (kernel.m, kernel.n))?,
        pivots,
        info,
        ..kernel
    };
    let space = Space {
        device: (device, device_bytes),
        host: (host, host_bytes),
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { factor(call, kernel, &space) }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn cholesky(
    handle: usize,
    params: usize,
    uplo: c_int,
    n: i64,
    type_a: c_int,
    a: u64,
    lda: i64,
    compute: c_int,
    device: u64,
    device_bytes: usize,
    host: *mut c_void,
    host_bytes: usize,
    info: u64,
) -> Outcome {
    let call = call(handle, params)?;
    let kernel = cholesky_of(uplo, n, [type_a, compute])?;
    let kernel = DenseKernel {
        a: matrix(a, lda, (kernel.n, kernel.n))?,
        info,
        ..kernel
    };
    let space = Space {
        device: (device, device_bytes),
        host: (host, host_bytes),
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { factor(call, kernel, &space) }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn lu_solve(
    handle: usize,
    params: usize,
    op: c_int,
    n: i64,
    sides: i64,
    type_a: c_int,
    a: u64,
    lda: i64,
    pivots: u64,
    type_b: c_int,
    b: u64,
    ldb: i64,
    info: u64,
) -> Outcome {
    let mut call = call(handle, params)?;
    let kernel = step(Step::LuSolve, [type_a, type_b], [n, n, sides])?;
    let kernel = DenseKernel {
        op: blas::op(op)?,
        a: matrix(a, lda, (kernel.n, kernel.n))?,
        b: matrix(b, ldb, (kernel.n, kernel.sides))?,
        pivots,
        info,
        ..kernel
    };
    check(&call, &kernel)?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { launch(&mut call, &kernel) }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn cholesky_solve(
    handle: usize,
    params: usize,
    uplo: c_int,
    n: i64,
    sides: i64,
    type_a: c_int,
    a: u64,
    lda: i64,
    type_b: c_int,
    b: u64,
    ldb: i64,
    info: u64,
) -> Outcome {
    let mut call = call(handle, params)?;
    let kernel = step(Step::CholeskySolve, [type_a, type_b], [n, n, sides])?;
    let kernel = DenseKernel {
        uplo: level3::uplo(uplo)?,
        a: matrix(a, lda, (kernel.n, kernel.n))?,
        b: matrix(b, ldb, (kernel.n, kernel.sides))?,
        info,
        ..kernel
    };
    check(&call, &kernel)?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { launch(&mut call, &kernel) }
}

/// Checks that the operands are aligned device memory of the handle's device, and that no two of them overlap.
fn check(call: &Call, kernel: &DenseKernel) -> Outcome {
    let pivots = kernel.step.has_pivots() && kernel.m.min(kernel.n) > 0;
    if kernel.info == 0 || pivots && kernel.pivots == 0 {
        return Err(Status::InvalidValue);
    }
    let device = call.state.device_of(call.stream)?;
    let element = kernel.dtype.size();
    let aligned = [
        (kernel.a.addr, element),
        (kernel.b.addr, element),
        (kernel.pivots, DenseKernel::PIVOT),
        (kernel.info, DenseKernel::INFO),
        (kernel.scratch, ALIGNED),
    ];
    for (addr, to) in aligned {
        if !addr.is_multiple_of(to as u64) {
            complain(format_args!(
                "{addr:#x} is not aligned to {to} bytes: {kernel:x?}"
            ));
            return Err(Status::LaunchFailed);
        }
    }
    let mut before: Vec<(u64, u64)> = Vec::new();
    for (addr, bytes) in kernel.spans() {
        let (region, shape) = piece(addr, bytes);
        if call.state.memory.place(region, shape) != Ok(Place::Device(device)) {
            complain(format_args!(
                "{bytes} bytes at {addr:#x} are no memory of {device:?}: {kernel:x?}"
            ));
            return Err(Status::IllegalAddress);
        }
        // Within a block: the sum is an address.
        let end = addr + bytes as u64;
        if before.iter().any(|other| addr < other.1 && other.0 < end) {
            complain(format_args!("two operands overlap: {kernel:x?}"));
            return Err(Status::LaunchFailed);
        }
        before.push((addr, end));
    }
    Ok(())
}

/// Queues a factorization.
///
/// # Safety
/// The host memory of the work space has the bytes that the program says until the operation is complete, and nothing else uses it.
unsafe fn factor(mut call: Call, kernel: DenseKernel, given: &Space) -> Outcome {
    let (device, host) = space(&kernel);
    let enough = given.device.1 >= device && given.host.1 >= host;
    if !enough || given.device.0 == 0 || host > 0 && given.host.0.is_null() {
        return Err(Status::InvalidValue);
    }
    let kernel = DenseKernel {
        scratch: given.device.0,
        scratch_bytes: device,
        ..kernel
    };
    check(&call, &kernel)?;
    let at = given.host.0.expose_provenance() as u64;
    let (buffer, bytes) = piece(at, host);
    if host > 0 && matches!(call.state.memory.place(buffer, bytes), Ok(Place::Device(_))) {
        complain(format_args!("{at:#x} is no host memory: {kernel:x?}"));
        return Err(Status::InvalidValue);
    }
    let (scratch, whole) = piece(kernel.scratch, device);
    // SAFETY: the work space is the step's until it is complete: `check` found the part in device memory within a block, and the
    // caller vouches for the part in host memory.
    unsafe {
        call.state.fill(call.stream, scratch, whole, &[GARBAGE])?;
        launch(&mut call, &kernel)?;
        if host > 0 {
            cpu::scatter([GARBAGE; HOST].as_ptr(), buffer, bytes);
            let device = call.state.device_of(call.stream)?;
            let after = call.state.order(call.stream);
            let (scratch, _) = piece(kernel.scratch, host);
            let last = machine()?.download(device, after.as_slice(), scratch, buffer, bytes);
            call.state.book(call.stream, last.map_err(status)?);
        }
    }
    Ok(())
}

/// Queues a step.
///
/// # Safety
/// The kernel is as [`check`] says. If it is a solution by LU factors, its pivots lie within the matrix.
unsafe fn launch(call: &mut Call, kernel: &DenseKernel) -> Outcome {
    let device = call.state.device_of(call.stream)?;
    let after = call.state.order(call.stream);
    // SAFETY: the operands lie within blocks of the device and do not overlap; the caller vouches for the pivots.
    let done = unsafe { machine()?.solve(device, after.as_slice(), kernel) };
    call.state.book(call.stream, done.map_err(status)?);
    Ok(())
}
