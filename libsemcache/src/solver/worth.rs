//! Whether a device solves a system sooner than the host.

use super::system::System;
use crate::base::dense::DenseWork;

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
/// The host computes unless a device is predicted to need a smaller share of its time than this.
const MARGIN: f64 = 0.9;

fn flops(system: &System) -> f64 {
    system.work().map(|work| work.flops()).sum()
}

/// Bytes of A and B.
#[must_use]
pub fn bytes(system: &System) -> usize {
    let of = system.matrices().map(|v| v.rows * v.cols * v.element);
    of.sum()
}

/// Seconds on the host, before any was timed.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "sizes of matrices")]
pub fn host_s(system: &System, flops_per_s: f64) -> f64 {
    let order = system.a.rows.min(system.a.cols) as f64;
    flops(system) / (0.5 * flops_per_s * order / (order + HALF))
}

/// Seconds on a device and on the host.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "sizes of matrices")]
pub fn seconds(system: &System, known: &Known) -> [f64; 2] {
    let [to_device, home, memory] = known.bytes_per_s;
    let [device, host] = known.flops_per_s;
    let steps: f64 = system
        .work()
        .map(|work: DenseWork| work.seconds(device))
        .sum();
    let all = bytes(system) as f64;
    // Copies there and back within the device, each of which reads and writes; and the results come home, as far as is known.
    let copies = 4.0 * all / memory + known.lacking as f64 / to_device + all / home;
    let host = host_s(system, host) * known.host_error + known.stale as f64 / home;
    [CALL_S + steps + copies, host]
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
    use crate::base::{Dtype, Op, Solver, Uplo};
    use crate::hints::view::View;

    fn potrf(n: usize) -> System {
        System {
            solver: Solver::Potrf,
            dtype: Dtype::D,
            uplo: Uplo::Lower,
            op: Op::None,
            a: View {
                addr: 4096,
                rows: n,
                cols: n,
                ld: n,
                element: 8,
            },
            b: None,
            pivots: None,
        }
    }

    #[test]
    fn a_large_matrix_is_the_devices() {
        let known = |n: usize| Known {
            flops_per_s: [60e12, 900e9],
            bytes_per_s: [50e9, 50e9, 4e12],
            lacking: n * n * 8,
            stale: 0,
            host_error: 1.0,
        };
        assert_eq!(gain_s(&potrf(64), &known(64)), None);
        assert!(gain_s(&potrf(8192), &known(8192)).is_some_and(|s| s > 0.1));
        // A host that is found to be much faster than predicted.
        let fast = Known {
            host_error: 0.01,
            ..known(1024)
        };
        assert_eq!(gain_s(&potrf(1024), &fast), None);
    }
}
