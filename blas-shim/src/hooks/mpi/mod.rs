//! The functions of MPI that are given memory, or that end its use: a hook for each, from `mpi.txt`.
//!
//! MPI reads and writes memory in ways that page protection does not notice: other processes copy it, network adapters read and write
//! it. So before a function that begins an operation, results in its buffers are written back, and of buffers that MPI writes what
//! devices hold is dropped; the pages stay accessible until the operation is complete, as those of a system call's buffers do. Memory of
//! windows, and buffers that are attached to MPI, stay accessible until they are freed.
//!
//! Fortran's functions, and those of C++, call the C functions of these names, with or without the prefix P. If the MPI library's ABI is
//! not known, page protection ends for the process when MPI is initialised.

#![expect(unsafe_code, reason = "exports functions of MPI")]

mod buffers;
mod datatype;
mod library;
mod memory;
mod operator;
mod pending;
mod row;
mod site;

use core::ffi::{CStr, c_char, c_int, c_void};

use super::bypass::theirs;
use super::real::with_errno_kept;
use crate::core::{Degraded, go_write_through, may_be_protected, wrote};
use crate::resolve::objects;
use crate::thread;
use buffers::{AllKept, Kept};
use library::Library;
use pending::Use;
use row::{Ends, Kind, Operand, Row, Shape, Who};
use semcache::process::signals_blocked::SignalsBlocked;
use semcache_fault::cancel;
use smallvec::{SmallVec, smallvec};

/// `MPI_ERR_OTHER`, which is returned if MPI's function cannot be found.
const OTHER: c_int = 15;

macro_rules! hook {
    ([$($name:ident),*], $words:tt, $row:expr) => {
        const _: () = {
            static ROW: Row = $row;
            $(hook!(@ $name, $words);)*
        };
    };
    (@ $name:ident, ($($word:ident),*)) => {
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($word: usize),*) -> c_int {
            let Some(function) = theirs!($name($($word),*)) else {
                return OTHER;
            };
            // SAFETY: the program's arguments, passed on.
            run(&ROW, &[$($word),*], &|| unsafe { function($($word),*) })
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/mpi.rs"));

/// The hook that a program gets which looks a function up in an MPI library by its handle, as Julia's does; none where the look-up finds
/// hooks anyway, or where the caller has a function of this name itself, which calls what it finds.
pub(super) fn in_place_of(
    handle: *mut c_void,
    name: &CStr,
    caller: usize,
    dlsym: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void,
) -> Option<*mut c_void> {
    if handle == libc::RTLD_NEXT || handle == libc::RTLD_DEFAULT {
        return None;
    }
    // SAFETY: the program's arguments.
    let found = unsafe { dlsym(handle, name.as_ptr()) };
    if found.is_null() {
        return None;
    }
    // The look-ups take the loader's lock, so signals are blocked, as in `Real::ask`.
    let _blocked = SignalsBlocked::new();
    let loaded = objects::loaded();
    let here = objects::of(&loaded, run as *const () as usize)?;
    let calls =
        objects::of(&loaded, caller).is_some_and(|object| object.definition(name).is_some());
    let hook = here
        .definition(name)
        .filter(|_| !calls && !here.contains(found as usize));
    hook.map(|hook| hook as *mut c_void)
}

/// Makes a call of MPI.
fn run(row: &Row, words: &[usize], call: &dyn Fn() -> c_int) -> c_int {
    if row.kind == Kind::Init {
        let status = call();
        if status == 0 && !quietly(library::find) {
            go_write_through(Degraded::Mpi);
        }
        return status;
    }
    let Some(library) = library::known() else {
        if row.kind == Kind::Connect {
            go_write_through(Degraded::Mpi);
        }
        return call();
    };
    if !may_be_protected() {
        return call();
    }
    let calling = Calling {
        library,
        row,
        words,
    };
    let here = 0_u8;
    let inside = &thread::state().mpi_sp;
    let outer = inside.replace(&raw const here as usize);
    let status = calling.run(call);
    inside.set(outer);
    status
}

/// Work of the hooks, which leaves `errno` as it is, and in which no thread is cancelled.
fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let cancellation = cancel::deferred();
    let done = with_errno_kept(work);
    cancellation.restore();
    done
}

/// Which requests are complete.
enum Found {
    All,
    None,
    Listed(SmallVec<[usize; 4]>),
    /// The function failed.
    Unsaid,
}

/// A call of a function of MPI.
struct Calling<'a> {
    library: &'static Library,
    row: &'a Row,
    words: &'a [usize],
}

impl Calling<'_> {
    /// Makes the call, with what its kind says before and after.
    fn run(&self, call: &dyn Fn() -> c_int) -> c_int {
        match self.row.kind {
            Kind::Call => self.until_return(call),
            Kind::Request => self.request(call),
            Kind::Persistent => self.persistent(call),
            Kind::Window => self.on_window(call),
            Kind::Begin => self.begin(call),
            Kind::End => self.ended(call, pending::take(Use::File(self.word(self.row.file)))),
            Kind::Start => self.start(call),
            Kind::Wait => self.wait(call),
            Kind::Release => self.release(call),
            Kind::Sync => self.synchronise(call),
            Kind::Memory => self.memory(call),
            Kind::Free => {
                let window = self.library.stored(self.word(self.row.window_at), 0);
                let kept = self.of_window(window);
                let all = |at| Use::Window(window, at);
                let memory = pending::take_range(all(0), all(usize::MAX));
                let status = self.ended(call, kept);
                drop(memory);
                status
            }
            Kind::Finalize => finalize(self.library, call),
            Kind::Init | Kind::Connect => call(),
        }
    }

    fn word(&self, at: Option<usize>) -> usize {
        at.and_then(|at| self.words.get(at)).copied().unwrap_or(0)
    }

    fn handle(&self, at: Option<usize>) -> usize {
        self.library.of_word(self.word(at))
    }

    /// The integer that an argument points to.
    fn stored_int(&self, at: Option<usize>, n: usize) -> c_int {
        // SAFETY: MPI has stored it there.
        unsafe { (self.word(at) as *const c_int).add(n).read_unaligned() }
    }

    /// Makes the buffers accessible, until `kept` is dropped, which is passed as it takes long to be moved.
    fn keep(&self, kept: &mut AllKept) {
        quietly(|| {
            for place in buffers::of(self.library, self.row, self.words) {
                place.keep(self.library, self.row.name, kept);
            }
        });
    }

    /// Ends the use of buffers.
    fn end(&self, kept: &mut AllKept) {
        if kept.is_empty() {
            return;
        }
        quietly(|| {
            if self.library.has_adapters {
                kept.iter().filter_map(Kept::written).for_each(wrote);
            }
            kept.clear();
        });
    }

    /// Calls a function that is the last one to use these buffers.
    fn ended(&self, call: &dyn Fn() -> c_int, mut kept: AllKept) -> c_int {
        let status = call();
        self.end(&mut kept);
        status
    }

    fn until_return(&self, call: &dyn Fn() -> c_int) -> c_int {
        let mut kept = AllKept::new();
        self.keep(&mut kept);
        let status = call();
        self.end(&mut kept);
        status
    }

    fn request(&self, call: &dyn Fn() -> c_int) -> c_int {
        self.free_completed();
        let mut kept = AllKept::new();
        self.keep(&mut kept);
        let status = call();
        if status == 0 {
            let request = self.library.stored(self.word(self.row.request), 0);
            quietly(|| pending::add(Use::Request(request), kept));
        }
        status
    }

    fn persistent(&self, call: &dyn Fn() -> c_int) -> c_int {
        // The program may free arrays of the arguments, and datatypes, after the call.
        let extents = quietly(|| {
            let places = buffers::of(self.library, self.row, self.words);
            places
                .filter_map(|place| place.extent(self.library))
                .collect()
        });
        let status = call();
        if status == 0 {
            let request = self.library.stored(self.word(self.row.request), 0);
            quietly(|| pending::add_persistent(request, extents));
        }
        status
    }

    fn on_window(&self, call: &dyn Fn() -> c_int) -> c_int {
        // `MPI_PROC_NULL`: nothing is done.
        if (self.word(self.row.rank) as c_int) < 0 {
            return call();
        }
        let mut kept = AllKept::new();
        self.keep(&mut kept);
        let status = call();
        let window = self.handle(self.row.window);
        let target = self.word(self.row.rank) as c_int;
        quietly(|| pending::add(Use::Target(window, target), kept));
        status
    }

    fn begin(&self, call: &dyn Fn() -> c_int) -> c_int {
        let mut kept = AllKept::new();
        self.keep(&mut kept);
        let status = call();
        if status == 0 {
            quietly(|| pending::add(Use::File(self.word(self.row.file)), kept));
        }
        status
    }

    /// The requests of the arguments.
    fn requests(&self) -> SmallVec<[usize; 4]> {
        let Row {
            request,
            handle,
            number,
            ..
        } = self.row;
        match (request, number) {
            (None, _) => smallvec![self.handle(*handle)],
            (Some(_), None) => smallvec![self.library.stored(self.word(*request), 0)],
            (Some(_), Some(_)) => {
                let count = usize::try_from(self.word(*number) as c_int).unwrap_or(0);
                let stored = |i| self.library.stored(self.word(*request), i);
                (0..count).map(stored).collect()
            }
        }
    }

    fn start(&self, call: &dyn Fn() -> c_int) -> c_int {
        for request in self.requests() {
            quietly(|| {
                let mut kept = AllKept::new();
                if let Some(extents) = pending::persistent(request) {
                    let name = self.row.name;
                    extents
                        .iter()
                        .for_each(|extent| extent.keep(name, &mut kept));
                }
                // What an earlier round has left, if its end was not seen.
                drop(pending::take(Use::Request(request)));
                pending::add(Use::Request(request), kept);
            });
        }
        call()
    }

    /// The buffers are taken before the call, since MPI may give the request to another thread's operation once it is complete.
    fn wait(&self, call: &dyn Fn() -> c_int) -> c_int {
        self.free_completed();
        if pending::is_empty() {
            return call();
        }
        let requests = self.requests();
        let taken = quietly(|| {
            let take = |request: &usize| pending::take(Use::Request(*request));
            requests
                .iter()
                .map(take)
                .collect::<SmallVec<[AllKept; 4]>>()
        });
        let status = call();
        let found = self.found(status);
        for (i, (request, mut kept)) in requests.into_iter().zip(taken).enumerate() {
            let complete = match &found {
                Found::All => true,
                Found::None => false,
                Found::Listed(listed) => listed.contains(&i),
                // MPI has freed those that are complete.
                Found::Unsaid => self.row.request.is_some_and(|at| {
                    let at = self.words.get(at).copied().unwrap_or(0);
                    self.library.stored(at, i) != request
                }),
            };
            match complete {
                true => self.end(&mut kept),
                false => quietly(|| pending::add(Use::Request(request), kept)),
            }
        }
        status
    }

    /// Which of its requests a function has found to be complete.
    fn found(&self, status: c_int) -> Found {
        let Row {
            flag,
            index,
            indices,
            ..
        } = *self.row;
        if status != 0 {
            return Found::Unsaid;
        }
        let index_of = |n: c_int| usize::try_from(n).ok();
        if let (Some(_), Some(_)) = (index, indices) {
            let count = index_of(self.stored_int(index, 0)).unwrap_or(0);
            let listed = (0..count).filter_map(|n| index_of(self.stored_int(indices, n)));
            return Found::Listed(listed.collect());
        }
        if flag.is_some() && self.stored_int(flag, 0) == 0 {
            return Found::None;
        }
        match index {
            Some(_) => Found::Listed(index_of(self.stored_int(index, 0)).into_iter().collect()),
            None => Found::All,
        }
    }

    /// A request that is freed while its operation is under way is freed later, so that the end of the operation is seen.
    fn release(&self, call: &dyn Fn() -> c_int) -> c_int {
        let at = self.word(self.row.request);
        let request = self.library.stored(at, 0);
        let persistent = quietly(|| pending::forget_persistent(request));
        let mut kept = quietly(|| pending::take(Use::Request(request)));
        if kept.is_empty() {
            return call();
        }
        match self.library.is_complete(request, !persistent) {
            // A persistent request is still to be freed.
            Some(true) if persistent => self.ended(call, kept),
            Some(true) => {
                self.library.store_no_request(at);
                self.end(&mut kept);
                0
            }
            Some(false) => {
                quietly(|| {
                    pending::add(Use::Request(request), kept);
                    pending::add_freed(request);
                });
                self.library.store_no_request(at);
                0
            }
            None => self.ended(call, kept),
        }
    }

    /// Frees requests that the program has freed, as far as their operations are complete.
    fn free_completed(&self) {
        for request in pending::take_freed() {
            if self.library.is_complete(request, true) == Some(false) {
                quietly(|| pending::add_freed(request));
            } else {
                let mut kept = quietly(|| pending::take(Use::Request(request)));
                self.end(&mut kept);
            }
        }
    }

    /// The buffers of operations on a window.
    fn of_window(&self, window: usize) -> AllKept {
        let of = |target| Use::Target(window, target);
        quietly(|| pending::take_range(of(c_int::MIN), of(c_int::MAX)))
    }

    fn synchronise(&self, call: &dyn Fn() -> c_int) -> c_int {
        let window = self.handle(self.row.window);
        let kept = match self.row.rank {
            Some(_) => {
                let target = self.word(self.row.rank) as c_int;
                quietly(|| pending::take(Use::Target(window, target)))
            }
            None => self.of_window(window),
        };
        self.ended(call, kept)
    }
}

impl Library {
    /// Whether the operation of a request is complete; none if MPI does not say. If it is, MPI has freed the request, unless it is
    /// persistent; `last`: so is a persistent one.
    fn is_complete(&self, request: usize, last: bool) -> Option<bool> {
        let (mut request, mut flag) = (request, 0);
        // SAFETY: a request that is not freed; MPICH stores 32 bits.
        let status = unsafe {
            (self.functions.test)(&raw mut request, &raw mut flag, self.constants().no_status)
        };
        if status != 0 {
            return None;
        }
        if flag != 0 && last && !self.is_no_request(request) {
            // SAFETY: an inactive persistent request.
            unsafe { (self.functions.free_request)(&raw mut request) };
        }
        Some(flag != 0)
    }
}

/// Ends MPI. What the program has not freed is no longer in use then.
fn finalize(library: &'static Library, call: &dyn Fn() -> c_int) -> c_int {
    for mut request in pending::take_freed() {
        // SAFETY: a request that the program has freed, and the library has not.
        unsafe { (library.functions.free_request)(&raw mut request) };
    }
    let status = call();
    if status == 0 {
        drop(quietly(|| {
            pending::take_range(Use::Request(0), Use::Attached(usize::MAX))
        }));
    }
    status
}
