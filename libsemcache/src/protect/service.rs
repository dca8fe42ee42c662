//! The thread that answers faults.
//!
//! It takes faults from the handler's mailbox and gives them to the sink, the cache, one at a time. The
//! faulting thread may hold any lock of the process, the allocator's included: neither this loop nor
//! the sink may allocate from the process heap, log, or wait for the program.

use semcache_fault::handler::{block_async_signals, threads};
use semcache_fault::mailbox::{self, Verdict};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The stack is mapped, not allocated, and what is never touched costs nothing.
const STACK: usize = 1 << 20;
/// How long the mailbox may be silent before the thread looks around; its sign of life.
const IDLE: Duration = Duration::from_millis(500);

/// What a sink did with a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Served {
    /// The page permits the access now; it is retried.
    Open,
    /// Not a page of ours; the program's own handler gets the fault.
    NotOurs,
}

/// Who deals with faults on closed pages: brings the bytes home, then opens the page.
pub trait FaultSink: Sync {
    /// Makes the access to `addr` possible. Called on the service thread. Several threads may fault on
    /// the same page, so a page that permits the access already is [`Served::Open`].
    fn fault(&self, addr: usize, write: bool) -> Served;
}

static RUNNING: AtomicBool = AtomicBool::new(false);

/// Starts the service thread and returns once it takes faults. To be called before the first page is
/// closed; the process has one.
///
/// # Errors
/// `AlreadyExists` if it runs already, else what creating a thread says.
pub fn spawn(sink: &'static dyn FaultSink) -> io::Result<()> {
    if RUNNING.swap(true, Ordering::AcqRel) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let (ready, started) = mpsc::sync_channel(1);
    // Inherited, so that no handler of the program ever runs on that thread.
    let mask = block_async_signals();
    let thread = thread::Builder::new()
        .name("semcache-fault".into())
        .stack_size(STACK)
        .spawn(move || {
            threads::register_runtime_thread();
            mailbox::attach();
            let _ = ready.send(());
            drop(ready);
            serve(sink)
        });
    mask.restore();
    match thread {
        Ok(_) => started.recv().map_err(io::Error::other),
        Err(error) => {
            RUNNING.store(false, Ordering::Release);
            Err(error)
        }
    }
}

fn serve(sink: &dyn FaultSink) -> ! {
    loop {
        let Some(fault) = mailbox::take(IDLE) else {
            continue;
        };
        let served = catch_unwind(AssertUnwindSafe(|| sink.fault(fault.addr, fault.write)));
        let verdict = match served {
            Ok(Served::Open) => Verdict::Retry,
            Ok(Served::NotOurs) => Verdict::NotOurs,
            Err(payload) => {
                // Dropping it could panic again, outside of the net.
                std::mem::forget(payload);
                Verdict::NotOurs
            }
        };
        mailbox::complete(fault, verdict);
    }
}
