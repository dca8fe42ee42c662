//! Decodes the calls of those solvers of LAPACK that devices compute, which all are Fortran's.

#![expect(
    unsafe_code,
    reason = "arguments are addresses that the program vouches for"
)]

use core::ffi::c_void;

use semcache::base::dense::Step;
use semcache::base::{Diag, Dtype, Op, Side, Solver, Uplo};
use semcache::hints::view::View;
use semcache::solver::system::{Condition, Pivots, System};

use super::reader::Reader;
use crate::frame::Frame;
use crate::sites::{Barred, Binding};
use crate::symbols::{Symbol, Width};
use crate::words::Words;

/// A system of a lesser order goes to the host's LAPACK undecoded: on an H200 a factorization of order 128 took as long as on 16 cores.
const FLOOR: usize = 192;

/// A call.
pub(crate) struct Decoded {
    /// What is to be computed.
    pub(crate) system: System,
    info: usize,
    width: Width,
    /// The address and the size of a workspace that must be as large as LAPACK would rather have it.
    ample: Option<(usize, usize)>,
}

impl Decoded {
    /// Stores, as LAPACK does at first, that INFO is 0, and in the first element of a workspace the size that LAPACK would rather have:
    /// a call of LAPACK with the same arguments that asks for it stores both. Returns whether INFO is 0, and the workspace large enough.
    ///
    /// # Safety
    /// The frame is that of the decoded call, and the target is its function.
    pub(crate) unsafe fn begins(&self, frame: &Frame, target: *const c_void) -> bool {
        let solver = self.system.solver;
        let Some(lwork) = solver.before_lwork(self.system.dtype) else {
            // SAFETY: the program passes the address of an integer of this width.
            unsafe {
                match self.width {
                    Width::Bits32 => (self.info as *mut i32).write_unaligned(0),
                    Width::Bits64 => (self.info as *mut i64).write_unaligned(0),
                }
            }
            return true;
        };
        // Functions with 32-bit integers read the lower half.
        let (asks, mut words) = (-1i64, Words::default());
        for position in 0..solver.words() {
            let word = match position == lwork {
                true => (&raw const asks).expose_provenance(),
                false => frame.word(position) as usize,
            };
            let _ = words.push(word);
        }
        // SAFETY: the program's own call of this function, but that it asks for the size of the workspace; INFO has this width.
        let legal = unsafe {
            words.call::<()>(target);
            match self.width {
                Width::Bits32 => (self.info as *const i32).read_unaligned() == 0,
                Width::Bits64 => (self.info as *const i64).read_unaligned() == 0,
            }
        };
        legal
            && self.ample.is_none_or(|(work, size)| {
                // SAFETY: the first element of the workspace, into which LAPACK has just stored a number of this precision.
                let asked = unsafe {
                    match self.system.dtype.real() {
                        Dtype::S => f64::from((work as *const f32).read_unaligned()),
                        _ => (work as *const f64).read_unaligned(),
                    }
                };
                asked <= size as f64
            })
    }
}

fn size(n: i64) -> Option<usize> {
    usize::try_from(n).ok()
}

/// The transposition of a matrix for which LAPACK knows the transpose of a real one, and the conjugate transpose of a complex one.
fn adjoint(r: &mut Reader<'_>) -> Option<Op> {
    r.choice(match r.dtype.is_complex() {
        true => &[(b'N', 111, Op::None), (b'C', 113, Op::ConjTrans)],
        false => &[(b'N', 111, Op::None), (b'T', 112, Op::Trans)],
    })
}

/// A matrix, whose leading dimension follows its address; `None` if it is empty or not valid.
fn matrix(r: &mut Reader<'_>, (rows, cols): (usize, usize)) -> Option<View> {
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
    let (mut op, mut uplo, mut diag, mut side) = (Op::None, Uplo::Lower, Diag::NonUnit, Side::Left);
    match solver {
        Solver::Getrs => op = r.op()?,
        Solver::Potrf
        | Solver::Potrs
        | Solver::Posv
        | Solver::Potri
        | Solver::Pocon
        | Solver::Lauum
        | Solver::Sytrf
        | Solver::Sytrs
        | Solver::Sysv => uplo = r.uplo()?,
        Solver::Gecon => {
            op = r.choice(&[
                (b'1', 0, Op::None),
                (b'O', 0, Op::None),
                (b'I', 0, Op::ConjTrans),
            ])?;
        }
        Solver::Trtri => (uplo, diag) = (r.uplo()?, r.diag()?),
        Solver::Trtrs => (uplo, op, diag) = (r.uplo()?, r.op()?, r.diag()?),
        Solver::Ormqr | Solver::Ormlq => (side, op) = (r.side()?, adjoint(&mut r)?),
        Solver::Gels => op = adjoint(&mut r)?,
        _ => {}
    }
    // The rows and columns of A, of B, and the number of reflectors.
    let first = size(r.int()?)?;
    let (a, b, reflectors) = match solver {
        Solver::Getrf | Solver::Geqrf | Solver::Geqp3 | Solver::Gelqf => {
            let cols = size(r.int()?)?;
            ((first, cols), None, first.min(cols))
        }
        Solver::Potrf
        | Solver::Sytrf
        | Solver::Getri
        | Solver::Potri
        | Solver::Gecon
        | Solver::Pocon
        | Solver::Trtri
        | Solver::Lauum => ((first, first), None, 0),
        Solver::Orgqr | Solver::Orglq => ((first, size(r.int()?)?), None, size(r.int()?)?),
        Solver::Gels => {
            let cols = size(r.int()?)?;
            let sides = size(r.int()?)?;
            ((first, cols), Some((first.max(cols), sides)), 0)
        }
        Solver::Gelsd | Solver::Gelss | Solver::Gelsy => {
            let cols = size(r.int()?)?;
            let sides = size(r.int()?)?;
            // From this number of rows on gelsd and gelss begin with QR (ILAENV 6). gelsy does not, but its QR with pivoting takes longer
            // than QR on a device and that of R.
            if first < cols.checked_mul(8)?.div_ceil(5) {
                return None;
            }
            ((first, cols), Some((first, sides)), 0)
        }
        Solver::Ormqr | Solver::Ormlq => {
            let (cols, reflectors) = (size(r.int()?)?, size(r.int()?)?);
            let order = match side {
                Side::Left => first,
                Side::Right => cols,
            };
            let a = match solver {
                Solver::Ormqr => (order, reflectors),
                _ => (reflectors, order),
            };
            (a, Some((first, cols)), reflectors)
        }
        _ => ((first, first), Some((first, size(r.int()?)?)), 0),
    };
    let least = match solver {
        Solver::Orgqr | Solver::Orglq => reflectors.min(a.0).min(a.1),
        _ => a.0.min(a.1),
    };
    let small = least < FLOOR && crate::core::has_floor();
    if small || b.is_some_and(|(rows, cols)| rows == 0 || cols == 0) {
        return None;
    }
    let a = matrix(&mut r, a)?;
    let pivots = match solver {
        Solver::Getrf
        | Solver::Getrs
        | Solver::Gesv
        | Solver::Getri
        | Solver::Geqp3
        | Solver::Sytrf
        | Solver::Sytrs
        | Solver::Sysv => Some(Pivots {
            addr: r.readable()?,
            wide: binding.width == Width::Bits64,
        }),
        _ => None,
    };
    let tau = match solver {
        Solver::Geqrf
        | Solver::Geqp3
        | Solver::Orgqr
        | Solver::Ormqr
        | Solver::Gelqf
        | Solver::Orglq
        | Solver::Ormlq => Some((r.readable()?, reflectors)),
        _ => None,
    };
    let b = match b {
        Some(b) => Some(matrix(&mut r, b)?),
        None => None,
    };
    let condition = match solver {
        Solver::Gecon | Solver::Pocon => {
            let (norm, addr) = (r.readable()?, r.readable()?);
            if norm.abs_diff(addr) < symbol.dtype.real().size() {
                return None;
            }
            let norm = r.element(norm, 0);
            // Workspace, of reals or complex numbers, and of integers or reals.
            r.word();
            r.word();
            // LAPACK says what other norms are.
            Some((norm > 0.0 && norm.is_finite()).then_some(Condition { norm, addr })?)
        }
        _ => None,
    };
    let integer = match binding.width {
        Width::Bits32 => 4,
        Width::Bits64 => 8,
    };
    let real = symbol.dtype.real().size();
    // Singular values, or the permutation of gelsy, and the rank.
    let (mut singular, mut rank) = ((0, 0), (0, 0));
    if solver.is_finished_by_host() {
        let each = if solver == Solver::Gelsy {
            integer
        } else {
            real
        };
        singular = (r.readable()?, least.saturating_mul(each));
        r.word();
        rank = (r.readable()?, integer);
    }
    // Address and bytes of the workspace, if there is one.
    let (mut work, mut ample) = ((0, 0), None);
    if solver.before_lwork(symbol.dtype).is_some() {
        let addr = r.readable()?;
        let least = match (solver, b.as_ref(), side) {
            // What LAPACK asks for is compared once it has said so.
            (Solver::Gelsd | Solver::Gelss | Solver::Gelsy, ..) => 1,
            // Its columns are as many as there are room for.
            (Solver::Sytrf | Solver::Sysv, ..) => 1,
            // Norms of columns besides, which complex types have elsewhere.
            (Solver::Geqp3, ..) if symbol.dtype.is_complex() => a.cols.saturating_add(1),
            (Solver::Geqp3, ..) => a.cols.saturating_mul(3).saturating_add(1),
            // The scalar factors of reflectors lie there, too.
            (Solver::Gels, Some(b), _) => least.saturating_add(least.max(b.cols)),
            (_, Some(b), Side::Left) => b.cols,
            (_, Some(b), Side::Right) => b.rows,
            (Solver::Gelqf | Solver::Orglq, None, _) => a.rows,
            (_, None, _) => a.cols,
        };
        // LAPACK says so if the workspace is too small.
        let given = size(r.int()?).filter(|size| *size >= least.max(1))?;
        work = (addr, least.saturating_mul(symbol.dtype.size()));
        if solver.is_finished_by_host() {
            work.1 = given.saturating_mul(symbol.dtype.size());
            ample = Some((addr, given));
        }
    }
    if (solver.is_finished_by_host() || solver == Solver::Geqp3) && symbol.dtype.is_complex() {
        // Workspace of reals.
        r.word();
    }
    if solver == Solver::Gelsd {
        // Workspace of integers.
        r.word();
    }
    let info = r.readable()?;
    let system = System {
        solver,
        dtype: symbol.dtype,
        uplo,
        op,
        diag,
        side,
        a,
        b,
        pivots,
        tau,
        condition,
    };
    let others = [
        work,
        singular,
        rank,
        condition.map_or((0, 0), |of| (of.addr, real)),
        (info, integer),
    ];
    let outside = others.iter().all(|other| is_outside(&system, *other));
    (narrow(&system) && outside).then_some(Decoded {
        system,
        info,
        width: binding.width,
        ample,
    })
}

/// Whether bytes that the call writes besides lie outside of the matrices, and of pivots and scalar factors.
fn is_outside(system: &System, (addr, bytes): (usize, usize)) -> bool {
    let end = addr.saturating_add(bytes);
    let matrices = system.places().map(|place| (place.start, place.end()));
    let beside = system.beside();
    let beside = beside.map(|(from, bytes)| (from, from.saturating_add(bytes)));
    matrices
        .chain(beside)
        .all(|(from, to)| end <= from || to <= addr)
}

/// Whether cuSOLVER's product with Q and its factorization of a symmetric matrix, whose integers have 32 bits, can reach all elements.
fn narrow(system: &System) -> bool {
    let elements = |view: View| view.ld.saturating_mul(view.cols);
    let narrow = system
        .steps()
        .any(|step| matches!(step, Step::ApplyQ | Step::Symmetric));
    !narrow
        || system
            .matrices()
            .all(|view| elements(view) <= i32::MAX as usize)
}
