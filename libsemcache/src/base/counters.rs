//! Counters: what the runtime counts during a run, from which the report is made.

mod calls;
mod devices;
mod matrices;
mod objects;
mod page;
mod passed;
mod reasons;
pub mod sites;
mod table;
mod text;
mod times;

pub use super::routine::MAX_ROUTINES;
pub use calls::{CallTable, Calls};
pub use devices::OnDevice;
pub use matrices::{Matrix, MatrixTable};
pub use objects::ObjectTable;
pub use page::{COUNTERS, Identity, PAGE, Page, degrade, host, moved, offloaded, on_device};
pub use passed::{OWNED, PASSED, Passed};
pub use reasons::{Degraded, DegradedSet, LeftOut, WhyHost};
pub use sites::{Kind, NUMBERED, Site, SiteTable};
pub use table::{Counter, Counters, KEYS, Key, Values};
pub use text::Text;
pub use times::{Quick, RoutineTimes, SPARSE, SmallTimes, TimeTable};

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
