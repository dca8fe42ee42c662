//! From addresses to allocations: which block each operand lies in, or a one-call entry for memory whose
//! lifetime nobody knows.

use log::warn;

use super::checks::Item;
use crate::base::counters::{WhyHost, degrade};
use crate::base::{AllocId, Rect};
use crate::cache::Cache;
use crate::cache::task::Use;
use crate::host::{self, Block, Observer};
use crate::plan::{Access, Problem};
use crate::sched;

/// The operands of a call, and the entries that end with it.
#[derive(Debug)]
pub struct Operands {
    /// In kernel order.
    pub placed: Vec<Use>,
    transient: Vec<AllocId>,
}

/// The block of each operand; `None` for transient memory.
///
/// # Errors
/// An operand that is only partly inside a block, or that overlaps one without belonging to it: it may
/// have newest bytes on a device that a plain copy of host memory would miss. Or the program guards pages of it: the
/// host BLAS then faults there as it does without semcache.
pub fn blocks(
    cache: &Cache,
    problem: &Problem,
    places: &[Rect],
) -> Result<Vec<Option<Block>>, WhyHost> {
    places
        .iter()
        .enumerate()
        .map(|(i, p)| match host::holding(p.start, p.end()) {
            // A block that a foreign `free` unmapped behind our back is no block.
            Some(b) if p.end() <= b.start + b.len => {
                if host::prepare(&b, p.start, p.end() - p.start) {
                    Ok(Some(b))
                } else {
                    Err(WhyHost::Aliased)
                }
            }
            None if !cache.overlaps(p.start, p.end()) && host::find(p.end() - 1).is_none() => {
                let written = problem.access(i) != Access::Read;
                if host::guards::permits(p, written) {
                    Ok(None)
                } else {
                    Err(WhyHost::Guarded)
                }
            }
            _ => Err(WhyHost::Aliased),
        })
        .collect()
}

/// Host memory for the value that a reduction returns, as an operand of no allocation.
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

impl Operands {
    /// Makes the operands known to the cache.
    ///
    /// # Errors
    /// A block has changed hands meanwhile: another thread unmaps or remaps a part of it.
    pub(super) fn register(cache: &Cache, item: &Item<'_>) -> Result<Self, WhyHost> {
        let Item {
            problem,
            places,
            blocks,
            known,
            ..
        } = item;
        let mut operands = Self {
            placed: Vec::with_capacity(places.len()),
            transient: Vec::new(),
        };
        for (i, ((p, b), known)) in places.iter().zip(blocks).zip(known).enumerate() {
            let (id, base) = match b {
                Some(b) => {
                    // In this order: once it is marked, the cache is told of its end and must know it by then.
                    let fresh = !known && cache.add_block(*b);
                    if !host::mark_in_use(b.id) {
                        if fresh {
                            let _ = cache.abandon(*b);
                        }
                        operands.release(cache);
                        return Err(WhyHost::Aliased);
                    }
                    cache.pin(b, p.start, p.end() - p.start, blocks);
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

    /// A place for the value that a reduction returns.
    pub fn add_result(&mut self, cache: &Cache, at: &mut [u8; 16], size: usize) -> Use {
        let placed = slot(at, size);
        let id = cache.add_transient(placed.base, at.len());
        self.transient.push(id);
        Use { id, ..placed }
    }

    /// Ends the one-call entries; their operations were waited for.
    pub fn release(&self, cache: &Cache) {
        for &id in &self.transient {
            cache.finish_transient(id);
        }
    }
}
