//! Calls that the program makes as one, a single call or the products of a batch, and the check of their arguments.
//!
//! Devices make all calls of a group, or none: the host BLAS makes a batch that has an illegal argument, an output that
//! shares bytes with any other operand of the batch, or a product without a sum (k or alpha zero) that scales its output.

use super::alias;
use super::args::{self, Checked};
use super::batch::Batch;
use super::call::Call;
use crate::base::counters::WhyHost;
use crate::base::{Dtype, Rect, Routine};
use crate::cache::hot::OPERANDS;
use crate::cache::{self, Cache};
use crate::host::{self, Block};
use crate::plan::{Access, Problem};

/// Calls that the program makes as one.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// What the program called.
    pub routine: Routine,
    /// Element type.
    pub dtype: Dtype,
    /// In order.
    pub calls: &'a [Call],
    /// An argument of the batch itself is of doubtful legality: its libraries do not agree on what it means.
    pub doubtful: bool,
}

impl<'a> Group<'a> {
    /// A single call.
    #[must_use]
    pub fn single(call: &'a Call) -> Group<'a> {
        Group {
            routine: call.routine,
            dtype: call.dtype,
            calls: core::slice::from_ref(call),
            doubtful: false,
        }
    }

    /// The products of a batch.
    #[must_use]
    pub fn batch(batch: &'a Batch) -> Group<'a> {
        Group {
            routine: Routine::GemmBatch,
            dtype: batch.dtype,
            calls: &batch.calls,
            doubtful: batch.doubtful,
        }
    }

    /// Whether it is a batch, of however many products.
    #[must_use]
    pub fn is_batch(&self) -> bool {
        self.routine == Routine::GemmBatch
    }
}

/// A call that is to be computed.
#[derive(Clone, Debug)]
pub(super) struct Item<'a> {
    /// Its position among the calls.
    pub(super) at: usize,
    pub(super) call: &'a Call,
    pub(super) problem: Box<Problem>,
    /// The bytes of each operand: offsets are addresses.
    pub(super) places: Vec<Rect>,
    /// The block of each operand; none for memory of which the runtime knows no lifetime. Empty until they are looked for.
    pub(super) blocks: Vec<Option<Block>>,
    /// Whether the cache knew the block of each operand when the call was decided upon.
    pub(super) known: [bool; OPERANDS],
}

impl Item<'_> {
    /// What is done with each operand, and where it is.
    fn operands(&self) -> impl Iterator<Item = (Access, &Rect)> {
        let of = |(i, place)| (self.problem.access(i), place);
        self.places.iter().enumerate().map(of)
    }
}

/// Calls whose arguments were checked.
#[derive(Clone, Debug)]
pub struct Checks<'a> {
    pub(super) items: Vec<Item<'a>>,
}

/// Applies the argument rules to all calls of a group.
///
/// # Errors
/// Why the host makes them.
pub fn check<'a>(group: &Group<'a>) -> Result<Checks<'a>, WhyHost> {
    if group.doubtful {
        return Err(WhyHost::BadArgument);
    }
    let (mut items, mut host) = (Vec::with_capacity(group.calls.len()), false);
    for (at, call) in group.calls.iter().enumerate() {
        match args::check(call) {
            Checked::Run(problem, places) => items.push(Item {
                at,
                call,
                problem,
                places,
                blocks: Vec::new(),
                known: [false; OPERANDS],
            }),
            Checked::Nothing => host |= !args::scaled(call).is_empty(),
            Checked::Bad => return Err(WhyHost::BadArgument),
            Checked::Host => host = true,
        }
    }
    if host || items.is_empty() {
        return Err(WhyHost::Empty);
    }
    Ok(Checks { items })
}

impl Checks<'_> {
    /// First and last bytes of all operands.
    pub fn ends(&self) -> impl Iterator<Item = usize> {
        let places = self.items.iter().flat_map(|i| &i.places);
        places.flat_map(|p| [p.start, p.end() - 1])
    }

    /// Whether a vector is multiplied by zero. Host libraries differ in whether zero times NaN is zero then, and programs clear
    /// memory that they never initialised this way.
    pub(super) fn clears(&self) -> bool {
        let clears = |p: &Problem| {
            matches!(p.routine, Routine::Scal | Routine::RealScal) && p.alpha.is_zero()
        };
        self.items.iter().any(|item| clears(&item.problem))
    }

    /// Whether an operand that is written shares bytes with another one.
    pub(super) fn conflict(&self) -> bool {
        match &self.items[..] {
            [one] => alias::conflicts(&one.problem, &one.places),
            items => alias::any_conflict(items.iter().flat_map(Item::operands)),
        }
    }

    /// Before the host runs the calls from the `from`th on: operands whose newest bytes are on a device come home in one piece
    /// each instead of panel by panel.
    pub fn bring_home(&self, cache: &Cache, from: usize) {
        if cache::any_guarded() {
            for item in self.items.iter().filter(|item| item.at >= from) {
                bring_home(cache, &item.problem, &item.places);
            }
        }
    }
}

/// As [`Checks::bring_home`], of one call that was not checked.
pub fn bring_home_of(cache: &Cache, call: &Call) {
    if !cache::any_guarded() {
        return;
    }
    if let Checked::Run(problem, places) = args::check(call) {
        bring_home(cache, &problem, &places);
    }
}

/// See [`Checks::bring_home`], of one call.
pub(super) fn bring_home(cache: &Cache, problem: &Problem, places: &[Rect]) {
    for (i, p) in places.iter().enumerate() {
        let Some(b) = host::find(p.start).filter(|b| p.end() <= b.start + b.len) else {
            continue;
        };
        let rect = p.counted_from(b.start);
        if cache.residency(b.id, &rect).stale > 0 {
            let written = problem.access(i) != Access::Read;
            cache.note_touch(b.id, rect.span().len(), written);
            // A failure shows again, with its consequences, when the host touches the bytes.
            let _ = cache.open(b.id, &rect, written);
        }
    }
}
