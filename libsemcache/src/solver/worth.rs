//! Whether a device solves a system sooner than the host.

use super::system::System;
use crate::base::Solver;
use crate::base::dense::{DenseWork, Step};

/// The rates of a device and of the host, and where the matrices are.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Flops per second of large products of the element type's precision on the device, and by the host BLAS.
    pub flops_per_s: [f64; 2],
    /// Bytes per second to the device, to the host, and of the device's own memory.
    pub bytes_per_s: [f64; 3],
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
        _ => {
            let steps: f64 = system.work().map(|work| work.flops()).sum();
            return steps + solution_flops(system);
        }
    };
    real * if system.dtype.is_complex() { 4.0 } else { 1.0 }
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

/// Of what LAPACK computes itself after a device has begun: a triangle becomes bidiagonal, and right sides are multiplied. Half of that goes
/// through the matrix for each column; its rate was not measured.
#[expect(clippy::cast_precision_loss, reason = "sizes of matrices")]
fn left_flops(system: &System) -> f64 {
    if !system.solver.is_finished_by_host() {
        return 0.0;
    }
    let order = system.a.cols as f64;
    let real = 8.0 / 3.0 * order.powi(3) + 4.0 * order * order * system.sides() as f64;
    real * if system.dtype.is_complex() { 4.0 } else { 1.0 }
}

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
    (flops(system) + left_flops(system)) / host_rate(order, flops_per_s)
}

/// Flops per second of a factorization of this order.
fn host_rate(order: f64, flops_per_s: f64) -> f64 {
    0.5 * flops_per_s * order / (order + HALF)
}

/// Seconds on a device and on the host.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "sizes of matrices")]
pub fn seconds(system: &System, known: &Known) -> [f64; 2] {
    let [to_device, home, memory] = known.bytes_per_s;
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
    let all = bytes(system) as f64;
    // Copies there and back within the device, each of which reads and writes; and the results come home, as far as is known.
    let copies = 4.0 * all / memory + known.lacking as f64 / to_device + all / home;
    let order = system.a.rows.min(system.a.cols) as f64;
    let left = left_flops(system) / host_rate(order, host) * known.host_error;
    let host = host_s(system, host) * known.host_error + known.stale as f64 / home;
    [CALL_S + steps + copies + left, host]
}

/// The seconds that are gained on a device; `None` if the host is to compute.
#[must_use]
pub fn gain_s(system: &System, known: &Known) -> Option<f64> {
    let [device, host] = seconds(system, known);
    (device < MARGIN * host).then_some(host - device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_matrix_is_the_devices() {
        let known = |n: usize| Known {
            flops_per_s: [60e12, 900e9],
            bytes_per_s: [50e9, 50e9, 4e12],
            lacking: n * n * 8,
            stale: 0,
            host_error: 1.0,
        };
        assert_eq!(gain_s(&System::potrf(64), &known(64)), None);
        assert!(gain_s(&System::potrf(8192), &known(8192)).is_some_and(|s| s > 0.1));
        // A host that is found to be much faster than predicted.
        let fast = Known {
            host_error: 0.01,
            ..known(1024)
        };
        assert_eq!(gain_s(&System::potrf(1024), &fast), None);
    }
}
