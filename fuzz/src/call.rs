//! Calls of Fortran BLAS routines: every argument is passed by address.

use std::ptr;

use crate::fortran::P;
use crate::world::Scalar;

/// Values that a Fortran routine gets by address.
pub(crate) enum Argument {
    Character(u8),
    Integer(i32),
    At(P),
}

impl Argument {
    pub(crate) fn p(&self) -> P {
        match self {
            Argument::Character(c) => ptr::from_ref(c).cast(),
            Argument::Integer(n) => ptr::from_ref(n).cast(),
            Argument::At(p) => *p,
        }
    }
}

impl From<u8> for Argument {
    fn from(c: u8) -> Self {
        Argument::Character(c)
    }
}

impl From<i32> for Argument {
    fn from(n: i32) -> Self {
        Argument::Integer(n)
    }
}

impl From<usize> for Argument {
    fn from(n: usize) -> Self {
        Argument::Integer(n.try_into().unwrap())
    }
}

impl<T> From<*const T> for Argument {
    fn from(p: *const T) -> Self {
        Argument::At(p.cast())
    }
}

impl<T> From<*mut T> for Argument {
    fn from(p: *mut T) -> Self {
        Argument::At(p.cast_const().cast())
    }
}

impl From<&Scalar> for Argument {
    fn from(s: &Scalar) -> Self {
        Argument::At(s.p())
    }
}

/// Calls a BLAS routine.
macro_rules! call {
    ($routine:expr; $($arg:expr),* $(,)?) => {{
        let routine = $routine;
        // SAFETY: operands inside blocks of the program; none is written that another operand uses, except where the
        // test is about such overlaps.
        unsafe { routine($($crate::call::Argument::from($arg).p()),*) }
    }};
}
pub(crate) use call;
