//! The counters of one thread: calls that the shim passes to the host BLAS, by routine and reason.

use core::sync::atomic::AtomicU64;

use semcache::base::counters::WhyHost;

use crate::symbols::COUNTED;

/// The reasons for which the shim passes calls to the host BLAS, in the order of the counters in a slot.
pub(crate) const REASONS: [WhyHost; 6] = [
    WhyHost::Small,
    WhyHost::Nested,
    WhyHost::Convention,
    WhyHost::Providers,
    WhyHost::BadArgument,
    WhyHost::Unsupported,
];

/// The position of a reason's counter among the counters of a routine; that of [`WhyHost::Small`] for a reason that
/// only the runtime gives.
pub(crate) const fn place(why: WhyHost) -> usize {
    let mut i = REASONS.len() - 1;
    while i > 0 && REASONS[i] as u8 != why as u8 {
        i -= 1;
    }
    i
}

/// The counters of one thread.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Slot(pub(super) [[AtomicU64; REASONS.len()]; COUNTED.len()]);

/// The offset of the counter of a routine's small calls in a [`Slot`]; the stubs add to this counter in assembly.
pub(crate) fn small_offset(counter: u8) -> u32 {
    u32::from(counter) * size_of::<[AtomicU64; REASONS.len()]>() as u32
        + (place(WhyHost::Small) * size_of::<AtomicU64>()) as u32
}
