//! What each kind of operation does to memory and to the shadow.

mod beside;
mod cpu;
mod flow;
mod guard;
mod hints;
mod kernel;
mod level1;
mod level2;
mod level3;
mod memory;
mod missing;
mod process;
mod sleepers;
mod solvers;
mod sparse;
mod timers;

use std::sync::Once;

use testkit::Rng;

use crate::program::{Kind, Op};
use crate::world::World;

pub(crate) use beside::Scratch;
pub(crate) use memory::length;
pub use missing::may_answer_faults;
pub(crate) use process::Ticking;

/// Installs the handlers of the program's signals, once in a process.
pub(crate) fn prepare() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        process::prepare();
        crate::fortran::load_lapack();
        sleepers::prepare();
        timers::prepare();
    });
}

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
        Kind::Hint => hints::run(w),
        Kind::Sparse => sparse::run(w),
        Kind::Solve => solvers::run(w),
    }
}
