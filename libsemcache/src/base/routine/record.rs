//! The record of a BLAS routine: its arguments, the shapes of its operands, and how its work is cut into tasks.

use super::Op;
use crate::base::{Intent, Value};

/// A size of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dim {
    /// Rows of the matrix that is written (level 3) or of A as stored (level 2); length of the vectors (level 1).
    M,
    /// Columns of the matrix that is written (level 3) or of A as stored (level 2); 1 (level 1).
    N,
    /// Inner dimension of products and rank-k updates; for products with a symmetric or triangular A, the order of A; 1
    /// otherwise.
    K,
}

/// The shape of an operand, in the sizes (`m`, `n`, `k`) of the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// A matrix that is stored with these numbers of rows and columns.
    Matrix(Dim, Dim),
    /// A matrix X for which `op_a(X)` has these numbers of rows and columns: X is stored transposed if `op_a`
    /// transposes.
    OpA(Dim, Dim),
    /// As `OpA`, with `op_b(X)`.
    OpB(Dim, Dim),
    /// A square matrix of which one triangle is used.
    Triangle(Dim),
    /// A vector of this length.
    Vector(Dim),
    /// The vector y of gemv: as long as `op_a(A)` has rows, A being stored with `M` rows and `N` columns.
    Rows,
    /// The vector x of gemv: as long as `op_a(A)` has columns.
    Columns,
}

/// How a call uses an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Usage {
    /// The call reads the operand.
    Read,
    /// The call writes the operand; the result depends on the previous contents.
    Update,
    /// The call writes the operand without reading the previous contents.
    Overwrite,
    /// The call adds to `beta` times the previous contents, which are not read if `beta` is zero.
    Accumulate,
    /// The call replaces the operand by `alpha` times a result that is computed from it.
    Multiply,
}

/// One operand of a routine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The shape of the operand.
    pub extent: Extent,
    /// How a call uses the operand.
    pub usage: Usage,
}

/// The sizes of a call and the transpositions of its matrices, from which the shape of each operand follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are those of the BLAS arguments")]
pub struct Sizes {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub op_a: Op,
    pub op_b: Op,
}

/// A flag among the arguments of a routine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are those of the BLAS arguments")]
pub enum Flag {
    /// Whether matrices are stored by columns or by rows: the first argument in the C interface of all routines of
    /// levels 2 and 3, and in the Fortran interface of a few.
    Order,
    Side,
    Uplo,
    TransA,
    TransB,
    Diag,
}

/// The type of a scalar argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    /// The routine has no such argument; its value is taken as one.
    Absent,
    /// A number of the type of the operands' elements.
    Element,
    /// A real number of the precision of the operands.
    Real,
}

/// How `plan` cuts the work of a call into tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// C is cut into panels and these into tiles; each tile is a sum of products of tiles of A and B.
    Product,
    /// As `Product`, where A is symmetric or Hermitian.
    Symmetric,
    /// One triangle of C is cut into tiles; the inputs are cut into panels.
    RankK,
    /// A product with, or a solve by, a triangular matrix: tiles, in the order in which they depend on each other.
    Triangular,
    /// The written vector is cut into blocks; each task has the rows or columns of the matrix for its block.
    PartsOfVector,
    /// The written matrix is cut into column panels; each task has the matching parts of the vectors.
    Panels,
    /// The written matrix is cut into column panels; each task has the part of the input matrix from which its panel is
    /// computed.
    Matrices,
    /// One task: a matrix of which one triangle is used, and vectors.
    Whole,
    /// The vectors are cut into parts.
    Vectors,
    /// One task, which computes one value from the vectors.
    Value,
}

/// How a call on matrices that are stored by rows becomes a call on matrices that are stored by columns. A matrix
/// stored by rows is its transpose stored by columns, so rows and columns, left and right, upper and lower change
/// places in every such call; this says what else changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByRows {
    /// Nothing else: the operation is the same.
    Same,
    /// The first two operands change places, with their `op`s, because the transpose of a product is the product of the
    /// transposed factors in reverse order.
    Exchanged,
    /// `op` becomes its transpose. A call with a conjugate transpose has no equivalent by columns.
    Turned,
    /// `op` becomes the second of the two values that the routine permits; if the routine is Hermitian, alpha is
    /// conjugated.
    Other,
}

/// The arguments of a routine except for its scalars, and how calls of it are cut and converted. The BLAS has the
/// arguments in this order: flags, sizes, alpha, then the operands, each an address followed by its leading dimension
/// or increment. `beta` comes before the last operand. (The scalars of rot and rotm come last; gemm_batch has arrays of
/// everything that gemm has.)
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// The flags.
    pub flags: &'static [Flag],
    /// The sizes. Without `M` the written matrix is square.
    pub sizes: &'static [Dim],
    /// The operands.
    pub operands: &'static [Slot],
    /// How the work of a call is cut into tasks.
    pub cut: Cut,
    /// How a call on matrices stored by rows becomes a call by columns.
    pub by_rows: ByRows,
    /// The largest order of a triangle that one kernel writes. The order is limited if cuBLAS lacks the operation: the
    /// kernel then computes the whole square in separate memory.
    pub most_order: usize,
}

/// One line of the table of routines.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The plain names of the routine, by element type. A type without a routine of this name has the name of the
    /// routine that computes the same.
    pub names: [&'static str; 4],
    /// The BLAS level. 1: vectors, 2: a matrix and vectors, 3: matrices.
    pub level: u8,
    /// Floating point operations on real numbers, divided by `m n k`.
    pub flops: u8,
    /// The arguments except for the scalars.
    pub signature: Signature,
    /// The type of the scalar alpha.
    pub alpha: Number,
    /// The type of the scalar beta.
    pub beta: Number,
}

impl Sizes {
    fn dim(&self, dim: Dim) -> usize {
        match dim {
            Dim::M => self.m,
            Dim::N => self.n,
            Dim::K => self.k,
        }
    }
}

impl Number {
    /// The value with which the routine computes if the caller passed `value`: one if there is no such argument,
    /// without the imaginary part if the argument is real.
    #[must_use]
    pub const fn take(self, value: Value) -> Value {
        match self {
            Number::Absent => Value::ONE,
            Number::Element => value,
            Number::Real => Value { im: 0.0, ..value },
        }
    }
}

impl Extent {
    /// Rows and columns of the operand as stored; for a vector its length, and one.
    #[inline]
    #[must_use]
    pub fn stored(self, sizes: &Sizes) -> (usize, usize) {
        let turned = |op: Op, rows: Dim, cols: Dim| {
            let (rows, cols) = (sizes.dim(rows), sizes.dim(cols));
            match op {
                Op::None => (rows, cols),
                Op::Trans | Op::ConjTrans => (cols, rows),
            }
        };
        match self {
            Extent::Matrix(rows, cols) => (sizes.dim(rows), sizes.dim(cols)),
            Extent::OpA(rows, cols) => turned(sizes.op_a, rows, cols),
            Extent::OpB(rows, cols) => turned(sizes.op_b, rows, cols),
            Extent::Triangle(order) => (sizes.dim(order), sizes.dim(order)),
            Extent::Vector(len) => (sizes.dim(len), 1),
            Extent::Rows => (turned(sizes.op_a, Dim::M, Dim::N).0, 1),
            Extent::Columns => (turned(sizes.op_a, Dim::M, Dim::N).1, 1),
        }
    }

    /// Whether the operand is one triangle of a square matrix.
    #[must_use]
    pub const fn is_triangle(self) -> bool {
        matches!(self, Extent::Triangle(_))
    }

    /// Whether the operand is a vector.
    #[must_use]
    pub const fn is_vector(self) -> bool {
        matches!(self, Extent::Vector(_) | Extent::Rows | Extent::Columns)
    }
}

impl Slot {
    /// How a call with this `beta` accesses the operand. Where one triangle is written, the opposite half of the square
    /// keeps its contents, so the operand is never overwritten as a whole.
    #[must_use]
    pub fn access(self, beta: Value) -> Intent {
        match self.usage {
            Usage::Read => Intent::Read,
            Usage::Overwrite => Intent::Overwrite,
            Usage::Accumulate if beta.is_zero() && !self.extent.is_triangle() => Intent::Overwrite,
            Usage::Update | Usage::Accumulate | Usage::Multiply => Intent::Update,
        }
    }
}
