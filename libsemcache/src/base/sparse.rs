//! Products of a sparse matrix in compressed rows (CSR) and dense vectors, as devices compute them.

use super::dtype::{Dtype, Value};
use super::kernel::Operand;
use super::routine::Op;

/// The integers of a sparse matrix: row offsets and column indices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Index {
    /// 32 bits.
    I32,
    /// 64 bits.
    I64,
}

impl Index {
    /// Bytes of one.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Index::I32 => 4,
            Index::I64 => 8,
        }
    }
}

/// `Y := alpha op(A) X + beta Y` for a sparse A in device memory (SpMV, or SpMM with several vectors).
///
/// A zero `beta` does not read Y, a zero `alpha` reads neither A nor X. Rows may be empty; column indices may come in any order and
/// more than once, and their entries are added up. All of them lie within the matrix.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CsrKernel {
    /// Element type of A, X and Y.
    pub dtype: Dtype,
    /// Type of `offsets` and `columns`.
    pub index: Index,
    /// What the first row offset and the first column are called: 0 or 1.
    pub first: u8,
    /// `op(A)`.
    pub op: Op,
    /// Rows of A as stored.
    pub rows: usize,
    /// Columns of A as stored.
    pub cols: usize,
    /// Entries of A.
    pub nnz: usize,
    /// Vectors: columns of X and Y.
    pub vectors: usize,
    /// `alpha`
    pub alpha: Value,
    /// `beta`
    pub beta: Value,
    /// Device address of the row offsets, `rows + 1` of them.
    pub offsets: u64,
    /// Device address of the column indices.
    pub columns: u64,
    /// Device address of the entries.
    pub values: u64,
    /// The first and the end of the rows of X that A's columns, or rows if it is transposed, touch. Others need not exist.
    pub touched: (usize, usize),
    /// The touched rows of X, column-major.
    pub x: Operand,
    /// Y, column-major.
    pub y: Operand,
    /// Device memory of as many bytes as the device asks for, which nothing else changes between kernels of one pattern.
    pub scratch: u64,
    /// Kernels of the same number differ in `alpha`, `beta`, the contents of `values`, and X and Y only.
    pub pattern: u64,
}

impl CsrKernel {
    /// Elements of a column of X and of Y.
    #[must_use]
    pub const fn lengths(&self) -> (usize, usize) {
        match self.op {
            Op::None => (self.cols, self.rows),
            Op::Trans | Op::ConjTrans => (self.rows, self.cols),
        }
    }

    /// The address of row 0 of X, which need not exist.
    #[must_use]
    pub fn x_row_0(&self) -> u64 {
        self.x
            .addr
            .wrapping_sub((self.touched.0 * self.dtype.size()) as u64)
    }

    /// Bytes of A, X and Y: what a product that reads each once moves.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let entries = self.nnz * (self.index.size() + self.dtype.size());
        let (_, y) = self.lengths();
        let dense = y + self.touched.1 - self.touched.0;
        let vectors = dense * self.vectors * self.dtype.size();
        entries + (self.rows + 1) * self.index.size() + vectors
    }

    /// First address and bytes of each operand that the kernel touches: offsets, columns, entries, X, Y.
    pub fn spans(&self) -> impl Iterator<Item = (u64, usize)> {
        let (_, y) = self.lengths();
        let x = self.touched.1 - self.touched.0;
        let dense = |at: Operand, length: usize| {
            let columns = self.vectors.saturating_sub(1).saturating_mul(at.ld());
            let elements = if length == 0 || self.vectors == 0 {
                0
            } else {
                columns + length
            };
            (at.addr, elements * self.dtype.size())
        };
        let index = self.index.size();
        let all = [
            (self.offsets, (self.rows + 1) * index),
            (self.columns, self.nnz * index),
            (self.values, self.nnz * self.dtype.size()),
            dense(self.x, x),
            dense(self.y, y),
        ];
        let first = if self.alpha.is_zero() { 4 } else { 0 };
        all.into_iter().skip(first).filter(|(_, bytes)| *bytes > 0)
    }
}
