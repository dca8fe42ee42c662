//! Whether a device solves a system sooner than the host.

use super::system::System;
use super::tiled::tiling::Tiling;
use crate::base::Solver;
use crate::base::dense::{DenseWork, Step};

/// The rates of a device and of the host, and where the matrices are.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Flops per second of large products of the element type's precision on the device, and by the host BLAS.
    pub flops_per_s: [f64; 2],
    /// Bytes per second to the device, to the host, of the device's own memory, and from another device.
    pub bytes_per_s: [f64; 4],
    /// Bytes of the matrices that the device lacks.
    pub lacking: usize,
    /// Bytes whose newest copy is on devices only.
    pub stale: usize,
    /// What the host took for calls of this routine, over what [`host_s`] predicts; 1 if none was timed.
    pub host_error: f64,
}

/// What a call takes besides: its operations are queued, INFO and pivots are copied to the host, and a fault at a result is served.
const CALL_S: f64 = 120e-6;
/// A host BLAS reaches half of the rate of its large products in large factorizations, and half of that at this order. OpenBLAS 0.3.21 on
/// 16 cores, orders 256 to 8192 (bench/results/h200-x1-solvers.md).
const HALF: f64 = 2000.0;
/// A condition number takes some four or five solutions with one right side ([`super::condition`]).
const ESTIMATES: f64 = 5.0;
/// Bytes per second at which one core goes through the triangles of such a solution: its memory's rate, or less.
const TRIANGLES: f64 = 10e9;
/// A vector to the device and back, and two kernels.
const ROUND_TRIP_S: f64 = 60e-6;
/// Seconds for each column that geqp3 makes ([`super::pivoted`]), some ten kernels and two answers that come home; for the norm of each
/// column; and for each element of a row that the host looks at. An H200, orders 512 to 4096 (bench/results/h200-x1-solvers.md).
const PIVOTED_S: [f64; 3] = [200e-6, 10e-6, 12e-9];
/// What geqp3 takes on the host: bytes per second at which it goes through the matrix for each column, and seconds for each column
/// besides. OpenBLAS 0.3.21 on 16 cores, as above; calls that the host computes correct it.
const THROUGH: f64 = 130e9;
const HOST_COLUMN_S: f64 = 25e-6;
/// How much longer than other factorizations, of as much work, the host takes for that of a symmetric matrix: OpenBLAS 0.3.21 on 16 cores,
/// orders 2048 to 8192 (as above).
const SYMMETRIC: f64 = 6.5;
/// What triangular solutions and updates of a triangle reach of the rate of large products.
const BLAS_SHARE: f64 = 0.7;
/// The host computes unless a device is predicted to need a smaller share of its time than this.
const MARGIN: f64 = 0.9;

/// Real additions and multiplications of LAPACK's algorithm, roughly.
#[expect(clippy::cast_precision_loss, reason = "sizes of matrices")]
fn flops(system: &System) -> f64 {
    let (m, n) = (system.a.rows as f64, system.a.cols as f64);
    let real = match system.solver {
        Solver::Getri => 4.0 / 3.0 * n.powi(3),
        Solver::Potri => 2.0 / 3.0 * n.powi(3),
        Solver::Trtri | Solver::Lauum => n.powi(3) / 3.0,
        Solver::Trtrs => n * n * system.sides() as f64,
        Solver::Orgqr | Solver::Orglq => {
            let k = system.tau.map_or(0, |(_, count)| count) as f64;
            4.0 * m * n * k - 2.0 * (m + n) * k * k + 4.0 / 3.0 * k.powi(3)
        }
        Solver::Geqp3 => return qr(system).flops(),
        _ => {
            let steps: f64 = system.work().map(|work| work.flops()).sum();
            return steps + solution_flops(system);
        }
    };
    real * if system.dtype.is_complex() { 4.0 } else { 1.0 }
}

/// QR of A.
const fn qr(system: &System) -> DenseWork {
    DenseWork {
        step: Step::Qr,
        dtype: system.dtype,
        sizes: [system.a.rows, system.a.cols, 0],
    }
}

/// Seconds of geqp3 on the host, of a matrix of the element type with these rows and columns: half of it goes through what is left of the
/// matrix for each column.
#[expect(clippy::cast_precision_loss, reason = "sizes of matrices")]
fn pivoted_s(system: &System, size: (usize, usize), rate: f64) -> f64 {
    let work = DenseWork {
        sizes: [size.0, size.1, 0],
        ..qr(system)
    };
    let columns = size.0.min(size.1) as f64;
    work.flops() / 2.0 / rate + pivoted_bytes(system, size) / THROUGH + columns * HOST_COLUMN_S
}

/// Bytes that geqp3 reads of the rows and columns that are left, once for each column.
#[expect(clippy::cast_precision_loss, reason = "sizes of matrices")]
fn pivoted_bytes(system: &System, (m, n): (usize, usize)) -> f64 {
    let (m, n) = (m as f64, n as f64);
    let steps = m.min(n);
    let elements = m * n * steps - (m + n) * steps.powi(2) / 2.0 + steps.powi(3) / 3.0;
    elements * system.a.element as f64
}

/// Of the triangular solution within gels.
#[expect(clippy::cast_precision_loss, reason = "sizes of matrices")]
fn solution_flops(system: &System) -> f64 {
    let order = system.worked().cols as f64;
    let real = match system.solver {
        Solver::Gels => order * order * system.sides() as f64,
        _ => return 0.0,
    };
    real * if system.dtype.is_complex() { 4.0 } else { 1.0 }
}

/// Seconds of what LAPACK computes itself after a device has begun, by the rate of a factorization: a triangle becomes bidiagonal, or is
/// factored with pivoting, and right sides are multiplied. Half of that goes through the matrix for each column, at a rate that was not
/// measured.
#[expect(clippy::cast_precision_loss, reason = "sizes of matrices")]
fn left_s(system: &System, rate: f64) -> f64 {
    if !system.solver.is_finished_by_host() {
        return 0.0;
    }
    let order = system.a.cols;
    let n = order as f64;
    let (mut real, mut seconds) = (4.0 * n * n * system.sides() as f64, 0.0);
    match system.solver {
        Solver::Gelsy => seconds = pivoted_s(system, (order, order), rate),
        _ => real += 8.0 / 3.0 * n.powi(3),
    }
    seconds + real * if system.dtype.is_complex() { 4.0 } else { 1.0 } / rate
}

/// What updates of tiles reach of the rate of large products, and the order of a tile at which they reach half of that. Not measured.
const TILED_SHARE: f64 = 0.8;
const TILED_HALF: f64 = 128.0;
/// Bytes per second from and to tiles that were evicted, whose memory on the host is not page-locked, and how often all tiles go that way
/// besides: potrf 32768 and getrf 16384 on an H200 in memory for a third of the matrix (bench/results/h200-x1-solvers.md).
const EVICTED: f64 = 12e9;
const PASSES: f64 = 3.0;
/// What the calling thread takes to queue a kernel. Not measured.
const QUEUED_S: f64 = 8e-6;

/// Those that a device makes by kernels of the BLAS. LQ, least squares, inverses of triangles and their squares were not measured: they are
/// predicted by the constants of QR and of triangular solutions.
#[expect(clippy::cast_precision_loss, reason = "sizes of matrices")]
fn blas_flops(system: &System) -> f64 {
    match system.solver {
        // The inverse of a triangle, as a solution for an identity, and its square.
        Solver::Potri => 3.0 * flops(system),
        // The inverse as a solution for an identity, or the square of a whole matrix, of which half are zeros.
        Solver::Trtri | Solver::Lauum => 3.0 * flops(system),
        Solver::Trtrs => flops(system),
        Solver::Gels => solution_flops(system),
        // An identity is filled.
        _ if system.of_identity() => (system.a.rows * system.a.cols) as f64,
        _ => 0.0,
    }
}

/// Bytes of A and B.
#[must_use]
pub fn bytes(system: &System) -> usize {
    system.matrices().map(|view| view.bytes()).sum()
}

/// Seconds on the host, before any was timed.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "sizes of matrices")]
pub fn host_s(system: &System, flops_per_s: f64) -> f64 {
    let order = system.a.rows.min(system.a.cols) as f64;
    if system.condition.is_some() {
        return ESTIMATES * bytes(system) as f64 / TRIANGLES;
    }
    let rate = host_rate(order, flops_per_s);
    let size = (system.a.rows, system.a.cols);
    match system.solver {
        Solver::Geqp3 => pivoted_s(system, size, rate),
        Solver::Gelsy => {
            pivoted_s(system, size, rate) + (flops(system) - qr(system).flops()) / rate
        }
        Solver::Sytrf | Solver::Sysv => {
            let factor = system.work().next().map_or(0.0, |work| work.flops());
            (flops(system) + (SYMMETRIC - 1.0) * factor) / rate
        }
        _ => flops(system) / rate + left_s(system, rate),
    }
}

/// Flops per second of a factorization of this order.
fn host_rate(order: f64, flops_per_s: f64) -> f64 {
    0.5 * flops_per_s * order / (order + HALF)
}

/// Seconds on a device and on the host.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "sizes of matrices")]
pub fn seconds(system: &System, known: &Known) -> [f64; 2] {
    let [to_device, home, memory, _] = known.bytes_per_s;
    let [device, host] = known.flops_per_s;
    if system.condition.is_some() {
        let solution = DenseWork {
            step: Step::LuSolve,
            dtype: system.dtype,
            sizes: [system.a.rows, system.a.cols, 1],
        };
        let estimate = ROUND_TRIP_S + solution.seconds(device);
        let host = host_s(system, host) * known.host_error + known.stale as f64 / home;
        return [
            known.lacking as f64 / to_device + ESTIMATES * estimate,
            host,
        ];
    }
    let steps: f64 = system
        .work()
        .map(|work: DenseWork| work.seconds(device))
        .sum();
    let steps = steps + blas_flops(system) / (BLAS_SHARE * device);
    let steps = match system.solver {
        Solver::Geqp3 => {
            let (size, cols) = ((system.a.rows, system.a.cols), system.a.cols as f64);
            let [column_s, norm_s, element_s] = PIVOTED_S;
            let columns = size.0.min(size.1) as f64;
            let elements = columns * (cols - columns / 2.0);
            columns * column_s
                + cols * norm_s
                + elements * (element_s + system.a.element as f64 / home)
                + pivoted_bytes(system, size) / memory
                + flops(system) / 2.0 / device
        }
        _ => steps,
    };
    let all = bytes(system) as f64;
    // Copies there and back within the device, each of which reads and writes; and the results come home, as far as is known.
    let copies = 4.0 * all / memory + known.lacking as f64 / to_device + all / home;
    let order = system.a.rows.min(system.a.cols) as f64;
    let left = left_s(system, host_rate(order, host)) * known.host_error;
    let host = host_s(system, host) * known.host_error + known.stale as f64 / home;
    [CALL_S + steps + copies + left, host]
}

/// Seconds of a factorization by tiles. Of what devices, links and the calling thread do at the same time, that which takes longest counts,
/// and the first panel, for which all wait.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "sizes of matrices")]
pub fn tiled_s(system: &System, tiling: &Tiling, known: &Known) -> f64 {
    let [to_device, home, memory, peers] = known.bytes_per_s;
    let device = known.flops_per_s[0];
    let (count, tile) = (tiling.devices.len() as f64, tiling.tile as f64);
    let panel = |panel: usize| {
        let (m, n) = tiling.panel(panel);
        let works = system.factors().into_iter();
        let works = works.map(|step| DenseWork {
            step,
            dtype: system.dtype,
            sizes: [m, n, 0],
        });
        works.map(|work| work.seconds(device)).sum::<f64>()
    };
    let panels: f64 = (0..tiling.panels()).map(panel).sum();
    let rate = TILED_SHARE * device * tile / (tile + TILED_HALF);
    let updates = flops(system) / (count * rate);
    let element = system.a.element as f64;
    let (all, streamed) = (bytes(system) as f64, tiling.streamed() as f64 * element);
    let up = known.lacking as f64 / (count * to_device);
    let tiles = if tiling.by_columns() { all } else { all / 2.0 };
    let evicted = match tiling.spans.len() {
        0 | 1 => 0.0,
        _ => (streamed + PASSES * tiles) / (count * EVICTED),
    };
    // A device without a link to others gets their tiles by way of the host.
    let across = if peers > 0.0 {
        peers
    } else {
        to_device.min(home)
    };
    // Each device that solves for some of the right sides gets the whole factor, forwards and back.
    let solved = match system.b {
        Some(_) if evicted > 0.0 => 2.0 * tiles / EVICTED,
        Some(_) if count > 1.0 => 2.0 * tiles / across,
        _ => 0.0,
    };
    let across = tiling.exchanged() as f64 * element / (count * across);
    let queued = tiling.kernels() as f64 * QUEUED_S;
    let longest = [panels, updates, up + evicted, across, queued];
    let longest = longest.into_iter().fold(0.0, f64::max);
    let copies = 4.0 * all / memory + all / home;
    CALL_S + panel(0) + longest + solved + copies / count
}

/// The seconds that are gained on a device, or on several; `None` if the host is to compute.
#[must_use]
pub fn gain_s([devices, host]: [f64; 2]) -> Option<f64> {
    (devices < MARGIN * host).then_some(host - devices)
}

/// Whether a factorization by tiles is to be preferred to one on one device.
#[must_use]
pub fn prefers_tiles(tiled_s: f64, one_s: f64) -> bool {
    tiled_s < MARGIN * one_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::DeviceId;

    #[test]
    fn a_large_matrix_is_the_devices() {
        let known = |n: usize| Known {
            flops_per_s: [60e12, 900e9],
            bytes_per_s: [50e9, 50e9, 4e12, 300e9],
            lacking: n * n * 8,
            stale: 0,
            host_error: 1.0,
        };
        let gain_s = |order, known: &Known| gain_s(seconds(&System::potrf(order), known));
        assert_eq!(gain_s(64, &known(64)), None);
        assert!(gain_s(8192, &known(8192)).is_some_and(|s| s > 0.1));
        // A host that is found to be much faster than predicted.
        let fast = Known {
            host_error: 0.01,
            ..known(1024)
        };
        assert_eq!(gain_s(1024, &fast), None);
    }

    #[test]
    fn several_devices_take_what_is_large() {
        let faster = |order: usize, count: usize| {
            let system = System::potrf(order);
            let rooms: Vec<_> = (0..count).map(|at| (DeviceId::at(at), 100 << 30)).collect();
            let known = Known {
                flops_per_s: [60e12, 900e9],
                bytes_per_s: [50e9, 50e9, 4e12, 300e9],
                lacking: order * order * 8,
                stale: 0,
                host_error: 1.0,
            };
            let tiled = tiled_s(&system, &Tiling::of(&system, &rooms).unwrap(), &known);
            prefers_tiles(tiled, seconds(&system, &known)[0])
        };
        assert!(!faster(512, 4));
        assert!(faster(65536, 2) && faster(65536, 4));
    }
}
