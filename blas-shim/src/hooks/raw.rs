//! Hook of `syscall`: system calls by number.
//!
//! Most go to the kernel at once, in the few instructions that libc has for this; threads of the runtime wait for locks
//! by this function, too, while they hold other locks. System calls that use the program's memory, change mappings,
//! install handlers or set up asynchronous transfers do what the hooks of the libc functions of these names do.

#![expect(
    unsafe_code,
    reason = "exports a libc function; follows the program's pointers"
)]

use core::arch::naked_asm;
use core::ffi::{c_int, c_long, c_uint, c_ulong, c_void};

use super::buffers::during;
use super::raw_syscall::{call, error};
use super::{descriptors, io, ioctl, map, pointers, process};
use crate::core::{self as runtime, Degraded, go_write_through};
use semcache::process::signals_blocked::handlers_may_run;
use semcache_fault::handler::deferral;

/// The system calls that the hook handles besides those with buffers ([`io::NUMBERED`]) and those with other pointers
/// ([`pointers::NUMBERS`]).
const OTHERS: &[c_long] = &[
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mprotect,
    libc::SYS_pkey_mprotect,
    map::SYS_MSEAL,
    libc::SYS_ioctl,
    libc::SYS_prctl,
    libc::SYS_seccomp,
    libc::SYS_io_setup,
    libc::SYS_io_submit,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_fork,
    libc::SYS_clone,
    libc::SYS_clone3,
];

/// Size of the table of system call numbers.
const NUMBERS: usize = 512;

/// One bit per system call number: whether the hook handles it.
static BITS: [u64; NUMBERS / 64] = {
    let buffers = with(io::NUMBERED, [0; NUMBERS / 64]);
    with(OTHERS, with(pointers::NUMBERS, buffers))
};

const fn with(numbers: &[c_long], mut bits: [u64; NUMBERS / 64]) -> [u64; NUMBERS / 64] {
    let mut i = 0;
    while i < numbers.len() {
        bits[numbers[i] as usize / 64] |= 1 << (numbers[i] % 64);
        i += 1;
    }
    bits
}

/// Variadic in C: all arguments are words, so they are passed as those of a function with seven arguments. Numbers that
/// the hook does not handle run libc's own instruction sequence, through which a child that continues on another stack
/// can return.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall() {
    naked_asm!(
        "cmp rdi, {numbers}",
        "jae 2f",
        "lea rax, [rip + {bits}]",
        "bt qword ptr [rax], rdi",
        "jnc 2f",
        // A child that has a stack of its own must not return through frames that are not on that stack. The stack is
        // the second word of `clone`, and the sixth word of the structure to which the first argument of `clone3`
        // points.
        "cmp rdi, {clone}",
        "je 4f",
        "cmp rdi, {clone3}",
        "jne {asked}",
        "test rsi, rsi",
        "jz 2f",
        "cmp qword ptr [rsi + 40], 0",
        "je {asked}",
        "jmp 2f",
        "4:",
        "test rdx, rdx",
        "jz {asked}",
        "2:",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 3f",
        "ret",
        "3:",
        "mov rdi, rax",
        "jmp {error}",
        numbers = const NUMBERS,
        clone = const libc::SYS_clone,
        clone3 = const libc::SYS_clone3,
        bits = sym BITS,
        asked = sym asked,
        error = sym error,
    )
}

/// A system call that the hook handles.
unsafe extern "C-unwind" fn asked(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let words = [a, b, c, d, e, f];
    let at = |word: usize| word as *mut c_void;
    // Whether the argument installs a handler is not read: if the pointer is bad, the kernel returns an error, but a
    // load here would fault.
    if number == libc::SYS_rt_sigaction && b != 0 {
        handlers_may_run(true);
    }
    // SAFETY: the program's arguments, passed on, in every case.
    unsafe {
        match number {
            libc::SYS_mmap => {
                map::map(at(a), b, c as c_int, d as c_int, e as c_int, f as i64) as c_long
            }
            libc::SYS_munmap => c_long::from(map::unmap(at(a), b)),
            libc::SYS_mremap => map::remap(at(a), b, c, d as c_int, at(e)) as c_long,
            // `MADV_COLLAPSE` only speeds accesses up and needs no hook; the runtime's own heap gives it, too.
            libc::SYS_madvise if c as c_int != MADV_COLLAPSE => {
                c_long::from(map::advise(at(a), b, c as c_int))
            }
            libc::SYS_mprotect => c_long::from(map::mprotect(at(a), b, c as c_int)),
            libc::SYS_pkey_mprotect => {
                c_long::from(map::pkey_mprotect(at(a), b, c as c_int, d as c_int))
            }
            map::SYS_MSEAL => c_long::from(map::mseal(at(a), b, c as c_ulong)),
            libc::SYS_ioctl => c_long::from(ioctl::ioctl(a as c_int, b as c_ulong, at(c))),
            libc::SYS_prctl | libc::SYS_seccomp => secluded(number, words),
            libc::SYS_io_setup
            | libc::SYS_io_submit
            | libc::SYS_io_uring_setup
            | libc::SYS_io_uring_enter => {
                go_write_through(Degraded::AsyncIo);
                call(number, words)
            }
            libc::SYS_close => c_long::from(descriptors::close(a as c_int)),
            libc::SYS_close_range => c_long::from(descriptors::close_range(
                a as c_uint,
                b as c_uint,
                c as c_int,
            )),
            libc::SYS_dup2 => c_long::from(descriptors::dup2(a as c_int, b as c_int)),
            libc::SYS_dup3 => c_long::from(descriptors::dup3(a as c_int, b as c_int, c as c_int)),
            libc::SYS_fork | libc::SYS_clone | libc::SYS_clone3 => {
                process::by_number(number, words, || call(number, words))
            }
            _ => {
                let call = || {
                    let answer = call(number, words);
                    if number == libc::SYS_rt_sigaction && answer == 0 && c != 0 {
                        // The handler's address is the first field of the kernel's structure.
                        let function = at(c).cast::<usize>();
                        let found = function.read();
                        if deferral::unwrapped(found) != found {
                            function.write(deferral::unwrapped(found));
                        }
                    }
                    answer
                };
                pointers::by_number(number, words, call).unwrap_or_else(|| {
                    if runtime::any_protected() {
                        during(|| io::buffers(number, words), call)
                    } else {
                        call()
                    }
                })
            }
        }
    }
}

const MADV_COLLAPSE: c_int = 25;

/// `prctl` and `seccomp`: if the call restricts the process's system calls, the runtime stops using the devices; then
/// the call is made.
///
/// # Safety
/// As of these system calls.
unsafe fn secluded(number: c_long, words: [usize; 6]) -> c_long {
    seclude(number, words);
    // SAFETY: the caller's promise.
    let ask = || unsafe { call(number, words) };
    pointers::by_number(number, words, ask).unwrap_or_else(ask)
}

/// Makes the runtime stop using the devices before the program restricts its own system calls. A call without a filter
/// restricts nothing: libraries make such a call to find out whether the kernel knows filters.
fn seclude(number: c_long, words: [usize; 6]) {
    let (mode, filter) = match number {
        libc::SYS_prctl if words[0] == libc::PR_SET_SECCOMP as usize => (words[1], words[2]),
        libc::SYS_seccomp if words[0] == SECCOMP_SET_MODE_STRICT => (MODE_STRICT, 0),
        libc::SYS_seccomp if words[0] == SECCOMP_SET_MODE_FILTER => (MODE_FILTER, words[2]),
        _ => return,
    };
    if mode == MODE_STRICT || (mode == MODE_FILTER && filter != 0) {
        runtime::sandbox();
    }
}

const SECCOMP_SET_MODE_STRICT: usize = 0;
const SECCOMP_SET_MODE_FILTER: usize = 1;
const MODE_STRICT: usize = libc::SECCOMP_MODE_STRICT as usize;
const MODE_FILTER: usize = libc::SECCOMP_MODE_FILTER as usize;

/// Variadic in C: four words are always passed on, which the kernel ignores where the option does not use them.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    // SAFETY: the program's arguments, passed on.
    unsafe { secluded(libc::SYS_prctl, [option as usize, a, b, c, d, 0]) as c_int }
}
