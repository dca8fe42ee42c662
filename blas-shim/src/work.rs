//! Which arguments say how much work a call is, by the record of its routine. The stubs have these positions in their
//! machine code; [`is_small`](crate::decode::is_small) reads the same sizes by the record itself.

use semcache::base::Routine;
use semcache::base::routine::{Dim, Flag};

use crate::symbols::Class;

/// The argument registers do not say: only the memory that the arguments point to does.
pub(crate) const UNKNOWN: u8 = 0;
/// The length of vectors.
pub(crate) const LENGTH: u8 = 1;
/// The length of vectors that the host copies by several threads if an increment is not 1: such a call of
/// [`LEAST`](semcache::runtime::copies::LEAST) elements is not found small.
pub(crate) const COPY: u8 = 7;
/// The rows and columns of a matrix, whose product is the work.
pub(crate) const MN: u8 = 2;
/// The order of a square matrix, whose square is the work.
pub(crate) const NN: u8 = 3;
/// The sizes of a matrix product.
pub(crate) const MNK: u8 = 4;
/// The order of a square matrix, which counts twice, and the inner dimension of the product that is added to that
/// matrix.
pub(crate) const NNK: u8 = 5;
/// Rows and columns of a product with a square matrix, whose order is one of the two.
pub(crate) const SIDED: u8 = 6;

/// What the sizes of a routine are: one of the constants above.
pub(crate) const fn of(class: Class) -> u8 {
    let Some(routine) = class.routine() else {
        return UNKNOWN;
    };
    let record = routine.record();
    match (record.level, record.signature.sizes) {
        (1, [Dim::M]) if matches!(routine, Routine::Copy) => COPY,
        (1, [Dim::M]) => LENGTH,
        (2, [Dim::M, Dim::N]) => MN,
        (2, [Dim::N]) => NN,
        (3, [Dim::M, Dim::N, Dim::K]) => MNK,
        (3, [Dim::N, Dim::K]) => NNK,
        (3, [Dim::M, Dim::N]) => SIDED,
        _ => panic!("the stubs know no work of these sizes"),
    }
}

/// The number of arguments before the sizes.
pub(crate) const fn before(class: Class, cblas: bool) -> usize {
    let Some(routine) = class.routine() else {
        return 0;
    };
    let record = routine.record();
    let flags = record.signature.flags;
    // The C interface of levels 2 and 3 has the order of storage first; for a few routines it is one of the record's
    // flags.
    let order = cblas && record.level > 1 && !matches!(flags, [Flag::Order, ..]);
    flags.len() + order as usize
}
