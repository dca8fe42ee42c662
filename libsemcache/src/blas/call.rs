//! A decoded BLAS call, from whatever interface (Fortran or CBLAS, 32- or 64-bit integers): column-major, 64-bit sizes,
//! scalars by value.

use crate::base::Work;
use crate::base::routine::{Dim, Usage};
use crate::base::{Dtype, Form, Op, Routine, Side, Value};

/// One decoded call. The shim has turned row-major CBLAS calls into their column-major equivalent; no argument was
/// checked. Fields that the routine does not use are as [`Call::new`] leaves them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Call {
    /// The operation.
    pub routine: Routine,
    /// Element type.
    pub dtype: Dtype,
    /// `side`, `uplo` and `diag`.
    pub form: Form,
    /// `transa`, or the only `trans`.
    pub op_a: Op,
    /// `transb`
    pub op_b: Op,
    /// As the program gave it, negative or not; see [`Call::sizes`].
    pub m: i64,
    /// As the program gave it, like `m`.
    pub n: i64,
    /// As the program gave it, like `m`.
    pub k: i64,
    /// As the program gave it, with parts that the routine does not read.
    pub alpha: Value,
    /// As the program gave it, like `alpha`.
    pub beta: Value,
    /// The operands in the order of [`Routine::operands`]; entries beyond their number are not used.
    pub at: [Pointer; 3],
}

/// The address and stride of an operand, as the program gave them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Pointer {
    /// The program's address.
    pub addr: usize,
    /// Leading dimension of a matrix, increment of a vector; may be negative or too small.
    pub ld: i64,
}

impl Call {
    /// A call with sizes and operands (address, and leading dimension or increment) in the order of the routine's
    /// arguments; nothing is transposed, triangles are lower, on the left side and not unit, and scalars are one.
    #[must_use]
    pub fn new(routine: Routine, dtype: Dtype, sizes: &[i64], operands: &[(usize, i64)]) -> Call {
        let mut call = Call {
            routine,
            dtype,
            form: Form::default(),
            op_a: Op::None,
            op_b: Op::None,
            m: 1,
            n: 1,
            k: 1,
            alpha: Value::ONE,
            beta: Value::ONE,
            at: [Pointer::default(); 3],
        };
        for (dim, size) in routine.record().signature.sizes.iter().zip(sizes) {
            *call.size_mut(*dim) = *size;
        }
        for (pointer, &(addr, ld)) in call.at.iter_mut().zip(operands) {
            *pointer = Pointer { addr, ld };
        }
        call
    }

    /// The size argument of this name, as the program gave it.
    pub const fn size_mut(&mut self, dim: Dim) -> &mut i64 {
        match dim {
            Dim::M => &mut self.m,
            Dim::N => &mut self.n,
            Dim::K => &mut self.k,
        }
    }

    /// The operands that the routine has.
    #[must_use]
    pub fn operands(&self) -> &[Pointer] {
        let count = self.routine.operands().len();
        self.at.get(..count).unwrap_or(&self.at)
    }

    /// The call on the elements of its vectors, which lie next to each other, from this one on.
    #[must_use]
    pub fn from(&self, element: usize) -> Call {
        let mut rest = *self;
        for dim in self.routine.record().signature.sizes {
            *rest.size_mut(*dim) -= element as i64;
        }
        let operands = self.operands().len();
        for pointer in rest.at.iter_mut().take(operands) {
            pointer.addr = pointer.addr.wrapping_add(element * self.dtype.size());
        }
        rest
    }

    /// The sizes, as a checked problem names them (`m`, `n`, `k`).
    #[must_use]
    pub fn sizes(&self) -> [i64; 3] {
        let record = self.routine.record();
        let has = |dim| record.signature.sizes.contains(&dim);
        let m = if has(Dim::M) { self.m } else { self.n };
        let k = match (has(Dim::K), record.level, self.form.side) {
            (true, ..) => self.k,
            (false, 3, Side::Left) => m,
            (false, 3, Side::Right) => self.n,
            _ => 1,
        };
        [m, self.n, k]
    }

    /// The operands' addresses, each with whether the call may write the operand.
    pub fn accesses(&self) -> impl Iterator<Item = (usize, bool)> {
        let slots = self.routine.operands().iter().zip(&self.at);
        slots.map(|(slot, pointer)| (pointer.addr, slot.usage != Usage::Read))
    }

    /// The amount of work, if the sizes are legal. No other argument is checked.
    #[must_use]
    pub fn work(&self) -> Option<Work> {
        let [m, n, k] = self.sizes();
        Some(Work {
            routine: self.routine,
            side: self.form.side,
            dtype: self.dtype,
            m: usize::try_from(m).ok()?,
            n: usize::try_from(n).ok()?,
            k: usize::try_from(k).ok()?,
        })
    }
}

/// The call with the most work of several.
#[must_use]
pub fn largest(calls: &[Call]) -> Option<&Call> {
    let work = |call: &&Call| {
        let sizes = call.sizes().map(|s| u128::try_from(s).unwrap_or(0));
        sizes.into_iter().product::<u128>()
    };
    calls.iter().max_by_key(work)
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Outcome {
    /// Not computed: the host BLAS must run the call, with its arguments untouched.
    Host,
    /// Computed; the value is the function's result (dot, nrm2, asum), zero for subroutines.
    Done(Value),
    /// Computed; the 1-based index of iamax.
    Index(i64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_only_read_is_known() {
        let accesses = |routine, operands: &[(usize, i64)]| -> Vec<(usize, bool)> {
            let call = Call::new(routine, Dtype::D, &[9, 9], operands);
            call.accesses().collect()
        };
        let two = [(1, 1), (2, 1)];
        assert_eq!(accesses(Routine::Dot, &two), [(1, false), (2, false)]);
        assert_eq!(accesses(Routine::Axpy, &two), [(1, false), (2, true)]);
        assert_eq!(accesses(Routine::Swap, &two), [(1, true), (2, true)]);
        assert_eq!(accesses(Routine::Trsm, &two), [(1, false), (2, true)]);
        let three = [(1, 1), (2, 1), (3, 9)];
        let ger = accesses(Routine::Ger, &three);
        assert_eq!(ger, [(1, false), (2, false), (3, true)]);
    }

    #[test]
    fn sizes_that_are_not_given_follow() {
        let sizes = |routine, side, given: &[i64]| {
            let call = Call::new(routine, Dtype::D, given, &[]);
            let form = Form { side, ..call.form };
            Call { form, ..call }.sizes()
        };
        use Side::{Left, Right};
        assert_eq!(sizes(Routine::Gemm, Left, &[2, 3, 4]), [2, 3, 4]);
        assert_eq!(sizes(Routine::Symm, Left, &[2, 3]), [2, 3, 2]);
        assert_eq!(sizes(Routine::Trmm, Right, &[2, 3]), [2, 3, 3]);
        assert_eq!(sizes(Routine::Syrk, Left, &[3, 4]), [3, 3, 4]);
        assert_eq!(sizes(Routine::Gemv, Left, &[2, 3]), [2, 3, 1]);
        assert_eq!(sizes(Routine::Symv, Left, &[3]), [3, 3, 1]);
        assert_eq!(sizes(Routine::Axpy, Left, &[2]), [2, 1, 1]);
    }
}
