//! What each kind of operation does to memory and to the shadow.

mod beside;
mod cpu;
mod flow;
mod guard;
mod kernel;
mod level1;
mod level2;
mod level3;
mod memory;
mod missing;
mod process;
mod sleepers;
mod timers;

use std::ptr;

use testkit::Rng;

use crate::fortran::P;
use crate::program::{Kind, Op};
use crate::world::{Scalar, World};

pub(crate) use beside::Scratch;
pub(crate) use memory::length;
pub use missing::may_answer_faults;
pub(crate) use process::{Ticking, prepare};

/// Executes an operation.
pub(crate) fn run(w: &mut World, step: usize, op: Op) {
    w.rng = Rng::new(op.seed);
    w.step = step;
    w.note = format!("{:?}", op.kind);
    match op.kind {
        Kind::Level3 => level3::run(w),
        Kind::Level2 => level2::run(w),
        Kind::Level1 => level1::run(w),
        Kind::Overlap => level3::overlap(w),
        Kind::Look => cpu::look(w),
        Kind::LookAll => cpu::look_all(w),
        Kind::Write => cpu::write(w),
        Kind::WriteAll => cpu::write_all(w),
        Kind::Copy => cpu::copy(w),
        Kind::Renew => memory::renew(w),
        Kind::Resize => memory::resize(w),
        Kind::Map => memory::map(w),
        Kind::Out => kernel::out(w),
        Kind::In => kernel::into(w),
        Kind::Fork => process::fork(w),
        Kind::Signal => process::signal(w),
        Kind::Context => flow::context(w),
        Kind::Cancel => flow::cancel(w),
        Kind::Names => beside::names(w),
        Kind::Structures => beside::structures(w),
        Kind::Children => beside::children(w),
        Kind::Sleepers => sleepers::run(w),
        Kind::Timers => timers::run(w),
        Kind::Barrier => guard::barrier(w),
        Kind::Missing => missing::run(w),
        Kind::Discard => guard::discarded(w),
    }
}

/// Values that a Fortran routine gets by address.
enum Argument {
    Character(u8),
    Integer(i32),
    At(P),
}

impl Argument {
    fn p(&self) -> P {
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
        unsafe { routine($($crate::ops::Argument::from($arg).p()),*) }
    }};
}
use call;
