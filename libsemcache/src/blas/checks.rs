//! Calls whose arguments were checked, once: a single one, or the products of a batch.
//!
//! All of a batch, or nothing, is the devices': one with an illegal argument, with an output that shares bytes with any
//! other operand of the batch, or with a product of nothing that scales its output, is the host's.

use super::alias;
use super::args::{self, Checked};
use super::call::Call;
use crate::base::counters::WhyHost;
use crate::base::{Rect, Routine};
use crate::cache::hot::OPERANDS;
use crate::cache::{self, Cache};
use crate::host::{self, Block};
use crate::plan::{Access, Problem};

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
    /// Whether the cache knew it when the call was decided upon.
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

/// Applies the argument rules to calls that are made together.
///
/// # Errors
/// Why they are the host's.
pub fn check(calls: &[Call]) -> Result<Checks<'_>, WhyHost> {
    let (mut items, mut host) = (Vec::with_capacity(calls.len()), false);
    for (at, call) in calls.iter().enumerate() {
        match args::check(call) {
            Checked::Run(problem, places) => {
                // Host libraries differ in whether zero times NaN is zero here, and programs clear memory that they never
                // initialised this way.
                host |= matches!(problem.routine, Routine::Scal | Routine::RealScal)
                    && problem.alpha.is_zero();
                items.push(Item {
                    at,
                    call,
                    problem,
                    places,
                    blocks: Vec::new(),
                    known: [false; OPERANDS],
                });
            }
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
