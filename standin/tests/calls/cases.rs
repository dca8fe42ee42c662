//! Tests of the stand-in, one function each.

use std::ptr::null_mut;

use crate::End;
use crate::gpu::*;

const ALL: &[&str] = &[
    "",
    "late",
    "poison",
    "seed=1",
    "system",
    "late,poison,seed=2",
];
const PAIR: &[&str] = &["devices=2", "devices=2,late", "devices=3,poison,seed=3"];

/// A case: its name, its function, the settings that it runs with, and how it must end.
type Case = (&'static str, unsafe fn(), &'static [&'static str], End);

pub(crate) const CASES: &[Case] = &[
    ("product", product, ALL, End::Fine),
    ("triangles", triangles, ALL, End::Fine),
    ("half_and_vectors", half_and_vectors, ALL, End::Fine),
    ("matrices", matrices, ALL, End::Fine),
    ("pageable", pageable, ALL, End::Fine),
    ("reductions", reductions, ALL, End::Fine),
    ("guests", guests, ALL, End::Fine),
    ("fills", fills, ALL, End::Fine),
    ("peers", peers, PAIR, End::Fine),
    ("statuses", statuses, &["", "memory=65536"], End::Fine),
    ("polls", polls, ALL, End::Fine),
    ("events", events, &["late"], End::Fine),
    ("times", times, &["late", "late,poison,seed=2"], End::Fine),
    ("null_stream", null_stream, ALL, End::Fine),
    ("closed", closed, ALL, End::Fine),
    ("replaced", replaced, ALL, End::Fine),
    (
        "closed_small",
        closed_small,
        &["", "late"],
        End::Signal(11, "the CPU reads 32767 closed bytes"),
    ),
    (
        "closed_row",
        closed_row,
        &[""],
        End::Signal(11, "the CPU reads 16384 closed bytes"),
    ),
    (
        "closed_pageable",
        closed_pageable,
        &[""],
        End::Signal(11, "the CPU writes 65536 closed bytes"),
    ),
    ("forked", forked, &[""], End::Fine),
    ("nothing", nothing, &["devices=0"], End::Fine),
    ("chain", chain, &[""], End::Fine),
];

/// C = 2 A B^T - C on padded matrices in pinned memory, all asynchronous.
unsafe fn product() {
    let (m, n, k, ld) = (5, 4, 3, 7);
    unsafe {
        context(0);
        let (load, work, store) = (stream(), stream(), stream());
        let (loaded, worked) = (event(), event());
        let handle = handle(work);
        let host = pinned::<f64>(3 * ld * 7);
        let value = |i: usize| (i * 7 % 11) as f64 - 5.0;
        for (i, v) in host.iter_mut().enumerate() {
            *v = value(i);
        }
        let matrix = ld * 7;
        let device = alloc(host.len() * F64);
        upload(device, host, load);
        ok!(cu cuEventRecord(loaded, load));
        ok!(cu cuStreamWaitEvent(work, loaded, 0));
        let at = |i: usize| (device + (i * matrix * F64) as u64) as *mut f64;
        let (alpha, beta) = (2.0, -1.0);
        ok!(blas cublasDgemm_v2(
            handle, Op::CUBLAS_OP_N, Op::CUBLAS_OP_T, m as i32, n as i32, k as i32, &raw const alpha,
            at(0), ld as i32, at(1), ld as i32, &raw const beta, at(2), ld as i32,
        ));
        ok!(cu cuEventRecord(worked, work));
        ok!(cu cuStreamWaitEvent(store, worked, 0));
        let home = pinned::<f64>(matrix);
        home.fill(77.0);
        let (pitch, from) = (ld * F64, Side::Device(at(2) as u64, ld * F64));
        let to = Side::Host(home.as_mut_ptr().cast(), pitch);
        assert_eq!(rows(from, to, m * F64, n, store), 0);
        synchronize(store);
        for (i, v) in home.iter().enumerate() {
            let (row, col) = (i % ld, i / ld);
            let sum: f64 = (0..k)
                .map(|l| value(row + l * ld) * value(matrix + col + l * ld))
                .sum();
            let expected = if row < m && col < n {
                2.0 * sum - value(2 * matrix + i)
            } else {
                77.0
            };
            assert_eq!(*v, expected, "({row}, {col})");
        }
        ok!(cu cuMemFree_v2(device));
        ok!(cu cuEventDestroy_v2(worked));
        ok!(blas cublasDestroy_v2(handle));
        ok!(cu cuStreamDestroy_v2(load));
    }
}

/// Special matrices of order 2, in which the other triangle must not be accessed; real scalars where the functions take
/// real ones.
unsafe fn triangles() {
    use cudarc::cublas::sys::{
        cuDoubleComplex, cublasDiagType_t as Diag, cublasFillMode_t as Fill, cublasSideMode_t as At,
    };
    const GAP: f64 = -99.0;
    unsafe {
        context(0);
        let stream = stream();
        let handle = handle(stream);
        let device = alloc(256);
        let (a, b) = (device as *mut f64, (device + 64) as *mut f64);
        let (lower, upper) = (Fill::CUBLAS_FILL_MODE_LOWER, Fill::CUBLAS_FILL_MODE_UPPER);
        let (one, two) = (1.0, 2.0);
        let put = |at: *mut f64, values: &[f64]| upload(at as u64, values, stream);
        let get = |at: *mut f64| {
            let mut values = [0.0; 4];
            download(&mut values, at as u64, stream);
            values
        };
        // B (1 2; 2 3) + B, with B = (1 3; 2 4)
        put(a, &[1.0, 2.0, GAP, 3.0]);
        put(b, &[1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0]);
        let c = b.add(4);
        ok!(blas cublasDsymm_v2(
            handle, At::CUBLAS_SIDE_RIGHT, lower, 2, 2, &raw const one, a, 2, b, 2, &raw const one, c, 2,
        ));
        assert_eq!(get(c), [8.0, 12.0, 14.0, 20.0]);
        // C + 2 x x^T of x = (3, 5)
        put(b, &[3.0, 5.0]);
        put(c, &[1.0, GAP, 2.0, 3.0]);
        ok!(blas cublasDsyrk_v2(
            handle, upper, Op::CUBLAS_OP_T, 2, 1, &raw const two, b, 1, &raw const one, c, 2,
        ));
        assert_eq!(get(c), [19.0, GAP, 32.0, 53.0]);
        ok!(blas cublasDsyr2k_v2(
            handle, upper, Op::CUBLAS_OP_N, 2, 1, &raw const one, b, 2, b, 2, &raw const two, c, 2,
        ));
        assert_eq!(get(c), [56.0, GAP, 94.0, 156.0]);
        // A triangle copied to packed storage, and from there into another matrix.
        put(a, &[1.0, GAP, 2.0, 3.0]);
        put(b, &[GAP; 4]);
        ok!(blas cublasDtrttp(handle, upper, 2, a, 2, b));
        assert_eq!(get(b), [1.0, 2.0, 3.0, GAP]);
        put(c, &[7.0, 8.0, 9.0, 7.0]);
        ok!(blas cublasDtpttr(handle, upper, 2, b, c, 2));
        assert_eq!(get(c), [1.0, 8.0, 2.0, 3.0]);
        ok!(blas cublasDtpttr(handle, lower, 2, b, c, 2));
        assert_eq!(get(c), [1.0, 2.0, 2.0, 3.0]);
        // The product of the transpose of (1 0; 4 1) and B, and its solution back to B.
        put(a, &[GAP, 4.0, GAP, GAP]);
        put(b, &[1.0, 2.0, 3.0, 4.0]);
        let (left, unit) = (At::CUBLAS_SIDE_LEFT, Diag::CUBLAS_DIAG_UNIT);
        ok!(blas cublasDtrmm_v2(
            handle, left, lower, Op::CUBLAS_OP_T, unit, 2, 2, &raw const one, a, 2, b, 2, b, 2,
        ));
        assert_eq!(get(b), [9.0, 2.0, 19.0, 4.0]);
        ok!(blas cublasDtrsm_v2(
            handle, left, lower, Op::CUBLAS_OP_T, unit, 2, 2, &raw const two, a, 2, b, 2,
        ));
        assert_eq!(get(b), [2.0, 4.0, 6.0, 8.0]);
        // A leading dimension less than the number of rows.
        assert_eq!(
            blas!(cublasDsyrk_v2(
                handle,
                upper,
                Op::CUBLAS_OP_N,
                2,
                1,
                &raw const two,
                b,
                1,
                &raw const one,
                c,
                2,
            )),
            7
        );
        // c - 2 |1 + 2i|^2, where the imaginary part of c is ignored.
        let (z, at) = (device as *mut cuDoubleComplex, device as *mut f64);
        put(at, &[1.0, 2.0, 7.0, 5.0]);
        let minus = -2.0;
        ok!(blas cublasZherk_v2(
            handle, lower, Op::CUBLAS_OP_C, 1, 1, &raw const minus, z, 1, &raw const one, z.add(1), 1,
        ));
        assert_eq!(get(at), [1.0, 2.0, -3.0, 0.0]);
        assert_eq!(
            blas!(cublasZherk_v2(
                handle,
                lower,
                Op::CUBLAS_OP_T,
                1,
                1,
                &raw const minus,
                z,
                1,
                &raw const one,
                z.add(1),
                1,
            )),
            7
        );
        // i z z^* + -i z z^* + 2 c
        let i = cuDoubleComplex { x: 0.0, y: 1.0 };
        ok!(blas cublasZher2k_v2(
            handle, lower, Op::CUBLAS_OP_N, 1, 1, &raw const i, z, 1, z, 1, &raw const two, z.add(1), 1,
        ));
        assert_eq!(get(at), [1.0, 2.0, -6.0, 0.0]);
        // With an operand in pinned host memory.
        let guest = pinned::<f64>(4);
        guest.copy_from_slice(&[4.0, GAP, 2.0, 1.0]);
        put(b, &[1.0, 2.0, 3.0, 4.0]);
        ok!(blas cublasDtrsm_v2(
            handle, At::CUBLAS_SIDE_RIGHT, upper, Op::CUBLAS_OP_N, Diag::CUBLAS_DIAG_NON_UNIT, 2, 2, &raw const two,
            guest.as_ptr(), 2, b, 2,
        ));
        assert_eq!(get(b), [0.5, 1.0, 5.0, 6.0]);
    }
}

/// Triangles of order 2 with vectors, and rotations.
unsafe fn half_and_vectors() {
    use cudarc::cublas::sys::{
        cuDoubleComplex, cublasDiagType_t as Diag, cublasFillMode_t as Fill,
    };
    const GAP: f64 = -99.0;
    unsafe {
        context(0);
        let stream = stream();
        let handle = handle(stream);
        let device = alloc(256);
        let at = |i: u64| (device + 32 * i) as *mut f64;
        let (a, x, y) = (at(0), at(1), at(2));
        let (lower, upper) = (Fill::CUBLAS_FILL_MODE_LOWER, Fill::CUBLAS_FILL_MODE_UPPER);
        let (plain, turned) = (Op::CUBLAS_OP_N, Op::CUBLAS_OP_T);
        let (one, two) = (1.0, 2.0);
        let put = |at: *mut f64, values: &[f64]| upload(at as u64, values, stream);
        let get = |at: *mut f64| {
            let mut values = [0.0; 4];
            download(&mut values, at as u64, stream);
            values
        };
        // 2 (1 2; 2 3) (4 5)^T + (1 1)^T; x with increment -1, y with increment 2
        put(
            a,
            &[1.0, 2.0, GAP, 3.0, 5.0, 4.0, 0.0, 0.0, 1.0, GAP, 1.0, GAP],
        );
        ok!(blas cublasDsymv_v2(handle, lower, 2, &raw const two, a, 2, x, -1, &raw const one, y, 2));
        assert_eq!(get(y), [29.0, GAP, 47.0, GAP]);
        // The product with the transpose of (1 7; 0 2), and its solution back.
        put(a, &[1.0, GAP, 7.0, 2.0, 3.0, 4.0]);
        let stored = Diag::CUBLAS_DIAG_NON_UNIT;
        ok!(blas cublasDtrmv_v2(handle, upper, turned, stored, 2, a, 2, x, 1));
        assert_eq!(get(x)[..2], [3.0, 29.0]);
        ok!(blas cublasDtrsv_v2(handle, upper, turned, stored, 2, a, 2, x, 1));
        assert_eq!(get(x)[..2], [3.0, 4.0]);
        put(a, &[GAP, GAP, 7.0, GAP]);
        ok!(blas cublasDtrsv_v2(handle, upper, plain, Diag::CUBLAS_DIAG_UNIT, 2, a, 2, x, 1));
        assert_eq!(get(x)[..2], [-25.0, 4.0]);
        put(a, &[1.0, GAP, 2.0, 3.0, 1.0, 2.0, 0.0, 0.0, 3.0, 4.0]);
        ok!(blas cublasDsyr_v2(handle, upper, 2, &raw const two, x, 1, a, 2));
        assert_eq!(get(a), [3.0, GAP, 6.0, 11.0]);
        ok!(blas cublasDsyr2_v2(handle, upper, 2, &raw const one, x, 1, y, 1, a, 2));
        assert_eq!(get(a), [9.0, GAP, 16.0, 27.0]);
        // Hermitian: c + 2 |1 + 2i|^2, where the imaginary part of c is ignored; then times z.
        let z = |i: u64| at(i).cast::<cuDoubleComplex>();
        put(a, &[1.0, 2.0]);
        put(x, &[3.0, GAP]);
        ok!(blas cublasZher_v2(handle, lower, 1, &raw const two, z(0), 1, z(1), 1));
        assert_eq!(get(x)[..2], [13.0, 0.0]);
        put(x, &[13.0, GAP]);
        let i = cuDoubleComplex { x: 0.0, y: 1.0 };
        let nothing = cuDoubleComplex { x: 0.0, y: 0.0 };
        ok!(blas cublasZhemv_v2(
            handle, upper, 1, &raw const i, z(1), 1, z(0), 1, &raw const nothing, z(2), 1,
        ));
        assert_eq!(get(y)[..2], [-26.0, 13.0]);
        ok!(blas cublasZher2_v2(handle, lower, 1, &raw const i, z(0), 1, z(0), 1, z(1), 1));
        assert_eq!(get(x)[..2], [13.0, 0.0]);
        // Rotations.
        put(x, &[1.0, 2.0, 3.0, 4.0]);
        put(y, &[5.0, 6.0, 7.0, 8.0]);
        let minus = -1.0;
        ok!(blas cublasDrot_v2(handle, 2, x, 2, y, -2, &raw const two, &raw const minus));
        assert_eq!(get(x), [-5.0, 2.0, 1.0, 4.0]);
        assert_eq!(get(y), [13.0, 6.0, 15.0, 8.0]);
        put(x, &[1.0, 2.0, 3.0, 4.0]);
        put(y, &[5.0, 6.0, 7.0, 8.0]);
        ok!(blas cublasZdrot_v2(handle, 2, z(1), 1, z(2), 1, &raw const two, &raw const one));
        assert_eq!(get(x), [7.0, 10.0, 13.0, 16.0]);
        assert_eq!(get(y), [9.0, 10.0, 11.0, 12.0]);
        let param = [-1.0, 1.0, 2.0, 3.0, 4.0];
        ok!(blas cublasDrotm_v2(handle, 1, x, 1, y, 1, param.as_ptr()));
        assert_eq!((get(x)[0], get(y)[0]), (34.0, 50.0));
        assert_eq!(
            blas!(cublasDrot_v2(
                handle,
                2,
                x,
                0,
                y,
                1,
                &raw const two,
                &raw const one
            )),
            7
        );
        assert_eq!(
            blas!(cublasDsyr_v2(handle, upper, 3, &raw const two, x, 1, a, 2)),
            7
        );
    }
}

/// Sums, copies and transpositions of matrices, some of them in place.
unsafe fn matrices() {
    const GAP: f64 = -99.0;
    unsafe {
        context(0);
        let stream = stream();
        let handle = handle(stream);
        let device = alloc(256);
        let at = |i: u64| (device + 64 * i) as *mut f64;
        let (a, c) = (at(0), at(1));
        let (plain, turned) = (Op::CUBLAS_OP_N, Op::CUBLAS_OP_T);
        let (zero, two, three) = (0.0, 2.0, 3.0);
        let get = |at: *mut f64| {
            let mut values = [0.0; 6];
            download(&mut values, at as u64, stream);
            values
        };
        upload(a as u64, &[1.0, 2.0, GAP, 3.0, 4.0, GAP], stream);
        upload(c as u64, &[5.0, 6.0, 7.0, 8.0, GAP, GAP], stream);
        // 2 A + 3 C, into C
        ok!(blas cublasDgeam(
            handle, plain, plain, 2, 2, &raw const two, a, 3, &raw const three, c, 2, c, 2,
        ));
        assert_eq!(get(c), [17.0, 22.0, 27.0, 32.0, GAP, GAP]);
        // The same with the two parts exchanged.
        ok!(blas cublasDgeam(
            handle, plain, plain, 2, 2, &raw const two, c, 2, &raw const three, a, 3, c, 2,
        ));
        assert_eq!(get(c), [37.0, 50.0, 63.0, 76.0, GAP, GAP]);
        // 3 A^T, for any contents of C.
        upload(c as u64, &[f64::NAN; 6], stream);
        ok!(blas cublasDgeam(
            handle, turned, plain, 2, 2, &raw const three, a, 3, &raw const zero, c, 3, c, 3,
        ));
        assert_eq!(get(c)[..2], [3.0, 9.0]);
        assert_eq!(get(c)[3..5], [6.0, 12.0]);
        assert!(get(c)[2].is_nan());
        // A := 2 A, then the first element of A := 0 (both scalars zero).
        ok!(blas cublasDgeam(
            handle, plain, plain, 2, 2, &raw const zero, a, 3, &raw const two, a, 3, a, 3,
        ));
        assert_eq!(get(a), [2.0, 4.0, GAP, 6.0, 8.0, GAP]);
        ok!(blas cublasDgeam(
            handle, plain, plain, 1, 1, &raw const zero, c, 1, &raw const zero, c, 1, a, 1,
        ));
        assert_eq!(get(a), [0.0, 4.0, GAP, 6.0, 8.0, GAP]);
        // A matrix that is transposed, or has another leading dimension than C, cannot be C.
        for (op, ld) in [(turned, 3), (plain, 2)] {
            let status = blas!(cublasDgeam(
                handle,
                op,
                plain,
                2,
                2,
                &raw const two,
                a,
                ld,
                &raw const zero,
                a,
                3,
                a,
                3,
            ));
            assert_eq!(status, 7);
        }
    }
}

/// Pageable memory may be overwritten by the program as soon as a copy's call returns.
unsafe fn pageable() {
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

/// Reductions of every kind, with their results in every kind of memory.
unsafe fn reductions() {
    unsafe {
        context(0);
        let stream = stream();
        let handle = handle(stream);
        let x = [3.0, -4.0, 0.0, -12.0];
        let device = alloc(256);
        upload(device, &x, stream);
        let p = device as *const f64;
        let mut result = 0.0;
        ok!(blas cublasDnrm2_v2(handle, 4, p, 1, &raw mut result));
        assert_eq!(result, 13.0);
        ok!(blas cublasDasum_v2(handle, 2, p, 2, &raw mut result));
        assert_eq!(result, 3.0);
        ok!(blas cublasDasum_v2(handle, 4, p, -1, &raw mut result));
        assert_eq!(result, 0.0);
        ok!(blas cublasDdot_v2(handle, 2, p, 1, p, -1, &raw mut result));
        assert_eq!(result, -24.0);
        let mut index = [-1, -1];
        ok!(blas cublasIdamax_v2(handle, 4, p, 1, index.as_mut_ptr()));
        assert_eq!(index, [4, -1]);
        // In pinned memory: an index has 32 bits, and no further byte is written.
        let cells = pinned::<i32>(4);
        cells.fill(-1);
        device_pointers(handle, true);
        ok!(blas cublasIdamax_v2(handle, 2, p, 1, &raw mut cells[1]));
        synchronize(stream);
        assert_eq!(cells, [-1, 2, -1, -1]);
        // In device memory, and a scalar from there.
        ok!(blas cublasDnrm2_v2(handle, 2, p, 1, (device + 64) as *mut f64));
        ok!(blas cublasDscal_v2(handle, 4, (device + 64) as *const f64, device as *mut f64, 1));
        let mut scaled = [0.0; 4];
        download(&mut scaled, device, stream);
        assert_eq!(scaled, [15.0, -20.0, 0.0, -60.0]);
        device_pointers(handle, false);
        // Complex, conjugated: (1 + 2i)^* (3 + 4i)
        let z = [1.0f32, 2.0, 3.0, 4.0];
        upload(device, &z, stream);
        let p = device as *const cudarc::cublas::sys::cuComplex;
        let mut dot = cudarc::cublas::sys::cuComplex { x: 0.0, y: 0.0 };
        ok!(blas cublasCdotc_v2(handle, 1, p, 1, p.add(1), 1, &raw mut dot));
        assert_eq!((dot.x, dot.y), (11.0, -2.0));
        let half = 0.5f32;
        ok!(blas cublasCsscal_v2(handle, 2, &raw const half, p.cast_mut(), 1));
        let mut z = [0.0f32; 4];
        download(&mut z, device, stream);
        assert_eq!(z, [0.5, 1.0, 1.5, 2.0]);
    }
}

/// Kernels on operands in registered memory, which may be inaccessible to the CPU, and of which gaps must not be
/// written.
unsafe fn guests() {
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

unsafe fn fills() {
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

unsafe fn peers() {
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

/// Calls that must be refused.
unsafe fn statuses() {
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

/// A thread that queries again and again gets the answer that the operation is complete.
unsafe fn polls() {
    unsafe {
        context(0);
        let (stream, event) = (stream(), event());
        let (device, host) = (alloc(64), pinned::<u8>(64));
        for _ in 0..3 {
            upload(device, host, stream);
            ok!(cu cuEventRecord(event, stream));
            while cu!(cuEventQuery(event)) == 600 {}
            ok!(cu cuEventQuery(event));
            upload(device, host, stream);
            while cu!(cuStreamQuery(stream)) == 600 {}
            ok!(cu cuStreamQuery(stream));
        }
    }
}

/// An event stands for the operations that were queued when it was recorded. In late mode no operation runs before a
/// thread waits for it.
unsafe fn events() {
    unsafe {
        context(0);
        let (stream, other) = (stream(), stream());
        let (first, second, through) = (event(), event(), event());
        ok!(cu cuEventQuery(first));
        ok!(cu cuEventSynchronize(first));
        let (device, host) = (alloc(128 << 10), pinned::<u8>(64 << 10));
        upload(device, host, stream);
        ok!(cu cuEventRecord(first, stream));
        upload(device + 65_536, host, stream);
        ok!(cu cuEventRecord(second, stream));
        // If only a wait is queued in a stream, an event that is recorded behind it waits for the same operations.
        ok!(cu cuStreamWaitEvent(other, second, 0));
        ok!(cu cuEventRecord(through, other));
        assert_eq!(cu!(cuStreamQuery(other)), 600);
        assert_eq!(cu!(cuEventQuery(first)), 600);
        ok!(cu cuEventSynchronize(first));
        ok!(cu cuEventQuery(first));
        assert_eq!(cu!(cuEventQuery(second)), 600);
        assert_eq!(cu!(cuEventQuery(through)), 600);
        ok!(cu cuEventSynchronize(through));
        ok!(cu cuEventQuery(second));
        ok!(cu cuStreamQuery(stream));
        let mut time = -1.0;
        assert_eq!(
            cu!(cuEventElapsedTime_v2(&raw mut time, first, second)),
            400
        );
        ok!(cu cuEventDestroy_v2(first));
        assert_eq!(cu!(cuEventRecord(first, stream)), 400);
    }
}

/// The times of events: of the operations before them, and in which order statuses come.
unsafe fn times() {
    unsafe {
        context(0);
        let timed = || {
            let mut event = null_mut();
            ok!(cu cuEventCreate(&raw mut event, 0));
            event
        };
        // The backend looks the first version up by its name.
        let elapsed = |from: Event, to: Event| {
            type Elapsed = unsafe extern "C" fn(*mut f32, Event, Event) -> i32;
            let f = cudarc::driver::sys::culib()
                .get::<Elapsed>(b"cuEventElapsedTime")
                .unwrap();
            let (mut first, mut second) = (f32::NAN, f32::NAN);
            let status = f(&raw mut first, from, to);
            assert_eq!(
                cu!(cuEventElapsedTime_v2(&raw mut second, from, to)),
                status
            );
            assert!(status != 0 || first == second);
            (status, first)
        };
        let (stream, other) = (stream(), stream());
        let (start, end, never, without) = (timed(), timed(), timed(), event());
        let (device, host) = (alloc(64 << 20), pinned::<u8>(64 << 20));
        let began = std::time::Instant::now();
        ok!(cu cuEventRecord(start, stream));
        upload(device, host, stream);
        ok!(cu cuEventRecord(end, stream));
        ok!(cu cuEventRecord(without, stream));
        assert_eq!(elapsed(start, end).0, 600);
        assert_eq!(elapsed(start, never).0, 400);
        assert_eq!(elapsed(never, start).0, 400);
        assert_eq!(elapsed(start, without).0, 400);
        assert_eq!(elapsed(start, start), (0, 0.0));
        synchronize(stream);
        let most = began.elapsed().as_secs_f32() * 1e3;
        let (status, took) = elapsed(start, end);
        // 64 MiB in less than a microsecond would be 64 TB/s.
        assert!(status == 0 && took > 1e-3 && took <= most, "{took} {most}");
        assert_eq!(elapsed(end, start), (0, -took));
        assert_eq!(elapsed(without, end).0, 400);
        // On a stream without operations an event is reached when it is recorded.
        let idle = timed();
        std::thread::sleep(std::time::Duration::from_millis(3));
        ok!(cu cuEventRecord(idle, other));
        let (status, later) = elapsed(end, idle);
        assert!(status == 0 && later >= 3.0, "{later}");
        ok!(cu cuEventDestroy_v2(idle));
        assert_eq!(elapsed(start, idle).0, 400);
    }
}

/// The null stream waits for blocking streams, and they for it.
unsafe fn null_stream() {
    unsafe {
        context(0);
        let mut blocking = null_mut();
        ok!(cu cuStreamCreate(&raw mut blocking, 0));
        let (device, host) = (alloc(1 << 20), pinned::<u8>(1 << 20));
        host.fill(1);
        ok!(cu cuMemsetD8Async(device, 7, 1 << 20, null_mut()));
        upload(device, host, blocking);
        let home = pinned::<u8>(1 << 20);
        download(home, device, null_mut());
        synchronize(null_mut());
        assert!(home.iter().all(|v| *v == 1));
    }
}

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
unsafe fn closed() {
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
unsafe fn replaced() {
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

unsafe fn closed_small() {
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

unsafe fn closed_row() {
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

unsafe fn closed_pageable() {
    unsafe {
        let (memory, device, stream) = closed_memory();
        ok!(cu cuMemHostUnregister(memory.cast()));
        cu!(cuMemcpyDtoHAsync_v2(memory.cast(), device, 65_536, stream));
    }
}

/// A child process has no device.
unsafe fn forked() {
    unsafe {
        context(0);
        let child = testkit::forked(|| {
            assert_eq!(cu!(cuInit(0)), 3);
            assert_eq!(cu!(cuStreamSynchronize(null_mut())), 3);
        });
        assert!(child.wait().success());
    }
}

unsafe fn nothing() {
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
