//! Threads of the runtime that keep a core busy while the program computes: those that load a driver, make contexts and load the code of
//! kernels. A host BLAS that computes with a thread on every core waits in each call for the thread whose core they take, so its calls
//! last longer by all that they do; with a thread fewer it loses next to nothing ([`on_change`]).

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use log::debug;

/// The number of busy threads. A lock, so that the numbers that are told come in order. The child of a fork never uses it.
static BUSY: Mutex<usize> = Mutex::new(0);
static TELL: OnceLock<fn(usize)> = OnceLock::new();
/// Whether the process has forked while threads were busy.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Has `tell` called with the number of busy background threads whenever that changes, on the thread that changes it. It must not begin
/// background work itself.
pub fn on_change(tell: fn(usize)) {
    let _ = TELL.set(tell);
}

/// The calling thread, which is the runtime's, keeps a core busy until this is dropped.
#[derive(Debug)]
pub struct Busy(());

impl Busy {
    /// Begins the work.
    #[expect(clippy::new_without_default, reason = "a guard, not a value")]
    #[must_use]
    pub fn new() -> Busy {
        change(|busy| busy + 1);
        Busy(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        change(|busy| busy - 1);
    }
}

/// Before a fork: if threads are busy, none is told from now on. A library that ends its threads for the fork makes them anew afterwards, and
/// is to find the number of the program.
pub fn forking() {
    let busy = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
    if *busy > 0 {
        FORKED.store(true, Relaxed);
        alone();
    }
}

/// In the child of a fork, which has no background threads. Takes no lock.
pub fn alone() {
    if let Some(tell) = TELL.get() {
        tell(0);
    }
}

fn change(by: impl FnOnce(usize) -> usize) {
    let mut busy = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
    *busy = by(*busy);
    debug!("background threads that keep a core busy: {busy}");
    if let Some(tell) = TELL.get().filter(|_| !FORKED.load(Relaxed)) {
        tell(*busy);
    }
}
