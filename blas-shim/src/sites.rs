//! Call sites: a table from return addresses to the functions of the host BLAS that they are bound to.
//!
//! The table has two levels. `SITES` has a few slots per symbol, indexed by the low bits of the return address, which
//! the stubs probe in assembly. `TABLE` holds every binding ever made, so that a call site whose slot another site has
//! taken costs a hash probe and no new search for the library. It also has a binding for each symbol that an object imports, which
//! all its sites get. A binding is immutable and never freed: a thread that
//! has read a binding may use it at any later time, so readers need no lock and no hazard pointer.

#![expect(
    unsafe_code,
    reason = "bindings are published as raw pointers that the stubs follow in assembly"
)]

use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use semcache::base::counters::{NUMBERED, PAGE};
use semcache::host::loader;

use crate::counts::small_offset;
use crate::products;
use crate::symbols::{self, Class, SYMBOLS, Width};

/// How the host BLAS's function returns its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Returns {
    /// In registers, or the routine has no result.
    Registers,
    /// Through a hidden first pointer argument.
    Hidden,
}

/// The reason why calls from this site are never offloaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Barred {
    /// It is not barred.
    No,
    /// The convention by which the library returns values, or the width of its integers, could not be established.
    NoConvention,
    /// Several libraries export the name, and no relocation says which library the caller means.
    ManyProviders,
    /// The name is bound not to a BLAS but to a function of the program with the same name.
    Foreign,
}

/// Whether a stub may find a call small by its sizes alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Sizes {
    /// The stub may; the sizes are 32-bit integers.
    Narrow = 0,
    /// The stub may; the sizes are 64-bit integers.
    Wide = 1,
    /// Calls from this site go to [`enter`](crate::entry::enter), which decodes more of them.
    Unknown = 2,
}

/// What one call site of one symbol is bound to.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Binding {
    /// Return address of the call. The stubs read this field and `target`.
    pub(crate) site: usize,
    /// The host BLAS's function; never null for symbols that are not offloaded.
    pub(crate) target: *const c_void,
    /// The symbol, by index.
    pub(crate) symbol: u32,
    /// The host BLAS's gemm under the same spelling, for routines that a BLAS may lack (`?` in symbols.txt); if the
    /// routine is missing, gemm computes some of these. Null for other routines, and if there is no gemm.
    pub(crate) gemm: *const c_void,
    /// Of a product of a sparse matrix, the function of the same library that says where the matrix lies. Null if there is none, or if
    /// it is not certain which library the caller means, and for all other symbols.
    pub(crate) export: *const c_void,
    /// Width of the integers.
    pub(crate) width: Width,
    /// How the function returns its result.
    pub(crate) returns: Returns,
    /// Whether calls from this site may be offloaded, and if not, why.
    pub(crate) barred: Barred,
    /// Whether the stub may find calls small by their sizes.
    pub(crate) sizes: Sizes,
    /// Offset in the thread's counters of the counter to which the stubs add a small call: that of the call site's number, or of the
    /// routine if it has none.
    pub(crate) counter_offset: u32,
    /// The number of the call site in the counters ([`Binding::number`]).
    pub(crate) numbered: u32,
    /// The caller is a BLAS that exports this very symbol: the call may be made from within another BLAS call.
    pub(crate) inside: bool,
}

impl Binding {
    /// The number of a call site that has none: all its calls are counted by routine alone.
    pub(crate) const NO_NUMBER: u32 = u32::MAX;

    /// The number under which calls from this site are counted.
    pub(crate) fn number(&self) -> Option<usize> {
        (self.numbered != Binding::NO_NUMBER).then_some(self.numbered as usize)
    }

    /// Gives the call site the next number, if one is left and its calls are counted.
    pub(crate) fn numbered(mut self) -> Binding {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let Some(symbol) = SYMBOLS.get(self.symbol as usize) else {
            return self;
        };
        if symbol.class == Class::Jump {
            return self;
        }
        let next = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
            (n < NUMBERED).then_some(n + 1)
        });
        if let Ok(number) = next {
            self.numbered = number as u32;
            self.counter_offset = small_offset(symbol, Some(number));
        }
        self
    }

    /// Tells the counters what the call site is.
    fn tell(&self) {
        if let (Some(number), Some(symbol)) = (self.number(), SYMBOLS.get(self.symbol as usize)) {
            PAGE.sites.tell(number, symbol.index(), self.site);
        }
    }
}

/// Tells the counters what all call sites are: in a process that begins to count.
pub(crate) fn tell_all() {
    for slot in &TABLE {
        // SAFETY: as in `cached`.
        if let Some(binding) = unsafe { slot.load(Ordering::Acquire).as_ref() } {
            binding.tell();
        }
    }
}

// SAFETY: a binding is immutable once published and its pointers are code.
unsafe impl Sync for Binding {}
// The stubs' assembly contains these offsets.
const _: () = assert!(
    offset_of!(Binding, site) == 0
        && offset_of!(Binding, target) == 8
        && offset_of!(Binding, symbol) == 16
);

/// Numbers of symbols: of those of the BLAS, then of products of sparse matrices.
const COUNT: usize = symbols::COUNT + products::COUNT;

/// Slots per symbol in the first level; the stubs mask return addresses with `WAYS - 1` and scale symbol indices by 64
/// bytes.
const WAYS: usize = 8;
const _: () = assert!(WAYS * size_of::<AtomicPtr<Binding>>() == 64);

#[expect(
    clippy::declare_interior_mutable_const,
    reason = "the initial value of array elements"
)]
const EMPTY: AtomicPtr<Binding> = AtomicPtr::new(ptr::null_mut());

/// The first level, which the stubs read.
pub(crate) static SITES: [[AtomicPtr<Binding>; WAYS]; COUNT] = [const { [EMPTY; WAYS] }; COUNT];

/// Slots of the second level. When all are taken, the host BLAS for a further site is searched at every call.
const TABLE_SIZE: usize = 1 << 14;
static TABLE: [AtomicPtr<Binding>; TABLE_SIZE] = [EMPTY; TABLE_SIZE];

/// The site's binding in the first level, if the slot holds it.
#[inline]
pub(crate) fn cached(symbol: usize, site: usize) -> Option<&'static Binding> {
    let slot = SITES.get(symbol)?[site % WAYS].load(Ordering::Acquire);
    // SAFETY: slots hold null or bindings, which are published with release order and never freed.
    unsafe { slot.as_ref() }.filter(|binding| binding.site == site)
}

/// How many bindings the second level holds.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// How many objects had been unloaded when the tables were empty last.
static UNLOADED: AtomicU64 = AtomicU64::new(0);

/// Whether the second level has room for bindings that may never be used.
pub(crate) fn has_room() -> bool {
    KEPT.load(Ordering::Relaxed) < TABLE_SIZE / 4
}

fn start(symbol: usize, site: usize) -> usize {
    let mixed = (site as u64 ^ ((symbol as u64) << 48)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 50) as usize % TABLE_SIZE
}

/// The site's binding in the second level, which is also stored in the first level.
pub(crate) fn known(symbol: usize, site: usize) -> Option<&'static Binding> {
    let binding = found(symbol, site)?;
    let raw = ptr::from_ref(binding).cast_mut();
    SITES[symbol][site % WAYS].store(raw, Ordering::Release);
    Some(binding)
}

/// The binding of all sites of an object that imports the symbol, by the object's address, which is no return address.
pub(crate) fn of_object(symbol: usize, object: usize) -> Option<&'static Binding> {
    found(symbol, object)
}

fn found(symbol: usize, site: usize) -> Option<&'static Binding> {
    let first = start(symbol, site);
    for step in 0..TABLE_SIZE {
        let slot = TABLE[(first + step) % TABLE_SIZE].load(Ordering::Acquire);
        // SAFETY: as in `cached`.
        let binding = unsafe { slot.as_ref() }?;
        if binding.site == site && binding.symbol as usize == symbol {
            return Some(binding);
        }
    }
    None
}

/// Publishes a binding in both levels. If two threads publish bindings for the same site, either binding is right: both
/// were made from the same facts.
pub(crate) fn publish(binding: &'static Binding) {
    binding.tell();
    keep(binding);
    let raw = ptr::from_ref(binding).cast_mut();
    SITES[binding.symbol as usize][binding.site % WAYS].store(raw, Ordering::Release);
}

/// Publishes the binding of all sites of an object, whose address it has as its site.
pub(crate) fn publish_object(binding: &'static Binding) {
    keep(binding);
}

/// Stores a binding in the second level.
fn keep(binding: &'static Binding) {
    let raw = ptr::from_ref(binding).cast_mut();
    if KEPT.fetch_add(1, Ordering::Relaxed) == 0 {
        UNLOADED.store(loader::changes().1, Ordering::Release);
    }
    let first = start(binding.symbol as usize, binding.site);
    for step in 0..TABLE_SIZE {
        let slot = &TABLE[(first + step) % TABLE_SIZE];
        if slot
            .compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            // Counted once more, in case the tables were cleared meanwhile.
            KEPT.fetch_add(1, Ordering::Relaxed);
            break;
        }
    }
}

/// Clears both levels if an object was unloaded since they were cleared last: other code may be loaded at the addresses of call sites. To
/// be called after each `dlclose`. A thread that has read a binding may go on using it.
pub(crate) fn forget_unloaded() {
    if KEPT.load(Ordering::Relaxed) == 0 {
        return;
    }
    let (_, unloaded) = loader::changes();
    if UNLOADED.load(Ordering::Acquire) == unloaded {
        return;
    }
    KEPT.store(0, Ordering::Relaxed);
    for slot in TABLE.iter().chain(SITES.iter().flatten()) {
        slot.store(ptr::null_mut(), Ordering::Release);
    }
    // Only now: another thread that closes a library would not clear them.
    UNLOADED.store(unloaded, Ordering::Release);
}
