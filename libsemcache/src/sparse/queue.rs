//! Products on the devices of a link.

#![expect(
    unsafe_code,
    reason = "launches kernels on replicas of arrays that were checked"
)]

use core::iter::once;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use super::again::Again;
use super::arrays::{Own, Placed};
use super::link::{Link, Part, Scratch};
use super::pattern::Pattern;
use super::product::Product;
use super::task::{ROOM, Slot, Task};
use crate::base::sparse::CsrKernel;
use crate::base::{DeviceId, Intent, Op, Rect, Routine, Value};
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError};
use crate::device::api::{Kernel, Operand};
use crate::hints::Status;
use crate::hints::view::View;
use crate::host::Block;

/// An address that no kernel is launched with: a question to a device needs one.
const SOME_ADDRESS: u64 = 1 << 40;

/// Kinds of products for which scratch memory is kept.
const MOST_KINDS: usize = 6;

/// The last number of a [`Scratch`].
static PATTERNS: AtomicU64 = AtomicU64::new(0);

/// The program's arrays and vectors that a product uses, by [`Slot`].
#[derive(Debug, Default)]
struct Arrays([Option<Placed>; 5]);

impl Arrays {
    fn of(cache: &Cache, product: &Product, link: &Link) -> Result<Arrays, Status> {
        let csr = &product.csr;
        let some = |needs: fn(&Part) -> bool| link.parts.iter().any(needs);
        let wanted = [
            some(|part| part.offsets.is_none())
                .then(|| (csr.offsets_of(&(0..csr.rows)), Intent::Read)),
            some(|part| part.columns.is_none())
                .then(|| (csr.columns_of(&(0..link.nnz)), Intent::Read)),
            Some((csr.values_of(&(0..link.nnz)), Intent::Read)),
            Some((product.x, Intent::Read)),
            Some((product.y, Intent::Update)),
        ];
        let resent = link.is_resent();
        let mut arrays = Arrays::default();
        for (placed, wanted) in arrays.0.iter_mut().zip(wanted) {
            let Some((view, access)) = wanted else {
                continue;
            };
            match Placed::of(cache, view, access, resent) {
                Ok(found) => *placed = found,
                Err(status) => {
                    arrays.end(cache);
                    return Err(status);
                }
            }
        }
        Ok(arrays)
    }

    /// A part of one of them; `None` if it is empty.
    fn operand(
        &self,
        cache: &Cache,
        slot: Slot,
        (part, access): (View, Intent),
    ) -> Result<Option<Use>, Status> {
        match &self.0[slot as usize] {
            Some(placed) if part.rows > 0 => placed.operand(cache, part, access).map(Some),
            _ => Ok(None),
        }
    }

    /// Their blocks; `None` if one is memory of unknown lifetime.
    fn blocks(&self) -> Option<Vec<Block>> {
        self.0.iter().flatten().map(Placed::block).collect()
    }

    fn end(&self, cache: &Cache) {
        self.0.iter().flatten().for_each(|placed| placed.end(cache));
    }
}

/// Where a kernel writes, and what it does with the old contents.
struct Output {
    operand: Option<Use>,
    /// The leading dimension in memory of the library; none in the program's, which may lie otherwise on a device.
    own_ld: Option<usize>,
    beta: Value,
}

/// What of a product the host has to compute.
#[derive(Debug, Default)]
pub struct Left {
    /// Rows of the matrix.
    pub rows: Vec<Range<usize>>,
    /// What devices have added up for rows of Y.
    pub sums: Vec<Sum>,
}

impl Left {
    /// All of a product.
    #[must_use]
    pub fn whole(product: &Product) -> Left {
        Left {
            rows: once(0..product.csr.rows).collect(),
            sums: Vec::new(),
        }
    }

    /// Whether no device computes rows of a product.
    fn is_whole(&self, product: &Product) -> bool {
        self.rows.iter().map(Range::len).sum::<usize>() == product.csr.rows
    }
}

/// Numbers that are to be added to rows of Y.
#[derive(Debug)]
pub struct Sum {
    /// The rows.
    pub rows: Range<usize>,
    /// The numbers, column after column.
    pub bytes: Box<[u8]>,
}

/// One product that is being queued.
struct Queueing<'a> {
    product: &'a Product,
    cache: &'a Cache,
    arrays: Arrays,
    pattern: &'a Pattern,
    /// What kernels compute, that of a part whose rows the host has to compute included.
    tasks: Vec<Task>,
    /// Of the program's memory, what other kernels use.
    used: Vec<Use>,
}

impl Product {
    /// Queues the product on the devices of a link. Returns what is left for the host; the rest is complete, or queued, and its parts of
    /// Y are devices' results.
    ///
    /// # Errors
    /// A device is lost, or copies to pages that cannot be protected have failed: Y has changed in part.
    pub fn queue(&self, cache: &Cache, link: &mut Link) -> Result<Left, Status> {
        // Its tasks may use scratch memory that ends here.
        link.again = None;
        let Ok(arrays) = Arrays::of(cache, self, link) else {
            return Ok(Left::whole(self));
        };
        // Sums of other numbers of vectors are not kept.
        let of_others = link.sums.extract_if(|vectors, _| *vectors != self.x.cols);
        for (_, own) in of_others.flat_map(|(_, sums)| sums) {
            own.end(cache);
        }
        let mut queueing = Queueing {
            product: self,
            cache,
            arrays,
            pattern: &link.pattern,
            tasks: Vec::new(),
            used: Vec::new(),
        };
        let mut parts: Vec<&mut Part> = link.parts.iter_mut().collect();
        if link.backwards {
            parts.reverse();
        }
        link.backwards = !link.backwards;
        let by_columns = self.op != Op::None && parts.len() > 1;
        let left = match by_columns {
            true => {
                let sums = link.sums.entry(self.x.cols).or_default();
                queueing.by_columns(parts, sums)
            }
            false => Ok(Left {
                rows: queueing.by_rows(parts),
                sums: Vec::new(),
            }),
        };
        let Queueing {
            arrays,
            tasks,
            used,
            ..
        } = queueing;
        let used = used.iter().chain(tasks.iter().flat_map(Task::of_program));
        let settled = settled(cache, used);
        arrays.end(cache);
        let left = left?;
        if !left.is_whole(self) {
            settled?;
        }
        if left.rows.is_empty() && !by_columns && !link.is_resent() {
            let blocks = arrays.blocks();
            link.again = blocks.map(|blocks| Again::new(self, blocks, tasks));
        }
        Ok(left)
    }

    /// Queues the tasks of an earlier product of this kind, if the link has them and they can be queued as they are; `None` if not: nothing
    /// has changed. Returns what is left for the host.
    ///
    /// # Errors
    /// A device is lost, or copies to pages that cannot be protected have failed: Y has changed in part.
    pub fn queue_again(&self, cache: &Cache, link: &mut Link) -> Option<Result<Left, Status>> {
        let again = link.again.as_mut().filter(|again| again.serves(self))?;
        if !again.stands(cache, &link.pattern).ok()? {
            return None;
        }
        let mut left = Left::default();
        for task in &mut again.tasks {
            (task.kernel.alpha, task.kernel.beta) = (self.alpha, self.beta);
            if task.queue(cache, &link.pattern).is_err() {
                left.rows.push(task.rows.clone());
            }
        }
        let used = again.tasks.iter().flat_map(Task::of_program);
        let settled = settled(cache, used);
        if !left.rows.is_empty() {
            link.again = None;
        }
        // If no task could be queued, Y is as it was.
        (!left.is_whole(self)).then(|| settled.map(|()| left).map_err(Status::from))
    }
}

/// Waits until the inputs of queued tasks have been read from the host, and results on pages that cannot be protected have arrived there.
///
/// # Errors
/// A device is lost. That is nobody's loss if no device writes Y.
fn settled<'a>(cache: &Cache, used: impl Iterator<Item = &'a Use>) -> Result<(), CacheError> {
    let (pending, settled) = cache.settle(used, &[]);
    cache.arrive(&pending).and(settled)
}

impl Queueing<'_> {
    /// Each part writes rows of Y, or, as the only one, all of it. Returns the rows of those that could not be queued.
    fn by_rows(&mut self, parts: Vec<&mut Part>) -> Vec<Range<usize>> {
        let mut left = Vec::new();
        for part in parts {
            let (_, y) = self.product.vectors_of(&part.share.rows);
            let beta = self.product.beta;
            let access = match beta.is_zero() {
                true => Intent::Overwrite,
                false => Intent::Update,
            };
            let output = self.arrays.operand(self.cache, Slot::Y, (y, access));
            let queued = output.and_then(|operand| {
                let own_ld = None;
                self.part(
                    part,
                    Output {
                        operand,
                        own_ld,
                        beta,
                    },
                )
            });
            if queued.is_err() {
                left.push(part.share.rows.clone());
            }
        }
        left
    }

    /// Each device adds up what its rows add to Y, in memory of the library; then each adds the sums for its rows of Y.
    ///
    /// # Errors
    /// A device is lost: Y has changed in part.
    fn by_columns(
        &mut self,
        parts: Vec<&mut Part>,
        sums: &mut Vec<(DeviceId, Own)>,
    ) -> Result<Left, Status> {
        let whole = || Left::whole(self.product);
        let View {
            rows,
            cols,
            element,
            ..
        } = self.product.y;
        let mut begun: Vec<DeviceId> = Vec::new();
        for part in parts {
            let at = sums.iter().position(|(device, _)| *device == part.device);
            let at = at.unwrap_or_else(|| {
                let bytes = vec![0; rows * cols * element];
                sums.push((part.device, Own::new(self.cache, bytes.into())));
                sums.len() - 1
            });
            let (access, beta) = match begun.contains(&part.device) {
                true => (Intent::Update, Value::ONE),
                false => (Intent::Overwrite, Value::ZERO),
            };
            let output = Output {
                operand: Some(sums[at].1.operand(access)),
                own_ld: Some(rows),
                beta,
            };
            if self.part(part, output).is_err() {
                return Ok(whole());
            }
            begun.push(part.device);
        }
        begun.sort_unstable();
        begun.dedup();
        let sums: Vec<&Own> = sums
            .iter()
            .filter(|(device, _)| begun.contains(device))
            .map(|(_, own)| own)
            .collect();
        let rows_of = |i: usize| rows * i / begun.len()..rows * (i + 1) / begun.len();
        for (i, device) in begun.iter().enumerate() {
            if self.add_up(*device, rows_of(i), &sums).is_err() {
                return Ok(whole());
            }
        }
        let mut left = Left::default();
        for i in 0..begun.len() {
            // The rows' owner, else any device.
            let mut devices = begun[i..].iter().chain(&begun[..i]);
            let rows = rows_of(i);
            if !devices.any(|device| self.add_to_y(*device, rows.clone(), sums[0]).is_ok()) {
                let bytes = self.rows_home(sums[0], &rows)?;
                left.sums.push(Sum { rows, bytes });
            }
        }
        Ok(left)
    }

    /// These rows of the sums, copied home.
    fn rows_home(&self, own: &Own, rows: &Range<usize>) -> Result<Box<[u8]>, Status> {
        let all = own.bytes(self.cache)?;
        let runs = self.rows_of(own, rows, Intent::Read).view;
        let runs = runs.runs().map(|run| &all[run.start..run.end]);
        Ok(runs.collect::<Vec<_>>().concat().into())
    }

    /// These rows of the sums, as an operand.
    fn rows_of(&self, own: &Own, rows: &Range<usize>, access: Intent) -> Use {
        let y = &self.product.y;
        let (start, width) = (rows.start * y.element, rows.len() * y.element);
        let view = Rect::new(start, width, y.rows * y.element, y.cols);
        own.part(view, (y.element, y.rows), access)
    }

    /// Adds the other sums to the first one.
    fn add_up(&self, device: DeviceId, rows: Range<usize>, sums: &[&Own]) -> Result<(), Status> {
        let [first, others @ ..] = sums else {
            return Ok(());
        };
        for other in others {
            let uses = [
                self.rows_of(other, &rows, Intent::Read),
                self.rows_of(first, &rows, Intent::Update),
            ];
            self.add(device, rows.len(), &uses, Value::ONE)?;
        }
        Ok(())
    }

    fn add_to_y(&mut self, device: DeviceId, rows: Range<usize>, sum: &Own) -> Result<(), Status> {
        let (y, beta) = (self.product.y, self.product.beta);
        let part = y.block((rows.start, 0), (rows.len(), y.cols));
        let access = match beta.is_zero() {
            true => Intent::Overwrite,
            false => Intent::Update,
        };
        let written = self.arrays.operand(self.cache, Slot::Y, (part, access))?;
        let Some(written) = written else {
            return Ok(());
        };
        let uses = [self.rows_of(sum, &rows, Intent::Read), written];
        self.add(device, rows.len(), &uses, beta)?;
        let [_, written] = uses;
        self.used.push(written);
        Ok(())
    }

    /// Queues `C := A + beta C`.
    fn add(
        &self,
        device: DeviceId,
        rows: usize,
        uses: &[Use; 2],
        beta: Value,
    ) -> Result<(), Status> {
        if rows == 0 {
            return Ok(());
        }
        let (dtype, cols) = (self.product.csr.dtype, self.product.y.cols);
        let sum = Kernel {
            m: rows,
            n: cols,
            beta,
            ..Kernel::of(Routine::Geadd, dtype, [Operand::default(); 2])
        };
        self.cache
            .queue_with(device, uses, ROOM, |backend, after, at| {
                let at = [at[0], at[1], Operand::default()];
                // SAFETY: both operands lie in replicas of this device, and are recorded in their operations.
                Ok(unsafe { backend.launch(device, after, &Kernel { at, ..sum }) }?)
            })?;
        Ok(())
    }

    /// Queues one part. After an error no kernel was launched, and nothing has changed.
    fn part(&mut self, part: &mut Part, output: Output) -> Result<(), Status> {
        let task = self.task(part, output)?;
        let queued = task.queue(self.cache, self.pattern);
        self.tasks.push(task);
        queued?;
        Ok(())
    }

    fn task(&self, part: &mut Part, output: Output) -> Result<Task, Status> {
        let (cache, csr) = (self.cache, &self.product.csr);
        let (rows, entries) = (part.share.rows.clone(), part.share.entries.clone());
        // cuSPARSE refuses a matrix with more entries, as duplicates make it, and says so on stdout.
        if entries.len() > rows.len().saturating_mul(csr.cols) {
            return Err(Status::Failed);
        }
        let (x, touched) = self.touched(part);
        let mut uses: Vec<(Slot, Use)> = Vec::with_capacity(6);
        let inputs = [
            (Slot::Offsets, csr.offsets_of(&rows), &part.offsets),
            (Slot::Columns, csr.columns_of(&entries), &part.columns),
            (Slot::Values, csr.values_of(&entries), &None),
            (Slot::X, x, &None),
        ];
        // The library's own memory is settled by nobody: devices keep it.
        let mut own_slots = vec![Slot::Scratch];
        for (slot, view, own) in inputs {
            let operand = match own {
                Some(own) => {
                    own_slots.push(slot);
                    Some(own.operand(Intent::Read))
                }
                None => self.arrays.operand(cache, slot, (view, Intent::Read))?,
            };
            uses.extend(operand.map(|operand| (slot, operand)));
        }
        uses.extend(output.operand.map(|operand| (Slot::Y, operand)));
        own_slots.extend(output.own_ld.map(|_| Slot::Y));
        let mut kernel = CsrKernel {
            offsets: SOME_ADDRESS,
            columns: SOME_ADDRESS,
            values: SOME_ADDRESS,
            touched,
            x: Operand::matrix(SOME_ADDRESS, x.ld),
            y: Operand::matrix(SOME_ADDRESS, output.own_ld.unwrap_or(self.product.y.ld)),
            beta: output.beta,
            ..self.product.kernel(&rows, entries.len())
        };
        let device = part.device;
        let scratch = scratch(cache, part, &kernel)?;
        kernel.pattern = scratch.pattern;
        // What the device has prepared there stays: its bytes are read before they are written.
        let prepared = scratch
            .memory
            .as_ref()
            .map(|own| own.operand(Intent::Update));
        uses.extend(prepared.map(|operand| (Slot::Scratch, operand)));
        let (slots, uses) = uses.into_iter().unzip();
        Ok(Task {
            device,
            rows,
            slots,
            uses,
            own_slots,
            own_ld: output.own_ld,
            kernel,
        })
    }

    /// The rows of X that a part needs, and their numbers.
    fn touched(&self, part: &Part) -> (View, (usize, usize)) {
        let (x, _) = self.product.vectors_of(&part.share.rows);
        match self.product.op {
            Op::None => {
                let (from, end) = part.touched;
                (x.block((from, 0), (end - from, x.cols)), (from, end))
            }
            Op::Trans | Op::ConjTrans => (x, (0, x.rows)),
        }
    }
}

/// The scratch memory of a kind of product.
fn scratch<'a>(
    cache: &Cache,
    part: &'a mut Part,
    kernel: &CsrKernel,
) -> Result<&'a Scratch, Status> {
    let kind = (kernel.op, kernel.vectors);
    if !part.scratch.contains_key(&kind) {
        if part.scratch.len() >= MOST_KINDS {
            let old = part
                .scratch
                .drain()
                .filter_map(|(_, scratch)| scratch.memory);
            old.for_each(|own| own.end(cache));
        }
        let bytes = cache.backend().csr_scratch(part.device, kernel);
        let bytes = bytes.map_err(CacheError::from)?;
        let memory = (bytes > 0).then(|| Own::new(cache, vec![0; bytes].into()));
        let pattern = PATTERNS.fetch_add(1, Ordering::Relaxed) + 1;
        part.scratch.insert(kind, Scratch { memory, pattern });
    }
    part.scratch.get(&kind).ok_or(Status::Failed)
}
