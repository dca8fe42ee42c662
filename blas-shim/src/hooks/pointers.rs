//! Functions and system calls that are given pointers into memory which may be closed: paths, commands, small structures.
//!
//! The kernel does not take our faults, it answers EFAULT. Most calls have done nothing by then: they are asked again, with
//! the memory opened, so they cost nothing otherwise. Where something has happened (a child was waited for, a connection
//! accepted) the memory is opened before. Which is which, and what each argument is, say `syscalls.txt` and `functions.txt`.
//!
//! A function takes its arguments as words here, six of them whatever it takes in C: those that it has not are registers
//! that nobody looks at.

#![expect(
    unsafe_code,
    reason = "exports libc functions; follows the program's pointers"
)]

use core::ffi::{c_char, c_int, c_long};

use semcache::base::inside::inside;
use semcache::host::becomes_stack;
use semcache_fault::broken;
use semcache_fault::probe::{Probe, look};

use super::buffers::{buffer, during, one};
use super::real::{errno, real, set_errno};
use crate::core::{self as runtime, IoGuards, open_everything};

/// What is done about the memory that a call points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Opened, and the call made again, where it failed with EFAULT.
    Again,
    /// Opened before the call.
    Before,
    /// As `Again`, and open to nobody's knowledge during the call: one that succeeds does not return.
    Exec,
    /// Never closed from now on.
    Kept,
}

/// How many bytes an argument points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Extent {
    /// Those of a small structure.
    Small,
    Bytes(usize),
    /// So many as another argument says, times a size.
    Counted {
        word: usize,
        each: usize,
    },
}

/// No structure that the tables call small is larger.
const SMALL: usize = 512;
/// The kernel takes no longer string (`MAX_ARG_STRLEN`).
const LONGEST: usize = 128 << 10;
/// Strings of an array that are looked at.
const STRINGS: usize = 1 << 16;
/// How often `execve` is made again, while other threads close pages.
const TRIES: u32 = 100;

const WORD: usize = size_of::<usize>();

/// What an argument is to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Arg {
    Plain,
    Read(Extent),
    Written(Extent),
    /// A structure with pointers of its own.
    Nested(Extent),
    /// An array of addresses whose pages are looked up.
    Addresses(Extent),
    Text,
    /// An array of strings, to a null pointer.
    Texts,
    /// No argument: the strings of the environment.
    Environment,
}

type Words = [usize; 6];

include!(concat!(env!("OUT_DIR"), "/system_calls.rs"));

/// The length that an argument points to. Counts are 32 bits wide in C, and none of these calls takes a larger one.
fn length(extent: Extent, words: &Words) -> usize {
    match extent {
        Extent::Small => SMALL,
        Extent::Bytes(bytes) => bytes,
        Extent::Counted { word, each } => (words[word] as u32 as usize).saturating_mul(each),
    }
}

/// Opens what a call's arguments point to.
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

/// Opens bytes of one page. Most strings lie where no device ever looked, and are not noted: there may be many.
fn hold(guards: &mut IoGuards, at: usize, len: usize) {
    if semcache_fault::pages::get(at).is_some() {
        guards.add(buffer(at as *const u8, len, false));
    }
}

/// Opens a string, page by page, and finds its end. Where it cannot be read it ends.
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
            // What is before the string does not end it.
            let before = from.saturating_sub(word);
            if bytes.to_le_bytes()[before..].contains(&0) {
                return;
            }
        }
        from = next;
    }
}

/// Opens an array of strings, and the strings.
fn texts(guards: &mut IoGuards, at: usize) {
    for each in (at..).step_by(WORD).take(STRINGS) {
        hold(guards, each, WORD);
        let Probe::Word(string @ 1..) = look(each) else {
            return;
        };
        text(guards, string as usize);
    }
}

/// Brings home what addresses lie in, and lets it go: what the kernel finds there, if another thread closes it at once, is
/// what it finds of a page that is swapped out.
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

/// How a function says that it failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Failed {
    Int,
    Long,
    Null,
    Error,
}

impl Failed {
    /// Whether the kernel could not reach some memory.
    fn unreachable(self, result: usize) -> bool {
        match self {
            Failed::Int => result as c_int == -1 && errno() == libc::EFAULT,
            Failed::Long => result as c_long == -1 && errno() == libc::EFAULT,
            Failed::Null => result == 0 && errno() == libc::EFAULT,
            Failed::Error => result as c_int == libc::EFAULT,
        }
    }

    /// What a function returns that libc has not.
    fn missing(self) -> usize {
        set_errno(libc::ENOSYS);
        match self {
            Failed::Int | Failed::Long => usize::MAX,
            Failed::Null => 0,
            Failed::Error => libc::ENOSYS as usize,
        }
    }
}

/// Calls libc's function, and again with its memory open where the kernel could not reach it.
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
    // Where it now succeeds, `errno` is what it was.
    set_errno(before);
    during(open, call)
}

/// The same for functions that return -1.
pub(super) fn failed(result: &c_int) -> bool {
    *result == -1 && errno() == libc::EFAULT
}

/// Makes a call, and does about its memory what its kind asks for.
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
            let (before, mut result) = (errno(), call());
            for _ in 0..TRIES {
                if !unreachable(&result) || !runtime::any_protected() {
                    break;
                }
                drop(open(args, &words));
                set_errno(before);
                result = call();
            }
            result
        }
        Kind::Again => {
            let before = errno();
            let result = asked_again(unreachable, || open(args, &words), &call);
            let nested = args.iter().any(|arg| matches!(arg, Arg::Nested(_)));
            // A driver's library may hold a lock that somebody wants who has the cache's.
            if !nested || !unreachable(&result) || !runtime::any_protected() || inside() {
                return result;
            }
            set_errno(before);
            during(open_everything, call)
        }
    }
}

/// Memory that the kernel, or a stream, uses from now on.
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

/// `syscall` with one of the [`NUMBERS`]; `None` for others.
pub(super) fn by_number(number: c_long, words: Words, call: impl Fn() -> c_long) -> Option<c_long> {
    let (kind, args) = system_call(number)?;
    Some(ask(kind, args, Failed::Long, words, || call() as usize) as c_long)
}

/// One function of the table.
macro_rules! function {
    ($name:ident, $failed:expr, $kind:expr, $args:expr) => {
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
                return $failed.missing();
            };
            // SAFETY: the program's arguments, passed on, in the registers in which they came.
            ask($kind, $args, $failed, [a, b, c, d, e, f], || unsafe { real(a, b, c, d, e, f) })
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/functions.rs"));
