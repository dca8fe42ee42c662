//! Copies of bytes of the program by the calling thread that give up where a load or a store faults.
#![expect(unsafe_code, reason = "loads and stores bytes of the program")]

use core::ffi::c_void;

use semcache_fault::probe::attempt;

#[repr(C)]
struct Copying {
    from: usize,
    to: usize,
    len: usize,
}

/// # Safety
/// `data` is a `Copying`.
unsafe extern "C" fn copy(data: *const c_void) {
    // SAFETY: by the caller's promise `data` is a `Copying`.
    let Copying { from, to, len } = unsafe { data.cast::<Copying>().read() };
    let from = core::ptr::with_exposed_provenance::<u8>(from);
    let to = core::ptr::with_exposed_provenance_mut::<u8>(to);
    // SAFETY: the promise of [`copied`]'s caller. If a load or a store faults, `attempt` ends the copy.
    unsafe { core::ptr::copy_nonoverlapping(from, to, len) };
}

/// Copies bytes; false if a load or a store faulted, or a fault would not be noticed: some bytes may have been copied then.
///
/// # Safety
/// The bytes at `from` may be read and those at `to` may be written, or the access faults; they do not overlap. Signals are blocked.
/// Other threads of the program may access the program's bytes meanwhile: the caller takes any mixture of old and new ones.
#[must_use]
pub unsafe fn copied(from: usize, to: usize, len: usize) -> bool {
    let work = Copying { from, to, len };
    // SAFETY: `copy` only copies bytes, and `work` is a local of this function; signals are blocked.
    let done = unsafe { attempt(copy, (&raw const work).cast()) };
    done == Some(true)
}
