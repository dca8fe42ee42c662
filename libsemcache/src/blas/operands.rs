//! The operands of a call as allocations: looks up the block that each operand lies in, or makes an entry for the one
//! call where the memory's lifetime is unknown.

use log::warn;

use super::checks::Item;
use crate::base::counters::{PAGE, WhyHost, degrade, sites};
use crate::base::{AllocId, Rect};
use crate::cache::Cache;
use crate::cache::blocks::Unusable;
use crate::cache::names;
use crate::cache::task::Use;
use crate::host::{self, Block, Observer};
use crate::plan::{Access, Part, Problem};
use crate::sched;

/// When the operands of a call are page-locked.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum PageLocks {
    /// Before the first task.
    #[default]
    Before,
    /// Pieces of them before the first task that uses them, by the calling thread.
    ByTask,
    /// The same, but pieces of results by another thread.
    ResultsAhead,
}

/// The address of an operand, and its length.
#[must_use]
pub fn bytes(place: &Rect) -> (usize, usize) {
    (place.start, place.end() - place.start)
}

/// The operands of a call, as registered with the cache.
#[derive(Debug, Default)]
pub struct Operands {
    /// The operands in the order of the kernel.
    pub placed: Vec<Use>,
    /// When they are page-locked.
    pub pinned: PageLocks,
    transient: Vec<AllocId>,
}

/// The block of each operand; `None` for transient memory.
///
/// # Errors
/// An operand is only partly inside a block, or overlaps one without belonging to it: its newest bytes may be on a
/// device, where a plain copy of host memory would miss them. Or the program guards pages of an operand: the host BLAS
/// then faults there as it does without semcache.
pub fn blocks(
    cache: &Cache,
    problem: &Problem,
    places: &[Rect],
) -> Result<Vec<Option<Block>>, WhyHost> {
    let of = |(i, place): (usize, &Rect)| {
        let found = cache.block_of(place, problem.access(i) != Access::Read);
        found.map_err(|why| match why {
            Unusable::Aliased => WhyHost::Aliased,
            Unusable::Guarded => WhyHost::Guarded,
        })
    };
    places.iter().enumerate().map(of).collect()
}

/// Host memory for the value that a reduction returns, as an operand that belongs to no allocation.
pub fn slot(at: &mut [u8; 16], size: usize) -> Use {
    let view = Rect::interval(0, size);
    Use {
        id: AllocId(0),
        base: at.as_mut_ptr().expose_provenance(),
        view,
        footprint: view,
        access: Access::Overwrite,
        touched: Vec::new(),
        size,
        step: 1,
    }
}

/// Counts a call with an operand in a block.
fn note_matrix(block: &Block, whole: &Part) {
    let Some(matrix) = PAGE.matrices.find(block.start) else {
        return;
    };
    matrix.calls.add(1);
    if matrix.tell(block.len, (whole.rows, whole.cols), sites::current())
        && let Some(name) = names::in_block(block.start, block.start + block.len)
    {
        matrix.name.set(name.as_bytes());
    }
}

impl Operands {
    /// Gives the operands to the cache: adds missing blocks, page-locks operands unless the tasks do, adds entries for transient
    /// memory.
    ///
    /// # Errors
    /// Another thread has meanwhile freed, unmapped or remapped a block, or a part of it.
    pub(super) fn register(cache: &Cache, item: &Item, pinned: PageLocks) -> Result<Self, WhyHost> {
        let Item {
            problem,
            places,
            blocks,
            known,
            ..
        } = item;
        let mut operands = Self {
            placed: Vec::with_capacity(places.len()),
            pinned,
            transient: Vec::new(),
        };
        for (i, ((p, b), known)) in places.iter().zip(blocks).zip(known).enumerate() {
            let (id, base) = match b {
                Some(b) => {
                    // The cache must know the block before it is marked in use: from then on the cache is told when the
                    // block ends.
                    let fresh = !known && cache.add_block(*b);
                    if !host::mark_in_use(b.id) {
                        if fresh {
                            let _ = cache.abandon(*b);
                        }
                        operands.release(cache);
                        return Err(WhyHost::Aliased);
                    }
                    note_matrix(b, &problem.whole(i));
                    let written = problem.access(i) != Access::Read;
                    if pinned == PageLocks::Before {
                        cache.pin(b, bytes(p), written, blocks);
                    }
                    (b.id, b.start)
                }
                None => {
                    if let Some((what, why)) = host::heap::degraded()
                        && degrade(what)
                    {
                        warn!("{why}");
                    }
                    let id = cache.add_transient(p.start, p.end() - p.start);
                    operands.transient.push(id);
                    (id, p.start)
                }
            };
            let placed = sched::operand(problem, i, id, base, p.start);
            operands.placed.push(placed);
        }
        Ok(operands)
    }

    /// Host memory for the values that the tasks of a reduction return, as operands with one entry for this call.
    pub fn add_results(&mut self, cache: &Cache, at: &mut [[u8; 16]], size: usize) -> Vec<Use> {
        let base = at.as_mut_ptr().expose_provenance();
        let id = cache.add_transient(base, size_of_val(at));
        self.transient.push(id);
        let result = |(i, at): (usize, &mut [u8; 16])| {
            let view = Rect::interval(i * at.len(), i * at.len() + size);
            Use {
                id,
                base,
                view,
                footprint: view,
                ..slot(at, size)
            }
        };
        at.iter_mut().enumerate().map(result).collect()
    }

    /// Ends the entries that were made for this call. The caller has waited for all operations on them.
    pub fn release(&self, cache: &Cache) {
        for &id in &self.transient {
            cache.finish_transient(id);
        }
    }
}
