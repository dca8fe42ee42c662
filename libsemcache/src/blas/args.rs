//! Argument rules of the reference BLAS: a decoded call in, a [`Problem`] and the places of its operands
//! out. What is not worth a device, or what only the host BLAS can answer, is told apart here.

mod gemmt;
mod level1;
mod level2;
mod level2_half;
mod level3;
mod scaled;
#[cfg(test)]
mod tests;

pub use scaled::{Scaling, scaled};

use super::call::{Args, Call};
use crate::base::{Dtype, Form, Op, Rect, Routine, Value};
use crate::host::Block;
use crate::plan::{Operand, Problem};

/// What the argument rules say of a call. All but [`Checked::Run`] go to the host BLAS, untouched.
#[derive(Clone, PartialEq, Debug)]
pub enum Checked {
    /// An argument is illegal: the host BLAS reports it by `xerbla` in the way that the program expects.
    Bad,
    /// A quick return of the reference, or as good as one: nothing, or only a scaling, is computed.
    Nothing,
    /// Legal, but left to the host: an increment of zero (or one that is not positive where the reference
    /// then does nothing), operands that are not aligned to their element, extents beyond the address
    /// space.
    Host,
    /// A computation that devices may do.
    Run(Box<Problem>, Vec<Placed>),
}

/// The bytes of one operand in the program's memory: `count` runs of `width` bytes, `stride` apart, the
/// first at `addr`. A single run has `stride == width`; runs never overlap each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Lowest address.
    pub addr: usize,
    /// Bytes of each run.
    pub width: usize,
    /// Distance between the starts of runs, in bytes.
    pub stride: usize,
    /// Number of runs, at least one.
    pub count: usize,
}

impl Placed {
    /// One past the highest byte.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.addr + (self.count - 1) * self.stride + self.width
    }

    /// The same bytes as a rectangle of a block that holds them.
    #[must_use]
    pub fn within(&self, block: &Block) -> Rect {
        Rect::new(self.addr - block.start, self.width, self.stride, self.count)
    }

    /// The same bytes as a rectangle whose offsets are addresses.
    #[must_use]
    pub fn rect(&self) -> Rect {
        Rect::new(self.addr, self.width, self.stride, self.count)
    }

    /// Bytes of the operand itself, gaps not counted.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.width * self.count
    }
}

/// Why a call does not become a problem.
enum Stop {
    Bad,
    Nothing,
    Host,
}

type Found = Result<(Problem, Vec<Placed>), Stop>;

/// Applies the argument rules.
#[must_use]
pub fn check(call: &Call) -> Checked {
    match build(call) {
        Ok((problem, placed)) => Checked::Run(Box::new(problem), placed),
        Err(Stop::Bad) => Checked::Bad,
        Err(Stop::Nothing) => Checked::Nothing,
        Err(Stop::Host) => Checked::Host,
    }
}

fn build(call: &Call) -> Found {
    let dtype = call.dtype;
    // Only complex types have the Hermitian routines.
    if matches!(call.routine, Routine::Hemm | Routine::Herk | Routine::Her2k) && !dtype.is_complex()
    {
        return Err(Stop::Host);
    }
    if matches!(call.routine, Routine::Hemv | Routine::Her | Routine::Her2) && !dtype.is_complex() {
        return Err(Stop::Host);
    }
    match (call.routine, call.args) {
        (Routine::Gemm, args @ Args::Gemm { .. }) => level3::gemm(dtype, args),
        (Routine::Symm | Routine::Hemm, args @ Args::Symm { .. }) => {
            level3::symm(call.routine, dtype, args)
        }
        (
            Routine::Syrk | Routine::Herk | Routine::Syr2k | Routine::Her2k,
            args @ Args::RankK { .. },
        ) => level3::rank_k(call.routine, dtype, args),
        (Routine::Gemmt, args @ Args::Gemmt { .. }) => gemmt::gemmt(dtype, args),
        (Routine::Trmm | Routine::Trsm, args @ Args::Triangular { .. }) => {
            level3::triangular(call.routine, dtype, args)
        }
        (Routine::Gemv, args @ Args::Gemv { .. }) => level2::gemv(dtype, args),
        (Routine::Ger | Routine::Gerc, args @ Args::Ger { .. }) => {
            level2::ger(call.routine, dtype, args)
        }
        (Routine::Symv | Routine::Hemv, args @ Args::Symv { .. }) => {
            level2_half::symv(call.routine, dtype, args)
        }
        (Routine::Trmv | Routine::Trsv, args @ Args::Trmv { .. }) => {
            level2_half::trmv(call.routine, dtype, args)
        }
        (Routine::Syr | Routine::Her | Routine::Syr2 | Routine::Her2, args @ Args::Syr { .. }) => {
            level2_half::syr(call.routine, dtype, args)
        }
        (Routine::Rot | Routine::Rotm, args @ Args::Rotation { .. }) => {
            level1::rotation(call.routine, dtype, args)
        }
        (
            Routine::Scal | Routine::RealScal | Routine::Nrm2 | Routine::Asum | Routine::Iamax,
            args @ Args::One { .. },
        ) => level1::one(call.routine, dtype, args),
        (
            Routine::Axpy | Routine::Copy | Routine::Swap | Routine::Dot | Routine::Dotc,
            args @ Args::Two { .. },
        ) => level1::two(call.routine, dtype, args),
        _ => Err(Stop::Host),
    }
}

/// A problem of one or two vectors; its length is the first operand's.
fn plain(routine: Routine, dtype: Dtype, alpha: Value, operands: Vec<Operand>) -> Problem {
    Problem {
        routine,
        dtype,
        form: Form::default(),
        op_a: Op::None,
        op_b: Op::None,
        m: operands.first().map_or(0, |x| x.rows),
        n: 1,
        k: 1,
        alpha,
        beta: Value::ZERO,
        operands,
    }
}

/// A size argument: negative ones are illegal.
fn size(n: i64) -> Result<usize, Stop> {
    usize::try_from(n).map_err(|_| Stop::Bad)
}

/// A leading dimension: at least the rows, and at least one.
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

fn place(dtype: Dtype, operands: &[Operand], addrs: &[usize]) -> Result<Vec<Placed>, Stop> {
    operands
        .iter()
        .zip(addrs)
        .map(|(operand, &addr)| locate(dtype.size(), operand, addr).ok_or(Stop::Host))
        .collect()
}

/// The bytes of an operand that is not empty; `None` for those that devices cannot take: a null pointer,
/// an address that is no multiple of the element (complex vector loads would trap on the device), an
/// extent that leaves the address space.
fn locate(element: usize, operand: &Operand, addr: usize) -> Option<Placed> {
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
    let last = count.checked_sub(1)?.checked_mul(stride)?;
    let end = last.checked_add(width)?.checked_add(addr)?;
    (isize::try_from(end).is_ok()).then_some(Placed {
        addr,
        width,
        stride,
        count,
    })
}
