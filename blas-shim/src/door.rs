//! The door to the host BLAS: computes kernels that no device finishes by calling the host BLAS's functions, through their
//! Fortran interface. The record of a routine says which arguments they take, in which order, so one function calls them
//! all.
//!
//! While the host BLAS runs, the calling thread holds no lock and has blocked no signal: the host BLAS may start threads and
//! wait for them, and a handler of the program may leave it by a jump. Calls that it makes itself through exported names
//! stay there, as those within a call that was passed on to it.

#![expect(unsafe_code, reason = "calls the host's functions by their addresses")]

use core::cell::Cell;
use core::ptr;

use semcache::base::kernel::Kernel;
use semcache::base::routine::{Dim, Flag, Number};
use semcache::base::{Diag, Dtype, Op, Routine, Side, Uplo, Value};
use semcache::blas::finish::HostBlas;

use crate::resolve;
use crate::sites::{Binding, Returns};
use crate::stored::Stored;
use crate::symbols::Width;
use crate::thread;
use crate::words::Words;

/// The host BLAS of one call of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door<'a> {
    /// What the call's site is bound to: the other functions are those of the same library.
    pub(crate) binding: &'a Binding,
    /// The stack pointer at the entry of the call's stub.
    pub(crate) sp: usize,
}

/// Both registers in which a function returns a floating-point number, real or complex, from its first byte on.
#[repr(C)]
struct Registers([f64; 2]);

impl HostBlas for Door<'_> {
    fn has(&self, kernel: &Kernel) -> bool {
        resolve::beside(self.binding, kernel.routine, kernel.dtype).is_some()
    }

    unsafe fn compute(&self, kernel: &Kernel) -> bool {
        let function = resolve::beside(self.binding, kernel.routine, kernel.dtype);
        let called = function.and_then(|function| {
            // SAFETY: the caller keeps this function's contract.
            unsafe { self.call(kernel, function) }
        });
        called.is_some()
    }
}

impl Door<'_> {
    /// Calls the function of the kernel's routine. `None`, and it was not called, if it cannot take the kernel's sizes.
    ///
    /// # Safety
    /// As [`HostBlas::compute`]; `function` is the host BLAS's for the kernel's routine and type.
    unsafe fn call(&self, kernel: &Kernel, function: &Binding) -> Option<()> {
        let routine = kernel.routine;
        let record = routine.record();
        let (alpha, beta) = (
            scalar(kernel.dtype, record.alpha, kernel.alpha),
            scalar(kernel.dtype, record.beta, kernel.beta),
        );
        let h = rotm(kernel);
        // Functions with 32-bit integers read the lower halves.
        let integers: [Cell<i64>; 7] = Default::default();
        let mut free = integers.iter();
        let mut integer = |value: i64| {
            let fits = function.width == Width::Bits64 || i32::try_from(value).is_ok();
            let cell = free.next().filter(|_| fits)?;
            cell.set(value);
            Some(cell.as_ptr().expose_provenance())
        };
        let mut words = Words::default();
        let hidden = function.returns == Returns::Hidden;
        if hidden {
            words.push(kernel.out as usize)?;
        }
        for flag in record.signature.flags {
            words.push(letter(kernel, *flag).as_ptr().expose_provenance())?;
        }
        for dim in record.signature.sizes {
            let size = match dim {
                Dim::M => kernel.m,
                Dim::N => kernel.n,
                Dim::K => kernel.k,
            };
            words.push(integer(i64::try_from(size).ok()?)?)?;
        }
        let rotation = matches!(routine, Routine::Rot | Routine::Rotm);
        let address = |stored: &Stored| stored.at().expose_provenance();
        if !rotation && let Some(alpha) = &alpha {
            words.push(address(alpha))?;
        }
        let last = record.signature.operands.len() - 1;
        for (i, (slot, (rows, _), at)) in kernel.operands().enumerate() {
            if i == last
                && !rotation
                && let Some(beta) = &beta
            {
                words.push(address(beta))?;
            }
            // The leading dimension of a matrix of one column says nothing, but must be legal.
            let step = if slot.extent.is_vector() {
                at.step as i64
            } else {
                (at.step as i64).max(i64::try_from(rows).ok()?).max(1)
            };
            words.push(at.addr as usize)?;
            words.push(integer(step)?)?;
            if routine == Routine::Imatcopy {
                words.push(integer(step)?)?;
            }
        }
        match (routine, &alpha, &beta) {
            (Routine::Rot, Some(c), Some(s)) => {
                words.push(address(c))?;
                words.push(address(s))?;
            }
            (Routine::Rotm, ..) => words.push(h.as_ptr().expose_provenance())?,
            _ => {}
        }
        thread::state().forwarded(self.sp, self.binding.site);
        // SAFETY: the function takes the arguments that the record of its routine says, which are legal; the caller vouches
        // for the operands and for the place of a value.
        unsafe {
            if routine == Routine::Iamax {
                let index: u64 = words.call(function.target);
                let index = match function.width {
                    Width::Bits32 => i64::from(index as u32 as i32),
                    Width::Bits64 => index as i64,
                };
                (kernel.out as *mut i64).write_unaligned(index);
            } else if routine.reduces() && !hidden {
                let value: Registers = words.call(function.target);
                let bytes = match routine {
                    Routine::Dot | Routine::Dotc => kernel.dtype.size(),
                    _ => kernel.dtype.real().size(),
                };
                let from = (&raw const value.0).cast::<u8>();
                ptr::copy_nonoverlapping(from, kernel.out as *mut u8, bytes);
            } else {
                words.call::<()>(function.target);
            }
        }
        Some(())
    }
}

/// A scalar as the routine takes it; `None` if it takes none.
fn scalar(dtype: Dtype, number: Number, value: Value) -> Option<Stored> {
    match number {
        Number::Absent => None,
        Number::Element => Some(Stored::new(dtype, value)),
        Number::Real => Some(Stored::new(dtype.real(), value)),
    }
}

/// The last argument of rotm: that all entries of H are given, and these by columns.
fn rotm(kernel: &Kernel) -> [f64; 5] {
    let (h1, h2) = (kernel.alpha, kernel.beta);
    let wide = [-1.0, h1.re, h1.im, h2.re, h2.im];
    if kernel.dtype.real() == Dtype::D {
        return wide;
    }
    // Five floats, two in each double.
    let bits = |i: usize| wide.get(i).map_or(0, |x| (*x as f32).to_bits());
    let pair = |i| f64::from_bits(u64::from(bits(i)) | u64::from(bits(i + 1)) << 32);
    [pair(0), pair(2), pair(4), 0.0, 0.0]
}

/// The letter that says a flag of a kernel.
fn letter(kernel: &Kernel, flag: Flag) -> &'static [u8; 1] {
    let op = |op| match op {
        Op::None => b"N",
        // The functions of real types need not know the other letter.
        Op::ConjTrans if kernel.dtype.is_complex() => b"C",
        Op::Trans | Op::ConjTrans => b"T",
    };
    match flag {
        Flag::Order => b"C",
        Flag::Side => match kernel.form.side {
            Side::Left => b"L",
            Side::Right => b"R",
        },
        Flag::Uplo => match kernel.form.uplo {
            Uplo::Lower => b"L",
            Uplo::Upper => b"U",
        },
        Flag::TransA => op(kernel.op_a),
        Flag::TransB => op(kernel.op_b),
        Flag::Diag => match kernel.form.diag {
            Diag::NonUnit => b"N",
            Diag::Unit => b"U",
        },
    }
}
