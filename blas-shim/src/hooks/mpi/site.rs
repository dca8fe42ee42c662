//! Where the program calls MPI, for the report.

#![expect(unsafe_code, reason = "asks the unwinder for return addresses")]

use core::ffi::{c_int, c_void};
use std::time::Instant;

use semcache::base::counters::{Kind, PAGE, sites};

use crate::resolve::objects::{self, Object};
use crate::script;

/// Makes a buffer accessible for a function of MPI. Bytes that are copied meanwhile, and the time, are counted for the place in the
/// program that called the function.
pub(super) fn counted(function: &'static str, open: impl FnOnce()) {
    let begun = Instant::now();
    let index = of(function);
    let outer = sites::enter(index);
    open();
    sites::enter(outer);
    if let Some(site) = index.and_then(|index| PAGE.sites.get(index)) {
        site.buffers.add(1);
        let ns = u64::try_from(begun.elapsed().as_nanos());
        site.ns.add(ns.unwrap_or(u64::MAX));
    }
}

fn of(function: &'static str) -> Option<usize> {
    let address = caller()?;
    let line = script::label();
    // A script's lines are told apart by the text, which no other place in the code has.
    let label = match &line {
        Some(line) => format!("{function} {line}"),
        None => function.to_owned(),
    };
    let of_line = line.map_or(0, |line| line.bytes().fold(7, hashed));
    let key = sites::key([address, function.as_ptr() as usize, of_line]);
    PAGE.sites
        .find(key, Kind::Message, address, 0, &|| label.clone())
}

fn hashed(hash: usize, byte: u8) -> usize {
    hash.wrapping_mul(31).wrapping_add(usize::from(byte))
}

#[repr(C)]
struct Frame(c_void);

unsafe extern "C" {
    fn _Unwind_Backtrace(
        visit: unsafe extern "C" fn(*mut Frame, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut Frame) -> usize;
}

struct Search {
    objects: Vec<Object>,
    found: Option<usize>,
}

/// The return address of the innermost frame on the stack that is neither in this library nor in one of MPI, whose Fortran functions call
/// those of C.
fn caller() -> Option<usize> {
    let mut search = Search {
        objects: objects::loaded(),
        found: None,
    };
    // SAFETY: `visit` gets the search, which outlives the call, and does not unwind.
    unsafe { _Unwind_Backtrace(visit, (&raw mut search).cast()) };
    search.found
}

unsafe extern "C" fn visit(frame: *mut Frame, search: *mut c_void) -> c_int {
    /// `_URC_NO_REASON`, which goes on to the next frame, and `_URC_END_OF_STACK`.
    const NEXT: c_int = 0;
    const END: c_int = 5;
    // SAFETY: `caller` passes its search.
    let search = unsafe { &mut *search.cast::<Search>() };
    // SAFETY: the unwinder's frame.
    let address = unsafe { _Unwind_GetIP(frame) };
    let of = objects::of(&search.objects, address);
    if of.is_some_and(|object| object.contains(visit as *const () as usize) || is_of_mpi(object)) {
        return NEXT;
    }
    search.found = Some(address);
    END
}

fn is_of_mpi(object: &Object) -> bool {
    let path = object.path.to_bytes();
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    file.starts_with(b"libmpi")
}
