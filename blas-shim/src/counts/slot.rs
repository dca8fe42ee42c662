//! The counters of one thread, and what they count.

use core::sync::atomic::AtomicU64;

use crate::symbols::COUNTED;

/// Why a call went to the host; the names of `why_host` in the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// Below the fixed floor of work, and nothing it touches is on a device.
    Small = 0,
    /// A host BLAS called back.
    Nested = 1,
    /// Width of integers or return of values unknown.
    NoConvention = 2,
    /// Several libraries could be meant.
    ManyProviders = 3,
    /// Not a valid call: the host reports it.
    BadArgument = 4,
    /// No routine of the devices computes it: a complex call by rows that would have to conjugate an operand, for one.
    Unsupported = 5,
}

/// The reasons, with their names.
pub(crate) const REASONS: [(Reason, &str); 6] = [
    (Reason::Small, "small"),
    (Reason::Nested, "nested"),
    (Reason::NoConvention, "convention"),
    (Reason::ManyProviders, "providers"),
    (Reason::BadArgument, "bad_argument"),
    (Reason::Unsupported, "unsupported"),
];

/// The counters of a thread.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Slot(pub(super) [[AtomicU64; REASONS.len()]; COUNTED.len()]);

/// Where the counter of a routine's small calls is in a [`Slot`]; the stubs count there.
pub(crate) fn small_offset(counter: u8) -> u32 {
    u32::from(counter) * size_of::<[AtomicU64; REASONS.len()]>() as u32
        + Reason::Small as u32 * size_of::<AtomicU64>() as u32
}
