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

/// The side of the product on which the symmetric or triangular matrix stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Side {
    #[default]
    Left,
    Right,
}

/// Which triangle of a matrix is stored; the elements of the opposite triangle are neither read nor written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Uplo {
    #[default]
    Lower,
    Upper,
}

/// The diagonal of a triangular matrix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Diag {
    /// The stored elements.
    #[default]
    NonUnit,
    /// Ones; the stored elements of the diagonal are not read.
    Unit,
}

/// Flags of the special matrix of a routine: of A if A is symmetric, Hermitian or triangular; of the written matrix if
/// only one triangle of it is written (`uplo` only).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the BLAS")]
pub struct Form {
    pub side: Side,
    pub uplo: Uplo,
    pub diag: Diag,
}
