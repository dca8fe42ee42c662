//! From argument registers to a [`Call`].
//!
//! Every argument that Fortran passes by reference is read with a plain load: it may lie in memory that is
//! closed, and the load is then served like any other access of the program. Nothing is held meanwhile.

#![expect(
    unsafe_code,
    reason = "arguments are addresses that the program vouches for"
)]

pub(crate) mod batch;
mod level2;
mod level3;

use num_complex::Complex;
use semcache::base::{Diag, Dtype, Op, Routine, Scalar, Side, Uplo, Value};
use semcache::blas::{Args, Call};
use semcache::with_dtype;

use self::level3::Rank;
use crate::counts::Reason;
use crate::frame::Frame;
use crate::symbols::{Class, Symbol, Width};

/// Below this, an address cannot be an argument.
const LOWEST: usize = 4 << 10;

/// Reads consecutive arguments of a call. `None` means: not a call that this crate understands.
struct Reader<'a> {
    frame: &'a Frame,
    cblas: bool,
    width: Width,
    dtype: Dtype,
    next: usize,
    next_float: usize,
    /// The reason that is counted when the call goes to the host because its arguments cannot be decoded.
    why: Reason,
}

impl<'a> Reader<'a> {
    fn new(frame: &'a Frame, symbol: &Symbol, width: Width) -> Self {
        Reader {
            frame,
            cblas: symbol.spelling.is_cblas(),
            width,
            dtype: symbol.dtype,
            next: 0,
            next_float: 0,
            why: Reason::BadArgument,
        }
    }

    /// Stops decoding a call that may be valid, but that no routine of the devices computes.
    fn unsupported<T>(&mut self) -> Option<T> {
        self.why = Reason::Unsupported;
        None
    }

    fn word(&mut self) -> u64 {
        let word = self.frame.word(self.next);
        self.next += 1;
        word
    }

    fn address(&mut self) -> usize {
        self.word() as usize
    }

    /// The address of an argument that will be read here.
    fn readable(&mut self) -> Option<usize> {
        Some(self.address()).filter(|address| *address >= LOWEST)
    }

    /// A size, an increment or a leading dimension.
    fn int(&mut self) -> Option<i64> {
        if self.cblas {
            let word = self.word();
            return Some(narrow(word, self.width));
        }
        let address = self.readable()?;
        // SAFETY: the program passes the address of an integer of this width.
        Some(unsafe { load_int(address, self.width) })
    }

    /// A C enumeration, 32 bits whatever the width of integers.
    fn enumeration(&mut self) -> i64 {
        narrow(self.word(), Width::Bits32)
    }

    /// A scalar of the operation's element type. CBLAS passes real ones by value, complex ones by reference.
    fn scalar(&mut self) -> Option<Value> {
        self.scalar_of(self.dtype)
    }

    fn scalar_of(&mut self, dtype: Dtype) -> Option<Value> {
        if self.cblas && !dtype.is_complex() {
            let position = self.next_float;
            self.next_float += 1;
            let re = match dtype {
                Dtype::S => f64::from(self.frame.float(position)),
                _ => self.frame.double(position),
            };
            return Some(Value { re, im: 0.0 });
        }
        let address = self.readable()?;
        // SAFETY: the program passes the address of a scalar of this type.
        Some(with_dtype!(dtype, T => unsafe { (address as *const T).read_unaligned() }.to_value()))
    }

    /// A real scalar of the operation's precision.
    fn real_scalar(&mut self) -> Option<Value> {
        self.scalar_of(match self.dtype {
            Dtype::S | Dtype::C => Dtype::S,
            Dtype::D | Dtype::Z => Dtype::D,
        })
    }

    /// The `i`th of the real numbers at an address.
    fn element(&self, address: usize, i: usize) -> f64 {
        match self.dtype {
            Dtype::S | Dtype::C => {
                // SAFETY: the program passes the address of so many numbers of this type.
                f64::from(unsafe { (address as *const f32).add(i).read_unaligned() })
            }
            // SAFETY: as above.
            Dtype::D | Dtype::Z => unsafe { (address as *const f64).add(i).read_unaligned() },
        }
    }

    /// A choice, as Fortran's character, in either case, or C's enumeration. Other values are the host's.
    fn choice<T: Copy>(&mut self, choices: &[(u8, i64, T)]) -> Option<T> {
        let found = if self.cblas {
            let value = self.enumeration();
            choices.iter().find(|(_, number, _)| *number == value)
        } else {
            let address = self.readable()?;
            // SAFETY: the program passes the address of a character.
            let value = unsafe { (address as *const u8).read() }.to_ascii_uppercase();
            choices.iter().find(|(letter, _, _)| *letter == value)
        };
        found.map(|(_, _, choice)| *choice)
    }

    /// `op`. OpenBLAS has one more, which is the host's.
    fn op(&mut self) -> Option<Op> {
        let op = self.choice(&[
            (b'N', 111, Op::None),
            (b'T', 112, Op::Trans),
            (b'C', 113, Op::ConjTrans),
        ])?;
        Some(one_name(op, self.dtype))
    }

    fn side(&mut self) -> Option<Side> {
        self.choice(&[(b'L', 141, Side::Left), (b'R', 142, Side::Right)])
    }

    fn uplo(&mut self) -> Option<Uplo> {
        self.choice(&[(b'U', 121, Uplo::Upper), (b'L', 122, Uplo::Lower)])
    }

    fn diag(&mut self) -> Option<Diag> {
        self.choice(&[(b'N', 131, Diag::NonUnit), (b'U', 132, Diag::Unit)])
    }

    /// Whether matrices are stored by rows.
    fn row_major(&mut self) -> Option<bool> {
        if !self.cblas {
            return Some(false);
        }
        match self.enumeration() {
            101 => Some(true),
            102 => Some(false),
            _ => None,
        }
    }
}

/// One name for one operation: a real matrix has nothing to conjugate.
fn one_name(op: Op, dtype: Dtype) -> Op {
    if op == Op::ConjTrans && !dtype.is_complex() {
        Op::Trans
    } else {
        op
    }
}

fn narrow(word: u64, width: Width) -> i64 {
    match width {
        Width::Bits32 => i64::from(word as u32 as i32),
        Width::Bits64 => word as i64,
    }
}

/// # Safety
/// An integer of this width must be at `address`.
unsafe fn load_int(address: usize, width: Width) -> i64 {
    match width {
        // SAFETY: the caller's.
        Width::Bits32 => i64::from(unsafe { (address as *const i32).read_unaligned() }),
        // SAFETY: the caller's.
        Width::Bits64 => unsafe { (address as *const i64).read_unaligned() },
    }
}

/// Below this length, a vector routine is not worth a look.
pub(crate) const FLOOR_1: i64 = 96 << 10;
/// The same for elements of the matrix of a matrix-vector routine.
pub(crate) const FLOOR_2: i64 = 256 * 256;
/// The same for multiplications of a matrix product.
pub(crate) const FLOOR_3: i64 = 160 * 160 * 160;

/// Whether an operand of the call may begin in a page that is closed or read-only. To save decoding the call, every
/// word of its arguments is looked up as if it were an address. Always true for a batch.
pub(crate) fn may_touch(frame: &Frame, symbol: &Symbol, hidden: bool) -> bool {
    if batch::is_batch(symbol.class) {
        return true;
    }
    // As many words as the longest call of the level has up to its last operand. A call with fewer arguments is
    // followed on the stack by words of its callers' frames, which can be read as well and only make the answer more
    // cautious.
    let words = match Shape::of(symbol.class, hidden).floor {
        FLOOR_1 => 6,
        FLOOR_2 => 11,
        _ => 13,
    };
    (0..words).any(|position| crate::core::is_restricted(frame.word(position) as usize))
}

/// What the work of a call is made of: positions of its sizes, and of the side of a square matrix whose order is
/// the first of them (left) or the second (right).
struct Shape {
    sizes: &'static [usize],
    side: Option<usize>,
    floor: i64,
}

impl Shape {
    const fn of(class: Class, hidden: bool) -> Shape {
        // Fortran positions.
        let (sizes, side, floor): (&[usize], _, _) = match class {
            Class::Gemm => (&[2, 3, 4], None, FLOOR_3),
            Class::Symm | Class::Hemm => (&[2, 3], Some(0), FLOOR_3),
            Class::Syrk | Class::Herk | Class::Syr2k | Class::Her2k => (&[2, 2, 3], None, FLOOR_3),
            Class::Gemmt => (&[3, 3, 4], None, FLOOR_3),
            Class::Trmm | Class::Trsm => (&[4, 5], Some(0), FLOOR_3),
            Class::Gemv => (&[1, 2], None, FLOOR_2),
            Class::Ger | Class::Geru | Class::Gerc => (&[0, 1], None, FLOOR_2),
            Class::Symv | Class::Hemv | Class::Syr | Class::Her | Class::Syr2 | Class::Her2 => {
                (&[1, 1], None, FLOOR_2)
            }
            Class::Trmv | Class::Trsv => (&[3, 3], None, FLOOR_2),
            _ if hidden => (&[1], None, FLOOR_1),
            _ => (&[0], None, FLOOR_1),
        };
        Shape { sizes, side, floor }
    }
}

/// Whether the sizes alone say that the call is too small, without decoding the rest. Also true for calls
/// without work and with negative sizes, which the host answers. What the stubs find small in assembly is small
/// here too.
///
/// # Safety
/// The frame is that of a call of the symbol, with integers of this width.
pub(crate) unsafe fn is_small(frame: &Frame, symbol: &Symbol, width: Width, hidden: bool) -> bool {
    if batch::is_batch(symbol.class) {
        // If each of its products is.
        // SAFETY: the caller's.
        return unsafe { batch::largest(frame, symbol, width) } < FLOOR_3;
    }
    let cblas = symbol.spelling.is_cblas();
    let shape = Shape::of(symbol.class, hidden);
    // The C interface of the routines of levels 2 and 3 has the order of storage first.
    let ahead = usize::from(cblas && shape.floor != FLOOR_1);
    let size = |position: usize| {
        let word = frame.word(position + ahead);
        let size = if cblas {
            narrow(word, width)
        } else if (word as usize) < LOWEST {
            0
        } else {
            // SAFETY: the program passes the address of an integer of this width.
            unsafe { load_int(word as usize, width) }
        };
        size.max(0)
    };
    let mut work: i64 = 1;
    for position in shape.sizes {
        work = work.saturating_mul(size(*position));
    }
    if let (Some(side), &[rows, columns]) = (shape.side, shape.sizes) {
        let mut r = Reader {
            next: side + ahead,
            ..Reader::new(frame, symbol, width)
        };
        work = work.saturating_mul(match r.side() {
            Some(Side::Left) => size(rows),
            Some(Side::Right) => size(columns),
            // Not a legal call.
            None => 0,
        });
    }
    work < shape.floor
}

/// A decoded call and where its result goes if not to registers.
pub(crate) struct Decoded {
    /// The call, in column-major terms.
    pub(crate) call: Call,
    /// The hidden first argument of a function, or the last of a `_sub` routine.
    pub(crate) result_at: Option<usize>,
}

/// Reads the arguments of a call.
///
/// # Errors
/// The call cannot be put into column-major terms, or one of its arguments is not valid: the host BLAS must get it as it
/// is, and the reason is counted.
///
/// # Safety
/// The frame is that of a call of the symbol, with integers of this width.
pub(crate) unsafe fn decode(
    frame: &Frame,
    symbol: &Symbol,
    width: Width,
    hidden: bool,
) -> Result<Decoded, Reason> {
    let mut r = Reader::new(frame, symbol, width);
    arguments(&mut r, symbol, hidden).ok_or(r.why)
}

fn arguments(r: &mut Reader<'_>, symbol: &Symbol, hidden: bool) -> Option<Decoded> {
    let mut result_at = if hidden { Some(r.readable()?) } else { None };
    let (routine, args) = match symbol.class {
        // Batches are read by themselves.
        Class::Jump | Class::GemmBatch | Class::GemmBatchStrided => return None,
        Class::Gemmt => (Routine::Gemmt, level3::gemmt(r)?),
        Class::Gemm => (Routine::Gemm, level3::gemm(r)?),
        Class::Symm => (Routine::Symm, level3::symm(r)?),
        Class::Hemm => (Routine::Hemm, level3::symm(r)?),
        Class::Syrk => (Routine::Syrk, level3::rank_k(r, Rank::One, false)?),
        Class::Herk => (Routine::Herk, level3::rank_k(r, Rank::One, true)?),
        Class::Syr2k => (Routine::Syr2k, level3::rank_k(r, Rank::Two, false)?),
        Class::Her2k => (Routine::Her2k, level3::rank_k(r, Rank::Two, true)?),
        Class::Trmm => (Routine::Trmm, level3::triangular(r)?),
        Class::Trsm => (Routine::Trsm, level3::triangular(r)?),
        Class::Gemv => (Routine::Gemv, gemv(r)?),
        Class::Ger | Class::Geru => (Routine::Ger, ger(r, false)?),
        Class::Gerc => (Routine::Gerc, ger(r, true)?),
        Class::Symv => (Routine::Symv, level2::symv(r, false)?),
        Class::Hemv => (Routine::Hemv, level2::symv(r, true)?),
        Class::Trmv => (Routine::Trmv, level2::triangular(r)?),
        Class::Trsv => (Routine::Trsv, level2::triangular(r)?),
        Class::Syr => (Routine::Syr, level2::update(r, Rank::One, false)?),
        Class::Her => (Routine::Her, level2::update(r, Rank::One, true)?),
        Class::Syr2 => (Routine::Syr2, level2::update(r, Rank::Two, false)?),
        Class::Her2 => (Routine::Her2, level2::update(r, Rank::Two, true)?),
        Class::Rot => (Routine::Rot, level2::rot(r)?),
        Class::Rotm => (Routine::Rotm, level2::rotm(r)?),
        Class::Axpy => (Routine::Axpy, two(r, true)?),
        Class::Copy => (Routine::Copy, two(r, false)?),
        Class::Swap => (Routine::Swap, two(r, false)?),
        Class::Dot | Class::Dotu => (Routine::Dot, two(r, false)?),
        Class::Dotc => (Routine::Dotc, two(r, false)?),
        Class::DotuSub | Class::DotcSub => {
            let routine = if symbol.class == Class::DotuSub {
                Routine::Dot
            } else {
                Routine::Dotc
            };
            let args = two(r, false)?;
            result_at = Some(r.readable()?);
            (routine, args)
        }
        Class::Scal => (Routine::Scal, one(r, Some(symbol.dtype))?),
        Class::Realscal => {
            let real = if symbol.dtype == Dtype::C {
                Dtype::S
            } else {
                Dtype::D
            };
            (Routine::RealScal, one(r, Some(real))?)
        }
        Class::Nrm2 => (Routine::Nrm2, one(r, None)?),
        Class::Asum => (Routine::Asum, one(r, None)?),
        Class::Iamax => (Routine::Iamax, one(r, None)?),
    };
    Some(Decoded {
        call: Call {
            routine,
            dtype: symbol.dtype,
            args,
        },
        result_at,
    })
}

fn gemv(r: &mut Reader<'_>) -> Option<Args> {
    let row_major = r.row_major()?;
    let op = r.op()?;
    let (m, n) = (r.int()?, r.int()?);
    let alpha = r.scalar()?;
    let (a, lda) = (r.address(), r.int()?);
    let (x, incx) = (r.address(), r.int()?);
    let beta = r.scalar()?;
    let (y, incy) = (r.address(), r.int()?);
    let (op, m, n) = if row_major {
        let op = match op {
            Op::None => Op::Trans,
            Op::Trans => Op::None,
            // conj(A) without a transposition is no `op`.
            Op::ConjTrans => return r.unsupported(),
        };
        (op, n, m)
    } else {
        (op, m, n)
    };
    Some(Args::Gemv {
        op,
        m,
        n,
        alpha,
        a,
        lda,
        x,
        incx,
        beta,
        y,
        incy,
    })
}

fn ger(r: &mut Reader<'_>, conjugate: bool) -> Option<Args> {
    let row_major = r.row_major()?;
    if row_major && conjugate {
        // A' + alpha conj(y) x': the conjugate is on the wrong side.
        return r.unsupported();
    }
    let (m, n) = (r.int()?, r.int()?);
    let alpha = r.scalar()?;
    let (x, incx) = (r.address(), r.int()?);
    let (y, incy) = (r.address(), r.int()?);
    let (a, lda) = (r.address(), r.int()?);
    Some(if row_major {
        Args::Ger {
            m: n,
            n: m,
            alpha,
            x: y,
            incx: incy,
            y: x,
            incy: incx,
            a,
            lda,
        }
    } else {
        Args::Ger {
            m,
            n,
            alpha,
            x,
            incx,
            y,
            incy,
            a,
            lda,
        }
    })
}

fn two(r: &mut Reader<'_>, scaled: bool) -> Option<Args> {
    let n = r.int()?;
    let alpha = if scaled { r.scalar()? } else { Value::ONE };
    let (x, incx) = (r.address(), r.int()?);
    let (y, incy) = (r.address(), r.int()?);
    Some(Args::Two {
        n,
        alpha,
        x,
        incx,
        y,
        incy,
    })
}

fn one(r: &mut Reader<'_>, scaled_by: Option<Dtype>) -> Option<Args> {
    let n = r.int()?;
    let alpha = match scaled_by {
        Some(dtype) => r.scalar_of(dtype)?,
        None => Value::ONE,
    };
    let (x, incx) = (r.address(), r.int()?);
    Some(Args::One { n, alpha, x, incx })
}

/// Puts the result of a function where the caller expects it.
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
    match symbol.class {
        Class::Dot | Class::Nrm2 | Class::Asum => {
            frame.result_xmm[0] = match symbol.dtype {
                Dtype::S | Dtype::C => u64::from(f32::from_value(value).to_bits()),
                Dtype::D | Dtype::Z => value.re.to_bits(),
            };
        }
        Class::Dotu | Class::Dotc | Class::DotuSub | Class::DotcSub => {
            let narrow = Complex::<f32>::from_value(value);
            let single = symbol.dtype == Dtype::C;
            match result_at {
                // SAFETY: the program passes the address of a complex number; it may be in closed memory,
                // so nothing is held here.
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
