//! Signals blocked: while a thread holds a lock of the runtime, asynchronous signals are blocked, cancellation is
//! disabled and floating-point exceptions are masked.
//!
//! A signal handler of the program may touch an inaccessible page, and then waits until threads of the runtime have
//! served the fault: it must not have interrupted this thread inside a lock that those threads need, nor leave the lock
//! by a jump. A thread that is cancelled (`pthread_cancel`) must not end while it holds such a lock, nor inside a
//! driver of a device. The runtime's own arithmetic must not raise SIGFPE in a thread that has unmasked floating-point
//! exceptions, nor set exception flags that the program could read.

use core::cell::Cell;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, Ordering};

use semcache_fault::arithmetic;
use semcache_fault::handler::mask::{SavedMask, block_async_signals};
use semcache_fault::{broken, cancel};

/// The guards of one thread, and what they have to restore.
#[derive(Clone, Copy)]
struct State {
    /// Number of guards that are alive.
    depth: u32,
    /// The signal mask and floating-point environment before the first guard.
    before: Option<(SavedMask, arithmetic::Before)>,
    /// The cancellation state before the first guard.
    cancelled: Option<cancel::Before>,
}

const OPEN: State = State {
    depth: 0,
    before: None,
    cancelled: None,
};

std::thread_local! {
    /// Const and without a destructor: reading it never allocates, also at a thread's end.
    static STATE: Cell<State> = const { Cell::new(OPEN) };
}

/// Until this is dropped, asynchronous signals of the calling thread are blocked, it cannot be cancelled, and it
/// computes with the floating-point environment that a process starts with. Only the first guard of a thread makes a
/// system call.
#[derive(Debug)]
#[must_use = "signals are blocked until this is dropped"]
pub struct SignalsBlocked(PhantomData<*const ()>);

impl SignalsBlocked {
    /// See [`SignalsBlocked`].
    #[expect(clippy::new_without_default, reason = "a guard, not a value")]
    pub fn new() -> SignalsBlocked {
        let mut state = STATE.get();
        if state.depth == 0 {
            // No handler of the program runs on this thread from here on: nothing else changes the cell.
            state.before = Some((block_async_signals(), arithmetic::usual()));
            state.cancelled = Some(cancel::disabled());
        }
        state.depth += 1;
        STATE.set(state);
        SignalsBlocked(PhantomData)
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        let mut state = STATE.get();
        state.depth -= 1;
        if state.depth > 0 {
            return STATE.set(state);
        }
        STATE.set(OPEN);
        // Before the signal mask: as soon as that is restored, a handler may run that leaves by a jump.
        if let Some(before) = state.cancelled {
            before.restore();
        }
        if let Some((mask, before)) = state.before {
            before.restore();
            mask.restore();
        }
    }
}

/// Whether a signal is pending that would be delivered to the calling thread if it had no [`SignalsBlocked`].
#[must_use]
pub fn pending() -> bool {
    STATE.get().before.is_some_and(|(mask, _)| mask.lets_in())
}

/// Whether the program has ever installed a handler of a signal that [`SignalsBlocked`] blocks.
static HANDLERS: AtomicBool = AtomicBool::new(false);
/// Whether the kernel calls some of these handlers directly, without the runtime's entry that can defer them.
static BARE: AtomicBool = AtomicBool::new(false);

/// Called when the program installs a handler of a signal that [`SignalsBlocked`] blocks. `bare`: the kernel calls the handler
/// directly, without an entry of [`semcache_fault::handler::deferral`].
pub fn handlers_may_run(bare: bool) {
    HANDLERS.store(true, Ordering::Relaxed);
    if bare {
        BARE.store(true, Ordering::Relaxed);
    }
}

/// [`SignalsBlocked`] if the program has installed a handler that could run, else nothing: for locks that are taken so often,
/// and held so briefly, that two system calls would be most of their cost (`malloc`'s). Without a handler cancellation
/// is not disabled: libc's `malloc` does not survive the cancellation of a thread inside it either.
pub fn if_handlers() -> Option<SignalsBlocked> {
    let may_run = HANDLERS.load(Ordering::Relaxed) && !broken!("break-handlers");
    may_run.then(SignalsBlocked::new)
}

/// [`SignalsBlocked`] if the kernel calls a handler of the program directly, else nothing: for the lock of large allocations,
/// under which all other handlers are deferred without a system call.
pub fn if_bare_handlers() -> Option<SignalsBlocked> {
    let may_run = BARE.load(Ordering::Relaxed) && !broken!("break-handlers");
    may_run.then(SignalsBlocked::new)
}

/// For a thread of the runtime: blocks its signals for good, and sets the floating-point environment that a process
/// starts with.
pub fn always() {
    core::mem::forget(SignalsBlocked::new());
    let State { depth, before, .. } = STATE.get();
    if let (1, Some((mask, _))) = (depth, before) {
        mask.keep();
    }
}

/// Runs code that is not the runtime's (a library's constructors, say) with the signal mask and the floating-point
/// environment of the program, as if no guard were alive. The calling thread holds no lock of the runtime. Cancellation
/// stays disabled, because the runtime's stack frames must not be unwound.
pub fn lifted<T>(run: impl FnOnce() -> T) -> T {
    struct Back(State, Option<(SavedMask, arithmetic::Before)>);
    impl Drop for Back {
        fn drop(&mut self) {
            if let Some((mask, ours)) = self.1 {
                let _ = mask.swap();
                ours.restore();
            }
            STATE.set(self.0);
        }
    }
    let state = STATE.get();
    STATE.set(OPEN);
    let _back = Back(
        state,
        state.before.map(|(mask, before)| {
            let ours = before.swap();
            (mask.swap(), ours)
        }),
    );
    run()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Whether SIGUSR1 is blocked in the calling thread.
    pub(crate) fn blocked() -> bool {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let set = status.lines().find_map(|l| l.strip_prefix("SigBlk:"));
        let set = u64::from_str_radix(set.unwrap().trim(), 16).unwrap();
        set & (1 << (libc::SIGUSR1 - 1)) != 0
    }

    #[test]
    fn blocked_until_the_last_guard_is_gone() {
        assert!(!blocked());
        let first = SignalsBlocked::new();
        let second = SignalsBlocked::new();
        assert!(blocked());
        drop(first);
        assert!(blocked());
        drop(second);
        assert!(!blocked());
    }

    #[test]
    fn lifted_for_a_while() {
        let _blocked = SignalsBlocked::new();
        let inner = lifted(|| {
            let open = !blocked();
            drop(SignalsBlocked::new());
            open && !blocked()
        });
        assert!(inner && blocked());
        let panicked = std::panic::catch_unwind(|| lifted(|| panic!("a constructor's")));
        assert!(panicked.is_err() && blocked());
        lifted(|| assert!(!blocked()));
    }

    #[test]
    fn lifted_where_nothing_was_blocked() {
        assert!(lifted(|| !blocked()) && !blocked());
    }

    #[test]
    fn a_thread_begins_with_the_mask_but_without_the_guards() {
        let _blocked = SignalsBlocked::new();
        let body = || {
            let inherited = blocked();
            drop(SignalsBlocked::new());
            inherited && blocked()
        };
        assert!(std::thread::scope(|s| s.spawn(body).join()).unwrap());
    }
}
