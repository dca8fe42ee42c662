//! Where in the program an access faulted, for the report: the instruction, and where its function returns to.

use std::time::Instant;

use semcache_fault::probe::{Probe, look};

use crate::base::counters::{Kind, Matrix, PAGE, Site, sites};
use crate::protect::service::Fault;

/// A fault that is being served, on the service thread: bytes are counted for its site.
#[derive(Debug)]
pub(super) struct AtSite {
    index: Option<usize>,
    begun: Instant,
}

impl AtSite {
    /// The fault is being served. The thread that made the access waits, so its stack does not change.
    pub(super) fn enter(fault: &Fault) -> AtSite {
        let code = fault.code;
        // `memcpy` and its kin have nothing on the stack above the address to which they return.
        let caller = match look(code.stack & !(size_of::<usize>() - 1)) {
            Probe::Word(word) if PAGE.objects.is_of_c(code.at) => word as usize,
            _ => 0,
        };
        let kind = if fault.write { Kind::Store } else { Kind::Load };
        let key = sites::key([code.at, caller, usize::from(fault.write)]);
        let index = PAGE.sites.find(key, kind, code.at, caller, &String::new);
        sites::enter(index);
        AtSite {
            index,
            begun: Instant::now(),
        }
    }

    /// The fault on a byte of a block has been served; for `kernels` nanoseconds of that the thread waited for kernels, which the program
    /// would have had to wait for without the fault, too.
    pub(super) fn served(self, block: usize, write: bool, kernels: u64) {
        sites::enter(None);
        let ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if let Some(site) = self.index.and_then(|index| PAGE.sites.get(index)) {
            site.faults.add(1);
            site.ns.add(ns);
        }
        if let Some(matrix) = PAGE.matrices.known(block) {
            let (faults, last) = match write {
                true => (&matrix.stores, &matrix.store_site),
                false => (&matrix.loads, &matrix.load_site),
            };
            faults.add(1);
            last.set(self.index.map_or(0, |index| index as u64 + 1));
            matrix.ns.add(ns.saturating_sub(kernels));
        }
    }
}

/// The fault that is being served is on a byte of a block that no device holds.
pub(super) fn shared(block: usize) {
    let site = sites::current().and_then(|index| PAGE.sites.get(index));
    let site = site.map(|site: &Site| &site.false_sharing);
    let matrix = PAGE.matrices.known(block);
    let matrix = matrix.map(|matrix: &Matrix| &matrix.false_sharing);
    site.into_iter().chain(matrix).for_each(|n| n.add(1));
}
