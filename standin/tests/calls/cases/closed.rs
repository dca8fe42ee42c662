//! Copies of memory that the CPU must not access.

use crate::gpu::*;

const CLOSED: usize = 1 << 20;

/// Registered memory that is filled and then made inaccessible, and a device block of its size.
unsafe fn closed_memory() -> (*mut u8, u64, Stream) {
    unsafe {
        context(0);
        let memory = pages(CLOSED);
        for i in 0..CLOSED {
            memory.add(i).write((i % 253) as u8);
        }
        ok!(cu cuMemHostRegister_v2(memory.cast(), CLOSED, 0));
        protect(memory, CLOSED, false);
        (memory, alloc(CLOSED), stream())
    }
}

/// Copies between devices and inaccessible pages.
pub(super) unsafe fn closed() {
    unsafe {
        let (memory, device, stream) = closed_memory();
        ok!(cu cuMemcpyHtoDAsync_v2(device, memory.add(5).cast(), 32 << 10, stream));
        let (from, to) = (
            Side::Host(memory.add(100_000), 1000),
            Side::Device(device + 65_536, 64),
        );
        assert_eq!(rows(from, to, 64, 2, stream), 0);
        let (from, to) = (
            Side::Host(memory, CLOSED),
            Side::Device(device + 131_072, CLOSED),
        );
        assert_eq!(rows(from, to, (16 << 10) + 1, 1, stream), 0);
        let mut seen = vec![0u8; CLOSED];
        download(&mut seen, device, stream);
        let same = |to: usize, from: usize, n: usize| {
            (0..n).all(|i| seen[to + i] == ((from + i) % 253) as u8)
        };
        assert!(same(0, 5, 32 << 10) && same(131_072, 0, (16 << 10) + 1));
        assert!(same(65_536, 100_000, 64) && same(65_600, 101_000, 64));
        // To the host, of any size.
        ok!(cu cuMemcpyDtoHAsync_v2(memory.add(9).cast(), device, 1, stream));
        synchronize(stream);
        protect(memory, CLOSED, true);
        assert_eq!((memory.add(9).read(), memory.add(10).read()), (5, 10));
        // To the device, a small piece from accessible pages.
        ok!(cu cuMemcpyHtoDAsync_v2(device, memory.add(7).cast(), 1, stream));
        synchronize(stream);
    }
}

/// If the process replaces pinned pages, copy engines keep using the old ones, and the CPU reads the new ones.
pub(super) unsafe fn replaced() {
    use rustix::mm::{Advice, madvise};
    let bytes = 256 << 10;
    unsafe {
        context(0);
        let (memory, device, stream) = (pages(bytes), alloc(bytes), stream());
        memory.write_bytes(5, bytes);
        ok!(cu cuMemHostRegister_v2(memory.cast(), bytes, 1));
        madvise(memory.cast(), bytes, Advice::LinuxDontNeed).unwrap();
        let host = core::slice::from_raw_parts_mut(memory, bytes);
        let seen = |n| {
            let mut last = [9u8];
            download(&mut last, device + n as u64 - 1, stream);
            last[0]
        };
        upload(device, host, stream);
        assert_eq!(seen(bytes), 5);
        upload(device, &host[..1024], stream);
        assert_eq!((seen(1024), seen(1025)), (0, 5));
        ok!(cu cuMemsetD8Async(device, 8, bytes, stream));
        host.fill(7);
        download(&mut host[..100], device, stream);
        synchronize(stream);
        assert!(host.iter().all(|v| *v == 7));
        ok!(cu cuMemHostUnregister(memory.cast()));
        upload(device, &host[..1], stream);
        assert_eq!(seen(1), 7);
    }
}

pub(super) unsafe fn closed_small() {
    unsafe {
        let (memory, device, stream) = closed_memory();
        cu!(cuMemcpyHtoDAsync_v2(
            device,
            memory.cast(),
            (32 << 10) - 1,
            stream
        ));
    }
}

pub(super) unsafe fn closed_row() {
    unsafe {
        let (memory, device, stream) = closed_memory();
        rows(
            Side::Host(memory, 16 << 10),
            Side::Device(device, 16 << 10),
            16 << 10,
            1,
            stream,
        );
    }
}

pub(super) unsafe fn closed_pageable() {
    unsafe {
        let (memory, device, stream) = closed_memory();
        ok!(cu cuMemHostUnregister(memory.cast()));
        cu!(cuMemcpyDtoHAsync_v2(memory.cast(), device, 65_536, stream));
    }
}
