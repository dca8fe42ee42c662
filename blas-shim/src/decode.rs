//! Decodes the argument registers and the stack of a BLAS call into a [`Call`].
//!
//! Every argument that Fortran passes by reference is read with a plain load. The argument may lie on an inaccessible
//! page; then the load faults, and the fault handler has the page made accessible, as for any other load of the
//! program. No lock is held during these loads.

#![expect(
    unsafe_code,
    reason = "arguments are addresses that the program vouches for"
)]

pub(crate) mod batch;
mod reader;
mod row_major;
pub(crate) mod solver;

use num_complex::Complex;
use semcache::base::routine::Flag;
use semcache::base::{Dtype, Op, Routine, Scalar, Solver, Value};
use semcache::blas::{Call, Pointer};

use crate::frame::Frame;
use crate::symbols::{Class, Symbol, Width};
use reader::Reader;
use semcache::base::counters::WhyHost;

/// A vector routine with fewer elements than this goes to the host BLAS without being decoded.
pub(crate) const FLOOR_1: i64 = 96 << 10;
/// A matrix-vector routine whose matrix has fewer elements than this goes to the host BLAS without being decoded.
pub(crate) const FLOOR_2: i64 = 256 * 256;
/// A matrix product with fewer multiplications than this goes to the host BLAS without being decoded.
pub(crate) const FLOOR_3: i64 = 160 * 160 * 160;

/// Whether an operand of the call may begin in a page that is inaccessible or read-only. To save decoding the call,
/// every word of its arguments is looked up as if the word were an address. Always true for a batch.
pub(crate) fn may_touch(frame: &Frame, symbol: &Symbol) -> bool {
    let Some(routine) = symbol.class.routine() else {
        return true;
    };
    // The number of words up to the last operand in the longest argument list of the level. A call with fewer arguments
    // is followed on the stack by words of its callers' frames, which can be read as well and can only turn a "no" into
    // a "yes".
    let words = match routine.level() {
        1 => 6,
        2 => 11,
        _ => 13,
    };
    crate::core::any_restricted((0..words).map(|position| frame.word(position) as usize))
}

/// Whether a call of a driver of LAPACK only asks how much workspace another one would use.
///
/// # Safety
/// The frame is that of a call of this driver.
pub(crate) unsafe fn asks_for_workspace(frame: &Frame, solver: Solver, dtype: Dtype) -> bool {
    // The lower half of -1, whichever width integers have: no workspace has 2^32 - 1 elements.
    let asked = |before| {
        let lwork = frame.word(before) as *const u32;
        // SAFETY: the caller passes the address of an integer, which the driver reads first, too.
        lwork.addr() >= reader::LOWEST && unsafe { lwork.read_unaligned() } == u32::MAX
    };
    solver.before_lwork(dtype).is_some_and(asked)
}

/// The most words of a call's arguments that lie on the stack; up to three more than there are. A function that is called with more
/// does not look at them, and they can be read as well: they lie in the frame of the caller.
pub(crate) fn words_on_stack(symbol: &Symbol) -> usize {
    const IN_REGISTERS: usize = 6;
    // A function that takes more than its namesake in the BLAS finds these as well.
    const LEAST: usize = 2;
    if let Class::Solver(solver) = symbol.class {
        return solver.words().saturating_sub(IN_REGISTERS).max(LEAST);
    }
    let Some(routine) = symbol.class.routine() else {
        // A batch has 18 arguments at most in the C interface, which has no lengths of flags, and 19 in Fortran.
        return if symbol.spelling.is_cblas() { 12 } else { 13 };
    };
    let signature = &routine.record().signature;
    let (flags, operands) = (signature.flags.len(), signature.operands.len());
    // The lengths of flags come last, in Fortran; the order of storage comes first, in C.
    let around = if symbol.spelling.is_cblas() { 1 } else { flags };
    let scalars = 2;
    let words = flags + around + signature.sizes.len() + scalars + 2 * operands + 1;
    words.saturating_sub(IN_REGISTERS).max(LEAST)
}

/// Calls of this level with less work (elements; multiplications at level 3) go to the host BLAS without being decoded.
const fn floor(level: u8) -> i64 {
    match level {
        1 => FLOOR_1,
        2 => FLOOR_2,
        _ => FLOOR_3,
    }
}

/// Whether the sizes alone say that the call is too small, without decoding the other arguments. Also true for calls
/// without work and with negative sizes, which run on the host BLAS. Every call that the stubs find small in assembly
/// is small by this function too.
///
/// # Safety
/// The frame is that of a call of the symbol, with integers of this width.
pub(crate) unsafe fn is_small(frame: &Frame, symbol: &Symbol, width: Width, hidden: bool) -> bool {
    if batch::is_batch(symbol.class) {
        // If each of its products is.
        // SAFETY: the caller keeps this function's contract.
        return unsafe { batch::largest(frame, symbol, width) } < FLOOR_3;
    }
    let Some(routine) = symbol.class.routine() else {
        return false;
    };
    let record = routine.record();
    let mut r = Reader::new(frame, symbol, width);
    let flags = record.signature.flags;
    // The arguments before the flags: the pointer to a hidden result, or the order of storage in the C interface of
    // levels 2 and 3.
    let order = r.cblas && record.level > 1 && !flags.contains(&Flag::Order);
    let ahead = usize::from(hidden || order);
    let mut call = Call::new(routine, symbol.dtype, &[], &[]);
    if let Some(side) = flags.iter().position(|flag| *flag == Flag::Side) {
        r.next = ahead + side;
        match r.side() {
            Some(side) => call.form.side = side,
            // An illegal value of SIDE: the host BLAS reports it.
            None => return true,
        }
    }
    r.next = ahead + flags.len();
    for dim in record.signature.sizes {
        *call.size_mut(*dim) = r.int().unwrap_or(0).max(0);
    }
    let work = call.sizes().into_iter().fold(1, i64::saturating_mul);
    work < floor(record.level)
}

/// A decoded call, and the address of its result if the result is not returned in registers.
pub(crate) struct Decoded {
    /// The call, in column-major terms.
    pub(crate) call: Call,
    /// The hidden first argument of a function that returns a complex number, or the last argument of a `_sub` routine.
    pub(crate) result_at: Option<usize>,
}

/// Reads the arguments of a call.
///
/// The call cannot be put into column-major terms, or one of its arguments is not valid: the host BLAS gets the call
/// with unchanged arguments, and the returned reason is counted.
///
/// # Safety
/// The frame is that of a call of the symbol, with integers of this width.
pub(crate) unsafe fn decode(
    frame: &Frame,
    symbol: &Symbol,
    width: Width,
    hidden: bool,
) -> Result<Decoded, WhyHost> {
    let mut r = Reader::new(frame, symbol, width);
    arguments(&mut r, symbol, hidden).ok_or(r.why)
}

fn arguments(r: &mut Reader<'_>, symbol: &Symbol, hidden: bool) -> Option<Decoded> {
    // Batches are decoded by [`batch::decode`].
    let routine = symbol.class.routine()?;
    let record = routine.record();
    let result_at = if hidden { Some(r.readable()?) } else { None };
    let flags = record.signature.flags;
    let row_major = record.level > 1 && r.row_major(flags)?;
    let mut call = Call::new(routine, symbol.dtype, &[], &[]);
    for flag in flags {
        match flag {
            // The order of storage comes first and has been read above.
            Flag::Order => {}
            Flag::TransA if flags.contains(&Flag::Order) => call.op_a = r.copied()?,
            Flag::Side => call.form.side = r.side()?,
            Flag::Uplo => call.form.uplo = r.uplo()?,
            Flag::TransA => call.op_a = r.op()?,
            Flag::TransB => call.op_b = r.op()?,
            Flag::Diag => call.form.diag = r.diag()?,
        }
    }
    for dim in record.signature.sizes {
        *call.size_mut(*dim) = r.int()?;
    }
    // The scalars of a rotation come last.
    let rotation = matches!(routine, Routine::Rot | Routine::Rotm);
    if !rotation {
        call.alpha = r.number(record.alpha)?;
    }
    let last = record.signature.operands.len() - 1;
    for at in 0..=last {
        if at == last && !rotation {
            call.beta = r.number(record.beta)?;
        }
        call.at[at] = Pointer {
            addr: r.address(),
            ld: r.int()?,
        };
    }
    match routine {
        Routine::Rot => (call.alpha, call.beta) = (r.number(record.alpha)?, r.number(record.beta)?),
        // An imatcopy with two leading dimensions: columns of the result overlap other columns of the input.
        Routine::Imatcopy if r.int()? != call.at[0].ld => return r.unsupported(),
        Routine::Rotm => match rotm(r)? {
            Some([alpha, beta]) => (call.alpha, call.beta) = (alpha, beta),
            // H is the identity: the vectors stay as they are.
            None => call.m = 0,
        },
        // Any other value of TRANS is illegal for the routine. (For real types the two transposes have one name, see
        // `one_name`.)
        _ if routine.updates_rank_k()
            && ![Op::None, rank_k_transpose(routine)].contains(&call.op_a) =>
        {
            return None;
        }
        // With negative increments OpenBLAS's csyr2 and zsyr2, which the reference does not have, find the first
        // element of a vector at another address than other routines do.
        Routine::Syr2 if r.dtype.is_complex() && call.at[..2].iter().any(|x| x.ld < 0) => {
            return r.unsupported();
        }
        _ => {}
    }
    if row_major {
        call = match row_major::by_columns(&call) {
            Some(call) => call,
            None => return r.unsupported(),
        };
    }
    let result_at = match symbol.class {
        Class::Sub(_) => Some(r.readable()?),
        _ => result_at,
    };
    Some(Decoded { call, result_at })
}

/// The only transposition that a rank-k update accepts.
fn rank_k_transpose(routine: Routine) -> Op {
    if routine.hermitian() {
        Op::ConjTrans
    } else {
        Op::Trans
    }
}

/// The columns of the matrix H of a rotm, from the caller's array of five numbers. The first number (-2, -1, 0 or 1) says
/// which entries of H are in the array, and what the others are; a call with another first number goes to the host BLAS.
/// `Some(None)` if H is the identity.
fn rotm(r: &mut Reader<'_>) -> Option<Option<[Value; 2]>> {
    let param = r.readable()?;
    let given = |i| r.element(param, i);
    let flag = given(0);
    let (h11, h21, h12, h22) = if flag == -1.0 {
        (given(1), given(2), given(3), given(4))
    } else if flag == 0.0 {
        (1.0, given(2), given(3), 1.0)
    } else if flag == 1.0 {
        (given(1), -1.0, 1.0, given(4))
    } else if flag == -2.0 {
        return Some(None);
    } else {
        return r.unsupported();
    };
    Some(Some([
        Value { re: h11, im: h21 },
        Value { re: h12, im: h22 },
    ]))
}

/// Puts the result of a function into the registers, or stores it at the address, where the caller expects it.
///
/// # Safety
/// The frame is that of a call of the symbol; `result_at` is where the program wants a complex result.
pub(crate) unsafe fn return_value(
    frame: &mut Frame,
    symbol: &Symbol,
    value: Value,
    result_at: Option<usize>,
) {
    frame.result = 0;
    let Some(routine) = symbol.class.routine() else {
        return;
    };
    let product = matches!(routine, Routine::Dot | Routine::Dotc);
    match routine {
        Routine::Dot | Routine::Nrm2 | Routine::Asum if !product || !symbol.dtype.is_complex() => {
            frame.result_xmm[0] = match symbol.dtype {
                Dtype::S | Dtype::C => u64::from(f32::from_value(value).to_bits()),
                Dtype::D | Dtype::Z => value.re.to_bits(),
            };
        }
        _ if product => {
            let narrow = Complex::<f32>::from_value(value);
            let single = symbol.dtype == Dtype::C;
            match result_at {
                // SAFETY: the program passes the address of a complex number. The number may lie on an inaccessible
                // page: then this store faults, so no lock is held here.
                Some(address) => unsafe {
                    if single {
                        (address as *mut Complex<f32>).write_unaligned(narrow);
                    } else {
                        (address as *mut Complex<f64>)
                            .write_unaligned(Complex::<f64>::from_value(value));
                    }
                    frame.result = address as u64;
                },
                None if single => {
                    frame.result_xmm[0] =
                        u64::from(narrow.re.to_bits()) | u64::from(narrow.im.to_bits()) << 32;
                }
                None => frame.result_xmm = [value.re.to_bits(), value.im.to_bits()],
            }
        }
        _ => {}
    }
}
