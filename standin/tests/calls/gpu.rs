//! Short forms of the CUDA, cuBLAS and cuSOLVER calls in these tests.

use std::ptr::{null, null_mut, without_provenance_mut};

use cudarc::cublas::sys as blas_sys;
use cudarc::cusolver::sys::cudaDataType as Data;
use cudarc::driver::sys as cu_sys;

pub(crate) use blas_sys::{cublasHandle_t as Handle, cublasOperation_t as Op};
pub(crate) use cu_sys::{CUcontext as Context, CUevent as Event, CUstream as Stream};

/// Makes a call and returns its status.
macro_rules! cu {
    ($name:ident($($arg:expr),* $(,)?)) => { cudarc::driver::sys::$name($($arg),*) as i32 };
}
macro_rules! blas {
    ($name:ident($($arg:expr),* $(,)?)) => { cudarc::cublas::sys::$name($($arg),*) as i32 };
}
macro_rules! solver {
    ($name:ident($($arg:expr),* $(,)?)) => { cudarc::cusolver::sys::$name($($arg),*) as i32 };
}
/// Makes a call that must succeed.
macro_rules! ok {
    ($kind:ident $name:ident($($arg:expr),* $(,)?)) => {
        assert_eq!($kind!($name($($arg),*)), 0, stringify!($name))
    };
}
pub(crate) use {blas, cu, ok, solver};

/// The element type of most cases.
pub(crate) const F64: usize = size_of::<f64>();

/// Initialises, and makes a context on a device current.
pub(crate) unsafe fn context(device: i32) -> Context {
    unsafe {
        ok!(cu cuInit(0));
        let mut context = null_mut();
        ok!(cu cuCtxCreate_v4(&raw mut context, null_mut(), 0, device));
        context
    }
}

pub(crate) unsafe fn stream() -> Stream {
    unsafe {
        let mut stream = null_mut();
        ok!(cu cuStreamCreate(&raw mut stream, 1));
        stream
    }
}

pub(crate) unsafe fn event() -> Event {
    unsafe {
        let mut event = null_mut();
        ok!(cu cuEventCreate(&raw mut event, 2));
        event
    }
}

pub(crate) unsafe fn alloc(bytes: usize) -> u64 {
    unsafe {
        let mut at = 0;
        ok!(cu cuMemAlloc_v2(&raw mut at, bytes));
        assert!(at != 0 && at % 256 == 0);
        at
    }
}

pub(crate) unsafe fn pinned<T>(n: usize) -> &'static mut [T] {
    unsafe {
        let mut at = null_mut();
        ok!(cu cuMemHostAlloc(&raw mut at, n * size_of::<T>(), 1));
        let mut device = 0;
        ok!(cu cuMemHostGetDevicePointer_v2(&raw mut device, at, 0));
        assert_eq!(device, at.expose_provenance() as u64);
        core::slice::from_raw_parts_mut(at.cast(), n)
    }
}

pub(crate) unsafe fn handle(stream: Stream) -> Handle {
    unsafe {
        let mut handle = null_mut();
        ok!(blas cublasCreate_v2(&raw mut handle));
        ok!(blas cublasSetStream_v2(handle, stream.cast()));
        handle
    }
}

pub(crate) unsafe fn device_pointers(handle: Handle, on: bool) {
    let mode = if on {
        blas_sys::cublasPointerMode_t::CUBLAS_POINTER_MODE_DEVICE
    } else {
        blas_sys::cublasPointerMode_t::CUBLAS_POINTER_MODE_HOST
    };
    unsafe { ok!(blas cublasSetPointerMode_v2(handle, mode)) };
}

pub(crate) unsafe fn upload<T>(to: u64, from: &[T], stream: Stream) {
    unsafe {
        ok!(cu cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), size_of_val(from), stream));
    }
}

pub(crate) unsafe fn download<T>(to: &mut [T], from: u64, stream: Stream) {
    unsafe {
        ok!(cu cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from, size_of_val(to), stream));
    }
}

pub(crate) unsafe fn synchronize(stream: Stream) {
    unsafe { ok!(cu cuStreamSynchronize(stream)) };
}

/// What is in device memory once the stream is idle.
pub(crate) unsafe fn read<E: Copy + Default>(at: u64, n: usize, stream: Stream) -> Vec<E> {
    let mut home = vec![E::default(); n];
    unsafe {
        download(&mut home, at, stream);
        synchronize(stream);
    }
    home
}

/// An address in device memory, as the functions of cuSPARSE and cuSOLVER take it.
pub(crate) fn pointer<P>(at: u64) -> *mut P {
    without_provenance_mut(at as usize)
}

/// What cuSOLVER's functions return, besides success.
pub(crate) mod solver_status {
    pub(crate) const UNKNOWN: i32 = 1;
    pub(crate) const INVALID: i32 = 3;
    pub(crate) const FAILED: i32 = 6;
    pub(crate) const UNSUPPORTED: i32 = 9;
}

/// The element types of cuSOLVER's functions.
pub(crate) const TYPES: [Data; 4] = [
    Data::CUDA_R_32F,
    Data::CUDA_R_64F,
    Data::CUDA_C_32F,
    Data::CUDA_C_64F,
];

/// Calls the function of cuSOLVER for an element type.
macro_rules! by_type {
    ($data:expr, [$s:ident, $d:ident, $c:ident, $z:ident] => $arguments:tt) => {
        match $data {
            Data::CUDA_R_32F => cudarc::cusolver::sys::$s $arguments as i32,
            Data::CUDA_R_64F => cudarc::cusolver::sys::$d $arguments as i32,
            Data::CUDA_C_32F => cudarc::cusolver::sys::$c $arguments as i32,
            Data::CUDA_C_64F => cudarc::cusolver::sys::$z $arguments as i32,
            other => panic!("{other:?}"),
        }
    };
}
pub(crate) use by_type;

pub(crate) fn is_complex(data: Data) -> bool {
    matches!(data, Data::CUDA_C_32F | Data::CUDA_C_64F)
}

/// Elements of a type, from their real and imaginary parts.
pub(crate) fn elements(data: Data, numbers: &[[f64; 2]]) -> Vec<u8> {
    let single = matches!(data, Data::CUDA_R_32F | Data::CUDA_C_32F);
    let parts = 1 + usize::from(is_complex(data));
    let parts = numbers.iter().flat_map(|number| &number[..parts]);
    let bytes = parts.map(|part| match single {
        true => (*part as f32).to_ne_bytes().to_vec(),
        false => part.to_ne_bytes().to_vec(),
    });
    bytes.flatten().collect()
}

/// One side of a 2-D copy.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Host(*mut u8, usize),
    Device(u64, usize),
}

pub(crate) unsafe fn rows(src: Side, dst: Side, width: usize, count: usize, stream: Stream) -> i32 {
    use cu_sys::CUmemorytype::{CU_MEMORYTYPE_DEVICE as DEVICE, CU_MEMORYTYPE_HOST as HOST};
    let parts = |side| match side {
        Side::Host(at, pitch) => (HOST, at, 0, pitch),
        Side::Device(at, pitch) => (DEVICE, null_mut(), at, pitch),
    };
    let (from, to) = (parts(src), parts(dst));
    let copy = cu_sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: from.0,
        srcHost: from.1.cast_const().cast(),
        srcDevice: from.2,
        srcArray: null_mut(),
        srcPitch: from.3,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: to.0,
        dstHost: to.1.cast(),
        dstDevice: to.2,
        dstArray: null_mut(),
        dstPitch: to.3,
        WidthInBytes: width,
        Height: count,
    };
    unsafe { cu!(cuMemcpy2DAsync_v2(&raw const copy, stream)) }
}

pub(crate) unsafe fn peer_rows(
    (src, from): (u64, Context),
    (dst, to): (u64, Context),
    pitches: (usize, usize),
    width: usize,
    count: usize,
    stream: Stream,
) -> i32 {
    let copy = cu_sys::CUDA_MEMCPY3D_PEER {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: cu_sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcHost: null(),
        srcDevice: src,
        srcArray: null_mut(),
        srcContext: from,
        srcPitch: pitches.0,
        srcHeight: 0,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: cu_sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: null_mut(),
        dstDevice: dst,
        dstArray: null_mut(),
        dstContext: to,
        dstPitch: pitches.1,
        dstHeight: 0,
        WidthInBytes: width,
        Height: count,
        Depth: 1,
    };
    unsafe { cu!(cuMemcpy3DPeerAsync(&raw const copy, stream)) }
}

/// Private, writable pages of host memory.
pub(crate) unsafe fn pages(bytes: usize) -> *mut u8 {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let access = ProtFlags::READ | ProtFlags::WRITE;
    unsafe { mmap_anonymous(null_mut(), bytes, access, MapFlags::PRIVATE) }
        .unwrap()
        .cast()
}

/// Makes pages accessible (`open`) or inaccessible.
pub(crate) unsafe fn protect(at: *mut u8, bytes: usize, open: bool) {
    use rustix::mm::{MprotectFlags, mprotect};
    let access = if open {
        MprotectFlags::READ | MprotectFlags::WRITE
    } else {
        MprotectFlags::empty()
    };
    unsafe { mprotect(at.cast(), bytes, access) }.unwrap();
}
