//! The other functions of the host BLAS to which a call site is bound: a call of one routine is cut into kernels of several.

#![expect(unsafe_code, reason = "publishes leaked records")]

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use semcache::base::{Dtype, Routine};
use semcache::process::signals_blocked::SignalsBlocked;

use super::provider::{Found, Probes, describe};
use super::{in_library, objects};
use crate::counts;
use crate::sites::{Barred, Binding, Returns, Sizes};
use crate::symbols::{SYMBOLS, Symbol, Width};

/// What was found, or that there is nothing to be found, for a routine and a function of a library.
struct Known {
    /// The function that a call site is bound to.
    from: *const c_void,
    routine: Routine,
    dtype: Dtype,
    found: Option<Binding>,
    next: *const Known,
}

/// All records, the newest first; never freed.
static ALL: AtomicPtr<Known> = AtomicPtr::new(ptr::null_mut());

/// The Fortran function for a routine in the library that `site` is bound to, or in a library that this one needs; `None`
/// if there is none, or if its conventions are not known. The libraries stay loaded for good, as those of all bindings do,
/// so an answer holds for good, too.
pub(crate) fn beside(site: &Binding, routine: Routine, dtype: Dtype) -> Option<&'static Binding> {
    let from = [site.target, site.gemm]
        .into_iter()
        .find(|f| !f.is_null())?;
    let mut head = ALL.load(Ordering::Acquire);
    let mut at = head.cast_const();
    // SAFETY: the list holds leaked records only, published with release order.
    while let Some(known) = unsafe { at.as_ref() } {
        if (known.from, known.routine, known.dtype) == (from, routine, dtype) {
            return known.found.as_ref();
        }
        at = known.next;
    }
    // As for `bind`: the search takes the loader's lock.
    let _blocked = SignalsBlocked::new();
    let known = Box::leak(Box::new(Known {
        from,
        routine,
        dtype,
        found: search(site, from, routine.name(dtype)),
        next: head,
    }));
    // If two threads add a record for the same routine, either one is right.
    while let Err(now) = ALL.compare_exchange(head, known, Ordering::AcqRel, Ordering::Acquire) {
        head = now;
        known.next = now;
    }
    known.found.as_ref()
}

fn search(site: &Binding, from: *const c_void, name: &str) -> Option<Binding> {
    let spelling = SYMBOLS.get(site.symbol as usize)?.spelling.fortran();
    let mut named = SYMBOLS.iter();
    let symbol = named.find(|s| s.routine() == name && s.spelling == spelling)?;
    let objects = objects::loaded();
    let own = objects::of(&objects, beside as *const () as usize).map(|own| own.start);
    let handle = objects::of(&objects, from as usize)?.open()?;
    let is_ours =
        |f: &Found| objects::of(&objects, f.address).is_some_and(|o| Some(o.start) == own);
    let look = |via: &'static Symbol| {
        let found = in_library(via, handle.raw()).filter(|found| !is_ours(found))?;
        Some((via, found))
    };
    let mut names = [Some(symbol), symbol.twin()].into_iter().flatten();
    let (via, found) = names.find_map(look)?;
    let mut binding = Binding {
        site: site.site,
        target: found.address as *const c_void,
        symbol: SYMBOLS.iter().position(|s| ptr::eq(s, via))? as u32,
        gemm: ptr::null(),
        export: ptr::null(),
        width: via.spelling.width().unwrap_or(Width::Bits32),
        returns: Returns::Registers,
        barred: Barred::No,
        sizes: Sizes::Unknown,
        counter_offset: counts::small_offset(via, None),
        numbered: Binding::NO_NUMBER,
        inside: false,
    };
    describe(&mut binding, via, &found, &objects, Probes::All)?;
    (binding.barred == Barred::No).then_some(binding)
}
