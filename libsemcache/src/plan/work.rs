//! Work of a problem, as the performance model needs it.

use super::problem::{Access, Problem};
use crate::base::Work;

impl Problem {
    /// Whether most bytes of an operand must be on the devices before a kernel uses it. Not so for a triangle that a
    /// rank-k update overwrites: of it, only the tiles on the diagonal must be there.
    #[must_use]
    pub fn fetches(&self, operand: usize) -> bool {
        let half = self.routine.level() == 3 && self.routine.writes_triangle();
        let overwritten = half && self.beta.is_zero() && operand + 1 == self.operands.len();
        self.access(operand) != Access::Overwrite && !overwritten
    }

    /// The routine, element type and sizes of the problem.
    #[must_use]
    pub fn work(&self) -> Work {
        Work {
            routine: self.routine,
            side: self.form.side,
            dtype: self.dtype,
            m: self.m,
            n: self.n,
            k: self.k,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Operand, Resources, lower};
    use super::*;
    use crate::base::{Dtype, Form, Op, Routine, Side, Value};

    /// A problem of this routine; the sizes of A follow from `side`.
    fn problem(routine: Routine, side: Side, beta: Value) -> Problem {
        use Routine::{Symm, Syr2k, Syrk};
        let (m, n, k) = match routine {
            Syrk | Syr2k => (20, 20, 15),
            _ if side == Side::Left => (20, 30, 20),
            _ => (20, 30, 30),
        };
        let c = Operand::matrix(m, n, m);
        let (a, b) = (Operand::matrix(k, k, k), Operand::matrix(n, k, n));
        let operands = match routine {
            Symm => vec![a, c, c],
            Syrk => vec![b, c],
            Syr2k => vec![b, b, c],
            _ => vec![a, c],
        };
        Problem {
            routine,
            dtype: Dtype::D,
            form: Form {
                side,
                ..Form::default()
            },
            op_a: Op::None,
            op_b: Op::None,
            m,
            n,
            k,
            alpha: Value::ONE,
            beta,
            operands,
        }
    }

    #[test]
    fn the_work_is_that_of_the_tasks() {
        for side in [Side::Left, Side::Right] {
            for routine in [
                Routine::Symm,
                Routine::Syrk,
                Routine::Syr2k,
                Routine::Trmm,
                Routine::Trsm,
            ] {
                let p = problem(routine, side, Value::ONE);
                let plan = lower(&p, &Resources::new(1, 1, 1 << 30));
                // With tiles of one element, those on the diagonal hold no triangle.
                let products = plan.tasks.iter().filter(|t| t.kernel.routine != routine);
                let flops = 2.0 * products.count() as f64;
                let diagonal = (p.k * p.m.max(p.n) * 4) as f64;
                let work = p.work().flops();
                assert!(
                    flops <= work && work <= flops + diagonal,
                    "{routine:?} {flops} {work}"
                );
            }
        }
    }

    #[test]
    fn an_overwritten_triangle_is_not_fetched() {
        let syrk = |beta| problem(Routine::Syrk, Side::Left, beta);
        assert!(syrk(Value::ZERO).fetches(0) && !syrk(Value::ZERO).fetches(1));
        assert!(syrk(Value::ONE).fetches(1));
        let trsm = problem(Routine::Trsm, Side::Left, Value::ZERO);
        assert!(trsm.fetches(0) && trsm.fetches(1));
        let symm = problem(Routine::Symm, Side::Left, Value::ZERO);
        assert!(symm.fetches(1) && !symm.fetches(2));
    }
}
