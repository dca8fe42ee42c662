//! Factorizations of dense matrices, and what is computed by their factors, as a device computes each in one operation.

use super::dtype::Dtype;
use super::kernel::Operand;
use super::routine::{Op, Side, Uplo};

/// What is computed, in place: the factor takes the place of A, the solution that of B.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// `A = P L U` with partial pivoting (LAPACK's getrf).
    Lu,
    /// Solves `op(A) X = B` by the factors of [`Step::Lu`] (getrs).
    LuSolve,
    /// `A = L L^H` or `U^H U` of a positive definite matrix, of which one triangle is read and written (potrf).
    Cholesky,
    /// Solves `A X = B` by the factor of [`Step::Cholesky`] (potrs).
    CholeskySolve,
    /// `A = Q R`, Q as reflectors below the diagonal and their scalar factors (geqrf).
    Qr,
    /// `op(Q) B` or `B op(Q)` by the factors of [`Step::Qr`] (ormqr, unmqr).
    ApplyQ,
    /// Exchanges rows of B by the pivots of [`Step::Lu`] (laswp), which are not more than its rows. It has no A and no INFO.
    Exchange,
    /// `A = L D L^T` or `U D U^T` of a symmetric matrix, D with blocks of order one and two, by the pivoting of Bunch and Kaufman; one
    /// triangle is read and written (sytrf). Complex matrices are symmetric, too, not Hermitian.
    Symmetric,
    /// Solves `A X = B` by the factors of [`Step::Symmetric`] (sytrs).
    SymmetricSolve,
}

impl Step {
    /// Its name in a trace, that of LAPACK.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Step::Lu => "getrf",
            Step::LuSolve => "getrs",
            Step::Cholesky => "potrf",
            Step::CholeskySolve => "potrs",
            Step::Qr => "geqrf",
            Step::ApplyQ => "ormqr",
            Step::Exchange => "laswp",
            Step::Symmetric => "sytrf",
            Step::SymmetricSolve => "sytrs",
        }
    }

    /// Whether it changes B by a factor, which stays as it is.
    #[must_use]
    pub const fn changes_b(self) -> bool {
        use Step::{ApplyQ, CholeskySolve, Exchange, LuSolve, SymmetricSolve};
        matches!(
            self,
            LuSolve | CholeskySolve | ApplyQ | Exchange | SymmetricSolve
        )
    }

    /// Bytes of one of its pivots; 0 if it has none. cuSOLVER writes those of a symmetric matrix with 32 bits, and reads 64.
    #[must_use]
    pub const fn pivot(self) -> usize {
        match self {
            Step::Lu | Step::LuSolve | Step::Exchange | Step::SymmetricSolve => DenseKernel::PIVOT,
            Step::Symmetric => 4,
            _ => 0,
        }
    }

    /// Whether it has scalar factors of reflectors.
    #[must_use]
    pub const fn has_tau(self) -> bool {
        matches!(self, Step::Qr | Step::ApplyQ)
    }
}

/// A step on device memory. What it does not have is ignored.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DenseKernel {
    /// What is computed.
    pub step: Step,
    /// Element type of A and B.
    pub dtype: Dtype,
    /// The triangle of a Cholesky factor, or of a symmetric matrix.
    pub uplo: Uplo,
    /// `op(A)` of a solution by LU factors, `op(Q)` of a product with Q.
    pub op: Op,
    /// The side of B on which Q stands.
    pub side: Side,
    /// Rows of A.
    pub m: usize,
    /// Columns of A; as many as rows unless it is factored by LU or QR, or has reflectors in its columns. Of [`Step::Exchange`] the number
    /// of pivots.
    pub n: usize,
    /// Columns of B; of a product with Q on its right, rows.
    pub sides: usize,
    /// A, column-major.
    pub a: Operand,
    /// B, column-major, of `m` rows; of a product with Q on its right, columns.
    pub b: Operand,
    /// The address of `min(m, n)` pivots, integers of [`Step::pivot`] bytes: in step `i`, from 1, rows `i` and pivot `i` are exchanged. Those
    /// of the two columns of a block of order two are the same negative number: the row that is exchanged with that of its lower column,
    /// in an upper triangle of its upper one.
    pub pivots: u64,
    /// The address of `min(m, n)` scalar factors of reflectors, which are of A's element type: reflector `i` is `I - tau_i v_i v_i^H`.
    pub tau: u64,
    /// The address of a 32-bit integer, which a factorization sets to LAPACK's INFO: 0, or the number of the column, from 1, at which it
    /// found the matrix singular, or not positive definite. After that A may be anything, but for a symmetric one: there INFO may be 0
    /// although D has a block of order one that is zero.
    pub info: u64,
    /// The address of as much memory as the device asks for.
    pub scratch: u64,
    /// Bytes of that memory.
    pub scratch_bytes: usize,
}

/// What a step is, without its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DenseWork {
    /// What is computed.
    pub step: Step,
    /// The element type.
    pub dtype: Dtype,
    /// Rows and columns of A, and columns of B.
    pub sizes: [usize; 3],
}

impl DenseWork {
    /// Of a kernel.
    #[must_use]
    pub const fn of(kernel: &DenseKernel) -> DenseWork {
        DenseWork {
            step: kernel.step,
            dtype: kernel.dtype,
            sizes: [kernel.m, kernel.n, kernel.sides],
        }
    }

    /// Real additions and multiplications, roughly.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a measure, not a count")]
    pub fn flops(&self) -> f64 {
        let [m, n, sides] = self.sizes.map(|size| size as f64);
        let least = m.min(n);
        let lu = || 2.0 * (m * n * least - (m + n) * least * least / 2.0 + least.powi(3) / 3.0);
        let real = match self.step {
            Step::Lu => lu(),
            Step::Qr => 2.0 * lu(),
            Step::Cholesky | Step::Symmetric => n.powi(3) / 3.0,
            Step::LuSolve | Step::CholeskySolve | Step::SymmetricSolve => 2.0 * n * n * sides,
            Step::ApplyQ => 2.0 * n * (2.0 * m - n) * sides,
            Step::Exchange => 0.0,
        };
        real * if self.dtype.is_complex() { 4.0 } else { 1.0 }
    }
}

/// Seconds for each column of A that a GPU takes besides what its arithmetic takes: of the panels, whose columns follow each other, or
/// of triangular solutions with few columns. Fitted to cuSOLVER on an H200, orders 512 to 16384 (bench/results/h200-x1-solvers.md), but for
/// the one of exchanges, which is a guess.
const COLUMN_S: [f64; 9] = [
    2.3e-6, 0.9e-6, 0.4e-6, 0.65e-6, 4.6e-6, 0.7e-6, 0.1e-6, 36e-6, 30e-6,
];
/// What its arithmetic reaches of the rate of large products.
const SHARE: [f64; 9] = [0.55, 0.8, 0.7, 0.8, 0.37, 0.75, 1.0, 0.06, 0.5];

impl DenseWork {
    /// Seconds on a device that computes large products of this element type at a rate, in flops per second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "sizes of matrices")]
    pub fn seconds(&self, flops_per_s: f64) -> f64 {
        let step = self.step as usize;
        let columns = self.sizes[0].min(self.sizes[1]) as f64;
        columns * COLUMN_S[step] + self.flops() / (SHARE[step] * flops_per_s)
    }
}

impl DenseKernel {
    /// Bytes of a pivot that a kernel reads.
    pub const PIVOT: usize = 8;
    /// Bytes of INFO.
    pub const INFO: usize = 4;

    /// Rows and columns of B; none if the step has no B.
    #[must_use]
    pub fn b_size(&self) -> (usize, usize) {
        match (self.step.changes_b(), self.side) {
            (false, _) => (0, 0),
            (true, Side::Right) => (self.sides, self.m),
            (true, Side::Left) => (self.m, self.sides),
        }
    }

    /// First address and bytes of each operand that the kernel touches.
    pub fn spans(&self) -> impl Iterator<Item = (u64, usize)> {
        let matrix = |at: Operand, rows: usize, cols: usize| {
            let elements = match rows == 0 || cols == 0 {
                true => 0,
                false => (cols - 1).saturating_mul(at.ld()).saturating_add(rows),
            };
            (at.addr, elements.saturating_mul(self.dtype.size()))
        };
        let (rows, cols) = self.b_size();
        let least = self.m.min(self.n);
        let tau = match self.step.has_tau() {
            true => least * self.dtype.size(),
            false => 0,
        };
        let exchanges = self.step == Step::Exchange;
        let all = [
            matrix(self.a, if exchanges { 0 } else { self.m }, self.n),
            matrix(self.b, rows, cols),
            (self.pivots, least * self.step.pivot()),
            (self.tau, tau),
            (self.info, if exchanges { 0 } else { DenseKernel::INFO }),
            (self.scratch, self.scratch_bytes),
        ];
        all.into_iter().filter(|(_, bytes)| *bytes > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LU: DenseKernel = DenseKernel {
        step: Step::Lu,
        dtype: Dtype::D,
        uplo: Uplo::Lower,
        op: Op::None,
        side: Side::Left,
        m: 4,
        n: 3,
        sides: 2,
        a: Operand {
            addr: 1000,
            step: 5,
        },
        b: Operand {
            addr: 2000,
            step: 7,
        },
        pivots: 3000,
        tau: 3500,
        info: 4000,
        scratch: 5000,
        scratch_bytes: 0,
    };

    #[test]
    fn a_step_touches_its_operands_alone() {
        let of = |kernel: DenseKernel| kernel.spans().collect::<Vec<_>>();
        assert_eq!(of(LU), [(1000, 112), (3000, 24), (4000, 4)]);
        let solve = DenseKernel {
            step: Step::CholeskySolve,
            m: 3,
            scratch_bytes: 16,
            ..LU
        };
        assert_eq!(of(solve), [(1000, 104), (2000, 80), (4000, 4), (5000, 16)]);
        // Q of order 4, of 3 reflectors, on the right of 2 rows.
        let product = DenseKernel {
            step: Step::ApplyQ,
            side: Side::Right,
            ..LU
        };
        assert_eq!(
            of(product),
            [(1000, 112), (2000, 184), (3500, 24), (4000, 4)]
        );
        let exchange = DenseKernel {
            step: Step::Exchange,
            ..LU
        };
        assert_eq!(of(exchange), [(2000, 88), (3000, 24)]);
    }

    #[test]
    fn work_of_square_matrices() {
        let lu = DenseKernel {
            m: 300,
            n: 300,
            ..LU
        };
        assert!((DenseWork::of(&lu).flops() - 2.0 / 3.0 * 300f64.powi(3)).abs() < 1.0);
        let tall = DenseKernel {
            m: 3000,
            n: 300,
            ..LU
        };
        assert!((DenseWork::of(&tall).flops() - 300f64.powi(2) * (3000.0 - 100.0)).abs() < 1.0);
    }
}
