//! Argument rules of the reference BLAS: a decoded call in, a [`Problem`] and the bytes of its operands out. Calls that
//! are not worth a device, or that only the host BLAS can answer, get a result of their own.

mod scaled;
#[cfg(test)]
mod tests;

pub use scaled::{Scaling, scaled};

use super::call::{Call, Pointer};
use crate::base::routine::{Sizes, Slot};
use crate::base::{Op, Rect, Routine};
use crate::plan::{Operand, Problem};

/// The result of the argument check. The host BLAS runs all calls but those of [`Checked::Run`], with their arguments
/// untouched.
#[derive(Clone, PartialEq, Debug)]
pub enum Checked {
    /// An argument is illegal: the host BLAS reports it by `xerbla` in the way that the program expects.
    Bad,
    /// There is no product to compute: the reference BLAS returns at once or only scales the output, or the call is as
    /// cheap as that.
    NoProduct,
    /// Legal, but left to the host BLAS: an increment of zero (or one that is not positive where the reference BLAS
    /// then does nothing), operands that are not aligned to their element, extents beyond the address space.
    Host,
    /// A computation that devices may run, and the bytes of each operand as a rectangle whose offsets are addresses.
    Run(Box<Problem>, Vec<Rect>),
}

/// Why a call does not become a problem.
enum Stop {
    Bad,
    NoProduct,
    Host,
}

type Found = Result<(Problem, Vec<Rect>), Stop>;

/// Applies the argument rules to a decoded call.
#[must_use]
pub fn check(call: &Call) -> Checked {
    match build(call) {
        Ok((problem, placed)) => Checked::Run(Box::new(problem), placed),
        Err(Stop::Bad) => Checked::Bad,
        Err(Stop::NoProduct) => Checked::NoProduct,
        Err(Stop::Host) => Checked::Host,
    }
}

fn build(call: &Call) -> Found {
    let (routine, dtype, record) = (call.routine, call.dtype, call.routine.record());
    let vectors = record.level == 1;
    // Level-1 routines report no illegal sizes: a size of zero or less is an empty vector.
    if vectors && call.m <= 0 {
        return Err(Stop::NoProduct);
    }
    let complex_only = routine.hermitian() && !dtype.is_complex();
    let real_only = routine == Routine::Rotm && dtype.is_complex();
    if complex_only || real_only || routine == Routine::GemmBatch {
        return Err(Stop::Host);
    }
    let (alpha, beta) = (record.alpha.take(call.alpha), record.beta.take(call.beta));
    let idle = match routine {
        // Not idle if alpha is zero, for zero times NaN is NaN.
        Routine::Scal | Routine::RealScal => alpha.is_one(),
        Routine::Rot | Routine::Rotm => false,
        // A matrix that is multiplied by one and not transposed stays as it is.
        Routine::Imatcopy => alpha.is_zero() || (call.op_a == Op::None && alpha.is_one()),
        // With no product to compute the reference BLAS returns, or scales the output, which takes the host next to no
        // time.
        _ => alpha.is_zero(),
    };
    if vectors && idle && routine != Routine::Axpby {
        return Err(Stop::NoProduct);
    }
    let sizes = sizes(call)?;
    if routine == Routine::Imatcopy && sizes.op_a != Op::None && sizes.m != sizes.n {
        return Err(Stop::Host);
    }
    let given = routine.operands().iter().zip(call.operands());
    let operands = given.map(|(slot, given)| operand(call, &sizes, *slot, *given));
    let operands: Vec<Operand> = operands.collect::<Result<_, _>>()?;
    if idle || [sizes.m, sizes.n, sizes.k].contains(&0) {
        return Err(Stop::NoProduct);
    }
    let places = operands.iter().zip(call.operands());
    let placed =
        places.map(|(operand, at)| locate(dtype.size(), operand, at.addr).ok_or(Stop::Host));
    let placed: Vec<Rect> = placed.collect::<Result<_, _>>()?;
    let problem = Problem {
        routine,
        dtype,
        form: call.form,
        op_a: sizes.op_a,
        op_b: sizes.op_b,
        m: sizes.m,
        n: sizes.n,
        k: sizes.k,
        alpha,
        beta,
        operands,
    };
    Ok((problem, placed))
}

/// The sizes of a call and the transpositions of its matrices, if they are legal.
fn sizes(call: &Call) -> Result<Sizes, Stop> {
    let [m, n, k] = call.sizes();
    Ok(Sizes {
        m: size(m)?,
        n: size(n)?,
        k: size(k)?,
        op_a: op_a(call)?,
        op_b: call.op_b,
    })
}

/// An operand of a call, if its leading dimension or increment is legal.
fn operand(call: &Call, sizes: &Sizes, slot: Slot, given: Pointer) -> Result<Operand, Stop> {
    let (rows, cols) = slot.extent.stored(sizes);
    if !slot.extent.is_vector() {
        return Ok(Operand::matrix(rows, cols, leading(given.ld, rows)?));
    }
    let vectors = call.routine.level() == 1;
    match given.ld {
        0 if !vectors => Err(Stop::Bad),
        // Level-1 routines with a single vector return at once if its increment is negative.
        0 => Err(Stop::Host),
        _ if call.operands().len() == 1 && given.ld < 0 => Err(Stop::Host),
        inc => vector(rows, inc),
    }
}

/// The transposition of A. A rank-k update accepts one transpose: the conjugate one if the update is Hermitian. For a
/// real matrix both names mean the same.
fn op_a(call: &Call) -> Result<Op, Stop> {
    let (conjugates, complex) = (call.routine.hermitian(), call.dtype.is_complex());
    if !call.routine.updates_rank_k() {
        return Ok(call.op_a);
    }
    match call.op_a {
        Op::Trans | Op::ConjTrans if !complex => Ok(Op::Trans),
        Op::Trans if conjugates => Err(Stop::Bad),
        Op::ConjTrans if !conjugates => Err(Stop::Bad),
        op => Ok(op),
    }
}

/// A size argument: negative ones are illegal.
fn size(n: i64) -> Result<usize, Stop> {
    usize::try_from(n).map_err(|_| Stop::Bad)
}

/// A leading dimension: at least the number of rows, and at least one.
fn leading(ld: i64, rows: usize) -> Result<usize, Stop> {
    match usize::try_from(ld) {
        Ok(ld) if ld >= rows.max(1) => Ok(ld),
        _ => Err(Stop::Bad),
    }
}

/// A vector operand; `inc` is not zero.
fn vector(n: usize, inc: i64) -> Result<Operand, Stop> {
    let stride = usize::try_from(inc.unsigned_abs()).map_err(|_| Stop::Host)?;
    Ok(Operand::vector(n, stride, inc < 0))
}

/// The bytes of an operand that is not empty. `None` if devices cannot take the operand: its address is null, or no
/// multiple of the element size (vector loads of complex elements would trap on the device), or its extent leaves the
/// address space.
fn locate(element: usize, operand: &Operand, addr: usize) -> Option<Rect> {
    if addr == 0 || !addr.is_multiple_of(element) {
        return None;
    }
    let (run, count) = match operand {
        Operand { vector: false, .. } => (operand.rows, operand.cols),
        Operand { ld: 1, .. } => (operand.rows, 1),
        _ => (1, operand.rows),
    };
    let width = run.checked_mul(element)?;
    let stride = if count == 1 {
        width
    } else {
        operand.ld.checked_mul(element)?
    };
    Rect::try_new(addr, width, stride, count)
}
