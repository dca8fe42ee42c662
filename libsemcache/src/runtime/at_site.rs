//! A call at its call site: for which site bytes are copied, and what becomes of the call.

use crate::base::counters::{PAGE, WhyHost, sites};

/// A call of the calling thread. If a handler of the program leaves the call by a jump, bytes are counted for this site until the
/// thread's next call.
#[derive(Debug)]
#[must_use = "counts the call when told where it ran"]
pub(super) struct AtSite(Option<usize>);

impl AtSite {
    /// The call begins.
    pub(super) fn enter(site: Option<usize>) -> AtSite {
        sites::enter(site);
        AtSite(site)
    }

    /// The call ran on devices, or for a reason on the host.
    pub(super) fn ran(self, on_host: Option<WhyHost>) {
        sites::enter(None);
        if let Some(site) = self.0.and_then(|index| PAGE.sites.get(index)) {
            match on_host {
                None => site.offloaded.add(1),
                Some(why) => site.host(why),
            }
        }
    }
}
