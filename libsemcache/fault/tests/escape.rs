//! The program leaves the wait for a fault by force, as `siglongjmp` out of a signal handler does.
//!
//! A coroutine touches an inaccessible page and waits in the fault handler; a signal's handler abandons it with
//! `setcontext`, signal frames and all. Rust cannot call `sigsetjmp`, which returns twice; a switch of contexts returns
//! once.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]
#![cfg(all(not(loom), target_arch = "x86_64"))]
#![expect(unsafe_code, reason = "signals, masks and stacks")]

mod kit;

use kit::{await_abandoned, close, closed, mapped, open_page, read, serve};
use libc::{c_int, ucontext_t};
use nix::sys::pthread::{pthread_kill, pthread_self};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use semcache_fault::mailbox::{self, Verdict};
use semcache_fault::{counters, pages};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use testkit::apart;

struct Context(UnsafeCell<MaybeUninit<ucontext_t>>);

// SAFETY: only the test's thread in the child, and signal handlers on it, use these.
unsafe impl Sync for Context {}

impl Context {
    const fn new() -> Context {
        Context(UnsafeCell::new(MaybeUninit::zeroed()))
    }

    fn get(&self) -> *mut ucontext_t {
        self.0.get().cast()
    }
}

static MAIN: Context = Context::new();
static COROUTINE: Context = Context::new();
static TARGET: AtomicUsize = AtomicUsize::new(0);
/// The coroutine is about to touch the page.
static INSIDE: AtomicBool = AtomicBool::new(false);
static ESCAPED: AtomicUsize = AtomicUsize::new(0);
static PASSED: AtomicUsize = AtomicUsize::new(0);

const STACK: usize = 256 * 1024;

extern "C" fn touch() {
    INSIDE.store(true, Ordering::SeqCst);
    read(TARGET.load(Ordering::SeqCst));
    INSIDE.store(false, Ordering::SeqCst);
    PASSED.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn escape(_: c_int) {
    if INSIDE.swap(false, Ordering::SeqCst) {
        ESCAPED.fetch_add(1, Ordering::SeqCst);
        // SAFETY: `MAIN` was saved by the swapcontext that started the coroutine, on this thread, and its
        // frame is alive. Nothing on the abandoned stack needs to be dropped.
        unsafe { libc::setcontext(MAIN.get()) };
    }
}

/// Touches an address on a stack of its own; returns when that is done or was abandoned.
fn touch_in_coroutine(stack: usize, addr: usize) {
    TARGET.store(addr, Ordering::SeqCst);
    // SAFETY: the stack is this test's and no code runs on it; the contexts are static.
    unsafe {
        let coroutine = COROUTINE.get();
        assert_eq!(libc::getcontext(coroutine), 0);
        (*coroutine).uc_stack.ss_sp = stack as *mut _;
        (*coroutine).uc_stack.ss_size = STACK;
        (*coroutine).uc_link = MAIN.get();
        libc::makecontext(coroutine, touch, 0);
        assert_eq!(libc::swapcontext(MAIN.get(), coroutine), 0);
    }
}

#[test]
fn a_thousand_and_more_abandoned_waits() {
    let out = apart(|| {
        const ROUNDS: usize = 1300;
        let (page, addr) = (pages::page_size(), closed(2));
        let stack = mapped(STACK / page);
        // On a small alternate stack the program's handler would run only after the fault is served.
        let roomy = libc::stack_t {
            ss_sp: std::ptr::with_exposed_provenance_mut(mapped(32)),
            ss_flags: 0,
            ss_size: 32 * page,
        };
        // SAFETY: memory of this test's alone, for the rest of the process.
        let set = unsafe { libc::sigaltstack(&raw const roomy, std::ptr::null_mut()) };
        assert_eq!(set, 0);
        let action = SigAction::new(
            SigHandler::Handler(escape),
            SaFlags::empty(),
            SigSet::empty(),
        );
        // SAFETY: a handler for this test.
        unsafe { sigaction(Signal::SIGUSR1, &action) }.unwrap();
        let thread = pthread_self();
        let mut faults = 0;
        serve(move |at, write| {
            if at >= addr + page {
                return open_page(at, write);
            }
            faults += 1;
            if faults % 4 == 0 {
                // Past the spin: the owner is asleep.
                std::thread::sleep(Duration::from_micros(200));
            }
            pthread_kill(thread, Signal::SIGUSR1).unwrap();
            // The page stays inaccessible: its owner has left the wait, or faults again.
            Verdict::Retry
        });
        for round in 0..ROUNDS {
            touch_in_coroutine(stack, addr);
            if round % 16 == 0 {
                close(addr + page, page);
                touch_in_coroutine(stack, addr + page);
            }
        }
        assert_eq!(ESCAPED.load(Ordering::SeqCst), ROUNDS);
        assert_eq!(PASSED.load(Ordering::SeqCst), ROUNDS.div_ceil(16));
        assert_eq!(counters::CHAINED.get(), 0);
        // The idle service thread finds the abandoned tickets.
        await_abandoned(1);
        eprintln!("{} tickets found abandoned", mailbox::abandoned());
    });
    assert!(out.status.success(), "{out:?}");
    eprint!("{}", String::from_utf8_lossy(&out.stderr));
}
