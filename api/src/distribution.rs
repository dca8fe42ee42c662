//! How matrices are dealt to devices.

#![expect(unsafe_code, reason = "is called by another library")]

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::table;

/// How a matrix is cut into blocks, and which device each belongs to. [`Hints::distribute`](crate::Hints::distribute) has an example.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Distribution {
    /// No block belongs to a device: ends an earlier distribution.
    Nowhere,
    /// One share of the rows for each device.
    Rows,
    /// One share of the columns for each device.
    Columns,
    /// One block for each device of a grid of `p x q`; if both are zero, as square as the devices permit.
    Blocks {
        /// Rows of the grid.
        p: u32,
        /// Columns of the grid.
        q: u32,
    },
    /// Blocks of `mb x nb`; block (i, j) belongs to device `(i % p) * q + j % q`.
    Cyclic {
        /// Rows of a block.
        mb: usize,
        /// Columns of a block.
        nb: usize,
        /// Rows of the grid of devices.
        p: u32,
        /// Columns of the grid of devices.
        q: u32,
    },
}

impl Distribution {
    pub(crate) fn c(self) -> Result<table::Distribution> {
        let (kind, (mb, nb), (p, q)) = match self {
            Distribution::Nowhere => (0, (0, 0), (0, 0)),
            Distribution::Rows => (1, (0, 0), (0, 0)),
            Distribution::Columns => (2, (0, 0), (0, 0)),
            Distribution::Blocks { p, q } => (3, (0, 0), (p, q)),
            Distribution::Cyclic { mb, nb, p, q } => (4, (mb, nb), (p, q)),
        };
        c(kind, (mb, nb), (p, q))
    }
}

fn c(kind: u32, (mb, nb): (usize, usize), (p, q): (u32, u32)) -> Result<table::Distribution> {
    let long = |n: usize| i64::try_from(n).map_err(|_| Error::Invalid);
    let short = |n: u32| i32::try_from(n).map_err(|_| Error::Invalid);
    Ok(table::Distribution {
        size: table::size::<table::Distribution>(),
        kind,
        mb: long(mb)?,
        nb: long(nb)?,
        p: short(p)?,
        q: short(q)?,
        owner: None,
        user: null_mut(),
    })
}

/// A function of the program that says to which device a block belongs, and its panics, which must not reach the library.
pub(crate) struct Owner<F> {
    owner: F,
    panics: Mutex<Vec<Box<dyn Any + Send>>>,
}

impl<F: Fn(usize, usize) -> u32 + Sync> Owner<F> {
    pub(crate) fn new(owner: F) -> Self {
        Owner {
            owner,
            panics: Mutex::new(Vec::new()),
        }
    }

    /// The distribution into blocks of these sizes, as long as this lives.
    pub(crate) fn c(&self, mb: usize, nb: usize) -> Result<table::Distribution> {
        const OWNERS: u32 = 5;
        let mut all = c(OWNERS, (mb, nb), (0, 0))?;
        all.owner = Some(Self::ask);
        all.user = (&raw const *self).cast_mut().cast();
        Ok(all)
    }

    /// # Safety
    /// `user` is an `Owner<F>`, which several threads may use at a time.
    unsafe extern "C" fn ask(i: i64, j: i64, user: *mut c_void) -> i32 {
        // SAFETY: the caller keeps this function's contract. `F` is `Sync`, and so is a mutex.
        let this = unsafe { &*user.cast_const().cast::<Self>() };
        let index = |n: i64| usize::try_from(n).unwrap_or(0);
        match catch_unwind(AssertUnwindSafe(|| (this.owner)(index(i), index(j)))) {
            Ok(device) => i32::try_from(device).unwrap_or(i32::MAX),
            Err(panic) => {
                this.panics
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(panic);
                i32::MAX
            }
        }
    }

    /// Goes on with the first panic, if there was one.
    pub(crate) fn resume(self) {
        let panics = self
            .panics
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = panics.into_iter().next() {
            resume_unwind(first);
        }
    }
}
