//! Functions after which memory is read and written without a fault, by the kernel later or by another process: before them
//! results go home, and from then on they do so at once ([`semcache::runtime::go_eager`]).
//!
//! The libraries may be loaded privately (mpi4py's): then their functions are not behind ours in the search order.

#![expect(
    unsafe_code,
    reason = "exports functions of libc and of other libraries"
)]

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::real::{real, set_errno};
use crate::core::{Degraded, go_eager};
use crate::resolve::objects;
use semcache::process::masked::Masked;

/// A function of a library's own; asked once it is not behind ours.
#[cold]
fn elsewhere(name: &CStr, cell: &AtomicPtr<c_void>) -> *mut c_void {
    let known = cell.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // The loader's lock is taken below, as in `Real::ask`.
    let _masked = Masked::new();
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

/// The real function of a name, of these many words.
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

/// Functions of integers and pointers that return an `int`.
macro_rules! announce {
    ($why:expr, $missing:expr; $($name:ident($($word:ident),*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($word: usize),*) -> c_int {
            let Some(function) = theirs!($name($($word),*)) else {
                return $missing;
            };
            go_eager($why);
            // SAFETY: the program's arguments, passed on.
            unsafe { function($($word),*) }
        }
    )*};
}

fn no_such() -> c_int {
    set_errno(libc::ENOSYS);
    -1
}

// glibc's own asynchronous I/O: its threads read and write with functions that are not hooked.
announce! { Degraded::AsyncIo, no_such();
    aio_read(request);
    aio_read64(request);
    aio_write(request);
    aio_write64(request);
    lio_listio(mode, list, count, event);
    lio_listio64(mode, list, count, event);
}

// libaio's and liburing's, which make system calls of their own.
announce! { Degraded::AsyncIo, -libc::ENOSYS;
    io_setup(events, context);
    io_queue_init(events, context);
    io_uring_setup(entries, parameters);
    io_uring_queue_init(entries, ring, flags);
    io_uring_queue_init_params(entries, ring, parameters);
    io_uring_queue_init_mem(entries, ring, parameters, memory, size);
}

/// `MPI_ERR_OTHER`.
const OTHER: c_int = 15;

// Processes that were not there when MPI began.
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

/// The beginning of MPI. A program alone in its job shares its memory with nobody. Fortran's functions call these.
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
                go_eager(Degraded::Mpi);
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

/// Whether the job is known to have one rank: Open MPI is asked, of others it is not known.
fn alone(inside: usize) -> bool {
    type World = unsafe extern "C" fn(c_int) -> *const c_void;
    type Size = unsafe extern "C" fn(*const c_void, *mut c_int) -> c_int;
    // The loader's lock is taken below, as in `Real::ask`; Open MPI's own answers need nobody's signals.
    let _masked = Masked::new();
    let loaded = objects::loaded();
    let Some(library) = objects::of(&loaded, inside) else {
        return false;
    };
    // The handle itself may be a copy, in the program.
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
