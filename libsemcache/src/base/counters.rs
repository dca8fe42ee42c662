//! Counters: what the runtime counts during a run, from which the report is made.

mod calls;
pub mod devices;
mod reasons;
mod table;

pub use calls::{Calls, MAX_ROUTINES, calls, host, offloaded};
pub use reasons::{Degraded, LeftOut, WhyHost, degrade, degraded};
pub use table::{COUNTERS, Counter, KEYS, Key, Values};

/// Sets all counters to zero: a forked child reports its own calls only. Only stores to memory, so safe in the child.
pub fn reset() {
    calls::reset();
    devices::reset();
    reasons::forget_degraded();
    COUNTERS.reset();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_names_are_unique() {
        for list in [
            WhyHost::ALL.iter().map(|w| w.name()).collect::<Vec<_>>(),
            Degraded::ALL.iter().map(|w| w.name()).collect(),
        ] {
            for (i, n) in list.iter().enumerate() {
                assert!(!list[..i].contains(n));
            }
        }
        for (i, key) in KEYS.iter().enumerate() {
            let twin = |k: &Key| (k.group, k.name) == (key.group, key.name);
            assert!(!key.doc.trim().is_empty() && !KEYS[..i].iter().any(twin));
        }
    }
}
