//! Ways in which programs make system calls (libc's function, `syscall()` by number, an instruction of their own), and
//! what several operations set up by them: timers and signal handlers.

#![expect(
    unsafe_code,
    reason = "plays an unmodified program: system calls on raw memory"
)]

use std::ffi::c_long;
use std::io::Error;
use std::ptr;

use libc::{c_char, c_int};
use testkit::Rng;

/// How a system call is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// libc's function, where there is one.
    Function,
    /// libc's `syscall`.
    Number,
    /// A `syscall` instruction of the program, which no library sees.
    Bare,
}

impl Way {
    /// Any way; without `bare` no bare ones, for memory that only the library's hooks make accessible.
    pub(crate) fn any(rng: &mut Rng, bare: bool) -> Way {
        rng.of(&[Way::Function, Way::Number, Way::Bare][..2 + usize::from(bare)])
    }
}

/// A system call past every library; returns the kernel's result.
pub(crate) fn bare(number: c_long, a: [usize; 5]) -> isize {
    let result: isize;
    // SAFETY: the caller passes what the system call wants; the instruction changes these registers only.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a[0], in("rsi") a[1],
            in("rdx") a[2], in("r10") a[3], in("r8") a[4], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// A system call: its result, or the error's number negated. If libc's function returns something else than the system
/// call, the function's result.
pub(crate) fn call(way: Way, number: c_long, a: [usize; 5]) -> isize {
    match way {
        Way::Bare => bare(number, a),
        // SAFETY: as above.
        Way::Number => told(unsafe { libc::syscall(number, a[0], a[1], a[2], a[3], a[4]) }),
        Way::Function => function(number, a),
    }
}

fn told(result: c_long) -> isize {
    if result == -1 {
        let error = Error::last_os_error().raw_os_error().unwrap_or(0);
        return -isize::try_from(error).unwrap();
    }
    isize::try_from(result).unwrap()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "arguments as C's functions take them"
)]
fn function(number: c_long, a: [usize; 5]) -> isize {
    let (x, y) = (a[0] as c_int, a[1] as c_int);
    let (first, second) = (a[0] as *const c_char, a[1] as *const c_char);
    // SAFETY: as above.
    let status = unsafe {
        match number {
            libc::SYS_open => libc::open(first, y, a[2] as c_int),
            libc::SYS_access => libc::access(first, y),
            libc::SYS_stat => libc::stat(first, a[1] as *mut _),
            libc::SYS_rename => libc::rename(first, second),
            libc::SYS_unlink => libc::unlink(first),
            libc::SYS_mkdir => libc::mkdir(first, a[1] as libc::mode_t),
            libc::SYS_rmdir => libc::rmdir(first),
            libc::SYS_symlink => libc::symlink(first, second),
            libc::SYS_fstat => libc::fstat(x, a[1] as *mut _),
            libc::SYS_uname => libc::uname(a[0] as *mut _),
            libc::SYS_getrlimit => libc::getrlimit(a[0] as _, a[1] as *mut _),
            libc::SYS_getrusage => libc::getrusage(x, a[1] as *mut _),
            libc::SYS_getresuid => libc::getresuid(a[0] as *mut _, a[1] as *mut _, a[2] as *mut _),
            libc::SYS_sched_getparam => libc::sched_getparam(x, a[1] as *mut _),
            libc::SYS_sched_getaffinity => libc::sched_getaffinity(x, a[1], a[2] as *mut _),
            libc::SYS_rt_sigprocmask => libc::sigprocmask(x, a[1] as *const _, a[2] as *mut _),
            libc::SYS_prctl => libc::prctl(x, a[1], a[2], a[3], a[4]),
            libc::SYS_wait4 => libc::waitpid(x, a[1] as *mut _, a[2] as c_int),
            libc::SYS_pipe => libc::pipe(a[0] as *mut _),
            libc::SYS_poll => libc::poll(a[0] as *mut _, a[1] as _, a[2] as c_int),
            libc::SYS_timerfd_settime => {
                libc::timerfd_settime(x, y, a[2] as *const _, a[3] as *mut _)
            }
            libc::SYS_getcwd => -c_int::from(libc::getcwd(first.cast_mut(), a[1]).is_null()),
            libc::SYS_read => return told(libc::read(x, a[1] as *mut _, a[2]) as c_long),
            libc::SYS_write => return told(libc::write(x, a[1] as *const _, a[2]) as c_long),
            libc::SYS_readlink => {
                return told(libc::readlink(first, a[1] as *mut _, a[2]) as c_long);
            }
            _ => return told(libc::syscall(number, a[0], a[1], a[2], a[3], a[4])),
        }
    };
    told(c_long::from(status))
}

/// Whether the kernel could read eight bytes at an address: it copies the signal mask before it refuses the command.
pub(crate) fn readable(at: *const u8) -> bool {
    let got = bare(libc::SYS_rt_sigprocmask, [999, at.addr(), 0, 8, 0]);
    got != -isize::try_from(libc::EFAULT).unwrap()
}

/// Sets a timer of the process (`ITIMER_REAL`, `ITIMER_PROF`) to send its signal at this interval; zero ends it.
pub(crate) fn timer(which: c_int, microseconds: i64) {
    let every = libc::timeval {
        tv_sec: 0,
        tv_usec: microseconds,
    };
    let value = libc::itimerval {
        it_interval: every,
        it_value: every,
    };
    // SAFETY: a timer whose signal has a handler.
    let failed = unsafe { libc::setitimer(which, &value, ptr::null_mut()) };
    assert_eq!(failed, 0);
}

/// Installs a handler after which interrupted system calls continue.
pub(crate) fn handle(signal: c_int, handler: usize, flags: c_int) {
    // SAFETY: a handler of the kind that the flags say.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags | libc::SA_RESTART;
        assert_eq!(libc::sigaction(signal, &action, ptr::null_mut()), 0);
    }
}
