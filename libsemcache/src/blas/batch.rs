//! Several gemms in one call (`gemm_batch`, `gemm_batch_strided`): one decision for all of them, then each as a gemm of
//! its own, in order.
//!
//! All of it, or nothing, is the devices': a batch with an illegal argument, with an output that shares bytes with any
//! other operand of the batch, or with a product of nothing that scales its output, is the host's.

use crate::base::masked::Masked;

use super::args::{self, Checked};
use super::call::Call;
use super::finish::{Ran, Rest};
use super::offload::{self, Machine};
use super::operands::blocks;
use super::{alias, remember, run};
use crate::base::{Dtype, Rect};
use crate::base::counters::WhyHost;
use crate::cache::Cache;
use crate::host::Block;
use crate::plan::Problem;

/// The products of one call.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// Element type.
    pub dtype: Dtype,
    /// The products, in order, each a gemm.
    pub calls: Vec<Call>,
    /// An argument of the batch itself is of doubtful legality: its libraries do not agree on what it means.
    pub doubtful: bool,
}

/// What became of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batched {
    /// Nothing was done: the host must run it.
    Host,
    /// Done.
    Done,
    /// Products before this one are done, the others are the host's: the devices refused in the middle.
    From(usize),
}

/// The first product that is left for the host, and the tasks that are left of those before. No product reads what another
/// writes, so their order does not matter.
pub type Left = (Option<usize>, Vec<Rest>);

/// A product that is to be computed.
#[derive(Clone, Debug)]
pub(super) struct Item<'a> {
    /// Its position in the batch.
    pub(super) at: usize,
    pub(super) call: &'a Call,
    pub(super) problem: Box<Problem>,
    pub(super) places: Vec<Rect>,
    pub(super) blocks: Vec<Option<Block>>,
}

/// A batch whose arguments were checked.
#[derive(Clone, Debug)]
pub struct Checks<'a> {
    items: Vec<Item<'a>>,
}

impl Checks<'_> {
    /// First and last bytes of all operands.
    pub fn ends(&self) -> impl Iterator<Item = usize> {
        let places = self.items.iter().flat_map(|i| &i.places);
        places.flat_map(|p| [p.start, p.end() - 1])
    }
}

impl Batch {
    /// An empty batch with room for so many products; `None` if there is no memory. Filling it allocates nothing: a
    /// program's handler may leave in the middle.
    #[must_use]
    pub fn with_room(dtype: Dtype, products: usize) -> Option<Batch> {
        let _masked = Masked::new();
        let mut calls = Vec::new();
        calls.try_reserve_exact(products).ok()?;
        Some(Batch {
            dtype,
            calls,
            doubtful: false,
        })
    }

    /// The product with the most work.
    #[must_use]
    pub fn largest(&self) -> Option<&Call> {
        let work = |call: &&Call| {
            let sizes = call.sizes().map(|s| u128::try_from(s).unwrap_or(0));
            sizes.into_iter().product::<u128>()
        };
        self.calls.iter().max_by_key(work)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let _masked = Masked::new();
        drop(std::mem::take(&mut self.calls));
    }
}

/// Applies the argument rules.
///
/// # Errors
/// Why the batch is the host's.
pub fn check(batch: &Batch) -> Result<Checks<'_>, WhyHost> {
    if batch.doubtful {
        return Err(WhyHost::BadArgument);
    }
    let (mut items, mut scales) = (Vec::with_capacity(batch.calls.len()), false);
    for (at, call) in batch.calls.iter().enumerate() {
        match args::check(call) {
            Checked::Run(problem, places) => items.push(Item {
                at,
                call,
                problem,
                places,
                blocks: Vec::new(),
            }),
            Checked::Nothing => scales |= !args::scaled(call).is_empty(),
            Checked::Bad => return Err(WhyHost::BadArgument),
            Checked::Host => scales = true,
        }
    }
    if scales || items.is_empty() {
        return Err(WhyHost::Empty);
    }
    Ok(Checks { items })
}

/// Runs a batch on the devices, and says what is left.
///
/// # Errors
/// Why the host must run all of it; nothing of the program's was changed.
pub fn run(
    cache: &Cache,
    machine: &Machine,
    batch: &Batch,
    checks: Checks<'_>,
) -> Result<Left, WhyHost> {
    let mut items = checks.items;
    let operands = items.iter().flat_map(|i| {
        let of = |(operand, place)| (i.problem.access(operand), place);
        i.places.iter().enumerate().map(of)
    });
    if alias::any_conflict(operands) {
        return Err(WhyHost::Aliased);
    }
    if !cache.whole() {
        return Err(WhyHost::Refused);
    }
    for item in &mut items {
        item.blocks = blocks(Some(cache), &item.problem, &item.places)?;
    }
    let spread = offload::batch::decide(cache, machine, batch, &items)?;
    let number = cache.number();
    let mut rests = Vec::new();
    for (i, item) in items.iter().enumerate() {
        // A device was lost: the product before was completed on the host.
        if !cache.whole() {
            return Ok((Some(item.at), rests));
        }
        let known = remember::known(item.call);
        if known.is_some_and(|k| k.launch(cache).is_some()) {
            continue;
        }
        let done = spread
            .plan(machine, item, i)
            .ok_or(WhyHost::OutOfMemory)
            .and_then(|plan| {
                let Item {
                    call,
                    problem,
                    places,
                    blocks,
                    ..
                } = item;
                let made = run::Made::part(call, number);
                run::carry_out(cache, made, problem, &plan, places, blocks)
            });
        match done {
            Ok(Ran::Done(_)) => {}
            Ok(Ran::Rest(rest)) => rests.push(rest),
            Err(why) if i == 0 => return Err(why),
            Err(_) => return Ok((Some(item.at), rests)),
        }
    }
    Ok((None, rests))
}
