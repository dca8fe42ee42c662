//! A handle of cuBLAS, and the device memory that its kernels may use besides their operands.
#![expect(unsafe_code, reason = "calls cuBLAS")]

use core::ffi::{c_int, c_void};
use core::ptr;

use cudarc::cublas::sys::{self, cublasHandle_t, cublasPointerMode_t};

use super::super::driver::{CUstream, Status};
use super::args::{Result, check};

/// A handle, bound to one stream of the context that was current when it was made.
#[derive(Debug)]
pub(in crate::device::cuda) struct Blas {
    pub(super) handle: cublasHandle_t,
    pub(super) stream: CUstream,
    /// The handle reads and writes scalars on the device.
    pub(super) on_device: bool,
    pub(super) aside: Aside,
}

// SAFETY: cuBLAS handles may be used by any thread, one at a time: every use takes `&mut self`.
unsafe impl Send for Blas {}

/// The share of a device's memory that may be put aside for products that could do without. It is no part of what caches
/// matrices.
const SHARE: usize = 32;

/// Device memory. It stays.
#[derive(Debug, Default)]
pub(super) struct Aside {
    pub(super) addr: u64,
    pub(super) bytes: usize,
    /// At most so much for products that could do without.
    pub(super) most: usize,
    /// So many of them still do.
    pub(super) refused: u32,
}

impl Aside {
    /// None yet, on a device with so much memory.
    pub(super) fn new(memory: usize) -> Aside {
        Aside {
            most: memory / SHARE,
            ..Aside::default()
        }
    }
}

impl Blas {
    /// A handle on a stream of the current context, on a device of which so much memory is ours to use.
    ///
    /// # Errors
    /// cuBLAS's status.
    pub(in crate::device::cuda) fn new(
        stream: CUstream,
        memory: usize,
    ) -> core::result::Result<Blas, Status> {
        let mut handle = ptr::null_mut();
        // SAFETY: loaded; the handle is a live local.
        check(unsafe { sys::cublasCreate_v2(&mut handle) })?;
        // SAFETY: a handle and a stream of one context; the two stream types are one in CUDA.
        check(unsafe { sys::cublasSetStream_v2(handle, stream.cast()) })?;
        Ok(Blas {
            handle,
            stream,
            on_device: false,
            aside: Aside::new(memory),
        })
    }

    /// The version, e.g. 130002.
    pub(in crate::device::cuda) fn version(&self) -> i32 {
        let mut v: c_int = 0;
        // SAFETY: a live handle and a live local.
        match check(unsafe { sys::cublasGetVersion_v2(self.handle, &mut v) }) {
            Ok(()) => v,
            Err(_) => 0,
        }
    }

    pub(super) fn results_on_device(&mut self, yes: bool) -> Result {
        if self.on_device != yes {
            let mode = if yes {
                cublasPointerMode_t::CUBLAS_POINTER_MODE_DEVICE
            } else {
                cublasPointerMode_t::CUBLAS_POINTER_MODE_HOST
            };
            // SAFETY: a live handle.
            check(unsafe { sys::cublasSetPointerMode_v2(self.handle, mode) })?;
            self.on_device = yes;
        }
        Ok(())
    }
}

/// Keeps the pointer type of the stream and of cuBLAS's the same size.
const _: () = assert!(size_of::<CUstream>() == size_of::<*mut c_void>());
