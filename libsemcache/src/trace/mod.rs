//! The trace of a process: what each call, each fault and each operation of a device did, and when.
//!
//! Threads record events in rings of their own, without a lock and without memory of the process's heap; one thread
//! writes them to a file in Perfetto's format while the program runs, so that a process that is killed leaves all but
//! the last moment. What has no room, in a ring or in the file, is counted, and the summary at the end of the file has
//! the counts.

mod cause;
mod clock;
mod encode;
mod event;
pub mod nvtx;
mod on;
mod output;
pub mod perfetto;
pub mod ranges;
mod ring;
mod tally;
mod tracer;
mod tracks;

pub use cause::{Within, cause};
pub use clock::now;
pub use event::{Event, Kind, OpId, Side, What};
pub use on::on;
pub use tracks::{LANES, MEMORY};

use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::path::PathBuf;

use std::time::Duration;

use semcache_fault::handler::last::before_the_end;

use crate::process::signals_blocked::SignalsBlocked;
use tracer::{Destination, Tracer};

/// How long the end of a process by a signal waits for the trace.
const BRIEFLY: Duration = Duration::from_secs(2);

/// The trace of this process; null while none is asked for.
static TRACER: AtomicPtr<Tracer> = AtomicPtr::new(core::ptr::null_mut());

#[expect(unsafe_code, reason = "the pointer is null or a leaked box")]
fn tracer() -> Option<&'static Tracer> {
    // SAFETY: `put` is the only place that stores a pointer, and what it points to is never freed.
    unsafe { TRACER.load(Ordering::Acquire).as_ref() }
}

/// A trace of this process, at the path that `path` gives for its id.
fn put(limit: u64, path: impl FnOnce(u32) -> PathBuf) {
    let pid = own_id();
    let path = path(pid);
    let tracer = Tracer::new(Destination { path, limit, pid });
    TRACER.store(Box::leak(Box::new(tracer)), Ordering::Release);
}

/// Begins a trace, once in a process: at the path that `path` gives for its id, of at most `limit` bytes less the
/// summary.
pub fn begin(limit: u64, path: impl FnOnce(u32) -> PathBuf) {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if BEGUN.swap(true, Ordering::AcqRel) {
        return;
    }
    put(limit, path);
    on::set(true);
    before_the_end(leave);
}

/// Starts the thread that writes, if it does not run yet and a trace is asked for. The calling thread holds no lock of
/// the runtime, and no lock of the process's allocator.
pub fn ready() {
    if on()
        && let Some(tracer) = tracer()
    {
        tracer.begin();
    }
}

/// Records an event, if a trace is written.
pub fn record(event: Event) {
    if on()
        && let Some(tracer) = tracer()
    {
        // A signal handler of the program that records on this thread would find the ring half changed.
        let _blocked = SignalsBlocked::new();
        tracer.record(event);
    }
}

/// Names the devices, in the order of their numbers.
pub fn devices(names: Vec<String>) {
    if let Some(tracer) = tracer() {
        tracer.devices(names);
    }
}

/// Ends the trace, with these named numbers in its summary; waits until it is written.
pub fn finish(summary: Vec<(String, u64)>) {
    if let Some(tracer) = ours() {
        on::set(false);
        tracer.finish(summary);
    }
}

/// Ends the trace of a process that ends at once, by a signal or `_exit`: takes no lock, because it may have
/// interrupted this thread anywhere.
pub fn leave() {
    if let Some(tracer) = ours() {
        // This thread ends with the process: no cancellation comes before that.
        let _ = semcache_fault::cancel::disabled();
        on::set(false);
        tracer.end(BRIEFLY);
    }
}

/// The trace, if this process writes one. A child that shares its parent's memory does not, nor does the child of a
/// fork that the fork handlers did not see: it has no thread that writes.
fn ours() -> Option<&'static Tracer> {
    let tracer = tracer()?;
    (tracer.destination().pid == own_id()).then_some(tracer)
}

fn own_id() -> u32 {
    let id = rustix::process::getpid();
    id.as_raw_nonzero().get().unsigned_abs()
}

/// In the child of a fork: a trace of its own, at the path that `path` gives for its id, from its first event on.
pub fn child(path: impl FnOnce(u32) -> PathBuf) {
    let Some(tracer) = tracer() else {
        return;
    };
    tally::forget();
    put(tracer.destination().limit, path);
}
