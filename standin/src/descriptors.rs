//! The descriptors of cuSPARSE: sparse matrices, and dense vectors and matrices. One that was destroyed, or that is of another
//! kind, is reported.

use std::collections::BTreeMap;

use semcache::base::sparse::Index;
use semcache::base::{DeviceId, Dtype, Op};
use semcache::device::api::{Operand, Ticket};

use crate::misuse::complain;
use crate::names::{Outcome, Status};

/// What a descriptor describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Sparse,
    Vector,
    Dense,
}

/// A sparse matrix in device memory.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    pub(crate) dtype: Dtype,
    pub(crate) index: Index,
    pub(crate) first: u8,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) nnz: usize,
    /// Device addresses of the row offsets, the column indices and the entries.
    pub(crate) at: [u64; 3],
    pub(crate) prepared: Option<Prepared>,
}

/// What `cusparseSpMV_preprocess` leaves behind for `cusparseSpMV`.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) device: DeviceId,
    /// The program's scratch memory, all of whose elements are `mark`.
    pub(crate) scratch: u64,
    pub(crate) mark: f64,
    pub(crate) op: Op,
    /// A block of the stand-in's with copies of the row offsets and, behind them, the column indices.
    pub(crate) block: u64,
    /// Where in the block the column indices begin.
    pub(crate) columns: usize,
    /// The last operation that uses the block.
    pub(crate) last: Ticket,
}

/// A vector, or a matrix by columns, in device memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dense {
    pub(crate) dtype: Dtype,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) at: Operand,
}

/// What a descriptor stands for.
#[derive(Clone, Debug)]
pub(crate) enum Described {
    Sparse(Matrix),
    Vector(Dense),
    Dense(Dense),
}

impl Described {
    fn kind(&self) -> Kind {
        match self {
            Described::Sparse(_) => Kind::Sparse,
            Described::Vector(_) => Kind::Vector,
            Described::Dense(_) => Kind::Dense,
        }
    }
}

/// The objects behind the descriptors of cuSPARSE.
#[derive(Debug)]
pub(crate) struct Objects {
    described: BTreeMap<usize, Described>,
}

impl Objects {
    pub(crate) const fn new() -> Self {
        Objects {
            described: BTreeMap::new(),
        }
    }

    pub(crate) fn add(&mut self, descriptor: usize, what: Described) {
        self.described.insert(descriptor, what);
    }

    /// # Errors
    /// The descriptor is null, was destroyed, or is of another kind.
    pub(crate) fn remove(&mut self, descriptor: usize, kind: Kind) -> Outcome<Option<Described>> {
        self.find(descriptor, kind)?;
        Ok(self.described.remove(&descriptor))
    }

    fn find(&self, descriptor: usize, kind: Kind) -> Outcome<&Described> {
        if descriptor == 0 {
            return Err(Status::InvalidValue);
        }
        let found = self.described.get(&descriptor);
        if let Some(found) = found.filter(|found| found.kind() == kind) {
            return Ok(found);
        }
        let what = found.map(Described::kind);
        complain(format_args!(
            "descriptor {descriptor:#x} is {what:?}, not {kind:?}"
        ));
        Err(Status::InvalidValue)
    }

    pub(crate) fn matrix(&self, descriptor: usize) -> Outcome<&Matrix> {
        match self.find(descriptor, Kind::Sparse)? {
            Described::Sparse(matrix) => Ok(matrix),
            _ => Err(Status::InvalidValue),
        }
    }

    pub(crate) fn matrix_mut(&mut self, descriptor: usize) -> Outcome<&mut Matrix> {
        match self.described.get_mut(&descriptor) {
            Some(Described::Sparse(matrix)) => Ok(matrix),
            _ => Err(Status::InvalidValue),
        }
    }

    pub(crate) fn dense(&self, descriptor: usize, kind: Kind) -> Outcome<Dense> {
        match self.find(descriptor, kind)? {
            Described::Vector(dense) | Described::Dense(dense) => Ok(*dense),
            Described::Sparse(_) => Err(Status::InvalidValue),
        }
    }
}
