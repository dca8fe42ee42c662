//! The argument check of a group of calls: a single call, or the products of a batch.
//!
//! Devices run all calls of a group or none. The host BLAS runs a batch that has an illegal argument, an output that
//! shares bytes with any other operand of the batch, or a product without a sum (k or alpha zero) that scales its
//! output.

use smallvec::SmallVec;

use super::alias;
use super::args::{self, Checked};
use super::batch::Batch;
use super::call::Call;
use super::call_key;
use super::mapped::{Inputs, Sends};
use crate::base::counters::WhyHost;
use crate::base::{Dtype, Rect, Routine};
use crate::cache::hot::OPERANDS;
use crate::cache::{self, Cache};
use crate::host::{self, Block};
use crate::plan::{Access, Problem};

/// A single call, or the products of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// The routine that the program called.
    pub routine: Routine,
    /// Element type.
    pub dtype: Dtype,
    /// The calls, in order.
    pub calls: &'a [Call],
    /// The key of the call, or of the batch ([`call_key`]).
    pub key: u64,
    /// An argument of the batch itself is of doubtful legality: the libraries that export the routine disagree on its
    /// meaning.
    pub doubtful: bool,
}

impl<'a> Group<'a> {
    /// The group of a single call; `key` is the call's key.
    #[must_use]
    pub fn single(call: &'a Call, key: u64) -> Group<'a> {
        Group {
            routine: call.routine,
            dtype: call.dtype,
            calls: core::slice::from_ref(call),
            key,
            doubtful: false,
        }
    }

    /// The group of a batch's products.
    #[must_use]
    pub fn batch(batch: &'a Batch) -> Group<'a> {
        Group {
            routine: Routine::GemmBatch,
            dtype: batch.dtype,
            calls: &batch.calls,
            key: call_key::of_batch(&batch.calls),
            doubtful: batch.doubtful,
        }
    }

    /// Whether the group is a batch, of any number of products.
    #[must_use]
    pub fn is_batch(&self) -> bool {
        self.routine == Routine::GemmBatch
    }
}

/// A call of a group that has something to compute.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// The index of the call in its group.
    pub(super) at: usize,
    pub(super) call: Call,
    /// The key of the call ([`call_key::of`]).
    pub(super) key: u64,
    pub(super) problem: Box<Problem>,
    /// The bytes of each operand, as a rectangle whose offsets are addresses.
    pub(super) places: Vec<Rect>,
    /// The block of each operand; `None` for memory whose lifetime the runtime does not know. Empty until `run` has
    /// looked the blocks up.
    pub(super) blocks: Vec<Option<Block>>,
    /// Whether the cache had an entry for the block of each operand when the call's decision was made.
    pub(super) known: [bool; OPERANDS],
    /// Whether this is the devices' part of a call of which the host computes another part.
    pub(super) divided: bool,
}

impl Item {
    /// The access to each operand, and its bytes.
    fn operands(&self) -> impl Iterator<Item = (Access, &Rect)> {
        let of = |(i, place)| (self.problem.access(i), place);
        self.places.iter().enumerate().map(of)
    }
}

/// The calls of a group, after their arguments were checked.
#[derive(Clone, Debug)]
pub struct Checks {
    pub(super) items: Vec<Item>,
}

/// Applies the argument rules to all calls of a group.
///
/// # Errors
/// The reason why the host BLAS must run the group.
pub fn check(group: &Group<'_>) -> Result<Checks, WhyHost> {
    if group.doubtful {
        return Err(WhyHost::BadArgument);
    }
    let (mut items, mut host) = (Vec::with_capacity(group.calls.len()), false);
    for (at, call) in group.calls.iter().enumerate() {
        match args::check(call) {
            Checked::Run(problem, places) => items.push(Item {
                at,
                call: *call,
                key: if group.is_batch() {
                    call_key::of(call)
                } else {
                    group.key
                },
                problem,
                places,
                blocks: Vec::new(),
                known: [false; OPERANDS],
                divided: false,
            }),
            Checked::NoProduct => host |= !args::scaled(call).is_empty(),
            Checked::Bad => return Err(WhyHost::BadArgument),
            Checked::Host => host = true,
        }
    }
    if host || items.is_empty() {
        return Err(WhyHost::Empty);
    }
    Ok(Checks { items })
}

impl Checks {
    /// The addresses of the first and the last byte of each operand.
    pub fn ends(&self) -> impl Iterator<Item = usize> {
        let places = self.items.iter().flat_map(|i| &i.places);
        places.flat_map(|p| [p.start, p.end() - 1])
    }

    /// Copies those inputs of a single call to a buffer that `sends` names. The caller holds no lock, and has
    /// blocked signals.
    #[must_use]
    pub fn copy_inputs(&self, cache: &Cache, sends: Sends) -> Option<Inputs> {
        let [item] = self.items.as_slice() else {
            return None;
        };
        let places = item.places.iter().enumerate();
        let sent = places.filter(|(i, _)| sends.has(*i));
        let places: SmallVec<[Rect; 3]> = sent.map(|(_, place)| *place).collect();
        Inputs::copy(cache, &places, sends)
    }

    /// Whether a call multiplies a vector by zero. Host libraries differ in whether zero times NaN is zero or NaN, and
    /// programs use this call to clear memory that they never initialised.
    pub(super) fn clears(&self) -> bool {
        let clears = |p: &Problem| {
            matches!(p.routine, Routine::Scal | Routine::RealScal) && p.alpha.is_zero()
        };
        self.items.iter().any(|item| clears(&item.problem))
    }

    /// Whether an operand that a call writes shares bytes with another operand of the group.
    pub(super) fn conflict(&self) -> bool {
        match &self.items[..] {
            [one] => alias::conflicts(&one.problem, &one.places),
            items => alias::any_conflict(items.iter().flat_map(Item::operands)),
        }
    }

    /// Writes back operands whose newest bytes are on a device, each as a whole instead of panel by panel as the host
    /// BLAS faults on them. Called before the host BLAS runs the calls from index `from` on.
    pub fn write_back(&self, cache: &Cache, from: usize) {
        if cache::any_guarded() {
            for item in self.items.iter().filter(|item| item.at >= from) {
                write_back(cache, &item.problem, &item.places);
            }
        }
    }
}

/// As [`Checks::write_back`], for one call whose arguments were not checked.
pub fn write_back_of(cache: &Cache, call: &Call) {
    if !cache::any_guarded() {
        return;
    }
    if let Checked::Run(problem, places) = args::check(call) {
        write_back(cache, &problem, &places);
    }
}

/// As [`Checks::write_back`], for one checked call.
pub(super) fn write_back(cache: &Cache, problem: &Problem, places: &[Rect]) {
    for (i, p) in places.iter().enumerate() {
        let Some(b) = host::find(p.start).filter(|b| p.end() <= b.start + b.len) else {
            continue;
        };
        let rect = p.counted_from(b.start);
        if cache.residency(b.id, &rect).stale > 0 {
            let written = problem.access(i) != Access::Read;
            cache.note_touch(b.id, rect.span().len(), written);
            // A failed copy is reported again, and handled, when the host BLAS faults on these bytes.
            let _ = cache.open(b.id, &rect, written);
        }
    }
}
