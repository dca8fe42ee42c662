//! Hooks of functions (AIO, io_uring, MPI) after which the kernel or another process reads and writes the program's
//! memory without a page fault. Before such a call all results are written back, and from then on results are written
//! back before each BLAS call returns ([`semcache::runtime::go_write_through`]).
//!
//! The libraries may be loaded privately (mpi4py's MPI is): then their functions do not follow this library in the
//! search order.

#![expect(
    unsafe_code,
    reason = "exports functions of libc and of other libraries"
)]

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::real::{real, set_errno};
use crate::core::{Degraded, go_write_through};
use crate::resolve::objects;
use semcache::process::signals_blocked::SignalsBlocked;

/// The function of a privately loaded library; called if none follows this library in the search order.
#[cold]
fn elsewhere(name: &CStr, cell: &AtomicPtr<c_void>) -> *mut c_void {
    let known = cell.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // `objects::loaded` takes the loader's lock, so signals are blocked, as in `Real::ask`.
    let _blocked = SignalsBlocked::new();
    let here = elsewhere as *const () as usize;
    let loaded = objects::loaded();
    let others = loaded.iter().filter(|object| !object.contains(here));
    let found = others
        .filter_map(|object| object.definition(name))
        .next()
        .map_or(core::ptr::null_mut(), |address| address as *mut c_void);
    cell.store(found, Ordering::Relaxed);
    found
}

/// The real function of a name, with arguments of word size.
macro_rules! theirs {
    ($name:ident($($word:ident),*)) => {{
        type Function = unsafe extern "C-unwind" fn($(theirs!(@ $word)),*) -> c_int;
        match real!($name: Function) {
            Some(function) => Some(function),
            None => {
                static FOUND: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
                const NAME: &[u8] = concat!(stringify!($name), "\0").as_bytes();
                let address = CStr::from_bytes_with_nul(NAME).map_or(core::ptr::null_mut(), |name| elsewhere(name, &FOUND));
                // SAFETY: the library's function of this name has this type; null is `None`.
                unsafe { core::mem::transmute::<*mut c_void, Option<Function>>(address) }
            }
        }
    }};
    (@ $word:ident) => { usize };
}

/// Hooks of functions with integer and pointer arguments that return an `int`: page protection ends for the process,
/// then the real function is called.
macro_rules! announce {
    ($why:expr, $missing:expr; $($name:ident($($word:ident),*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($word: usize),*) -> c_int {
            let Some(function) = theirs!($name($($word),*)) else {
                return $missing;
            };
            go_write_through($why);
            // SAFETY: the program's arguments, passed on.
            unsafe { function($($word),*) }
        }
    )*};
}

fn no_such() -> c_int {
    set_errno(libc::ENOSYS);
    -1
}

// glibc's own asynchronous I/O: its threads read and write by functions that are not hooked.
announce! { Degraded::AsyncIo, no_such();
    aio_read(request);
    aio_read64(request);
    aio_write(request);
    aio_write64(request);
    lio_listio(mode, list, count, event);
    lio_listio64(mode, list, count, event);
}

// libaio's and liburing's functions, which contain system call instructions of their own.
announce! { Degraded::AsyncIo, -libc::ENOSYS;
    io_setup(events, context);
    io_queue_init(events, context);
    io_uring_setup(entries, parameters);
    io_uring_queue_init(entries, ring, flags);
    io_uring_queue_init_params(entries, ring, parameters);
    io_uring_queue_init_mem(entries, ring, parameters, memory, size);
}

/// `MPI_ERR_OTHER`, which is returned if MPI's function cannot be found.
const OTHER: c_int = 15;

// Functions that connect to processes which were not in the job when MPI was initialised.
announce! { Degraded::Mpi, OTHER;
    MPI_Comm_spawn(command, argv, most, info, root, comm, inter, codes);
    PMPI_Comm_spawn(command, argv, most, info, root, comm, inter, codes);
    MPI_Comm_spawn_multiple(count, commands, argv, most, info, root, comm, inter, codes);
    PMPI_Comm_spawn_multiple(count, commands, argv, most, info, root, comm, inter, codes);
    MPI_Comm_accept(port, info, root, comm, new);
    PMPI_Comm_accept(port, info, root, comm, new);
    MPI_Comm_connect(port, info, root, comm, new);
    PMPI_Comm_connect(port, info, root, comm, new);
    MPI_Comm_join(fd, inter);
    PMPI_Comm_join(fd, inter);
    MPI_Session_init(info, handler, session);
    PMPI_Session_init(info, handler, session);
}

/// MPI's initialisation. Page protection ends for the process, unless its job has one rank only, which shares memory
/// with no other process. Fortran's functions call these.
macro_rules! begin {
    ($($name:ident($($word:ident),*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($word: usize),*) -> c_int {
            let Some(function) = theirs!($name($($word),*)) else {
                return OTHER;
            };
            // SAFETY: the program's arguments, passed on.
            let status = unsafe { function($($word),*) };
            if status == 0 && !alone(function as usize) {
                go_write_through(Degraded::Mpi);
            }
            status
        }
    )*};
}

begin! {
    MPI_Init(argc, argv);
    PMPI_Init(argc, argv);
    MPI_Init_thread(argc, argv, required, provided);
    PMPI_Init_thread(argc, argv, required, provided);
}

/// Whether the job is known to have one rank: Open MPI is asked; for other MPI libraries the answer is no.
fn alone(inside: usize) -> bool {
    type World = unsafe extern "C" fn(c_int) -> *const c_void;
    type Size = unsafe extern "C" fn(*const c_void, *mut c_int) -> c_int;
    // The look-ups below take the loader's lock, so signals are blocked, as in `Real::ask`; Open MPI answers without
    // waiting for a signal.
    let _blocked = SignalsBlocked::new();
    let loaded = objects::loaded();
    let Some(library) = objects::of(&loaded, inside) else {
        return false;
    };
    // The handle's variable itself may be a copy in the program, so the handle is looked up by a function.
    let (Some(_), Some(world), Some(size)) = (
        library.definition(c"ompi_mpi_comm_world"),
        library.definition(c"PMPI_Comm_f2c"),
        library.definition(c"PMPI_Comm_size"),
    ) else {
        return false;
    };
    // SAFETY: MPI's functions of these names, which Open MPI's library defines.
    let (world, size) = unsafe {
        (
            core::mem::transmute::<usize, World>(world),
            core::mem::transmute::<usize, Size>(size),
        )
    };
    let mut ranks = 0;
    // SAFETY: MPI is initialised; to Open MPI 0 is Fortran's handle of all ranks.
    let status = unsafe { size(world(0), &raw mut ranks) };
    status == 0 && ranks == 1
}
