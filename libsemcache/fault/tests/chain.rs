//! Chaining: signals that semcache does not serve reach the program as they would without semcache.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "signals, masks and stacks")]
#![expect(
    clippy::unwrap_used,
    reason = "helpers of a test; a panic is a failure"
)]

mod kit;

use kit::{closed, mapped, open_page, pointer, protect, read, serve};
use libc::{c_int, c_void, siginfo_t};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use semcache_fault::mailbox::{self, Verdict};
use semcache_fault::page::Access;
use semcache_fault::{counters, handler, pages};
use std::num::NonZeroUsize;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use testkit::{apart, forked};

/// The signal that the program's handler saw last.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static ADDR: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);
static USR1_BLOCKED: AtomicI32 = AtomicI32::new(-1);
static SEGV_BLOCKED: AtomicI32 = AtomicI32::new(-1);
/// The page that the handlers below make accessible.
static REPAIR: AtomicUsize = AtomicUsize::new(0);

const SEGV_MAPERR: i32 = 1;
const SEGV_ACCERR: i32 = 2;

fn repair() {
    CALLS.fetch_add(1, Ordering::SeqCst);
    let addr = NonZeroUsize::new(REPAIR.load(Ordering::SeqCst));
    // SAFETY: replaces a page of this test, or a hole, by fresh memory.
    unsafe {
        mmap_anonymous(
            Some(addr.unwrap()),
            NonZeroUsize::new(pages::page_size()).unwrap(),
            ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
            MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED,
        )
    }
    .unwrap();
}

extern "C" fn with_info(signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    SIGNAL.store(signal, Ordering::SeqCst);
    // SAFETY: the arguments of a handler with SA_SIGINFO.
    unsafe {
        CODE.store((*info).si_code, Ordering::SeqCst);
        ADDR.store((*info).si_addr() as usize, Ordering::SeqCst);
    }
    let mask = SigSet::thread_get_mask().unwrap();
    USR1_BLOCKED.store(mask.contains(Signal::SIGUSR1).into(), Ordering::SeqCst);
    SEGV_BLOCKED.store(mask.contains(Signal::SIGSEGV).into(), Ordering::SeqCst);
    repair();
}

extern "C" fn plain(signal: c_int) {
    SIGNAL.store(signal, Ordering::SeqCst);
    repair();
}

fn action(handler: usize, flags: c_int) -> libc::sigaction {
    // SAFETY: all-zero bytes are a valid struct sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    action
}

/// The program's `sigaction`, as the shim passes it on. Returns the previous handler.
fn program_sigaction(signal: c_int, new: &libc::sigaction) -> usize {
    let mut old = action(1, 1);
    // SAFETY: both are valid.
    let result = unsafe { handler::virtual_sigaction(signal, new, &mut old) };
    assert_eq!(result, Some(0));
    old.sa_sigaction
}

/// `with_info` for SIGSEGV, by the kernel's `sigaction`.
fn install_with_info() {
    let action = SigAction::new(
        SigHandler::SigAction(with_info),
        SaFlags::SA_SIGINFO,
        SigSet::empty(),
    );
    // SAFETY: a handler for this test's faults.
    unsafe { sigaction(Signal::SIGSEGV, &action) }.unwrap();
}

fn seen() -> (i32, i32, usize) {
    (
        SIGNAL.load(Ordering::SeqCst),
        CODE.load(Ordering::SeqCst),
        ADDR.load(Ordering::SeqCst),
    )
}

fn calls() -> usize {
    CALLS.load(Ordering::SeqCst)
}

/// An address where nothing is mapped.
fn hole() -> usize {
    let addr = mapped(1);
    // SAFETY: this test's mapping.
    unsafe { munmap(pointer(addr), pages::page_size()) }.unwrap();
    REPAIR.store(addr, Ordering::SeqCst);
    addr
}

/// A page that the program itself protected.
fn forbidden() -> usize {
    let addr = mapped(1);
    protect(addr, pages::page_size(), ProtFlags::PROT_NONE);
    REPAIR.store(addr, Ordering::SeqCst);
    addr
}

fn default_action() {
    program_sigaction(libc::SIGSEGV, &action(libc::SIG_DFL, 0));
}

fn assert_success(out: &Output) {
    assert!(out.status.success(), "{out:?}");
}

fn assert_killed(out: &Output) {
    assert_eq!(out.status.signal(), Some(libc::SIGSEGV), "{out:?}");
}

const INFO: c_int = libc::SA_SIGINFO;

#[test]
fn a_handler_installed_after_us_gets_wild_pointers() {
    let out = apart(|| {
        serve(open_page);
        let first = program_sigaction(
            libc::SIGSEGV,
            &action(with_info as *const () as usize, INFO),
        );
        // Rust's own handler was there before.
        assert!(first > 1);
        let addr = hole();
        assert_eq!(read(addr + 24), 0);
        assert_eq!(seen(), (libc::SIGSEGV, SEGV_MAPERR, addr + 24));
        let addr = forbidden();
        assert_eq!(read(addr + 40), 0);
        assert_eq!(seen(), (libc::SIGSEGV, SEGV_ACCERR, addr + 40));
        assert_eq!(SEGV_BLOCKED.load(Ordering::SeqCst), 0);
        assert_eq!(USR1_BLOCKED.load(Ordering::SeqCst), 0);
        // Faults that semcache serves never reach the program's handler.
        let addr = closed(1);
        assert_eq!(read(addr), 0);
        assert_eq!(calls(), 2);
        let mut old = action(0, 0);
        // SAFETY: a valid pointer and a null one.
        let result =
            unsafe { handler::virtual_sigaction(libc::SIGSEGV, std::ptr::null(), &mut old) };
        assert_eq!(result, Some(0));
        assert_eq!(old.sa_sigaction, with_info as *const () as usize);
        assert_eq!(old.sa_flags, INFO);
        // A null `new` only reads, as in the C function.
        // SAFETY: null is allowed.
        let result = unsafe {
            handler::virtual_sigaction(libc::SIGUSR1, std::ptr::null(), std::ptr::null_mut())
        };
        assert_eq!(result, None);
    });
    assert_success(&out);
}

#[test]
fn a_handler_that_went_past_install_becomes_the_programs() {
    let out = apart(|| {
        serve(open_page);
        handler::settle();
        assert!(handler::in_front());
        // Past the virtual dispositions.
        install_with_info();
        assert!(!handler::in_front());
        handler::settle();
        assert!(handler::in_front());
        let addr = closed(1);
        assert_eq!((read(addr), calls()), (0, 0));
        assert_eq!((read(hole()), calls()), (0, 1));
    });
    assert_success(&out);
}

#[test]
fn the_handler_found_at_install_gets_wild_pointers() {
    let out = apart(|| {
        // Before the handler is installed, `sigaction` goes to the kernel.
        let new = action(with_info as *const () as usize, INFO);
        // SAFETY: a handler for this test's faults, and null, which is allowed.
        let result =
            unsafe { handler::virtual_sigaction(libc::SIGSEGV, &new, std::ptr::null_mut()) };
        assert_eq!(result, None);
        install_with_info();
        serve(open_page);
        handler::install().unwrap();
        let addr = hole();
        assert_eq!(read(addr), 0);
        assert_eq!(seen(), (libc::SIGSEGV, SEGV_MAPERR, addr));
    });
    assert_success(&out);
}

#[test]
fn a_plain_handler_and_its_mask() {
    let out = apart(|| {
        serve(open_page);
        let previous = program_sigaction(libc::SIGSEGV, &action(plain as *const () as usize, 0));
        assert!(previous > 1);
        read(hole());
        assert_eq!((SIGNAL.load(Ordering::SeqCst), calls()), (libc::SIGSEGV, 1));
        let mut masked = action(with_info as *const () as usize, INFO);
        masked.sa_mask = *SigSet::all().as_ref();
        assert_eq!(
            program_sigaction(libc::SIGSEGV, &masked),
            plain as *const () as usize
        );
        read(hole());
        // Every signal it asked for is blocked except SIGSEGV and SIGBUS, since it may touch inaccessible pages.
        assert_eq!(USR1_BLOCKED.load(Ordering::SeqCst), 1);
        assert_eq!(SEGV_BLOCKED.load(Ordering::SeqCst), 0);
        let mask = SigSet::thread_get_mask().unwrap();
        assert!(!mask.contains(Signal::SIGUSR1));
    });
    assert_success(&out);
}

#[test]
fn the_default_kills() {
    let out = apart(|| {
        serve(open_page);
        default_action();
        read(hole());
    });
    assert_killed(&out);
}

#[test]
fn ignoring_what_an_instruction_raised_kills() {
    let out = apart(|| {
        serve(open_page);
        program_sigaction(libc::SIGSEGV, &action(libc::SIG_IGN, 0));
        // Sent by a process the signal is ignored, and the fault handler stays in front.
        raise(Signal::SIGSEGV).unwrap();
        assert!(handler::in_front());
        eprintln!("survived");
        read(forbidden());
    });
    assert_killed(&out);
    assert!(String::from_utf8_lossy(&out.stderr).contains("survived"));
}

#[test]
fn a_signal_sent_kills_by_default() {
    let out = apart(|| {
        serve(open_page);
        default_action();
        raise(Signal::SIGSEGV).unwrap();
    });
    assert_killed(&out);
}

#[test]
fn a_bus_error_is_handed_on() {
    let out = apart(|| {
        serve(open_page);
        program_sigaction(libc::SIGBUS, &action(with_info as *const () as usize, INFO));
        REPAIR.store(mapped(1), Ordering::SeqCst);
        raise(Signal::SIGBUS).unwrap();
        assert_eq!(seen().0, libc::SIGBUS);
        assert_eq!(seen().1, libc::SI_TKILL);
        program_sigaction(libc::SIGBUS, &action(libc::SIG_DFL, 0));
        raise(Signal::SIGBUS).unwrap();
    });
    assert_eq!(out.status.signal(), Some(libc::SIGBUS), "{out:?}");
}

#[test]
fn reset_hand_handles_once() {
    let out = apart(|| {
        serve(open_page);
        let once = action(with_info as *const () as usize, INFO | libc::SA_RESETHAND);
        program_sigaction(libc::SIGSEGV, &once);
        read(hole());
        assert_eq!(calls(), 1);
        read(closed(1));
        eprintln!("once");
        read(hole());
    });
    assert_killed(&out);
    assert!(String::from_utf8_lossy(&out.stderr).contains("once"));
}

#[test]
fn the_programs_protection_of_an_open_page_is_its_own() {
    let out = apart(|| {
        serve(open_page);
        program_sigaction(
            libc::SIGSEGV,
            &action(with_info as *const () as usize, INFO),
        );
        let addr = forbidden();
        pages::set(addr, pages::page_size(), Some(Access::ReadWrite)).unwrap();
        assert_eq!(read(addr + 8), 0);
        assert_eq!(seen(), (libc::SIGSEGV, SEGV_ACCERR, addr + 8));
        assert!(counters::RETRIED.get() >= 200);
        assert!(counters::RETRIED.get() < 10_000);
    });
    assert_success(&out);
}

#[test]
fn the_sink_may_say_not_ours() {
    let out = apart(|| {
        serve(|_, _| Verdict::NotOurs);
        program_sigaction(
            libc::SIGSEGV,
            &action(with_info as *const () as usize, INFO),
        );
        let addr = closed(1);
        REPAIR.store(addr, Ordering::SeqCst);
        assert_eq!(read(addr), 0);
        assert_eq!(seen(), (libc::SIGSEGV, SEGV_ACCERR, addr));
        assert_eq!((counters::CHAINED.get(), calls()), (1, 1));
    });
    assert_success(&out);
}

#[test]
fn forgotten_memory_is_the_programs() {
    let out = apart(|| {
        serve(open_page);
        program_sigaction(
            libc::SIGSEGV,
            &action(with_info as *const () as usize, INFO),
        );
        let addr = closed(1);
        pages::set(addr, pages::page_size(), None).unwrap();
        REPAIR.store(addr, Ordering::SeqCst);
        read(addr);
        assert_eq!(seen(), (libc::SIGSEGV, SEGV_ACCERR, addr));
    });
    assert_success(&out);
}

#[test]
fn without_a_service_faults_are_chained() {
    let out = apart(|| {
        handler::install().unwrap();
        default_action();
        read(closed(1));
    });
    assert_killed(&out);
}

#[test]
fn a_dead_service_does_not_hang_anybody() {
    let out = apart(|| {
        handler::install().unwrap();
        program_sigaction(
            libc::SIGSEGV,
            &action(with_info as *const () as usize, INFO),
        );
        // The service thread ends with a fault taken and not completed.
        let dying = std::thread::spawn(|| {
            mailbox::attach();
            while mailbox::take(std::time::Duration::from_millis(10)).is_none() {}
        });
        while !mailbox::serving() {
            std::thread::yield_now();
        }
        let addr = closed(1);
        REPAIR.store(addr, Ordering::SeqCst);
        assert_eq!(read(addr), 0);
        assert_eq!(calls(), 1);
        dying.join().unwrap();
        let addr = closed(1);
        REPAIR.store(addr, Ordering::SeqCst);
        assert_eq!(read(addr), 0);
        assert_eq!(calls(), 2);
    });
    assert_success(&out);
}

#[test]
fn a_runtime_thread_is_reported_and_chained() {
    let out = apart(|| {
        serve(open_page);
        default_action();
        handler::threads::register_runtime_thread();
        read(closed(1));
    });
    assert_killed(&out);
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("runtime thread"),
        "{out:?}"
    );
}

#[test]
fn the_child_of_a_fork_chains() {
    let out = apart(|| {
        serve(open_page);
        default_action();
        let addr = closed(2);
        assert_eq!(read(addr), 0);
        // SAFETY: the child makes no call that needs more than its own thread.
        let child = unsafe {
            forked(|| {
                handler::reset_after_fork();
                read(addr + pages::page_size());
            })
        };
        assert_eq!(child.wait().signal(), Some(libc::SIGSEGV));
        assert_eq!(read(addr + pages::page_size()), 1);
    });
    assert_success(&out);
}
