//! `syscall`: system calls by number.
//!
//! Most go to the kernel at once, in the few instructions that libc has for it; threads of our own come this way, too,
//! with locks held, to wait for one. System calls that use the program's memory, change mappings, install handlers or
//! set up asynchronous transfers do what the hooks of libc's functions of these names do.

#![expect(
    unsafe_code,
    reason = "exports a libc function; follows the program's pointers"
)]

use core::arch::naked_asm;
use core::ffi::{c_int, c_long, c_uint, c_ulong, c_void};

use super::buffers::during;
use super::kernel::{call, failed};
use super::{descriptors, io, ioctl, map, pointers, process};
use crate::core::{self as runtime, Degraded, go_eager};
use semcache::process::masked::handlers_may_run;
use semcache_fault::handler::deferral;

/// System calls that are looked at besides those with buffers ([`io::NUMBERED`]) and other pointers
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

/// Numbers that the table has room for.
const NUMBERS: usize = 512;

/// One bit per number that is looked at.
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

/// Variadic in C: all of its arguments are words, so they are where those of a function with seven are. What is not
/// asked for is libc's own sequence, which also a child that goes on with another stack gets through.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall() {
    naked_asm!(
        "cmp rdi, {numbers}",
        "jae 2f",
        "lea rax, [rip + {bits}]",
        "bt qword ptr [rax], rdi",
        "jnc 2f",
        // A child that has a stack of its own must not return through frames that are not on it: the second word of
        // `clone`, and the sixth of what the first of `clone3` points to.
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
        "jmp {failed}",
        numbers = const NUMBERS,
        clone = const libc::SYS_clone,
        clone3 = const libc::SYS_clone3,
        bits = sym BITS,
        asked = sym asked,
        failed = sym failed,
    )
}

/// One that is looked at.
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
    // Whether it is a handler is not looked at: a pointer that the kernel refuses would fault here.
    if number == libc::SYS_rt_sigaction && b != 0 {
        handlers_may_run(true);
    }
    // SAFETY: the program's arguments, passed on, in every case.
    unsafe {
        match number {
            libc::SYS_mmap => {
                map::mmap(at(a), b, c as c_int, d as c_int, e as c_int, f as i64) as c_long
            }
            libc::SYS_munmap => c_long::from(map::munmap(at(a), b)),
            libc::SYS_mremap => map::remap(at(a), b, c, d as c_int, at(e)) as c_long,
            // Advice that only hurries, which our own heap gives, too.
            libc::SYS_madvise if c as c_int != MADV_COLLAPSE => {
                c_long::from(map::madvise(at(a), b, c as c_int))
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
                go_eager(Degraded::AsyncIo);
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
                        // The function comes first in the kernel's structure.
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

/// `prctl` and `seccomp`: gives the devices up if the call restricts system calls, and makes it.
///
/// # Safety
/// As of these system calls.
unsafe fn secluded(number: c_long, words: [usize; 6]) -> c_long {
    seclude(number, words);
    // SAFETY: the caller's promise.
    let ask = || unsafe { call(number, words) };
    pointers::by_number(number, words, ask).unwrap_or_else(ask)
}

/// Gives the devices up before the program restricts its own system calls. A call without a filter restricts nothing:
/// libraries make one to find out whether the kernel knows filters.
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
