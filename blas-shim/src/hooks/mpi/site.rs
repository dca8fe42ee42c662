//! Where the program calls MPI, for the report.

#![expect(unsafe_code, reason = "asks the unwinder for return addresses")]

use core::ffi::{c_int, c_void};
use core::hash::{Hash as _, Hasher as _};
use core::ops::Range;
use std::hash::DefaultHasher;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use semcache::base::counters::{Kind, PAGE, sites};
use semcache::host::loader;

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
    let label = match line {
        Some(line) => format!("{function} {line}"),
        None => function.to_owned(),
    };
    // Lines of a script are told apart by the text.
    let mut hasher = DefaultHasher::new();
    label.hash(&mut hasher);
    let key = sites::key([address, hasher.finish() as usize, 0]);
    PAGE.sites
        .find(key, Kind::Message, address, 0, &|| label.clone())
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

/// Address ranges of the objects whose frames are passed over: this library, and those of MPI, whose Fortran functions call those of C.
struct Passed {
    /// How many objects had been loaded and unloaded when they were listed.
    changes: (u64, u64),
    ranges: Vec<Range<usize>>,
}

/// No signal is blocked while this is locked: a handler of the program may not call MPI, and nothing else locks it.
static PASSED: Mutex<Passed> = Mutex::new(Passed {
    changes: (0, 0),
    ranges: Vec::new(),
});

impl Passed {
    /// Lists the objects, if others have been loaded or unloaded since.
    fn update(&mut self) {
        let changes = loader::changes();
        if self.changes == changes {
            return;
        }
        let here = caller as *const () as usize;
        let loaded = objects::loaded();
        let passed =
            |object: &&Object| object.contains(here) || object.file_name().starts_with(b"libmpi");
        let ranges = loaded.iter().filter(passed);
        self.ranges = ranges.map(|object| object.start..object.end()).collect();
        self.changes = changes;
    }
}

struct Search<'a> {
    passed: &'a [Range<usize>],
    found: Option<usize>,
}

/// The return address of the innermost frame on the stack that is not passed over.
fn caller() -> Option<usize> {
    let mut passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
    passed.update();
    let mut search = Search {
        passed: &passed.ranges,
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
    let search = unsafe { &mut *search.cast::<Search<'_>>() };
    // SAFETY: the unwinder's frame.
    let address = unsafe { _Unwind_GetIP(frame) };
    if search.passed.iter().any(|range| range.contains(&address)) {
        return NEXT;
    }
    search.found = Some(address);
    END
}
