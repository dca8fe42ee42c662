//! Reads the arguments of a BLAS call one by one: by reference, as Fortran passes them, or by value, as C does.

#![expect(
    unsafe_code,
    reason = "arguments are addresses that the program vouches for"
)]

use semcache::base::routine::{Flag, Number};
use semcache::base::{Diag, Dtype, Op, Scalar, Side, Uplo, Value};
use semcache::with_dtype;

use crate::frame::Frame;
use crate::symbols::{Symbol, Width};
use semcache::base::counters::WhyHost;

/// Below this, an address cannot be an argument.
pub(super) const LOWEST: usize = 4 << 10;

/// Reads consecutive arguments of a call. `None`: the call is not one that this library understands.
pub(super) struct Reader<'a> {
    pub(super) frame: &'a Frame,
    pub(super) cblas: bool,
    pub(super) width: Width,
    pub(super) dtype: Dtype,
    pub(super) next: usize,
    pub(super) next_float: usize,
    /// The reason that is counted if the call runs on the host BLAS because its arguments cannot be decoded.
    pub(super) why: WhyHost,
}

impl<'a> Reader<'a> {
    pub(super) fn new(frame: &'a Frame, symbol: &Symbol, width: Width) -> Self {
        Reader {
            frame,
            cblas: symbol.spelling.is_cblas(),
            width,
            dtype: symbol.dtype,
            next: 0,
            next_float: 0,
            why: WhyHost::BadArgument,
        }
    }

    /// The arguments from this position on.
    pub(super) fn at(mut self, position: usize) -> Self {
        self.next = position;
        self
    }

    /// Stops decoding a call that may be valid, but that devices do not compute in this form.
    pub(super) fn unsupported<T>(&mut self) -> Option<T> {
        self.why = WhyHost::Unsupported;
        None
    }

    pub(super) fn word(&mut self) -> u64 {
        let word = self.frame.word(self.next);
        self.next += 1;
        word
    }

    pub(super) fn address(&mut self) -> usize {
        self.word() as usize
    }

    /// The address of an argument that the decoder will load.
    pub(super) fn readable(&mut self) -> Option<usize> {
        Some(self.address()).filter(|address| *address >= LOWEST)
    }

    /// A size, an increment or a leading dimension.
    pub(super) fn int(&mut self) -> Option<i64> {
        if self.cblas {
            let word = self.word();
            return Some(narrow(word, self.width));
        }
        let address = self.readable()?;
        // SAFETY: the program passes the address of an integer of this width.
        Some(unsafe { load_int(address, self.width) })
    }

    /// A C enumeration, which has 32 bits in interfaces with 64-bit integers, too.
    pub(super) fn enumeration(&mut self) -> i64 {
        narrow(self.word(), Width::Bits32)
    }

    /// A scalar argument. CBLAS passes real ones by value, complex ones by reference.
    pub(super) fn number(&mut self, number: Number) -> Option<Value> {
        match (number, self.dtype) {
            (Number::Absent, _) => Some(Value::ONE),
            (Number::Real, Dtype::C) => self.scalar_of(Dtype::S),
            (Number::Real, Dtype::Z) => self.scalar_of(Dtype::D),
            (Number::Element | Number::Real, dtype) => self.scalar_of(dtype),
        }
    }

    pub(super) fn scalar_of(&mut self, dtype: Dtype) -> Option<Value> {
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

    /// The `i`th of the real numbers at an address.
    pub(super) fn element(&self, address: usize, i: usize) -> f64 {
        match self.dtype {
            Dtype::S | Dtype::C => {
                // SAFETY: the program passes the address of an array of numbers of this type with more than `i`
                // elements.
                f64::from(unsafe { (address as *const f32).add(i).read_unaligned() })
            }
            // SAFETY: the program passes the address of an array of numbers of this type with more than `i` elements.
            Dtype::D | Dtype::Z => unsafe { (address as *const f64).add(i).read_unaligned() },
        }
    }

    /// A choice: Fortran's character, in either case, or C's enumeration. `None` for any other value: then the call
    /// runs on the host BLAS.
    pub(super) fn choice<T: Copy>(&mut self, choices: &[(u8, i64, T)]) -> Option<T> {
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

    /// An argument `TRANS`. OpenBLAS knows one more value (conjugated, not transposed), with which the call runs on the
    /// host BLAS.
    pub(super) fn op(&mut self) -> Option<Op> {
        let op = self.choice(&[
            (b'N', 111, Op::None),
            (b'T', 112, Op::Trans),
            (b'C', 113, Op::ConjTrans),
        ])?;
        Some(one_name(op, self.dtype))
    }

    /// The argument `TRANS` of a matrix copy, which may also say "conjugated, not transposed". For a real matrix that
    /// is the matrix itself; for a complex matrix no device computes it.
    pub(super) fn copied(&mut self) -> Option<Op> {
        let op = self.choice(&[
            (b'N', 111, Some(Op::None)),
            (b'T', 112, Some(Op::Trans)),
            (b'C', 113, Some(Op::ConjTrans)),
            (b'R', 114, (!self.dtype.is_complex()).then_some(Op::None)),
        ])?;
        match op {
            Some(op) => Some(one_name(op, self.dtype)),
            None => self.unsupported(),
        }
    }

    pub(super) fn side(&mut self) -> Option<Side> {
        self.choice(&[(b'L', 141, Side::Left), (b'R', 142, Side::Right)])
    }

    pub(super) fn uplo(&mut self) -> Option<Uplo> {
        self.choice(&[(b'U', 121, Uplo::Upper), (b'L', 122, Uplo::Lower)])
    }

    pub(super) fn diag(&mut self) -> Option<Diag> {
        self.choice(&[(b'N', 131, Diag::NonUnit), (b'U', 132, Diag::Unit)])
    }

    /// Whether matrices are stored by rows. A Fortran routine has an argument for this if `Order` is one of its
    /// `flags`.
    pub(super) fn row_major(&mut self, flags: &[Flag]) -> Option<bool> {
        if self.cblas || flags.contains(&Flag::Order) {
            return self.choice(&[(b'R', 101, true), (b'C', 102, false)]);
        }
        Some(false)
    }
}

/// Replaces the conjugate transpose of a real matrix by its transpose, so that the operation has one name.
pub(super) fn one_name(op: Op, dtype: Dtype) -> Op {
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
pub(super) unsafe fn load_int(address: usize, width: Width) -> i64 {
    match width {
        // SAFETY: the caller keeps this function's contract.
        Width::Bits32 => i64::from(unsafe { (address as *const i32).read_unaligned() }),
        // SAFETY: the caller keeps this function's contract.
        Width::Bits64 => unsafe { (address as *const i64).read_unaligned() },
    }
}
