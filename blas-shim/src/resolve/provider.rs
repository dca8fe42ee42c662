//! The calling conventions of the libraries that provide a BLAS, each found out once.

#![expect(unsafe_code, reason = "publishes leaked records")]

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use semcache::base::{Dtype, Routine};

use super::objects::{self, Object};
use super::probe::{self, Convention};
use super::threads::Threads;
use crate::sites::{Barred, Binding, Returns};
use crate::symbols::{Class, Spelling, Symbol, Width};

/// A definition of a symbol, found in a library.
pub(super) struct Found {
    pub(super) address: usize,
    /// The spelling under which the library defines it: the symbol's own, or another one in a library that this module
    /// opened.
    pub(super) spelling: Spelling,
    /// Several libraries define the name, and the caller may mean any of them.
    pub(super) many: bool,
}

/// Whether the conventions of a library may be found out by calling its functions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Probes {
    All,
    /// Only what is known already counts.
    Known,
}

/// Fills in the calling conventions of the library that was found; `None` if they are known only by a probe which is not allowed.
pub(super) fn describe(
    binding: &mut Binding,
    symbol: &Symbol,
    found: &Found,
    objects: &[Object],
    probes: Probes,
) -> Option<()> {
    let Some(library) = objects::of(objects, found.address) else {
        binding.barred = Barred::NoConvention;
        return Some(());
    };
    let provider = Provider::of(library, found.spelling);
    if symbol.class == Class::Jump {
        return Some(());
    }
    if matches!(symbol.spelling, Spelling::Plain | Spelling::Plain64) {
        // A name without an underscore, such as `saxpy`, is also one that programs give to functions of their own.
        let fortran = symbol.spelling.fortran();
        if found.spelling == symbol.spelling
            && probe::find(library, symbol.routine(), fortran).is_none()
        {
            binding.barred = Barred::Foreign;
            return Some(());
        }
    }
    if found.many {
        binding.barred = Barred::ManyProviders;
        return Some(());
    }
    let known = |cell: &AtomicU8| probes == Probes::All || cell.load(Ordering::Relaxed) != 0;
    if symbol.spelling.width().is_none() && !known(&provider.width) {
        return None;
    }
    match symbol.spelling.width().or_else(|| provider.width(library)) {
        Some(width) => binding.width = width,
        None => binding.barred = Barred::NoConvention,
    }
    if symbol.spelling.is_cblas() {
        return Some(());
    }
    let copies = matches!(
        symbol.class,
        Class::Call(Routine::Omatcopy | Routine::Imatcopy)
    );
    if copies && omits_order(library) {
        binding.barred = Barred::NoConvention;
        return Some(());
    }
    let convention = match (symbol.class, symbol.dtype) {
        (Class::Call(Routine::Dot | Routine::Dotc), Dtype::C | Dtype::Z) => {
            known(&provider.complex).then(|| provider.complex(library))?
        }
        (Class::Call(Routine::Dot | Routine::Nrm2 | Routine::Asum), Dtype::S | Dtype::C) => {
            known(&provider.single).then(|| provider.single(library))?
        }
        _ => Convention::Registers,
    };
    match convention {
        Convention::Registers => {}
        Convention::Hidden => binding.returns = Returns::Hidden,
        Convention::Unknown => binding.barred = Barred::NoConvention,
    }
    Some(())
}

/// As [`describe`], for a solver of LAPACK that devices compute.
pub(super) fn describe_solver(
    binding: &mut Binding,
    symbol: &Symbol,
    found: &Found,
    objects: &[Object],
    probes: Probes,
) -> Option<()> {
    let spelling = symbol.spelling.fortran();
    let of_lapack = |library: &&Object| {
        // Without an underscore it may be a function of the program's own.
        found.spelling == spelling || probe::find(library, symbol.routine(), spelling).is_some()
    };
    let Some(library) = objects::of(objects, found.address).filter(of_lapack) else {
        binding.barred = Barred::Foreign;
        return Some(());
    };
    if found.many {
        binding.barred = Barred::ManyProviders;
        return Some(());
    }
    let width = match symbol.spelling.width() {
        None if probes == Probes::Known => return None,
        None => probe::lapack_width(library, symbol.dtype, spelling),
        known => known,
    };
    match width {
        Some(width) => binding.width = width,
        None => binding.barred = Barred::NoConvention,
    }
    Some(())
}

/// Whether the Fortran omatcopy and imatcopy of a library begin with the argument TRANS, as those of AMD's BLIS do. In
/// all other libraries they begin with ORDER.
fn omits_order(library: &Object) -> bool {
    let has = |name| library.definition(name).is_some();
    has(c"bli_info_get_version_str") && !has(c"openblas_get_config")
}

/// The calling conventions of a library, for one spelling of its names.
pub(super) struct Provider {
    start: usize,
    spelling: Spelling,
    width: AtomicU8,
    complex: AtomicU8,
    single: AtomicU8,
    /// The number of threads it computes with, where that may be lowered and no other record has it.
    threads: Option<Threads>,
    next: *const Provider,
}

/// All libraries whose conventions were asked for, the newest first; never freed.
static PROVIDERS: AtomicPtr<Provider> = AtomicPtr::new(ptr::null_mut());

impl Provider {
    /// The record of a library, if calls use it already, whatever the spelling.
    pub(super) fn known(library: &Object, spelling: Spelling) -> Option<&'static Provider> {
        let all = || Provider::all().filter(|provider| provider.start == library.start);
        all()
            .find(|provider| provider.spelling == spelling)
            .or_else(|| all().next())
    }

    /// All records, the newest first.
    pub(super) fn all() -> impl Iterator<Item = &'static Provider> {
        let mut at = PROVIDERS.load(Ordering::Acquire).cast_const();
        core::iter::from_fn(move || {
            // SAFETY: the list holds leaked records only, published with release order.
            let provider = unsafe { at.as_ref() }?;
            at = provider.next;
            Some(provider)
        })
    }

    /// The record of a library, which is kept loaded for good: its address identifies it, and call sites keep jumping
    /// into it.
    pub(super) fn of(library: &Object, spelling: Spelling) -> &'static Provider {
        let mut head = PROVIDERS.load(Ordering::Acquire);
        let known = Provider::known(library, spelling);
        if let Some(known) = known.filter(|known| known.spelling == spelling) {
            return known;
        }
        // The width is that of the library, whatever the spelling.
        let width = known.map_or(0, |known| known.width.load(Ordering::Relaxed));
        library.pin();
        let others = || Provider::all().filter_map(Provider::threads);
        let threads = Threads::of(library).filter(|own| others().all(|other| !other.is(own)));
        let provider = Box::leak(Box::new(Provider {
            start: library.start,
            spelling,
            width: AtomicU8::new(width),
            complex: AtomicU8::new(0),
            single: AtomicU8::new(0),
            threads,
            next: head,
        }));
        loop {
            match PROVIDERS.compare_exchange(head, provider, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return provider,
                Err(now) => {
                    head = now;
                    provider.next = now;
                    let own = provider.threads.take();
                    provider.threads = own.filter(|own| others().all(|other| !other.is(own)));
                }
            }
        }
    }

    pub(super) fn threads(&self) -> Option<&Threads> {
        self.threads.as_ref()
    }

    pub(super) fn width(&self, library: &Object) -> Option<Width> {
        let code = once(&self.width, || match probe::width(library) {
            Some(Width::Bits32) => 1,
            Some(Width::Bits64) => 2,
            None => 3,
        });
        match code {
            1 => Some(Width::Bits32),
            2 => Some(Width::Bits64),
            _ => None,
        }
    }

    fn complex(&self, library: &Object) -> Convention {
        convention(&self.complex, || probe::complex(library, self.spelling))
    }

    fn single(&self, library: &Object) -> Convention {
        convention(&self.single, || probe::single(library, self.spelling))
    }
}

/// A value that is found out at the first use; threads that find it out at the same time all find the same value.
fn once(cell: &AtomicU8, find: impl FnOnce() -> u8) -> u8 {
    match cell.load(Ordering::Relaxed) {
        0 => {
            let value = find();
            cell.store(value, Ordering::Relaxed);
            value
        }
        value => value,
    }
}

fn convention(cell: &AtomicU8, probe: impl FnOnce() -> Convention) -> Convention {
    let code = once(cell, || match probe() {
        Convention::Registers => 1,
        Convention::Hidden => 2,
        Convention::Unknown => 3,
    });
    match code {
        1 => Convention::Registers,
        2 => Convention::Hidden,
        _ => Convention::Unknown,
    }
}
