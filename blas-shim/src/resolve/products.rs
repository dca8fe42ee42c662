//! The MKL that computes products of sparse matrices: the one that the calling object would have been bound to, since the handles of
//! matrices are its own. `SEMCACHE_HOST_BLAS` names no other.

use core::ffi::c_void;
use core::ptr;

use super::{defined, leaked, objects, own};
use crate::products::PRODUCTS;
use crate::sites::{self, Barred, Binding, Returns, Sizes};
use crate::symbols::{COUNT, Width};

/// Binds a call site of one of [`PRODUCTS`]; `None` if no library has the function.
pub(crate) fn product(number: usize, site: usize) -> Option<&'static Binding> {
    let function = PRODUCTS.get(number)?;
    let objects = objects::loaded();
    let caller = objects::of(&objects, site);
    let (address, many) = defined(function.name, &objects, own(&objects), caller)?;
    let library = objects::of(&objects, address);
    let export = library.and_then(|library| {
        // The site keeps jumping into it.
        library.pin();
        library.definition(function.export).filter(|_| !many)
    });
    let binding = leaked(Binding {
        site,
        target: address as *const c_void,
        symbol: (COUNT + number) as u32,
        gemm: ptr::null(),
        export: export.map_or(ptr::null(), |export| export as *const c_void),
        width: Width::Bits32,
        returns: Returns::Registers,
        barred: Barred::No,
        sizes: Sizes::Unknown,
        counter_offset: 0,
        numbered: Binding::NO_NUMBER,
        inside: false,
    });
    sites::publish(binding);
    Some(binding)
}
