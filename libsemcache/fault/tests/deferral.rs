//! Deferral: a signal handler that interrupts the holder of the lock of large allocations runs when the holder releases
//! the lock, and otherwise as if the kernel had called it.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "signals and masks")]
#![expect(
    clippy::unwrap_used,
    reason = "helpers of a test; a panic is a failure"
)]

use std::cell::UnsafeCell;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use libc::{c_int, c_void, sighandler_t, siginfo_t, sigval};
use nix::sys::pthread::{pthread_kill, pthread_self};
use nix::sys::signal::{SigSet, Signal};
use semcache_fault::handler::deferral::{ENTRIES, LARGE, unwrapped, wrapped};

unsafe extern "C" {
    fn pthread_sigqueue(thread: libc::pthread_t, signal: c_int, value: sigval) -> c_int;
}

/// Tests run one at a time: the lock, the handlers and the records of what they saw belong to the process.
static ALONE: Mutex<()> = Mutex::new(());

static CALLS: AtomicUsize = AtomicUsize::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static VALUE: AtomicUsize = AtomicUsize::new(0);
static SENDER: AtomicI32 = AtomicI32::new(0);
static HELD: AtomicBool = AtomicBool::new(false);
static USR2_BLOCKED: AtomicBool = AtomicBool::new(false);

fn alone() -> MutexGuard<'static, ()> {
    let guard = ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    CALLS.store(0, Ordering::SeqCst);
    // Before the test that uses up all entries.
    for function in [noted as *const () as usize, adds as *const () as usize] {
        for flags in [0, libc::SA_SIGINFO] {
            assert!(wrapped(libc::SIGUSR1, function, flags).is_some());
        }
    }
    guard
}

fn mask() -> SigSet {
    SigSet::thread_get_mask().unwrap()
}

fn blocked(signal: Signal) -> bool {
    mask().contains(signal)
}

extern "C" fn noted(_signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    CALLS.fetch_add(1, Ordering::SeqCst);
    HELD.store(LARGE.held(), Ordering::SeqCst);
    USR2_BLOCKED.store(blocked(Signal::SIGUSR2), Ordering::SeqCst);
    // SAFETY: the arguments of a handler with SA_SIGINFO.
    unsafe {
        CODE.store((*info).si_code, Ordering::SeqCst);
        VALUE.store((*info).si_value().sival_ptr as usize, Ordering::SeqCst);
        SENDER.store((*info).si_pid(), Ordering::SeqCst);
    }
}

/// Installs a handler as the shim does, with SIGUSR2 blocked while it runs.
fn install(signal: c_int, function: sighandler_t, flags: c_int) {
    // SAFETY: a handler of the test's, and sets to write to.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = wrapped(signal, function, flags).unwrap();
        action.sa_flags = flags;
        libc::sigaddset(&mut action.sa_mask, libc::SIGUSR2);
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

fn send(signal: c_int, value: usize) {
    let sival_ptr = std::ptr::without_provenance_mut(value);
    // SAFETY: to the calling thread, which has a handler.
    let failed = unsafe { pthread_sigqueue(pthread_self(), signal, sigval { sival_ptr }) };
    assert_eq!(failed, 0);
}

#[test]
fn a_handler_waits_until_the_lock_is_given_back() {
    let _alone = alone();
    install(
        libc::SIGUSR1,
        noted as *const () as usize,
        libc::SA_SIGINFO | libc::SA_NODEFER,
    );
    for round in 1..=100 {
        assert!(LARGE.attempt() && LARGE.mine() && !blocked(Signal::SIGUSR1));
        send(libc::SIGUSR1, round);
        assert_eq!(CALLS.load(Ordering::SeqCst), round - 1);
        assert!(blocked(Signal::SIGUSR1) && blocked(Signal::SIGWINCH));
        LARGE.give_back();
        assert_eq!(CALLS.load(Ordering::SeqCst), round);
        assert!(!HELD.load(Ordering::SeqCst) && !LARGE.held());
        assert!(USR2_BLOCKED.load(Ordering::SeqCst) && !blocked(Signal::SIGUSR2));
        assert!(!blocked(Signal::SIGUSR1) && !blocked(Signal::SIGWINCH));
        assert_eq!(CODE.load(Ordering::SeqCst), libc::SI_QUEUE);
        assert_eq!(VALUE.load(Ordering::SeqCst), round);
        assert_eq!(
            SENDER.load(Ordering::SeqCst),
            std::process::id().cast_signed()
        );
    }
    // If this thread does not hold the lock, or another thread does, the handler runs at once.
    send(libc::SIGUSR1, 7);
    assert_eq!(CALLS.load(Ordering::SeqCst), 101);
    std::thread::scope(|s| {
        assert!(LARGE.attempt());
        let other = s.spawn(|| {
            assert!(!LARGE.mine());
            send(libc::SIGUSR1, 8);
            (CALLS.load(Ordering::SeqCst), HELD.load(Ordering::SeqCst))
        });
        assert_eq!(other.join().unwrap(), (102, true));
        LARGE.give_back();
    });
}

/// The kernel writes no siginfo for such a handler: the bytes on the stack in its place must not be sent.
#[test]
fn a_handler_of_one_argument_waits_too() {
    let _alone = alone();
    install(libc::SIGALRM, adds as *const () as usize, 0);
    for round in 1..=100 {
        assert!(LARGE.attempt());
        pthread_kill(pthread_self(), Signal::SIGALRM).unwrap();
        assert_eq!(CALLS.load(Ordering::SeqCst), round - 1);
        LARGE.give_back();
        assert_eq!(CALLS.load(Ordering::SeqCst), round);
    }
}

#[test]
fn several_signals_wait_for_one_lock() {
    let _alone = alone();
    for signal in [libc::SIGUSR1, libc::SIGWINCH, libc::SIGURG] {
        install(signal, noted as *const () as usize, libc::SA_SIGINFO);
    }
    let before = mask();
    assert!(LARGE.attempt());
    for signal in [libc::SIGUSR1, libc::SIGWINCH, libc::SIGURG, libc::SIGURG] {
        send(signal, 1);
    }
    assert_eq!(CALLS.load(Ordering::SeqCst), 0);
    LARGE.give_back();
    // The second SIGURG was merged into the first one, which was pending.
    assert_eq!(CALLS.load(Ordering::SeqCst), 3);
    // SAFETY: two sets of the same kind; libc and the kernel use the first word.
    let words = [before, mask()]
        .map(|set| unsafe { std::ptr::from_ref(set.as_ref()).cast::<u64>().read() });
    assert_eq!(words[0], words[1]);
}

/// A counter that is accessed under the lock only.
struct Shared(UnsafeCell<u64>);
// SAFETY: see above.
unsafe impl Sync for Shared {}
static SHARED: Shared = Shared(UnsafeCell::new(0));

fn add() {
    if !LARGE.attempt() {
        LARGE.wait();
    }
    // SAFETY: this thread holds the lock.
    unsafe { *SHARED.0.get() += 1 };
    LARGE.give_back();
}

extern "C" fn adds(_signal: c_int, _info: *mut siginfo_t, _context: *mut c_void) {
    add();
    CALLS.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn threads_take_turns_while_signals_come() {
    const TURNS: u64 = 200_000;
    const LEAST: usize = 100;
    let _alone = alone();
    install(libc::SIGUSR1, adds as *const () as usize, libc::SA_SIGINFO);
    // SAFETY: no other thread adds.
    let before = unsafe { *SHARED.0.get() };
    let body = || {
        let mut turns = 0_u64;
        while turns < TURNS || CALLS.load(Ordering::Relaxed) < LEAST {
            add();
            turns += 1;
        }
        turns
    };
    let threads = [(); 3].map(|()| std::thread::spawn(body));
    while threads.iter().any(|t| !t.is_finished()) {
        for t in &threads {
            // A thread that was not joined yet; if it has ended, it gets no signal.
            let _ = pthread_kill(t.as_pthread_t(), Signal::SIGUSR1);
        }
    }
    let added: u64 = threads.into_iter().map(|t| t.join().unwrap()).sum();
    let calls = CALLS.load(Ordering::SeqCst) as u64;
    // SAFETY: all other threads are gone.
    assert_eq!(unsafe { *SHARED.0.get() }, before + added + calls);
}

#[test]
fn functions_are_found_again_until_there_are_too_many() {
    let _alone = alone();
    let plain = libc::SA_SIGINFO;
    let mine = noted as *const () as usize;
    let entry = wrapped(libc::SIGUSR1, mine, plain).unwrap();
    assert_ne!(entry, mine);
    assert_eq!(wrapped(libc::SIGALRM, mine, plain), Some(entry));
    assert_eq!(wrapped(libc::SIGALRM, entry, plain), Some(entry));
    let uninformed = wrapped(libc::SIGALRM, entry, 0).unwrap();
    assert_ne!(uninformed, entry);
    assert_eq!([unwrapped(entry), unwrapped(uninformed)], [mine, mine]);
    for same in [mine, entry + 1, libc::SIG_DFL, libc::SIG_IGN, libc::SIG_ERR] {
        assert_eq!(unwrapped(same), same);
    }
    // The kernel resets a handler with SA_RESETHAND; real-time signals queue; synchronous signals are not held back.
    assert_eq!(wrapped(libc::SIGUSR1, mine, libc::SA_RESETHAND), None);
    for signal in [libc::SIGRTMIN(), libc::SIGSEGV, libc::SIGFPE, 0, 65] {
        assert_eq!(wrapped(signal, mine, plain), None);
    }
    let others: Vec<_> = (0..ENTRIES)
        .map(|n| wrapped(libc::SIGUSR1, 0x1000 + n, plain))
        .collect();
    assert!(others[0].is_some() && others[ENTRIES - 1].is_none());
    assert_eq!(wrapped(libc::SIGUSR1, mine, plain), Some(entry));
    for (n, entry) in others.iter().flatten().enumerate() {
        assert_eq!(unwrapped(*entry), 0x1000 + n);
    }
}
