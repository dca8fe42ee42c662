//! Hooks of `fork`, of the registration of fork handlers, and of `_Fork` and of `clone` without shared memory, which
//! make children without calling fork handlers. A child that shares its parent's memory needs nothing: its faults are
//! served as a thread's are.

#![expect(
    unsafe_code,
    reason = "exports libc functions; starts the program's function"
)]

use core::arch::naked_asm;
use core::ffi::{c_int, c_long, c_void};

use super::caller::is_driver;
use super::real::{errno, real, set_errno};
use semcache::process::driver_scope::in_driver_scope;
use semcache::process::loads;
use semcache::runtime;

/// The function that `pthread_atfork` calls, in the library that it was linked into. The runtime's handlers are
/// registered before the first one that comes here.
#[unsafe(no_mangle)]
unsafe extern "C" fn __register_atfork(
    prepare: Option<Handler>,
    parent: Option<Handler>,
    child: Option<Handler>,
    object: *mut c_void,
) -> c_int {
    type Register = unsafe extern "C" fn(
        Option<Handler>,
        Option<Handler>,
        Option<Handler>,
        *mut c_void,
    ) -> c_int;
    runtime::fork::watch();
    let Some(real) = real!(__register_atfork: Register) else {
        return libc::ENOMEM;
    };
    // SAFETY: the caller's handlers.
    unsafe { real(prepare, parent, child, object) }
}

/// `pthread_atfork` of objects that are not linked with libc's static part of it.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_atfork(
    prepare: Option<Handler>,
    parent: Option<Handler>,
    child: Option<Handler>,
) -> c_int {
    // SAFETY: the caller's handlers, which stay.
    unsafe { __register_atfork(prepare, parent, child, core::ptr::null_mut()) }
}

/// Registers an exit handler. A driver's libraries register exit handlers when they first need them. The runtime's exit
/// handler must run before all of these, so it is registered again after each of them.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn __cxa_atexit(
    function: Option<Ending>,
    argument: *mut c_void,
    object: *mut c_void,
) -> c_int {
    naked_asm!("mov rcx, [rsp]", "jmp {register}", register = sym at_exit)
}

unsafe extern "C" fn at_exit(
    function: Option<Ending>,
    argument: *mut c_void,
    object: *mut c_void,
    caller: usize,
) -> c_int {
    type Register = unsafe extern "C" fn(Option<Ending>, *mut c_void, *mut c_void) -> c_int;
    let Some(real) = real!(__cxa_atexit: Register) else {
        return -1;
    };
    // SAFETY: the caller keeps this function's contract.
    let registered = unsafe { real(function, argument, object) };
    // Where no device is in use, as in the child of a fork, the list of objects is not read.
    if let Some(ours) = runtime::exit::handler()
        && (in_driver_scope() || is_driver(caller))
    {
        // SAFETY: a function of this library, which is never unloaded. If the registration fails, the result that the
        // caller gets does not change.
        unsafe { real(Some(ours), core::ptr::null_mut(), core::ptr::null_mut()) };
    }
    registered
}

/// An exit handler.
type Ending = unsafe extern "C" fn(*mut c_void);

/// Before the first fork handler of the program runs, which may take locks: waits until no thread of the runtime's is
/// loading a library, since such a thread could want one of these locks.
#[unsafe(no_mangle)]
unsafe extern "C" fn fork() -> libc::pid_t {
    let Some(real) = real!(fork: unsafe extern "C" fn() -> libc::pid_t) else {
        set_errno(libc::ENOSYS);
        return -1;
    };
    loads::stand_still();
    // SAFETY: no arguments.
    let made = unsafe { real() };
    let error = errno();
    if made == 0 {
        loads::alone();
    } else {
        loads::go_on();
    }
    set_errno(error);
    made
}

/// A fork handler.
type Handler = unsafe extern "C" fn();

/// Makes a child ([`runtime::fork::around`]); afterwards `errno` is the value that `make` left.
fn around(make: impl FnOnce() -> i64) -> i64 {
    let mut error = errno();
    let made = runtime::fork::around(|| {
        let made = make();
        error = errno();
        made
    });
    set_errno(error);
    made
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _Fork() -> libc::pid_t {
    let Some(real) = real!(_Fork: unsafe extern "C" fn() -> libc::pid_t) else {
        set_errno(libc::ENOSYS);
        return -1;
    };
    // SAFETY: no arguments.
    let made = around(|| i64::from(unsafe { real() }));
    made as libc::pid_t
}

/// The function that a child of `clone` runs.
type Begin = unsafe extern "C" fn(*mut c_void) -> c_int;

/// The child's function and argument, which the child reads from its copy of the parent's stack.
struct Start {
    begin: Begin,
    arg: *mut c_void,
}

unsafe extern "C" fn start(at: *mut c_void) -> c_int {
    // SAFETY: `at` points to what `clone` passed, in the child's copy of that frame; no code of this process returns
    // from the frame.
    let Start { begin, arg } = unsafe { at.cast::<Start>().read() };
    runtime::fork::begun();
    // SAFETY: the program's function and argument.
    unsafe { begin(arg) }
}

/// Variadic in C: the last three arguments are passed only with some flags. Their registers and stack slots can be read
/// anyway.
#[unsafe(no_mangle)]
unsafe extern "C" fn clone(
    begin: Option<Begin>,
    stack: *mut c_void,
    flags: c_int,
    arg: *mut c_void,
    parent_tid: *mut c_void,
    tls: *mut c_void,
    child_tid: *mut c_void,
) -> c_int {
    type Clone = unsafe extern "C" fn(
        Option<Begin>,
        *mut c_void,
        c_int,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        *mut c_void,
    ) -> c_int;
    let Some(real) = real!(clone: Clone) else {
        set_errno(libc::ENOSYS);
        return -1;
    };
    let Some(function) = begin.filter(|_| flags & libc::CLONE_VM == 0 && !stack.is_null()) else {
        // SAFETY: the program's arguments, passed on.
        return unsafe { real(begin, stack, flags, arg, parent_tid, tls, child_tid) };
    };
    let mut own = Start {
        begin: function,
        arg,
    };
    let made = around(|| {
        let own = (&raw mut own).cast();
        // SAFETY: the program's arguments but for the function, which finds its own where `own` is copied to.
        i64::from(unsafe { real(Some(start), stack, flags, own, parent_tid, tls, child_tid) })
    });
    made as c_int
}

/// `syscall` with one of the numbers that make a child: `call` makes the system call. A child with a stack of its own
/// would return through a frame that is not on its stack, so such a call is passed on without preparation, and so is a
/// call whose child shares the memory.
pub(super) fn by_number(
    number: c_long,
    words: [usize; 6],
    call: impl FnOnce() -> c_long,
) -> c_long {
    let (flags, stack) = match number {
        libc::SYS_fork => (0, 0),
        libc::SYS_clone => (words[0] as u64, words[1]),
        libc::SYS_clone3 if words[1] >= size_of::<Clone3>() => {
            // SAFETY: the kernel is about to read them; a bad address faults here instead.
            let args =
                unsafe { core::ptr::with_exposed_provenance::<Clone3>(words[0]).read_unaligned() };
            (args.flags, args.stack as usize)
        }
        _ => return call(),
    };
    if flags & libc::CLONE_VM as u64 != 0 || stack != 0 {
        return call();
    }
    around(call)
}

/// The first version of the kernel's `struct clone_args`.
#[repr(C)]
struct Clone3 {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}
