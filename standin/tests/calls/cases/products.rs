//! cuBLAS: products, triangles, matrices and reductions.

use crate::gpu::*;

/// C = 2 A B^T - C on padded matrices in pinned memory, all asynchronous.
pub(super) unsafe fn product() {
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
pub(super) unsafe fn triangles() {
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
pub(super) unsafe fn half_and_vectors() {
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
pub(super) unsafe fn matrices() {
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

/// Reductions of every kind, with their results in every kind of memory.
pub(super) unsafe fn reductions() {
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
