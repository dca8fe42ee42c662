//! Decodes the calls of those solvers of LAPACK that devices compute, which all are Fortran's.

#![expect(
    unsafe_code,
    reason = "arguments are addresses that the program vouches for"
)]

use semcache::base::{Op, Solver, Uplo};
use semcache::hints::view::View;
use semcache::solver::system::{Pivots, System};

use super::reader::Reader;
use crate::frame::Frame;
use crate::sites::{Barred, Binding};
use crate::symbols::{Symbol, Width};

/// A system of a lesser order goes to the host's LAPACK undecoded: on an H200 a factorization of order 128 took as long as on 16 cores.
const FLOOR: usize = 192;

/// A call.
pub(crate) struct Decoded {
    /// What is to be computed.
    pub(crate) system: System,
    info: usize,
    width: Width,
}

impl Decoded {
    /// Stores INFO of a call that went well.
    pub(crate) fn done(&self) {
        // SAFETY: the program passes the address of an integer of this width.
        unsafe {
            match self.width {
                Width::Bits32 => (self.info as *mut i32).write_unaligned(0),
                Width::Bits64 => (self.info as *mut i64).write_unaligned(0),
            }
        }
    }
}

fn size(n: i64) -> Option<usize> {
    usize::try_from(n).ok()
}

/// A matrix, whose leading dimension follows its address; `None` if it is empty or not valid.
fn matrix(r: &mut Reader<'_>, rows: usize, cols: usize) -> Option<View> {
    let view = View {
        addr: r.readable()?,
        rows,
        cols,
        ld: size(r.int()?)?,
        element: r.dtype.size(),
    };
    view.place().ok()?.map(|_| view)
}

/// The address of A, and the numbers of its rows and columns, in a call of a solver that the host computes; `None` if it is small or an
/// argument cannot be right.
///
/// # Safety
/// The frame is that of a call of the symbol.
pub(crate) unsafe fn operand(
    frame: &Frame,
    symbol: &Symbol,
    solver: Solver,
) -> Option<(usize, (usize, usize))> {
    let [rows, cols, a] = solver.before_a();
    // Whichever width integers have, these are the lower halves.
    let argument = |position| Reader::new(frame, symbol, Width::Bits32).at(position);
    let (rows, cols) = (size(argument(rows).int()?)?, size(argument(cols).int()?)?);
    let addr = argument(a).readable()?;
    let bytes = rows.checked_mul(cols)?.checked_mul(symbol.dtype.size())?;
    (rows.min(cols) >= FLOOR && addr.checked_add(bytes).is_some()).then_some((addr, (rows, cols)))
}

/// What a call of a solver asks for; `None` if devices have no such routine, the system is small, or an argument is not valid: LAPACK
/// says so.
///
/// # Safety
/// The frame is that of a call of the symbol, and the binding knows the width of its integers.
pub(crate) unsafe fn decode(
    frame: &Frame,
    symbol: &Symbol,
    solver: Solver,
    binding: &Binding,
) -> Option<Decoded> {
    let known = solver.runs_on_devices() && binding.barred == Barred::No;
    if !known || binding.target.is_null() {
        return None;
    }
    let mut r = Reader::new(frame, symbol, binding.width);
    let (mut op, mut uplo) = (Op::None, Uplo::Lower);
    match solver {
        Solver::Getrs => op = r.op()?,
        Solver::Potrf | Solver::Potrs | Solver::Posv => uplo = r.uplo()?,
        _ => {}
    }
    let rows = size(r.int()?)?;
    let cols = match solver {
        Solver::Getrf => size(r.int()?)?,
        _ => rows,
    };
    let sides = match solver {
        Solver::Getrf | Solver::Potrf => None,
        _ => Some(size(r.int()?)?),
    };
    if rows.min(cols) < FLOOR && crate::core::has_floor() || sides == Some(0) {
        return None;
    }
    let a = matrix(&mut r, rows, cols)?;
    let pivots = match solver {
        Solver::Getrf | Solver::Getrs | Solver::Gesv => Some(Pivots {
            addr: r.readable()?,
            wide: binding.width == Width::Bits64,
        }),
        _ => None,
    };
    let b = match sides {
        Some(sides) => Some(matrix(&mut r, rows, sides)?),
        None => None,
    };
    let info = r.readable()?;
    Some(Decoded {
        system: System {
            solver,
            dtype: symbol.dtype,
            uplo,
            op,
            a,
            b,
            pivots,
        },
        info,
        width: binding.width,
    })
}
