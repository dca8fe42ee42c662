//! Statuses, fork, a machine without devices, and a chain of calls of which any may be made to fail.

use std::ptr::null_mut;

use crate::gpu::*;

/// Calls that must be refused.
pub(super) unsafe fn statuses() {
    unsafe {
        let mut at = 0;
        assert_eq!(cu!(cuMemAlloc_v2(&raw mut at, 256)), 3);
        assert_eq!(cu!(cuInit(0)), 0);
        assert_eq!(cu!(cuMemAlloc_v2(&raw mut at, 256)), 201);
        let mut handle = null_mut();
        assert_eq!(blas!(cublasCreate_v2(&raw mut handle)), 1);
        let stream = {
            context(0);
            stream()
        };
        assert_eq!(cu!(cuMemAlloc_v2(&raw mut at, 0)), 1);
        assert_eq!(cu!(cuMemAlloc_v2(&raw mut at, 3 << 30)), 2);
        let device = alloc(65_536);
        let bytes = 1 << 17;
        let memory = pages(2 * bytes);
        let half = memory.add(bytes);
        protect(half, bytes, false);
        assert_eq!(cu!(cuMemHostRegister_v2(memory.cast(), 2 * bytes, 0)), 1);
        ok!(cu cuMemHostRegister_v2(memory.cast(), bytes, 0));
        assert_eq!(cu!(cuMemHostRegister_v2(half.sub(1).cast(), 1, 0)), 712);
        assert_eq!(cu!(cuMemHostUnregister(half.cast())), 713);
        protect(half, bytes, true);
        // Copies across the end of the registration, in both directions and forms.
        let edge = half.sub(100);
        assert_eq!(
            cu!(cuMemcpyHtoDAsync_v2(device, edge.cast(), 101, stream)),
            1
        );
        assert_eq!(
            cu!(cuMemcpyDtoHAsync_v2(edge.cast(), device, 101, stream)),
            1
        );
        let (from, to) = (Side::Host(edge, 60), Side::Device(device, 64));
        assert_eq!(rows(from, to, 41, 2, stream), 1);
        assert_eq!(rows(from, to, 40, 2, stream), 0);
        assert_eq!(rows(Side::Host(memory, 1 << 31), to, 8, 2, stream), 1);
        ok!(cu cuMemHostUnregister(memory.cast()));
        // Past the end of a block.
        assert_eq!(
            cu!(cuMemcpyHtoDAsync_v2(
                device + 65_000,
                memory.cast(),
                1000,
                stream
            )),
            1
        );
        assert_eq!(cu!(cuMemFree_v2(device + 256)), 1);
        ok!(cu cuMemFree_v2(device));
        ok!(blas cublasCreate_v2(&raw mut handle));
        let one = 1.0;
        let x = device as *mut f64;
        let gemv = |lda, inc| {
            blas!(cublasDgemv_v2(
                handle,
                Op::CUBLAS_OP_N,
                4,
                2,
                &raw const one,
                x,
                lda,
                x,
                inc,
                &raw const one,
                x,
                1,
            ))
        };
        assert_eq!((gemv(3, 1), gemv(4, 0)), (7, 7));
        ok!(cu cuStreamDestroy_v2(stream));
        let mut name = std::ptr::null();
        ok!(cu cuGetErrorName(cudarc::driver::sys::CUresult::CUDA_ERROR_NOT_READY, &raw mut name));
        assert_eq!(
            core::ffi::CStr::from_ptr(name).to_str(),
            Ok("CUDA_ERROR_NOT_READY")
        );
    }
}

/// A child process has no device.
pub(super) unsafe fn forked() {
    unsafe {
        context(0);
        let child = testkit::forked(|| {
            assert_eq!(cu!(cuInit(0)), 3);
            assert_eq!(cu!(cuStreamSynchronize(null_mut())), 3);
        });
        assert!(child.wait().success());
    }
}

pub(super) unsafe fn nothing() {
    unsafe {
        assert_eq!(cu!(cuInit(0)), 100);
        let mut n = 5;
        assert_eq!(cu!(cuDeviceGetCount(&raw mut n)), 3);
    }
}

/// Prints the status of each of a chain of calls, and what it computed.
pub(crate) unsafe fn chain() {
    unsafe {
        let mut status = vec![cu!(cuInit(0))];
        let mut context = null_mut();
        status.push(cu!(cuCtxCreate_v4(&raw mut context, null_mut(), 0, 0)));
        let mut at = [0, 0];
        for at in &mut at {
            status.push(cu!(cuMemAlloc_v2(at, 256)));
        }
        let device = at[0].max(at[1]);
        let mut handle = null_mut();
        status.push(blas!(cublasCreate_v2(&raw mut handle)));
        let (one, two) = (1.0, 2.0);
        let mut result = 0.0;
        status.push(cu!(cuMemcpyHtoDAsync_v2(
            device,
            (&raw const one).cast(),
            F64,
            null_mut()
        )));
        status.push(blas!(cublasDscal_v2(
            handle,
            1,
            &raw const two,
            device as *mut f64,
            1
        )));
        status.push(cu!(cuMemcpyDtoHAsync_v2(
            (&raw mut result).cast(),
            device,
            F64,
            null_mut()
        )));
        status.push(cu!(cuStreamSynchronize(null_mut())));
        for code in status {
            print!("{code} ");
        }
        println!("result {result}");
    }
}
