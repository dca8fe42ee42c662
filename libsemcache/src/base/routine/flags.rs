//! The flags of BLAS routines.

/// `op(X)` of a matrix operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// X
    None,
    /// transpose
    Trans,
    /// conjugate transpose
    ConjTrans,
}

/// On which side of the product a special matrix stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Side {
    #[default]
    Left,
    Right,
}

/// Which triangle of a matrix is stored; the other is neither read nor written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Uplo {
    #[default]
    Lower,
    Upper,
}

/// What is on the diagonal of a triangular matrix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Diag {
    /// What is stored.
    #[default]
    NonUnit,
    /// Ones, whatever is stored.
    Unit,
}

/// What is special about a matrix of a routine: about A if it is symmetric, Hermitian or triangular; about the matrix that is
/// written if only one triangle of it is (`uplo` only).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the BLAS")]
pub struct Form {
    pub side: Side,
    pub uplo: Uplo,
    pub diag: Diag,
}
