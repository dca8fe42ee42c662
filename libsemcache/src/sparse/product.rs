//! Products of a sparse matrix: on devices, or by a loop of the calling thread.

#![expect(
    unsafe_code,
    reason = "computes on arrays that the program vouches for"
)]

use core::ops::Range;
use std::thread;

use semcache_fault::arithmetic;

use super::csr::Csr;
use super::cut::{Share, by_entries};
use crate::base::sparse::CsrKernel;
use crate::base::{Op, Routine, Value};
use crate::device::api::{Kernel, Operand};
use crate::device::arith;
use crate::hints::Status;
use crate::hints::view::View;
use crate::process::crew;
use crate::process::signals_blocked::SignalsBlocked;

/// `Y := alpha op(A) X + beta Y`
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// A
    pub csr: Csr,
    /// `op(A)`
    pub op: Op,
    /// `alpha`
    pub alpha: Value,
    /// `beta`
    pub beta: Value,
    /// X
    pub x: View,
    /// Y
    pub y: View,
}

/// Bytes of a matrix from which on a further thread of the host shares a product: it takes about 0.5 ms to read them, and 0.05 ms to
/// make the thread.
const WORTH_A_THREAD: usize = 4 << 20;

impl Product {
    /// Checks the arguments, and returns the number of entries of the matrix. Reads its first and last row offset.
    ///
    /// # Errors
    /// [`Status::Invalid`]: null, more bytes than there are addresses, lengths of X or Y that are not those of the matrix, a first row
    /// that does not begin with the first entry, or a Y that shares bytes with an input.
    pub fn check(&self) -> Result<usize, Status> {
        let Csr { rows, cols, .. } = self.csr;
        let (from, to) = match self.op {
            Op::None => (cols, rows),
            Op::Trans | Op::ConjTrans => (rows, cols),
        };
        let alike = self.x.cols == self.y.cols && (self.x.rows, self.y.rows) == (from, to);
        self.csr.offsets_of(&(0..rows)).place()?;
        let nnz = self.csr.nnz().filter(|_| alike).ok_or(Status::Invalid)?;
        let entries = 0..nnz;
        let inputs = [
            self.x,
            self.csr.offsets_of(&(0..rows)),
            self.csr.columns_of(&entries),
            self.csr.values_of(&entries),
        ];
        if let Some(y) = self.y.place()? {
            for input in inputs {
                if input.place()?.is_some_and(|input| input.overlaps(&y)) {
                    return Err(Status::Invalid);
                }
            }
        }
        Ok(nnz)
    }

    /// Bytes of the matrix.
    #[must_use]
    pub fn bytes(&self, nnz: usize) -> usize {
        nnz * (self.csr.index.size() + self.csr.dtype.size())
    }

    /// The kernel for these rows with host addresses, whose row offsets count from the first entry of all.
    #[must_use]
    pub fn kernel(&self, rows: &Range<usize>, nnz: usize) -> CsrKernel {
        let Csr {
            dtype,
            index,
            first,
            ..
        } = self.csr;
        let (x, y) = self.vectors_of(rows);
        CsrKernel {
            dtype,
            index,
            first,
            op: self.op,
            rows: rows.len(),
            cols: self.csr.cols,
            nnz,
            vectors: self.x.cols,
            alpha: self.alpha,
            beta: self.beta,
            offsets: self.csr.offsets_of(rows).addr as u64,
            columns: self.csr.columns as u64,
            values: self.csr.values as u64,
            touched: (0, x.rows),
            x: Operand::matrix(x.addr as u64, x.ld),
            y: Operand::matrix(y.addr as u64, y.ld),
            scratch: 0,
            pattern: 0,
        }
    }

    /// The parts of X and Y that a product with these rows of the matrix uses.
    #[must_use]
    pub fn vectors_of(&self, rows: &Range<usize>) -> (View, View) {
        let part = |of: View| of.block((rows.start, 0), (rows.len(), of.cols));
        match self.op {
            Op::None => (self.x, part(self.y)),
            Op::Trans | Op::ConjTrans => (part(self.x), self.y),
        }
    }

    /// Computes these rows on the host, by one thread if it has to be `alone`. No lock is held.
    ///
    /// # Errors
    /// [`Status::Invalid`]: row offsets that do not ascend, or column indices outside of the matrix; nothing is computed.
    pub fn on_host(&self, rows: &Range<usize>, nnz: usize, alone: bool) -> Result<(), Status> {
        if self.alpha.is_zero() {
            // SAFETY: the program vouches for Y; nothing else is read.
            unsafe { arith::multiply(&self.kernel(rows, 0)) };
            return Ok(());
        }
        if !self.csr.ascends(rows, &(0..nnz)) {
            return Err(Status::Invalid);
        }
        let end = |row| self.csr.offset(row).ok_or(Status::Invalid);
        let all = Share {
            rows: rows.clone(),
            entries: end(rows.start)?..end(rows.end)?,
        };
        let shares = by_entries(
            &all,
            &vec![1.0; if alone { 1 } else { self.threads(&all) }],
            |row| self.csr.offset(row),
        );
        let shares = shares.ok_or(Status::Invalid)?;
        let shares: Vec<Share> = shares.into_iter().map(|(_, share)| share).collect();
        let within = |share: &Share| self.csr.touched(&share.entries).is_some();
        if !each(&shares, within).into_iter().all(|within| within) {
            return Err(Status::Invalid);
        }
        let compute = |rows: &Range<usize>| {
            // SAFETY: the program vouches for its arrays; offsets and columns lie within them, and Y overlaps no input (`check`). Several
            // threads write different rows of Y.
            unsafe { arith::multiply(&self.kernel(rows, nnz)) };
        };
        match self.op {
            Op::None => drop(each(&shares, |share| compute(&share.rows))),
            // Each row of the matrix adds to all of Y.
            Op::Trans | Op::ConjTrans => compute(rows),
        }
        Ok(())
    }

    /// Adds numbers to rows of Y, column after column: `Y := A + beta Y`.
    pub fn add_on_host(&self, rows: &Range<usize>, numbers: &[u8]) {
        let y = self.y.block((rows.start, 0), (rows.len(), self.y.cols));
        let at = [
            Operand::matrix(numbers.as_ptr().expose_provenance() as u64, rows.len()),
            Operand::matrix(y.addr as u64, y.ld),
        ];
        let kernel = Kernel {
            m: rows.len(),
            n: y.cols,
            beta: self.beta,
            ..Kernel::of(Routine::Geadd, self.csr.dtype, at)
        };
        // SAFETY: the program vouches for Y; `numbers` are as many.
        unsafe { arith::run(&kernel) };
    }

    fn threads(&self, share: &Share) -> usize {
        match self.bytes(share.entries.len()) / WORTH_A_THREAD {
            0 => 1,
            more => crew::cores().min(1 + more),
        }
    }
}

/// What a function says of each share, each on a thread of its own, but the first.
fn each<T: Send>(shares: &[Share], of: impl Fn(&Share) -> T + Sync) -> Vec<T> {
    let Some((first, others)) = shares.split_first() else {
        return Vec::new();
    };
    if others.is_empty() {
        return vec![of(first)];
    }
    let of = &of;
    // All rows are rounded as the program's thread rounds.
    let before = arithmetic::usual();
    before.restore();
    thread::scope(|scope| {
        // The new threads inherit the blocked signals: no handler of the program runs there. Their accesses to protected pages fault as
        // the program's do.
        let blocked = SignalsBlocked::new();
        let start = |share| {
            let run = move || {
                before.restore();
                of(share)
            };
            (share, thread::Builder::new().spawn_scoped(scope, run))
        };
        let threads: Vec<_> = others.iter().map(start).collect();
        drop(blocked);
        let mut all = vec![of(first)];
        all.extend(threads.into_iter().map(|(share, thread)| {
            let done = thread.ok().and_then(|thread| thread.join().ok());
            done.unwrap_or_else(|| of(share))
        }));
        all
    })
}
