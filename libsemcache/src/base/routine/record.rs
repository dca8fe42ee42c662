//! What is known of a routine.

use super::Op;
use crate::base::{Intent, Value};

/// A size of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dim {
    /// Rows of the matrix that is written (level 3), of A as stored (level 2); length (level 1).
    M,
    /// Columns of the matrix that is written (level 3), of A as stored (level 2); 1 (level 1).
    N,
    /// Inner dimension of products and rank-k updates; of products with a symmetric or triangular A its order; 1 otherwise.
    K,
}

/// The shape of an operand, in the sizes (`m`, `n`, `k`) of the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// A matrix that is stored with these numbers of rows and columns.
    Matrix(Dim, Dim),
    /// A matrix X of which `op_a(X)` has these numbers of rows and columns: stored the other way round if that transposes.
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

/// What a call does with an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Usage {
    /// Reads it.
    Read,
    /// Writes it; the result depends on what was there.
    Update,
    /// Writes it, whatever was there.
    Overwrite,
    /// Adds to `beta` times what was there, which is not read if `beta` is zero.
    Accumulate,
    /// Replaces it by `alpha` times what is computed from it.
    Multiply,
}

/// One operand of a routine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// What it is.
    pub extent: Extent,
    /// What is done with it.
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
    /// Whether matrices lie by columns or by rows: what the C interface of every routine of levels 2 and 3 has first, and
    /// the Fortran interface of a few.
    Order,
    Side,
    Uplo,
    TransA,
    TransB,
    Diag,
}

/// What a scalar argument is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    /// There is none; it counts as one.
    Absent,
    /// A number of the type of the operands' elements.
    Element,
    /// A real number of their precision.
    Real,
}

/// How `plan` cuts the work of a call into tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// C in panels, each in tiles, of which each is a sum of products of tiles.
    Product,
    /// The same, where A is symmetric or Hermitian.
    Symmetric,
    /// One triangle of C, where the inputs are panels.
    RankK,
    /// By a triangular matrix, in the order in which tiles depend on each other.
    Triangular,
    /// Blocks of the vector that is written, each with its rows or columns of the matrix.
    PartsOfVector,
    /// Column panels of the matrix that is written, with the parts of the vectors.
    Panels,
    /// Column panels of the matrix that is written, with what becomes them of the other matrix.
    Matrices,
    /// Not at all: a matrix of which one triangle is used, and vectors.
    Whole,
    /// Parts of vectors.
    Vectors,
    /// Not at all: it is one value of vectors.
    Value,
}

/// What a call on matrices that are stored by rows is by columns, besides that rows and columns change places, as do left and
/// right, upper and lower. (A matrix that is stored by rows is its transpose, stored by columns.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByRows {
    /// The same operation.
    Same,
    /// The first two operands change places, with their `op`s: a product is transposed factor by factor.
    Exchanged,
    /// `op` is transposed. With a conjugate transpose there is no such call.
    Turned,
    /// `op` is the other one that the routine has; if it is Hermitian, alpha is conjugated.
    Other,
}

/// The arguments of a routine but for its scalars, and what follows from them. The BLAS has them in this order: flags, sizes, alpha, then the operands,
/// each an address followed by its leading dimension or increment. `beta` comes before the last operand. (What rot and rotm
/// have of scalars comes last; gemm_batch has arrays of all that gemm has.)
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// The flags.
    pub flags: &'static [Flag],
    /// The sizes. Without `M` the matrix that is written is square.
    pub sizes: &'static [Dim],
    /// The operands.
    pub operands: &'static [Slot],
    /// How its work is cut into tasks.
    pub cut: Cut,
    /// What a call by rows is by columns.
    pub by_rows: ByRows,
    /// The largest order of a triangle that one kernel writes. It has a limit if cuBLAS does not have the operation: then the
    /// whole square is computed in memory aside.
    pub most_order: usize,
}

/// What is known of a routine.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Its plain names, by element type. Types that have no routine of this name have that of the operation itself.
    pub names: [&'static str; 4],
    /// 1: vectors, 2: a matrix and vectors, 3: matrices.
    pub level: u8,
    /// Floating point operations on real numbers, over `m n k`.
    pub flops: u8,
    /// Its arguments but for the scalars.
    pub signature: Signature,
    /// Its first scalar.
    pub alpha: Number,
    /// Its second scalar.
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
    /// The value that the routine takes of what a caller left in the argument.
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
    /// Rows and columns as stored; of a vector its length, and one.
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

    /// Whether it is one triangle of a square matrix.
    #[must_use]
    pub const fn is_triangle(self) -> bool {
        matches!(self, Extent::Triangle(_))
    }

    /// Whether it is a vector.
    #[must_use]
    pub const fn is_vector(self) -> bool {
        matches!(self, Extent::Vector(_) | Extent::Rows | Extent::Columns)
    }
}

impl Slot {
    /// What a call with this `beta` does with it. Of a triangle that is written the other half of the square stays as it
    /// was, so it is never overwritten.
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
