//! Products of a sparse matrix: on devices, or by a loop of the calling thread.

#![expect(
    unsafe_code,
    reason = "computes on arrays that the program vouches for"
)]

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;

use super::csr::Csr;
use super::cut::{Share, by_entries};
use super::link::{Link, Own, Part, Pattern, Scratch};
use crate::base::sparse::CsrKernel;
use crate::base::{DeviceId, Intent, Op, Value};
use crate::cache::edges::PendingCopies;
use crate::cache::room::Room;
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError};
use crate::device::api::Operand;
use crate::device::arith;
use crate::hints::Status;
use crate::hints::request::Target;
use crate::hints::view::View;

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

/// An address that no kernel is launched with: a question to a device needs one.
const SOME_ADDRESS: u64 = 4096;

/// The last number of a [`Scratch`].
static PATTERNS: AtomicU64 = AtomicU64::new(0);

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
    fn kernel(&self, rows: &Range<usize>, nnz: usize) -> CsrKernel {
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
            x: Operand::matrix(x.addr as u64, x.ld),
            y: Operand::matrix(y.addr as u64, y.ld),
            scratch: 0,
            pattern: 0,
        }
    }

    /// The parts of X and Y that a product with these rows of the matrix uses.
    fn vectors_of(&self, rows: &Range<usize>) -> (View, View) {
        let part = |of: View| of.block((rows.start, 0), (rows.len(), of.cols));
        match self.op {
            Op::None => (self.x, part(self.y)),
            Op::Trans | Op::ConjTrans => (part(self.x), self.y),
        }
    }

    /// Computes rows by a loop of the calling thread. No lock is held.
    ///
    /// # Errors
    /// [`Status::Invalid`]: row offsets that do not ascend, or column indices outside of the matrix; nothing is computed.
    pub fn on_host(&self, rows: &Range<usize>, nnz: usize) -> Result<(), Status> {
        if !self.csr.ascends(rows, &(0..nnz)) {
            return Err(Status::Invalid);
        }
        let end = |row| self.csr.offset(row).ok_or(Status::Invalid);
        if !self.csr.lies_within(&(end(rows.start)?..end(rows.end)?)) {
            return Err(Status::Invalid);
        }
        // SAFETY: the program vouches for its arrays; offsets and columns lie within them, and Y overlaps no input (`check`).
        unsafe { arith::multiply(&self.kernel(rows, nnz)) };
        Ok(())
    }

    /// How a product is divided among this number of devices: rows of Y belong to one device each. A transposed product adds to all of
    /// Y, so one device computes it.
    ///
    /// # Errors
    /// [`Status::Invalid`]: row offsets that do not ascend.
    pub fn shares(&self, nnz: usize, devices: usize) -> Result<Vec<Share>, Status> {
        let parts = if self.divides() { devices } else { 1 };
        let offset = |row| self.csr.offset(row);
        by_entries((self.csr.rows, nnz), parts, offset).ok_or(Status::Invalid)
    }

    /// Whether several devices have parts of it.
    #[must_use]
    pub fn divides(&self) -> bool {
        self.op == Op::None
    }

    /// Sends row offsets and column indices to the devices that compute with them, and watches them. Devices get the entries as well.
    ///
    /// # Errors
    /// The memory cannot be tracked, or see [`Target::prefetch`].
    pub fn send(&self, cache: &Cache, shares: &[Share]) -> Result<Pattern, Status> {
        let mut watched = Vec::new();
        for (i, share) in shares.iter().enumerate() {
            let device = Some(DeviceId::at(i));
            let arrays = [
                self.csr.offsets_of(&share.rows),
                self.csr.columns_of(&share.entries),
            ];
            for view in arrays {
                if let Some(target) = Target::of(cache, &view)? {
                    target.prefetch(cache, device)?;
                    watched.push((target.block(), target.rect()?.span()));
                }
            }
            if let Some(values) = Target::of(cache, &self.csr.values_of(&share.entries))? {
                values.prefetch(cache, device)?;
            }
        }
        Ok(Pattern::new(cache, &watched))
    }

    /// Whether row offsets and column indices are what they were when the link was made, as far as is known now.
    #[must_use]
    pub fn is_same(&self, cache: &Cache, link: &Link, nnz: usize) -> bool {
        let arrays = [
            self.csr.offsets_of(&(0..self.csr.rows)),
            self.csr.columns_of(&(0..nnz)),
        ];
        let looked = arrays.iter().try_for_each(|view| {
            let target = Target::of(cache, view)?.ok_or(Status::Invalid)?;
            Ok::<(), Status>(cache.inspect(target.block(), target.rect()?.span())?)
        });
        looked.is_ok() && link.pattern.holds()
    }

    /// Checks the matrix, whose row offsets and column indices are watched, and derives what devices need. No lock is held.
    ///
    /// # Errors
    /// [`Status::Invalid`]: row offsets that do not ascend, or column indices outside of the matrix.
    pub fn link(
        &self,
        cache: &Cache,
        (shares, nnz): (Vec<Share>, usize),
        pattern: Pattern,
    ) -> Result<Link, Status> {
        let csr = self.csr;
        let valid = csr.ascends(&(0..csr.rows), &(0..nnz)) && csr.lies_within(&(0..nnz));
        if !valid {
            return Err(Status::Invalid);
        }
        let part = |(i, share): (usize, Share)| Part {
            device: DeviceId::at(i),
            offsets: (share.entries.start > 0)
                .then(|| Own::new(cache, csr.rebased(&share.rows, share.entries.start))),
            share,
            scratch: FxHashMap::default(),
        };
        Ok(Link {
            csr,
            divided: self.divides(),
            parts: shares.into_iter().enumerate().map(part).collect(),
            pattern,
        })
    }

    /// Queues the product on the devices of a link. Returns the rows that no device computes; the others are complete, or queued, and
    /// their parts of Y are devices' results.
    ///
    /// # Errors
    /// Copies to pages that cannot be protected have failed.
    pub fn queue(&self, cache: &Cache, link: &mut Link) -> Result<Vec<Range<usize>>, Status> {
        let (mut used, mut left) = (Vec::new(), Vec::new());
        for part in &mut link.parts {
            let queued = self.queue_part(cache, part, &link.pattern, &mut used);
            if queued.is_err() {
                left.push(part.share.rows.clone());
            }
        }
        let (pending, settled): (PendingCopies, _) = cache.settle(used.iter(), &[]);
        cache.arrive(&pending)?;
        settled?;
        Ok(left)
    }

    /// After an error no kernel was launched, and no byte of Y has changed.
    fn queue_part(
        &self,
        cache: &Cache,
        part: &mut Part,
        pattern: &Pattern,
        used: &mut Vec<Use>,
    ) -> Result<(), Status> {
        let Part {
            device,
            share: Share { rows, entries },
            offsets,
            scratch,
        } = part;
        let (x, y) = self.vectors_of(rows);
        let written = match self.beta.is_zero() {
            true => Intent::Overwrite,
            false => Intent::Update,
        };
        let operands = [
            (self.csr.offsets_of(rows), Intent::Read),
            (self.csr.columns_of(entries), Intent::Read),
            (self.csr.values_of(entries), Intent::Read),
            (x, Intent::Read),
            (y, written),
        ];
        let mut uses: Vec<Use> = Vec::with_capacity(7);
        for (view, access) in operands {
            let target = Target::of(cache, &view)?.ok_or(Status::Invalid)?;
            let rect = target.rect()?;
            cache.inspect(target.block(), rect.span())?;
            if !target.enter(cache)
                || !cache.would_keep((target.block(), &rect), (Some(*device), &rect))?
            {
                return Err(Status::Untracked);
            }
            uses.push(target.operand(cache, rect, access)?);
        }
        if let Some(own) = offsets {
            uses.push(own.operand(Intent::Read));
        }
        let mut kernel = CsrKernel {
            offsets: SOME_ADDRESS,
            columns: SOME_ADDRESS,
            values: SOME_ADDRESS,
            x: Operand::matrix(SOME_ADDRESS, x.ld),
            y: Operand::matrix(SOME_ADDRESS, y.ld),
            ..self.kernel(rows, entries.len())
        };
        let kind = (self.op, self.x.cols);
        let scratch = match scratch.get(&kind) {
            Some(known) => known,
            None => {
                let bytes = cache.backend().csr_scratch(*device, &kernel);
                let bytes = bytes.map_err(CacheError::from)?;
                let memory = (bytes > 0).then(|| Own::new(cache, vec![0; bytes].into()));
                let number = PATTERNS.fetch_add(1, Ordering::Relaxed) + 1;
                let of_kind = Scratch {
                    memory,
                    pattern: number,
                };
                scratch.entry(kind).or_insert(of_kind)
            }
        };
        kernel.pattern = scratch.pattern;
        let own = scratch.memory.as_ref();
        // What the device has prepared there stays: its bytes are read before they are written.
        uses.extend(own.map(|own| own.operand(Intent::Update)));
        let room = Room::Whole { flat: true };
        let (rebased, has_scratch) = (offsets.is_some(), own.is_some());
        let queued = cache.queue_with(*device, &uses, room, |backend, after, at| {
            // Offsets and columns have not changed since they were checked, and cannot be while the cache's lock is held.
            if !pattern.is_watched() {
                return Err(CacheError::Gone);
            }
            kernel.offsets = at[if rebased { 5 } else { 0 }].addr;
            kernel.columns = at[1].addr;
            kernel.values = at[2].addr;
            (kernel.x, kernel.y) = (at[3], at[4]);
            kernel.scratch = if has_scratch {
                at[at.len() - 1].addr
            } else {
                0
            };
            // SAFETY: all operands lie in replicas of this device and are recorded in their operations; offsets and columns lie within the
            // matrix (`link`), and what devices hold of them are those bytes.
            Ok(unsafe { backend.multiply_csr(*device, after, &kernel) }?)
        });
        // The library's own memory is settled by nobody: devices keep it.
        uses.truncate(5);
        used.append(&mut uses);
        queued?;
        Ok(())
    }
}
