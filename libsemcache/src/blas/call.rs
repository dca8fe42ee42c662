//! A decoded BLAS call, whatever its spelling: column-major, 64-bit sizes, scalars by value.

use crate::base::{Dtype, Form, Op, Routine, Side, Uplo, Value};
use crate::model::Work;

/// One call. Row-major CBLAS calls were turned into their column-major equivalent by the shim; nothing
/// else was checked.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// The operation.
    pub routine: Routine,
    /// Element type.
    pub dtype: Dtype,
    /// Its arguments.
    pub args: Args,
}

impl Call {
    /// The operands, and whether the call may write them.
    #[must_use]
    pub fn accesses(&self) -> [(usize, bool); 3] {
        let operands = self.args.operands();
        let last = operands[2];
        let only_last = matches!(
            self.args,
            Args::Gemm { .. }
                | Args::Symm { .. }
                | Args::RankK { .. }
                | Args::Triangular { .. }
                | Args::Gemmt { .. }
                | Args::Gemv { .. }
                | Args::Symv { .. }
                | Args::Trmv { .. }
        ) || matches!(self.routine, Routine::Axpy | Routine::Copy);
        operands.map(|addr| {
            let written = !self.routine.reduces() && (!only_last || addr == last);
            (addr, written)
        })
    }
}

/// The arguments by signature class. Addresses are the program's, increments and leading dimensions as
/// given (negative or too small included).
#[derive(Clone, Copy, PartialEq, Debug)]
#[expect(
    missing_docs,
    reason = "the fields carry the names of the BLAS arguments"
)]
pub enum Args {
    Gemm {
        op_a: Op,
        op_b: Op,
        m: i64,
        n: i64,
        k: i64,
        alpha: Value,
        a: usize,
        lda: i64,
        b: usize,
        ldb: i64,
        beta: Value,
        c: usize,
        ldc: i64,
    },
    /// symm, hemm: A of order m (left) or n (right)
    Symm {
        form: Form,
        m: i64,
        n: i64,
        alpha: Value,
        a: usize,
        lda: i64,
        b: usize,
        ldb: i64,
        beta: Value,
        c: usize,
        ldc: i64,
    },
    /// syrk, herk (b and ldb are zero), syr2k, her2k
    RankK {
        uplo: Uplo,
        op: Op,
        n: i64,
        k: i64,
        alpha: Value,
        a: usize,
        lda: i64,
        b: usize,
        ldb: i64,
        beta: Value,
        c: usize,
        ldc: i64,
    },
    /// gemmt
    Gemmt {
        uplo: Uplo,
        op_a: Op,
        op_b: Op,
        n: i64,
        k: i64,
        alpha: Value,
        a: usize,
        lda: i64,
        b: usize,
        ldb: i64,
        beta: Value,
        c: usize,
        ldc: i64,
    },
    /// trmm, trsm: A of order m (left) or n (right)
    Triangular {
        form: Form,
        op: Op,
        m: i64,
        n: i64,
        alpha: Value,
        a: usize,
        lda: i64,
        b: usize,
        ldb: i64,
    },
    Gemv {
        op: Op,
        m: i64,
        n: i64,
        alpha: Value,
        a: usize,
        lda: i64,
        x: usize,
        incx: i64,
        beta: Value,
        y: usize,
        incy: i64,
    },
    Ger {
        m: i64,
        n: i64,
        alpha: Value,
        x: usize,
        incx: i64,
        y: usize,
        incy: i64,
        a: usize,
        lda: i64,
    },
    /// symv, hemv
    Symv {
        uplo: Uplo,
        n: i64,
        alpha: Value,
        a: usize,
        lda: i64,
        x: usize,
        incx: i64,
        beta: Value,
        y: usize,
        incy: i64,
    },
    /// trmv, trsv: the form has no side
    Trmv {
        form: Form,
        op: Op,
        n: i64,
        a: usize,
        lda: i64,
        x: usize,
        incx: i64,
    },
    /// syr, her (y is zero, incy is one), syr2, her2
    Syr {
        uplo: Uplo,
        n: i64,
        alpha: Value,
        x: usize,
        incx: i64,
        y: usize,
        incy: i64,
        a: usize,
        lda: i64,
    },
    /// rot (alpha is c, beta is s: real numbers), rotm (the columns of H, of two real numbers each)
    Rotation {
        n: i64,
        alpha: Value,
        beta: Value,
        x: usize,
        incx: i64,
        y: usize,
        incy: i64,
    },
    /// scal (alpha), nrm2, asum, iamax
    One {
        n: i64,
        alpha: Value,
        x: usize,
        incx: i64,
    },
    /// axpy (alpha), copy, swap, dot
    Two {
        n: i64,
        alpha: Value,
        x: usize,
        incx: i64,
        y: usize,
        incy: i64,
    },
}

impl Call {
    /// The amount of work, if the sizes are legal. Nothing else is looked at.
    #[must_use]
    pub fn work(&self) -> Option<Work> {
        let [m, n, k] = self.args.sizes();
        let form = match self.args {
            Args::Symm { form, .. } | Args::Triangular { form, .. } => form,
            _ => Form::default(),
        };
        Some(Work {
            kind: self.routine.kind(form),
            dtype: self.dtype,
            m: usize::try_from(m).ok()?,
            n: usize::try_from(n).ok()?,
            k: usize::try_from(k).ok()?,
        })
    }
}

impl Args {
    /// The sizes, as a checked problem names them (`m`, `n`, `k`).
    #[must_use]
    pub fn sizes(&self) -> [i64; 3] {
        match *self {
            Args::Gemm { m, n, k, .. } => [m, n, k],
            Args::Symm { form, m, n, .. } | Args::Triangular { form, m, n, .. } => {
                [m, n, if form.side == Side::Left { m } else { n }]
            }
            Args::RankK { n, k, .. } | Args::Gemmt { n, k, .. } => [n, n, k],
            Args::Gemv { m, n, .. } | Args::Ger { m, n, .. } => [m, n, 1],
            Args::Symv { n, .. } | Args::Trmv { n, .. } | Args::Syr { n, .. } => [n, n, 1],
            Args::Two { n, .. } | Args::Rotation { n, .. } | Args::One { n, .. } => [n, 1, 1],
        }
    }

    /// The addresses of the operands; the last one again where there are fewer than three.
    #[must_use]
    pub fn operands(&self) -> [usize; 3] {
        match *self {
            Args::Gemm { a, b, c, .. }
            | Args::Symm { a, b, c, .. }
            | Args::Gemmt { a, b, c, .. } => [a, b, c],
            Args::RankK { a, b: 0, c, .. } => [a, c, c],
            Args::RankK { a, b, c, .. } => [a, b, c],
            Args::Triangular { a, b, .. } => [a, b, b],
            Args::Gemv { a, x, y, .. } | Args::Ger { a, x, y, .. } => [a, x, y],
            Args::Symv { a, x, y, .. } => [a, x, y],
            Args::Trmv { a, x, .. } | Args::Syr { a, x, y: 0, .. } => [a, x, x],
            Args::Syr { a, x, y, .. } => [a, x, y],
            Args::Two { x, y, .. } | Args::Rotation { x, y, .. } => [x, y, y],
            Args::One { x, .. } => [x; 3],
        }
    }
}

/// What became of a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Outcome {
    /// Nothing was done: the host BLAS must run it, with the arguments untouched.
    Host,
    /// Done; the value is the function's result (dot, nrm2, asum), zero for subroutines.
    Done(Value),
    /// Done; the 1-based index of iamax.
    Index(i64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_only_read_is_known() {
        let (alpha, n) = (Value::ONE, 9);
        #[rustfmt::skip]
        let two = |routine| Call {
            routine,
            dtype: Dtype::D,
            args: Args::Two { n, alpha, x: 1, incx: 1, y: 2, incy: 1 },
        };
        assert_eq!(
            two(Routine::Dot).accesses(),
            [(1, false), (2, false), (2, false)]
        );
        assert_eq!(
            two(Routine::Axpy).accesses(),
            [(1, false), (2, true), (2, true)]
        );
        assert_eq!(
            two(Routine::Swap).accesses(),
            [(1, true), (2, true), (2, true)]
        );
        #[rustfmt::skip]
        let trsm = Call {
            routine: Routine::Trsm,
            dtype: Dtype::D,
            args: Args::Triangular {
                form: Form::default(), op: Op::None, m: n, n, alpha, a: 1, lda: n, b: 2, ldb: n,
            },
        };
        assert_eq!(trsm.accesses(), [(1, false), (2, true), (2, true)]);
        #[rustfmt::skip]
        let ger = Call {
            routine: Routine::Ger,
            dtype: Dtype::D,
            args: Args::Ger { m: n, n, alpha, x: 1, incx: 1, y: 2, incy: 1, a: 3, lda: n },
        };
        assert!(ger.accesses().contains(&(3, true)));
    }
}
