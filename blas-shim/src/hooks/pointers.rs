//! Hooks of functions and system calls with pointers to paths, arrays of strings and small structures, which may lie on
//! inaccessible pages.
//!
//! Where a load would fault on an inaccessible page, the kernel fails the system call with EFAULT. Most calls have
//! changed nothing by then. For these, results are written back, the memory is made accessible, and the call is made
//! again; so the hook costs nothing as long as the kernel does not refuse. Where a failed call has already had an
//! effect (a child was waited for, a connection accepted), the memory is made accessible before the call.
//! `syscalls.txt` and `functions.txt` say which is done for each call, and what each argument points to.
//!
//! Every hook takes six words, also if the function has fewer arguments in C: the further words are registers with any
//! contents, which libc's function ignores.

#![expect(
    unsafe_code,
    reason = "exports libc functions; follows the program's pointers"
)]

use core::ffi::{c_char, c_int, c_long};

use semcache::host::becomes_stack;
use semcache::process::driver_scope::in_driver_scope;
use semcache::runtime::counted::executes;
use semcache_fault::broken;
use semcache_fault::probe::{Probe, look};

use super::buffers::{buffer, during, one};
use super::raw_syscall;
use super::real::{errno, real, set_errno};
use crate::core::{self as runtime, IoGuards, open_everything};

/// What is done about the memory that a call's arguments point to, which may be inaccessible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// If the call fails with EFAULT, the memory is made accessible and the call made again.
    Again,
    /// The memory is made accessible before the call.
    Before,
    /// As `Again`, but no guard keeps the memory accessible during the second call: if `execve` succeeds, no code of
    /// this process runs afterwards to drop the guard.
    Exec,
    /// The block that contains the memory is tracked no longer, since the kernel or a stream uses the memory after the
    /// call.
    Kept,
}

/// How many bytes an argument points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Extent {
    /// The bytes of a small structure ([`SMALL`]).
    Small,
    Bytes(usize),
    /// The number in another argument, times the size of an element.
    Counted {
        word: usize,
        each: usize,
    },
}

/// The bytes that are made accessible for a structure whose size the tables do not give: no such structure is larger.
const SMALL: usize = 512;
/// The longest string that the kernel accepts (`MAX_ARG_STRLEN`).
const LONGEST: usize = 128 << 10;
/// The most strings of an array that are made accessible.
const STRINGS: usize = 1 << 16;
/// How often `execve` is made again, if other threads protect the pages in between.
const TRIES: u32 = 100;

const WORD: usize = size_of::<usize>();

/// What the kernel does with an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Arg {
    Plain,
    Read(Extent),
    Written(Extent),
    /// A structure that contains pointers.
    Nested(Extent),
    /// An array of addresses, whose pages the kernel looks up (`move_pages`).
    Addresses(Extent),
    Text,
    /// An array of strings that ends with a null pointer.
    Texts,
    /// The strings of the process's environment, independently of the argument's value.
    Environment,
}

type Words = [usize; 6];

include!(concat!(env!("OUT_DIR"), "/system_calls.rs"));

/// How many bytes an argument points to. Of a count only 32 bits are used: counts have 32 bits in C, or never need
/// more.
fn length(extent: Extent, words: &Words) -> usize {
    match extent {
        Extent::Small => SMALL,
        Extent::Bytes(bytes) => bytes,
        Extent::Counted { word, each } => (words[word] as u32 as usize).saturating_mul(each),
    }
}

/// Makes the memory that a call's arguments point to accessible, until the guards are dropped.
fn open(args: &[Arg], words: &Words) -> IoGuards {
    let mut guards = IoGuards::default();
    if broken!("break-look") {
        return guards;
    }
    for (&arg, &at) in args.iter().zip(words) {
        let mut bytes = |extent, written| {
            if at != 0 {
                guards.add(buffer(at as *const u8, length(extent, words), written));
            }
        };
        match arg {
            Arg::Plain => {}
            Arg::Read(extent) => bytes(extent, false),
            Arg::Written(extent) | Arg::Nested(extent) => bytes(extent, true),
            Arg::Addresses(extent) => addresses(at, length(extent, words)),
            Arg::Text => text(&mut guards, at),
            Arg::Texts => texts(&mut guards, at),
            Arg::Environment => texts(&mut guards, environment()),
        }
    }
    guards
}

/// Makes bytes of one page accessible, if the page table says that the page may be protected. Most strings lie on other
/// pages, and a guard for each would be many.
fn hold(guards: &mut IoGuards, at: usize, len: usize) {
    if semcache_fault::pages::get(at).is_some() {
        guards.add(buffer(at as *const u8, len, false));
    }
}

/// Makes a string accessible page by page, up to its zero byte or to the first address that cannot be read.
pub(super) fn text(guards: &mut IoGuards, at: usize) {
    let page = semcache_fault::pages::page_size();
    let (mut from, end) = (at, at.saturating_add(LONGEST));
    while at != 0 && from < end {
        let next = (from & !(page - 1)).saturating_add(page);
        hold(guards, from, next - from);
        for word in (from & !(WORD - 1)..next).step_by(WORD) {
            let Probe::Word(bytes) = look(word) else {
                return;
            };
            // A zero byte of the first word in front of the string does not end the string.
            let before = from.saturating_sub(word);
            if bytes.to_le_bytes()[before..].contains(&0) {
                return;
            }
        }
        from = next;
    }
}

/// Makes an array of strings accessible, and each string that it lists.
fn texts(guards: &mut IoGuards, at: usize) {
    for each in (at..).step_by(WORD).take(STRINGS) {
        hold(guards, each, WORD);
        let Probe::Word(string @ 1..) = look(each) else {
            return;
        };
        text(guards, string as usize);
    }
}

/// Writes the pages of an array's addresses back to the host and makes them accessible, one after the other, without
/// guards that keep them accessible: if another thread protects one of these pages before the kernel looks it up, the
/// kernel reports the page as one that is swapped out.
fn addresses(at: usize, len: usize) {
    for each in (at..at.saturating_add(len.saturating_mul(WORD))).step_by(WORD) {
        let array = one(each as *const usize, WORD, false);
        let Probe::Word(address) = look(each) else {
            return;
        };
        drop(one(address as *const u8, 1, false));
        drop(array);
    }
}

fn environment() -> usize {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: libc's variable; the program does not change it while it makes a process.
    unsafe { environ }.addr()
}

/// How a function reports failure to its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Failed {
    Int,
    Long,
    Null,
    Error,
}

impl Failed {
    /// Whether a result says that the kernel could not access some memory (EFAULT).
    fn unreachable(self, result: usize) -> bool {
        match self {
            Failed::Int => result as c_int == -1 && errno() == libc::EFAULT,
            Failed::Long => result as c_long == -1 && errno() == libc::EFAULT,
            Failed::Null => result == 0 && errno() == libc::EFAULT,
            Failed::Error => result as c_int == libc::EFAULT,
        }
    }

    /// The result of a function that this libc does not have: that of the system call, if the function is no more than
    /// a system call.
    ///
    /// # Safety
    /// That of the call.
    unsafe fn missing(self, number: Option<c_long>, words: Words) -> usize {
        if let Some(number) = number {
            // SAFETY: by the contract.
            return unsafe { raw_syscall::call(number, words) }.cast_unsigned() as usize;
        }
        set_errno(libc::ENOSYS);
        match self {
            Failed::Int | Failed::Long => usize::MAX,
            Failed::Null => 0,
            Failed::Error => libc::ENOSYS as usize,
        }
    }
}

/// Makes a call; if the kernel could not access the memory of its arguments, makes that memory accessible and makes the
/// call again.
pub(super) fn asked_again<T>(
    unreachable: impl Fn(&T) -> bool,
    open: impl FnOnce() -> IoGuards,
    call: impl Fn() -> T,
) -> T {
    let before = errno();
    let result = call();
    if !unreachable(&result) || !runtime::any_protected() || broken!("break-look") {
        return result;
    }
    // A call that succeeds must leave `errno` as it was before the first attempt.
    set_errno(before);
    during(open, call)
}

/// Whether a function that returns -1 on failure failed with EFAULT.
pub(super) fn failed(result: &c_int) -> bool {
    *result == -1 && errno() == libc::EFAULT
}

/// Makes a call, and makes its memory accessible when its kind says so.
#[inline(always)]
fn ask(
    kind: Kind,
    args: &'static [Arg],
    failed: Failed,
    words: Words,
    call: impl Fn() -> usize,
) -> usize {
    let unreachable = |result: &usize| failed.unreachable(*result);
    match kind {
        Kind::Before if runtime::any_protected() => during(|| open(args, &words), call),
        Kind::Before => call(),
        Kind::Kept => {
            keep(args, &words);
            call()
        }
        Kind::Exec => {
            executes(true);
            let (before, mut result) = (errno(), call());
            for _ in 0..TRIES {
                if !unreachable(&result) || !runtime::any_protected() {
                    break;
                }
                drop(open(args, &words));
                set_errno(before);
                result = call();
            }
            let failed = errno();
            executes(false);
            set_errno(failed);
            result
        }
        Kind::Again => {
            let before = errno();
            let result = asked_again(unreachable, || open(args, &words), &call);
            let nested = args.iter().any(|arg| matches!(arg, Arg::Nested(_)));
            // A call from driver scope must not take the cache's lock: a thread that waits for the driver may hold that
            // lock.
            if !nested || !unreachable(&result) || !runtime::any_protected() || in_driver_scope() {
                return result;
            }
            set_errno(before);
            during(open_everything, call)
        }
    }
}

/// Stops tracking the blocks of memory that the kernel or a stream goes on using after the call.
fn keep(args: &[Arg], words: &Words) {
    for (&arg, &at) in args.iter().zip(words) {
        if let Arg::Written(extent) = arg
            && at != 0
            && !broken!("break-look")
        {
            becomes_stack(at, length(extent, words));
        }
    }
}

/// Makes a system call of the table ([`NUMBERS`]) as its kind says; `None` for other numbers, whose calls are not made.
pub(super) fn by_number(number: c_long, words: Words, call: impl Fn() -> c_long) -> Option<c_long> {
    let (kind, args) = system_call(number)?;
    Some(ask(kind, args, Failed::Long, words, || call() as usize) as c_long)
}

/// The hook of one function of `functions.txt`.
macro_rules! function {
    ($name:ident, $failed:expr, $number:expr, $kind:expr, $args:expr) => {
        #[unsafe(no_mangle)]
        pub(super) unsafe extern "C-unwind" fn $name(
            a: usize,
            b: usize,
            c: usize,
            d: usize,
            e: usize,
            f: usize,
        ) -> usize {
            type Function =
                unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, usize) -> usize;
            let Some(real) = real!($name: Function) else {
                // SAFETY: the program's arguments, in the registers in which they came.
                return unsafe { $failed.missing($number, [a, b, c, d, e, f]) };
            };
            // SAFETY: the program's arguments, passed on, in the registers in which they came.
            ask($kind, $args, $failed, [a, b, c, d, e, f], || unsafe { real(a, b, c, d, e, f) })
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/functions.rs"));
