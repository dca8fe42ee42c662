//! A problem as the model sees it.

use super::problem::{Problem, Routine};
use crate::model::{Kind, Work};

impl Routine {
    /// The family of its cost.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Routine::Gemm
            | Routine::Symm
            | Routine::Hemm
            | Routine::Syrk
            | Routine::Herk
            | Routine::Syr2k
            | Routine::Her2k
            | Routine::Trmm
            | Routine::Trsm => Kind::Gemm,
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
            kind: self.routine.kind(),
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
