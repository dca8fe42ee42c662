//! Host fallback for calls that run on no device and for which no host BLAS was found.

use super::args::{self, Checked};
use super::call::{Call, Outcome};
use super::{checks, operands, value};
use crate::base::{AllocId, Rect, Routine, Value};
use crate::cache::Cache;
use crate::cache::changed;
use crate::cache::task::Use;
use crate::sched;
use crate::with_dtype;

/// Computes a call on the calling thread, because no host BLAS has the routine. Calls whose meaning only a host BLAS
/// defines (illegal arguments, increments of zero) are not computed: the result is [`Outcome::Host`], and the caller
/// reports it.
#[must_use]
#[expect(unsafe_code, reason = "computes on the program's operands")]
pub fn compute(cache: Option<&Cache>, call: &Call) -> Outcome {
    let (problem, places) = match args::check(call) {
        Checked::Run(problem, places) => (problem, places),
        Checked::NoProduct => {
            for args::Scaling {
                factor,
                dtype,
                place: p,
            } in args::scaled(call)
            {
                changed::begun(p.start);
                // SAFETY: the rectangle belongs to the program's output, whose extent its call promised.
                with_dtype!(dtype, T => unsafe {
                    sched::local::scale::<T>(factor, p.start, p.width, p.stride, p.count);
                });
            }
            return match call.routine {
                Routine::Iamax => Outcome::Index(0),
                _ => Outcome::Done(Value::ZERO),
            };
        }
        Checked::Bad | Checked::Host => return Outcome::Host,
    };
    let resources = crate::plan::Resources::new(1, usize::MAX, usize::MAX);
    let plan = crate::plan::lower(&problem, &resources);
    if !plan.fits {
        return Outcome::Host;
    }
    if let Some(c) = cache {
        checks::write_back_of(c, call);
    }
    let mut slot = Box::new([0_u8; 16]);
    let whole = |(i, p): (usize, &Rect)| sched::operand(&problem, i, AllocId(0), p.start, p.start);
    let operands: Vec<Use> = places.iter().enumerate().map(whole).collect();
    operands.iter().for_each(Use::begun);
    let reduces = problem.routine.reduces();
    let result = reduces.then(|| operands::slot(&mut slot, value::size_of(&problem)));
    for task in &plan.tasks {
        // SAFETY: the operands are the program's, of the extents that its call promised; the result slot is a local
        // variable, large enough for every value.
        unsafe {
            sched::local::compute(&sched::local::in_place(
                &problem,
                task,
                &operands,
                result.as_ref(),
            ));
        }
    }
    value::outcome(problem.routine, problem.dtype, &[*slot])
}
