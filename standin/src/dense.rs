//! Steps of cuSOLVER on dense matrices: what all functions check of their arguments and operands, the work space, and how a step is
//! queued. The work space has sizes that depend on the matrix, in host memory, too, for some; device memory of the work space is
//! overwritten in stream order before the step, host memory by the call and in stream order behind the step, as the library may use
//! both until then.

#![expect(
    unsafe_code,
    reason = "the program's pointers, as the C functions take them"
)]

use core::ffi::{c_int, c_void};
use core::ptr;

use semcache::base::dense::{DenseKernel, Step};
use semcache::base::{Dtype, Op, Side, Uplo};
use semcache::device::api::{Backend, Operand, Region, Shape};

use crate::blas::{self, Call};
use crate::cpu;
use crate::machine::{machine, status};
use crate::memory::Place;
use crate::misuse::complain;
use crate::names::{Outcome, Status};
use crate::platform::put;
use crate::sparse::{dtype, size};
use crate::state::lock;

/// Device memory of the work space is aligned so.
const ALIGNED: usize = 256;

/// Bytes of host memory that a factorization by LU or QR, and a solution of a symmetric system, need of an odd number of columns.
const HOST: usize = 64;

/// What the work space is overwritten with.
const GARBAGE: u8 = 0xff;

/// A matrix by columns, at an address that is given if it has elements.
pub(crate) fn matrix(addr: u64, ld: i64, (rows, cols): (usize, usize)) -> Outcome<Operand> {
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
pub(crate) fn space(kernel: &DenseKernel) -> (usize, usize) {
    let device = 4096 + (kernel.m + kernel.n + kernel.sides) * kernel.dtype.size();
    let host = match kernel.step {
        Step::Lu | Step::Qr | Step::SymmetricSolve if kernel.n % 2 == 1 => HOST,
        _ => 0,
    };
    (device.next_power_of_two(), host)
}

/// The call of a function with this handle.
pub(crate) fn call(handle: usize) -> Outcome<Call> {
    let state = lock()?;
    let known = state.solver_handles.get(&handle).copied();
    Call::with(state, known.ok_or(Status::InvalidHandle)?)
}

/// As [`call`], of a function that takes parameters, too.
pub(crate) fn call_with(handle: usize, params: usize) -> Outcome<Call> {
    let call = call(handle)?;
    if !call.state.solver_params.contains(&params) {
        if params != 0 {
            complain(format_args!("{params:#x} are no parameters of cuSOLVER"));
        }
        return Err(Status::InvalidValue);
    }
    Ok(call)
}

/// The element type that all operands and the computation have.
pub(crate) fn common(types: &[c_int]) -> Outcome<Dtype> {
    match types {
        [first, others @ ..] if others.iter().all(|other| other == first) => dtype(*first),
        _ => Err(Status::NotSupported),
    }
}

/// A step without addresses, whose sizes are rows and columns of A, and columns of B.
pub(crate) fn step(step: Step, dtype: Dtype, sizes: [i64; 3]) -> Outcome<DenseKernel> {
    let [m, n, sides] = sizes.map(size);
    Ok(DenseKernel {
        step,
        dtype,
        uplo: Uplo::Lower,
        op: Op::None,
        side: Side::Left,
        m: m?,
        n: n?,
        sides: sides?,
        a: Operand::default(),
        b: Operand::default(),
        pivots: 0,
        tau: 0,
        info: 0,
        scratch: 0,
        scratch_bytes: 0,
    })
}

/// Stores the sizes of the work space; the matrix may be null, as nothing is read.
///
/// # Safety
/// Addresses that are not null are those of the program's integers.
pub(crate) unsafe fn put_space(kernel: &DenseKernel, lda: i64, to: [*mut usize; 2]) -> Outcome {
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

/// Stores the size of the work space in device memory, in elements, as functions with 32-bit integers do.
///
/// # Safety
/// As [`put_space`].
pub(crate) unsafe fn put_elements(kernel: &DenseKernel, to: *mut c_int) -> Outcome {
    let (bytes, _) = space(kernel);
    let elements = c_int::try_from(bytes / kernel.dtype.size());
    // SAFETY: the caller keeps this function's contract.
    unsafe { put(to, elements.map_err(|_| Status::InvalidValue)?) }
}

/// Work space as the program passes it: addresses and bytes.
pub(crate) struct Space {
    pub(crate) device: (u64, usize),
    pub(crate) host: (*mut c_void, usize),
}

impl Space {
    /// In device memory alone, as functions with 32-bit integers take it: in elements.
    pub(crate) fn of(work: u64, elements: c_int, dtype: Dtype) -> Outcome<Space> {
        Ok(Space {
            device: (work, blas::size(elements)? * dtype.size()),
            host: (ptr::null_mut(), 0),
        })
    }
}

/// Checks that the operands are aligned device memory of the handle's device, and that no two of them overlap.
fn check(call: &Call, kernel: &DenseKernel) -> Outcome {
    let any = kernel.m.min(kernel.n) > 0;
    let pivots = kernel.step.pivot() > 0 && any;
    let tau = kernel.step.has_tau() && any;
    if kernel.info == 0 || pivots && kernel.pivots == 0 || tau && kernel.tau == 0 {
        return Err(Status::InvalidValue);
    }
    let device = call.state.device_of(call.stream)?;
    let element = kernel.dtype.size();
    let aligned = [
        (kernel.a.addr, element),
        (kernel.b.addr, element),
        (kernel.pivots, kernel.step.pivot().max(1)),
        (kernel.tau, element),
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

/// Queues a step that takes work space.
///
/// # Safety
/// As [`launch`]. The host memory of the work space has the bytes that the program says until the operation is complete, and nothing
/// else uses it.
pub(crate) unsafe fn launch_in(mut call: Call, kernel: DenseKernel, given: &Space) -> Outcome {
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
    // caller vouches for the part in host memory and for pivots that are read.
    unsafe {
        call.state.fill(call.stream, scratch, whole, &[GARBAGE])?;
        queue(&mut call, &kernel)?;
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

/// Queues a step that takes no work space.
///
/// # Safety
/// If it is a solution by LU factors, its pivots lie within the matrix.
pub(crate) unsafe fn launch(mut call: Call, kernel: &DenseKernel) -> Outcome {
    check(&call, kernel)?;
    // SAFETY: just checked; the caller vouches for the pivots.
    unsafe { queue(&mut call, kernel) }
}

/// # Safety
/// The kernel is as [`check`] says. If it is a solution by LU factors, its pivots lie within the matrix.
unsafe fn queue(call: &mut Call, kernel: &DenseKernel) -> Outcome {
    let device = call.state.device_of(call.stream)?;
    let after = call.state.order(call.stream);
    // SAFETY: the operands lie within blocks of the device and do not overlap; the caller vouches for the pivots.
    let done = unsafe { machine()?.solve(device, after.as_slice(), kernel) };
    call.state.book(call.stream, done.map_err(status)?);
    Ok(())
}
