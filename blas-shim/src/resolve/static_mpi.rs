//! An MPI library that is linked into the program statically. The program calls its functions without the dynamic linker, so that no hook
//! sees the calls.

#![expect(unsafe_code, reason = "reads the program's segments")]

use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

use semcache::host::loader;
use semcache::runtime::{init, ranks};

use super::objects::Object;
use crate::core::{Degraded, go_write_through};

/// What is in the constants of a program that MPI is linked into: every MPI library names its functions in texts about errors.
const NAME: &[u8] = b"MPI_Init";

/// Ends page protection if an MPI launcher has started the process, no MPI library is loaded, and the program has the text
/// [`NAME`]. To be called before the process's first call of the BLAS goes on, with the objects that are loaded; later calls do nothing.
pub(super) fn look(objects: &[Object]) {
    static LOOKED: AtomicBool = AtomicBool::new(false);
    if LOOKED.load(Ordering::Relaxed) || LOOKED.swap(true, Ordering::Relaxed) {
        return;
    }
    if !ranks::has_launcher(&init::environment) {
        return;
    }
    let here = look as *const () as usize;
    let has_mpi = |object: &Object| {
        !object.contains(here)
            && [c"MPI_Init", c"PMPI_Init"]
                .iter()
                .any(|name| object.definition(name).is_some())
    };
    if !objects.iter().any(has_mpi) && constants().into_iter().any(has_name) {
        go_write_through(Degraded::Mpi);
    }
}

/// The segments of the program that it cannot write.
fn constants() -> Vec<Range<usize>> {
    let mut found = Vec::<Range<usize>>::new();
    // SAFETY: `visit` gets the vector and does not call the dynamic linker.
    unsafe { loader::objects(visit, (&raw mut found).cast()) };
    found
}

/// The first object is the program.
unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid record, and `constants` its vector.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Range<usize>>>()) };
    for index in 0..usize::from(info.dlpi_phnum) {
        // SAFETY: `dlpi_phnum` says how many program headers there are.
        let header = unsafe { &*info.dlpi_phdr.add(index) };
        let is_constant = header.p_flags & (libc::PF_R | libc::PF_W) == libc::PF_R;
        if header.p_type == libc::PT_LOAD && is_constant {
            let start = (info.dlpi_addr + header.p_vaddr) as usize;
            found.push(start..start + header.p_filesz as usize);
        }
    }
    1
}

fn has_name(bytes: Range<usize>) -> bool {
    // SAFETY: a segment of the program, which stays mapped and readable.
    let found = unsafe {
        libc::memmem(
            bytes.start as *const c_void,
            bytes.len(),
            NAME.as_ptr().cast(),
            NAME.len(),
        )
    };
    !found.is_null()
}
