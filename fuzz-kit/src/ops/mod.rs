//! What each kind of operation does, to memory and to the shadow.

mod cpu;
mod kernel;
mod level1;
mod level2;
mod level3;
mod memory;
mod process;

use std::ffi::c_void;
use std::ptr;

use crate::program::{Kind, Op};
use crate::rng::Rng;
use crate::world::World;

pub(crate) use memory::length;
pub(crate) use process::{Ticking, prepare};

/// Carries an operation out.
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
    }
}

static CHARACTERS: [u8; 128] = {
    let mut all = [0; 128];
    let mut i = 0u8;
    while i < 128 {
        all[i as usize] = i;
        i += 1;
    }
    all
};

/// The address of a character.
fn ch(c: u8) -> *const c_void {
    ptr::from_ref(&CHARACTERS[usize::from(c)]).cast()
}

/// A Fortran integer.
struct Int(i32);

impl Int {
    fn of(n: usize) -> Int {
        Int(i32::try_from(n).unwrap())
    }
    fn p(&self) -> *const c_void {
        ptr::from_ref(&self.0).cast()
    }
}

/// Calls a BLAS routine.
macro_rules! call {
    ($table:ident[$i:expr]; $($arg:expr),* $(,)?) => {
        // SAFETY: operands inside blocks of the program, none of them written that another uses but where the test
        // is what happens then.
        unsafe { crate::fortran::$table[$i]($($arg),*) }
    };
}
use call;
