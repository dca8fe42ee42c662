//! Copies and fills of memory of all kinds.

use std::ptr::null_mut;

use crate::gpu::*;

/// Pageable memory may be overwritten by the program as soon as a copy's call returns.
pub(super) unsafe fn pageable() {
    unsafe {
        context(0);
        let stream = stream();
        let device = alloc(80_000);
        let mut host: Vec<u8> = (0..80_000_u32).map(|i| i as u8).collect();
        upload(device, &host, stream);
        host.fill(0);
        download(&mut host, device, stream);
        assert!(host.iter().enumerate().all(|(i, v)| *v == i as u8));
        let mut packed = vec![0u8; 30];
        let to = Side::Host(packed.as_mut_ptr(), 10);
        assert_eq!(rows(Side::Device(device, 100), to, 10, 3, stream), 0);
        assert_eq!((packed[9], packed[10], packed[29]), (9, 100, 209));
        let mut free = 0;
        let mut total = 0;
        ok!(cu cuMemGetInfo_v2(&raw mut free, &raw mut total));
        assert_eq!((total, total - free), (2 << 30, 80_128));
    }
}

/// Kernels on operands in registered memory, which may be inaccessible to the CPU, and of which gaps must not be
/// written.
pub(super) unsafe fn guests() {
    let bytes = 1 << 16;
    unsafe {
        context(0);
        let stream = stream();
        let handle = handle(stream);
        let memory = pages(bytes);
        let host = core::slice::from_raw_parts_mut(memory.cast::<f64>(), bytes / F64);
        for (i, v) in host.iter_mut().enumerate() {
            *v = i as f64;
        }
        ok!(cu cuMemHostRegister_v2(memory.cast(), bytes, 0));
        let device = alloc(256);
        let (x, y) = (memory.cast::<f64>(), device as *mut f64);
        protect(memory, bytes, false);
        ok!(blas cublasDcopy_v2(handle, 4, x.add(8), -2, y, 1));
        let two = 2.0;
        ok!(blas cublasDaxpy_v2(handle, 3, &raw const two, y, 1, x.add(100), 3));
        synchronize(stream);
        protect(memory, bytes, true);
        let mut copied = [0.0; 4];
        download(&mut copied, device, stream);
        assert_eq!(copied, [14.0, 12.0, 10.0, 8.0]);
        let host = core::slice::from_raw_parts(x, 110);
        assert_eq!(
            host[99..108],
            [99.0, 128.0, 101.0, 102.0, 127.0, 104.0, 105.0, 126.0, 107.0]
        );
        ok!(cu cuMemHostUnregister(memory.cast()));
    }
}

pub(super) unsafe fn fills() {
    let n = 300_000;
    unsafe {
        context(0);
        let stream = stream();
        let device = alloc(n);
        ok!(cu cuMemsetD8Async(device, 1, n, stream));
        ok!(cu cuMemsetD32Async(device + 4, 0x0403_0201, 40_000, stream));
        ok!(cu cuMemsetD2D8Async(device + 200_001, 10, 9, 3, 4, stream));
        let host = pinned::<u8>(n);
        download(host, device, stream);
        synchronize(stream);
        for (i, v) in host.iter().enumerate() {
            let expected = match i {
                4..160_004 => i % 4 + 1,
                200_001..200_041 if (i - 200_001) % 10 < 3 => 9,
                _ => 1,
            };
            assert_eq!(usize::from(*v), expected, "{i}");
        }
    }
}

pub(super) unsafe fn peers() {
    unsafe {
        let (one, two) = (context(0), context(1));
        let bus = |device| {
            let mut name = [0; 16];
            ok!(cu cuDeviceGetPCIBusId(name.as_mut_ptr(), 16, device));
            name
        };
        assert_ne!(bus(0), bus(1));
        let mut can = 0;
        ok!(cu cuDeviceCanAccessPeer(&raw mut can, 0, 1));
        assert_eq!(can, 1);
        ok!(cu cuCtxEnablePeerAccess(one, 0));
        assert_eq!(cu!(cuCtxEnablePeerAccess(one, 0)), 704);
        let (there, receive) = (alloc(4096), stream());
        ok!(cu cuCtxSetCurrent(one));
        let (here, send, sent) = (alloc(4096), stream(), event());
        let data: Vec<u8> = (0..4096_u32).map(|i| (i % 251) as u8).collect();
        let host = pinned::<u8>(4096);
        host.copy_from_slice(&data);
        upload(here, host, send);
        ok!(cu cuEventRecord(sent, send));
        ok!(cu cuCtxPushCurrent_v2(two));
        assert_eq!(cu!(cuEventRecord(sent, receive)), 400);
        ok!(cu cuStreamWaitEvent(receive, sent, 0));
        ok!(cu cuMemcpyPeerAsync(there, two, here, one, 1000, receive));
        let pitches = (100, 128);
        assert_eq!(
            peer_rows((here, one), (there + 1024, two), pitches, 50, 3, receive),
            0
        );
        let mut back = vec![0u8; 2048];
        download(&mut back, there, receive);
        assert_eq!(back[..1000], data[..1000]);
        for row in 0..3 {
            let (to, from) = (1024 + row * 128, row * 100);
            assert_eq!(back[to..to + 50], data[from..from + 50], "{row}");
        }
        // A kernel cannot access memory of another device, nor be launched into a stream of another context.
        let handle = handle(receive);
        let mut current = null_mut();
        ok!(cu cuCtxPopCurrent_v2(&raw mut current));
        assert!(current == two);
        ok!(cu cuCtxGetCurrent(&raw mut current));
        assert!(current == one);
        ok!(cu cuCtxDestroy_v2(two));
        assert_eq!(cu!(cuMemFree_v2(there)), 1);
        assert_eq!(blas!(cublasDestroy_v2(handle)), 1);
    }
}
