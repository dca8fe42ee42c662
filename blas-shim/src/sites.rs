//! Call sites: which host function a return address is bound to.
//!
//! Two levels. `SITES` has a few slots per symbol, indexed by the low bits of the return address, which the
//! stubs probe in assembly; `TABLE` holds every binding ever made, so that sites that collide in a slot cost
//! a hash probe and not a new search. A binding is immutable and never freed: a reader that found one may
//! use it at any later time, so no lock and no hazard is needed.

#![expect(
    unsafe_code,
    reason = "bindings are published as raw pointers that the stubs follow in assembly"
)]

use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::symbols::{COUNT, Width};

/// How a function result comes back from the host's function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Returns {
    /// In registers, or there is none.
    Registers,
    /// Through a hidden first pointer argument.
    Hidden,
}

/// Why a call from this site is never offloaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Barred {
    /// It is not barred.
    No,
    /// The way the provider returns values, or the width of its integers, could not be established.
    NoConvention,
    /// Several libraries export the name and nothing says which one the caller means.
    ManyProviders,
    /// What the name is bound to is not a BLAS but a function of the program that happens to be called so.
    Foreign,
}

/// Whether a stub may judge a call by its sizes alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Sizes {
    /// It may; they are 32-bit integers.
    Narrow = 0,
    /// It may; they are 64-bit integers.
    Wide = 1,
    /// Calls from this site must be looked at more closely.
    Unknown = 2,
}

/// What one call site of one symbol is bound to.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Binding {
    /// Return address of the call. The stubs read this field and the next.
    pub(crate) site: usize,
    /// The host's function; never null for symbols that are not offloaded.
    pub(crate) target: *const c_void,
    /// The symbol, by index.
    pub(crate) symbol: u32,
    /// The host's gemm under the same spelling, for routines that a BLAS may lack (`?` in symbols.txt), of which some are
    /// computed by it then; null for others, and if there is none.
    pub(crate) gemm: *const c_void,
    /// Width of the integers.
    pub(crate) width: Width,
    /// How results come back.
    pub(crate) returns: Returns,
    /// Whether and why not to offload.
    pub(crate) barred: Barred,
    /// Whether the stub may judge by sizes.
    pub(crate) sizes: Sizes,
    /// Distance of the counter of small calls from the start of a thread's counters.
    pub(crate) counter_offset: u32,
    /// The caller is a BLAS that exports this very symbol: the call may be the inside of another one.
    pub(crate) inside: bool,
}

// SAFETY: a binding is immutable once published and its pointer is code.
unsafe impl Sync for Binding {}
// The stubs' assembly has these numbers in it.
const _: () = assert!(
    offset_of!(Binding, site) == 0
        && offset_of!(Binding, target) == 8
        && offset_of!(Binding, symbol) == 16
);

/// Slots per symbol; the stubs mask return addresses with `WAYS - 1` and scale symbols by 64 bytes.
const WAYS: usize = 8;
const _: () = assert!(WAYS * size_of::<AtomicPtr<Binding>>() == 64);

#[expect(
    clippy::declare_interior_mutable_const,
    reason = "the initial value of array elements"
)]
const EMPTY: AtomicPtr<Binding> = AtomicPtr::new(ptr::null_mut());

/// First level, read by the stubs.
pub(crate) static SITES: [[AtomicPtr<Binding>; WAYS]; COUNT] = [const { [EMPTY; WAYS] }; COUNT];

/// Slots of the second level. When it is full, further sites are searched for at every call.
const TABLE_SIZE: usize = 1 << 14;
static TABLE: [AtomicPtr<Binding>; TABLE_SIZE] = [EMPTY; TABLE_SIZE];

/// The binding in the first level, if it is this site's.
#[inline]
pub(crate) fn cached(symbol: usize, site: usize) -> Option<&'static Binding> {
    let slot = SITES.get(symbol)?[site % WAYS].load(Ordering::Acquire);
    // SAFETY: slots hold null or bindings, which are published with release order and never freed.
    unsafe { slot.as_ref() }.filter(|binding| binding.site == site)
}

/// Whether there is anything in the tables.
static ANY: AtomicBool = AtomicBool::new(false);

fn start(symbol: usize, site: usize) -> usize {
    let mixed = (site as u64 ^ ((symbol as u64) << 48)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 50) as usize % TABLE_SIZE
}

/// The binding in the second level; promotes it to the first.
pub(crate) fn known(symbol: usize, site: usize) -> Option<&'static Binding> {
    let first = start(symbol, site);
    for step in 0..TABLE_SIZE {
        let slot = TABLE[(first + step) % TABLE_SIZE].load(Ordering::Acquire);
        // SAFETY: as in `cached`.
        let binding = unsafe { slot.as_ref() }?;
        if binding.site == site && binding.symbol as usize == symbol {
            SITES[symbol][site % WAYS].store(slot, Ordering::Release);
            return Some(binding);
        }
    }
    None
}

/// Publishes a binding in both levels. If two threads publish the same site, either copy serves: they were
/// made from the same facts.
pub(crate) fn publish(binding: &'static Binding) {
    let raw = ptr::from_ref(binding).cast_mut();
    let (symbol, site) = (binding.symbol as usize, binding.site);
    ANY.store(true, Ordering::Relaxed);
    let first = start(symbol, site);
    for step in 0..TABLE_SIZE {
        let slot = &TABLE[(first + step) % TABLE_SIZE];
        if slot
            .compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            break;
        }
    }
    SITES[symbol][site % WAYS].store(raw, Ordering::Release);
}

/// Forgets every site: after an object was unloaded, other code may come to lie at its addresses. Readers
/// that hold a binding may go on using it.
pub(crate) fn forget() {
    if !ANY.swap(false, Ordering::Relaxed) {
        return;
    }
    for slot in TABLE.iter().chain(SITES.iter().flatten()) {
        slot.store(ptr::null_mut(), Ordering::Release);
    }
}
