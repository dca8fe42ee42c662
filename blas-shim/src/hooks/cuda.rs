//! Hooks of the CUDA driver's functions, which notice that the program itself uses CUDA.
//!
//! The program's CUDA copies and kernels access host memory without page faults that the fault handler could serve. The
//! driver copies by the CPU with the driver's locks held: a fault there would wait for a device of the runtime's, and
//! so for those locks. Copy engines ignore page protection, and kernels access memory that the program registered, at
//! any time. So no page may be inaccessible while the program has a CUDA context. Only few functions make a context or
//! make one current. Here each of them is a gate: it ends page protection for the process ([`go_write_through`]) and jumps to
//! the driver's function, with all arguments unchanged.
//!
//! A program reaches the driver's functions in three ways. Names that it is linked with are found in this library,
//! which comes first in load order. `dlsym` is hooked, and returns a gate instead of such a function.
//! `cuGetProcAddress`, by which the CUDA runtime finds all of its functions, is hooked too, in whichever way the
//! program found it. `cuGetExportTable` is treated as a gate: it returns tables of functions without names. The driver,
//! cuBLAS, cuSPARSE and this library itself get the driver's functions without gates: calls of their own are made for the
//! runtime, and the program's calls into the driver, cuBLAS or cuSPARSE have passed a gate before.

#![expect(
    unsafe_code,
    reason = "wraps functions of the dynamic linker and of the driver; gates are assembly"
)]

use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use rustix::mm::MprotectFlags;
use semcache::process::signals_blocked::SignalsBlocked;
use semcache_fault::broken;
use semcache_fault::handler::block_async_signals;

use super::caller::{Caller, DRIVER, REAL_DLVSYM, is_driver, neutral, who};
use super::descriptors;
use super::mpi;
use crate::core::{Degraded, go_write_through};
use crate::library;
use crate::resolve::objects;

/// A function has a gate if its name begins with one of these, followed by nothing or a version suffix.
const GATED: [&[u8]; 10] = [
    b"cuCtxAttach",
    b"cuCtxCreate",
    b"cuCtxPushCurrent",
    b"cuCtxSetCurrent",
    b"cuDevicePrimaryCtxRetain",
    b"cuGLCtxCreate",
    b"cuGetExportTable",
    b"cuGreenCtxCreate",
    b"cuVDPAUCtxCreate",
    b"cublasXtCreate",
];

/// Whether a name, with or without a version suffix, is that of a function with a gate.
fn gated(name: &[u8]) -> bool {
    GATED.iter().any(|base| {
        name.strip_prefix(*base)
            .is_some_and(|version| matches!(version.first(), None | Some(b'_')))
    })
}

// The gates --------------------------------------------------------------------------------------------------------

/// The driver's functions behind the gates: first those of the exported gates, looked up at their first call, then
/// those that the program looked up by name.
static BEHIND: [AtomicPtr<c_void>; GATES] = [const { AtomicPtr::new(ptr::null_mut()) }; GATES];
const GATES: usize = LINKED.len() + 24;

/// Ends page protection at the first call that the program makes, and returns the function to which the gate jumps. `first` is the call's
/// first argument: a program may make the context current in which it got the address of a matrix (`semcache_read_gpu`).
extern "C" fn pass(gate: usize, caller: usize, first: usize) -> *mut c_void {
    // Only the first such call needs this: programs switch contexts often.
    static GIVEN_UP: AtomicBool = AtomicBool::new(false);
    let ours = || library::is_context(first) || neutral(caller);
    if !GIVEN_UP.load(Ordering::Acquire) && !broken!("break-cuda") && !ours() {
        go_write_through(Degraded::OtherCuda);
        GIVEN_UP.store(true, Ordering::Release);
    }
    let known = BEHIND[gate].load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    // Only the functions behind exported gates can be unknown here.
    let found = LINKED.get(gate).and_then(|(name, _)| driver(name));
    let found = found.unwrap_or(missing as *mut c_void);
    BEHIND[gate].store(found, Ordering::Release);
    found
}

/// Called in place of a driver's function that does not exist: a program that only asks whether the name exists finds
/// this one.
extern "C" fn missing() -> c_int {
    // CUDA_ERROR_NO_DEVICE
    100
}

/// A gate: calls `pass` with all argument registers saved, then jumps to the function that `pass` returns.
macro_rules! gate {
    ($(#[$attribute:meta])* $name:ident, $index:expr) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 56",
                "mov edi, {index}",
                "mov rsi, [rsp + 56]",
                "mov rdx, [rsp + 48]",
                "call {pass}",
                "mov r11, rax",
                "add rsp, 8",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                ".cfi_adjust_cfa_offset -56",
                "jmp r11",
                ".cfi_endproc",
                index = const $index,
                pass = sym pass,
            )
        }
    };
}

macro_rules! linked {
    ($($index:literal $name:ident,)*) => {
        /// The exported gates.
        static LINKED: [(&CStr, extern "C" fn()); [$($index,)*].len()] = [$((
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name has no zero byte"),
            },
            $name,
        ),)*];
        $(gate!(#[unsafe(no_mangle)] #[allow(non_snake_case, reason = "a C function")] $name, $index);)*
    };
}

linked! {
    0 cuCtxCreate_v2,
    1 cuCtxCreate_v3,
    2 cuCtxCreate_v4,
    3 cuCtxPushCurrent_v2,
    4 cuCtxSetCurrent,
    5 cuDevicePrimaryCtxRetain,
    6 cuGLCtxCreate_v2,
    7 cuGetExportTable,
    8 cuGreenCtxCreate,
    9 cublasXtCreate,
}

macro_rules! asked {
    ($($name:ident $offset:literal,)*) => {
        /// The gates for functions that the program looks up by name.
        static ASKED: [extern "C" fn(); GATES - LINKED.len()] = [$($name,)*];
        $(gate!($name, LINKED.len() + $offset);)*
    };
}

asked! {
    g0 0, g1 1, g2 2, g3 3, g4 4, g5 5, g6 6, g7 7, g8 8, g9 9, g10 10, g11 11, g12 12, g13 13, g14 14, g15 15,
    g16 16, g17 17, g18 18, g19 19, g20 20, g21 21, g22 22, g23 23,
}

/// The gate that jumps to this function.
fn gate_before(function: *mut c_void) -> *mut c_void {
    for (behind, gate) in BEHIND[LINKED.len()..].iter().zip(&ASKED) {
        let claimed = behind.compare_exchange(
            ptr::null_mut(),
            function,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if claimed.is_ok() || claimed == Err(function) {
            return *gate as *mut c_void;
        }
    }
    // The program has looked up more functions than there are gates: page protection ends now, and the function is
    // returned without a gate.
    go_write_through(Degraded::OtherCuda);
    function
}

/// Whether an address is that of a function which this library exports under a name of the driver's.
fn is_ours(function: *mut c_void) -> bool {
    let wrappers = [
        cuGetProcAddress as *mut c_void,
        cuGetProcAddress_v2 as *mut c_void,
    ];
    LINKED
        .iter()
        .any(|(_, gate)| *gate as *mut c_void == function)
        || wrappers.contains(&function)
}

/// The driver's own function of a name that this library exports, too.
fn driver(name: &CStr) -> Option<*mut c_void> {
    let _blocked = SignalsBlocked::new();
    let find = |handle| objects::symbol(handle, name).map(|at| at as *mut c_void);
    if let Some(found) = find(libc::RTLD_NEXT).filter(|f| !is_ours(*f)) {
        return Some(found);
    }
    // The driver may be loaded privately, outside the global search order.
    objects::loaded()
        .iter()
        .filter(|object| {
            let path = object.path.to_bytes();
            let file = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
            file.starts_with(DRIVER[0]) || file.starts_with(DRIVER[2])
        })
        .find_map(|object| object.definition(name))
        .map(|at| at as *mut c_void)
}

// What is asked for by name ----------------------------------------------------------------------------------------

/// The driver's `cuGetProcAddress`, in its first and its second form.
static BY_NAME: [AtomicPtr<c_void>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];

/// What a look-up by name returns to the program instead of `function`, which the driver or the dynamic linker found.
fn substitute(name: &[u8], function: *mut c_void, second: bool) -> *mut c_void {
    if name.starts_with(b"cuGetProcAddress") {
        let form = usize::from(second);
        BY_NAME[form].store(function, Ordering::Release);
        return match form {
            0 => cuGetProcAddress as *mut c_void,
            _ => cuGetProcAddress_v2 as *mut c_void,
        };
    }
    if gated(name) {
        gate_before(function)
    } else {
        function
    }
}

/// From this CUDA version on, the name `cuGetProcAddress` means the second form.
const SECOND_FORM: c_int = 12_000;

/// Replaces the function that a `cuGetProcAddress` call has stored.
///
/// # Safety
/// As for the driver's function: `symbol` is a C string; `function` is null or points to a pointer, which was stored.
unsafe fn found(symbol: *const c_char, function: *mut *mut c_void, version: c_int) {
    // SAFETY: null, or a pointer's place, to which the driver has just written.
    let Some(slot) = (unsafe { function.as_mut() }).filter(|f| !f.is_null()) else {
        return;
    };
    // SAFETY: a C string, which the driver has just read.
    let name = unsafe { CStr::from_ptr(symbol) };
    *slot = substitute(name.to_bytes(), *slot, version >= SECOND_FORM);
}

type Request = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64) -> c_int;
type Request2 =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_uint) -> c_int;

/// The driver's `cuGetProcAddress` of a form.
fn by_name(form: usize) -> *mut c_void {
    let known = BY_NAME[form].load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    let name = [c"cuGetProcAddress", c"cuGetProcAddress_v2"][form];
    let found = driver(name).unwrap_or(missing as *mut c_void);
    BY_NAME[form].store(found, Ordering::Release);
    found
}

#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "a C function")]
unsafe extern "C" fn cuGetProcAddress(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
) -> c_int {
    // SAFETY: the driver's function has this type; `missing` looks at no argument.
    let real: Request = unsafe { core::mem::transmute(by_name(0)) };
    // SAFETY: the program's arguments, passed on.
    let status = unsafe { real(symbol, function, version, flags) };
    if status == 0 {
        // SAFETY: the driver has accepted the arguments.
        unsafe { found(symbol, function, version) };
    }
    status
}

#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "a C function")]
unsafe extern "C" fn cuGetProcAddress_v2(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
    result: *mut c_uint,
) -> c_int {
    // SAFETY: the driver's function has this type; `missing` looks at no argument.
    let real: Request2 = unsafe { core::mem::transmute(by_name(1)) };
    // SAFETY: the program's arguments, passed on.
    let status = unsafe { real(symbol, function, version, flags, result) };
    if status == 0 {
        // SAFETY: the driver has accepted the arguments.
        unsafe { found(symbol, function, version) };
    }
    status
}

// dlsym ------------------------------------------------------------------------------------------------------------

/// libc's `dlsym`; zero: not looked up yet.
static DLSYM: AtomicUsize = AtomicUsize::new(0);

/// The answer to a `dlsym` call: the address of libc's function to jump to, or a value to return.
#[repr(C)]
struct Answer {
    jump: usize,
    value: *mut c_void,
}

/// libc's `dlsym` finds out from its return address which libraries come next, so this hook jumps to it. Names that do
/// not begin with "cu", "ev" (eventfd), "pi" (pipe), "MP" or "PM" (MPI) pass with three loads.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "mov r11, [rip + {real}]",
        "test r11, r11",
        "jz 2f",
        "cmp byte ptr [rsi], 0x63", // cu
        "je 4f",
        "cmp byte ptr [rsi], 0x65", // ev
        "je 5f",
        "cmp byte ptr [rsi], 0x70", // pi
        "je 6f",
        "cmp byte ptr [rsi], 0x4d", // MP
        "je 7f",
        "cmp byte ptr [rsi], 0x50", // PM
        "je 8f",
        "3:",
        "jmp r11",
        "7:",
        "cmp byte ptr [rsi + 1], 0x50",
        "je 2f",
        "jmp r11",
        "8:",
        "cmp byte ptr [rsi + 1], 0x4d",
        "je 2f",
        "jmp r11",
        "4:",
        "cmp byte ptr [rsi + 1], 0x75",
        "je 2f",
        "jmp r11",
        "5:",
        "cmp byte ptr [rsi + 1], 0x76",
        "je 2f",
        "jmp r11",
        "6:",
        "cmp byte ptr [rsi + 1], 0x69",
        "jne 3b",
        "2:",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 24",
        "mov rdx, [rsp + 24]",
        "call {look}",
        "mov r11, rax",
        "mov rax, rdx",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        ".cfi_adjust_cfa_offset -24",
        "test r11, r11",
        "jnz 3b",
        "ret",
        ".cfi_endproc",
        real = sym DLSYM,
        look = sym look,
    )
}

/// # Safety
/// As `dlsym`.
unsafe extern "C" fn look(handle: *mut c_void, name: *const c_char, caller: usize) -> Answer {
    let real = libc_dlsym();
    let pass = Answer {
        jump: real,
        value: ptr::null_mut(),
    };
    if real == 0 {
        return pass;
    }
    // SAFETY: the program's string.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    // The driver looks these functions of libc up by name; it gets this library's hooks of them.
    if let Some(ours) = descriptors::by_name(text)
        && is_driver(caller)
    {
        return Answer {
            jump: 0,
            value: ours,
        };
    }
    if (text.starts_with(b"MPI") || text.starts_with(b"PMPI")) && who(caller) != Caller::Us {
        // SAFETY: the program's string.
        let wanted = unsafe { CStr::from_ptr(name) };
        // SAFETY: libc's function has this type.
        let real: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void =
            unsafe { core::mem::transmute(real) };
        return match mpi::in_place_of(handle, wanted, caller, real) {
            Some(value) => Answer { jump: 0, value },
            None => pass,
        };
    }
    let wrapped = text.starts_with(b"cuGetProcAddress") || gated(text);
    // This library looks `cuInit` up before it starts the driver.
    let begins = text == b"cuInit" && who(caller) == Caller::Us;
    if !begins && (!wrapped || neutral(caller)) {
        return pass;
    }
    // SAFETY: libc's function has this type.
    let real: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void =
        unsafe { core::mem::transmute(real) };
    if begins {
        // SAFETY: the caller's arguments; the handle is that of a library.
        let value = unsafe { real(handle, name) };
        answer_for(value as usize);
        return Answer { jump: 0, value };
    }
    // SAFETY: the program's arguments. For a handle whose meaning depends on the calling object, the calling object is
    // this library, which comes first.
    let mut value = unsafe { real(handle, name) };
    if is_ours(value) {
        // Without this library, the look-up would have found the driver's function, or none.
        // SAFETY: the program's string; the handle asks for the next definition after this library's.
        value = unsafe { real(libc::RTLD_NEXT, name) };
    }
    if !value.is_null() {
        value = substitute(text, value, text.ends_with(b"_v2"));
    }
    Answer { jump: 0, value }
}

/// Changes the driver's own reference to `dlvsym`, before the driver is started: the driver looks some functions of
/// libc up by version, which finds libc's functions rather than preloaded ones. From then on `dlvsym_of_driver` answers
/// the driver; all other objects keep libc's `dlvsym`.
fn answer_for(init: usize) {
    REAL_DLVSYM.store(libc::dlvsym as *const () as usize, Ordering::Release);
    let objects = objects::loaded();
    let Some(driver) = objects::of(&objects, init) else {
        return;
    };
    let Some(slot) = driver
        .slot(c"dlvsym")
        .filter(|at| at % size_of::<usize>() == 0)
    else {
        return;
    };
    let page = rustix::param::page_size();
    let start = ptr::with_exposed_provenance_mut::<c_void>(slot & !(page - 1));
    let allow = |access| {
        // SAFETY: a page of the driver's addresses, which stays readable.
        unsafe { rustix::mm::mprotect(start, page, access) }
    };
    let sealed = driver.is_sealed(slot);
    if sealed && allow(MprotectFlags::READ | MprotectFlags::WRITE).is_err() {
        return;
    }
    let slot = ptr::with_exposed_provenance::<AtomicUsize>(slot);
    // SAFETY: an aligned word that can be written; it holds the address of a function of this type before and after the
    // store.
    unsafe { &*slot }.store(dlvsym_of_driver as *const () as usize, Ordering::Release);
    if sealed {
        let _ = allow(MprotectFlags::READ);
    }
}

/// `dlvsym` as the driver sees it. As for [`dlsym`], libc's function finds out the calling object from its return
/// address, so it is jumped to.
#[unsafe(naked)]
unsafe extern "C" fn dlvsym_of_driver(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "push rdi",
        "push rsi",
        "push rdx",
        ".cfi_adjust_cfa_offset 24",
        "mov rdi, rsi",
        "call {ours}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        ".cfi_adjust_cfa_offset -24",
        "test rax, rax",
        "jnz 2f",
        "mov r11, [rip + {real}]",
        "jmp r11",
        "2:",
        "ret",
        ".cfi_endproc",
        ours = sym ours,
        real = sym REAL_DLVSYM,
    )
}

/// This library's hook of a function that the driver looks up; null for a name whose function is to be libc's.
///
/// # Safety
/// A C string.
unsafe extern "C" fn ours(name: *const c_char) -> *mut c_void {
    // SAFETY: the caller's string.
    descriptors::by_name(unsafe { CStr::from_ptr(name) }.to_bytes()).unwrap_or(ptr::null_mut())
}

/// libc's `dlsym`, found by `dlvsym`, since `dlsym` is hooked.
#[cold]
fn libc_dlsym() -> usize {
    let known = DLSYM.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // Not a guard (`SignalsBlocked`): that has a thread-local variable, and this code may run while a sanitizer that starts up
    // looks for the functions that thread-local variables need.
    let signals = block_async_signals();
    let versions = [c"GLIBC_2.2.5", c"GLIBC_2.34"];
    let find = |handle: *mut c_void| {
        versions.iter().find_map(|version| {
            // SAFETY: a handle, and C strings.
            let at = unsafe { libc::dlvsym(handle, c"dlsym".as_ptr(), version.as_ptr()) } as usize;
            (at != 0 && at != dlsym as *const () as usize).then_some(at)
        })
    };
    // Older glibc versions have it in a library of its own (libdl).
    let library = |name: &CStr| {
        // SAFETY: a C string; the library is there, and stays.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(handle)
    };
    let found = find(libc::RTLD_NEXT)
        .or_else(|| library(c"libc.so.6").and_then(find))
        .or_else(|| library(c"libdl.so.2").and_then(find))
        .unwrap_or(0);
    signals.restore();
    DLSYM.store(found, Ordering::Relaxed);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_a_function_have_its_gate() {
        for name in [
            "cuCtxCreate",
            "cuCtxCreate_v2",
            "cuCtxCreate_v4",
            "cuDevicePrimaryCtxRetain",
            "cuCtxSetCurrent_ptsz",
        ] {
            assert!(gated(name.as_bytes()), "{name}");
        }
        for name in [
            "cuCtxCreateX",
            "cuInit",
            "cuMemAlloc_v2",
            "cublasXtDgemm",
            "",
        ] {
            assert!(!gated(name.as_bytes()), "{name}");
        }
        assert!(LINKED.iter().all(|(name, _)| gated(name.to_bytes())));
    }
}
