//! The counters of one thread, and what they count.

use core::sync::atomic::AtomicU64;

use semcache::base::counters::WhyHost;

use crate::symbols::COUNTED;

/// Why the shim sends calls to the host; their order is that of a slot's counters.
pub(crate) const REASONS: [WhyHost; 6] = [
    WhyHost::Small,
    WhyHost::Nested,
    WhyHost::Convention,
    WhyHost::Providers,
    WhyHost::BadArgument,
    WhyHost::Unsupported,
];

/// Where the counter of a reason is among those of a routine; that of [`WhyHost::Small`] for reasons of the runtime's.
pub(crate) const fn place(why: WhyHost) -> usize {
    let mut i = REASONS.len() - 1;
    while i > 0 && REASONS[i] as u8 != why as u8 {
        i -= 1;
    }
    i
}

/// The counters of a thread.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Slot(pub(super) [[AtomicU64; REASONS.len()]; COUNTED.len()]);

/// Where the counter of a routine's small calls is in a [`Slot`]; the stubs count there.
pub(crate) fn small_offset(counter: u8) -> u32 {
    u32::from(counter) * size_of::<[AtomicU64; REASONS.len()]>() as u32
        + (place(WhyHost::Small) * size_of::<AtomicU64>()) as u32
}
