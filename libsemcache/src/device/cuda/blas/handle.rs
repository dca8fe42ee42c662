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
    /// Whether the handle reads and writes scalars in device memory.
    pub(super) on_device: bool,
    pub(super) scratch: Scratch,
}

// SAFETY: cuBLAS handles may be used by any thread, one at a time: every use takes `&mut self`.
unsafe impl Send for Blas {}

/// The share (1/`SHARE`) of a device's memory that may be scratch for products that can be computed without it. Scratch
/// is not part of the memory that caches matrices.
const SHARE: usize = 32;

/// The scratch memory of a device. It grows, and is freed only to be replaced by a larger block.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) addr: u64,
    pub(super) bytes: usize,
    /// The most bytes for products that can be computed without scratch.
    pub(super) most: usize,
    /// The number of such products still to be computed without scratch after a refusal.
    pub(super) refused: u32,
}

impl Scratch {
    /// No scratch memory yet, on a device with `memory` bytes.
    pub(super) fn new(memory: usize) -> Scratch {
        Scratch {
            most: memory / SHARE,
            ..Scratch::default()
        }
    }
}

impl Blas {
    /// A handle on a stream of the current context, on a device of which semcache may use `memory` bytes.
    ///
    /// # Errors
    /// cuBLAS's status.
    pub(in crate::device::cuda) fn new(
        stream: CUstream,
        memory: usize,
    ) -> core::result::Result<Blas, Status> {
        let mut handle = ptr::null_mut();
        // SAFETY: cuBLAS is loaded; the handle is a live local.
        check(unsafe { sys::cublasCreate_v2(&mut handle) })?;
        // SAFETY: handle and stream belong to one context; the two stream types are the same type in CUDA.
        check(unsafe { sys::cublasSetStream_v2(handle, stream.cast()) })?;
        Ok(Blas {
            handle,
            stream,
            on_device: false,
            scratch: Scratch::new(memory),
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

/// Checks at compile time that the stream types of the driver's and of cuBLAS's bindings have the same size.
const _: () = assert!(size_of::<CUstream>() == size_of::<*mut c_void>());
