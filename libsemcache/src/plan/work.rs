//! A problem as the model sees it.

use super::problem::{Form, Problem, Routine};
use crate::device::api::Side;
use crate::model::{Kind, Work};

impl Routine {
    /// The family of its cost.
    #[must_use]
    pub const fn kind(self, form: Form) -> Kind {
        let right = matches!(form.side, Side::Right);
        match self {
            Routine::Gemm => Kind::Gemm,
            Routine::Symm | Routine::Hemm => Kind::Symm { right },
            Routine::Syrk | Routine::Herk => Kind::RankK { inputs: 1 },
            Routine::Syr2k | Routine::Her2k => Kind::RankK { inputs: 2 },
            Routine::Trmm | Routine::Trsm => Kind::Triangular { right },
            Routine::Gemv => Kind::Gemv,
            Routine::Ger | Routine::Gerc => Kind::Ger,
            Routine::Axpy => vector(3, 2),
            Routine::Scal | Routine::RealScal => vector(2, 1),
            Routine::Copy => vector(2, 0),
            Routine::Swap => vector(4, 0),
            Routine::Dot | Routine::Dotc => vector(2, 2),
            Routine::Nrm2 => vector(1, 2),
            Routine::Asum | Routine::Iamax => vector(1, 1),
        }
    }
}

impl Problem {
    /// The amount of work.
    #[must_use]
    pub fn work(&self) -> Work {
        Work {
            kind: self.routine.kind(self.form),
            dtype: self.dtype,
            m: self.m,
            n: self.n,
            k: self.k,
        }
    }
}

const fn vector(passes: u8, flops: u8) -> Kind {
    Kind::Vector { passes, flops }
}
