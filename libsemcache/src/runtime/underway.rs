//! Counts threads that are in a call on devices. Before the use of devices ends, the thread that ends it waits for
//! those of other threads: at the end of the process the driver's own exit handlers run next, and a thread still in the
//! driver would call functions that no longer work.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::SeqCst;
use core::time::Duration;
use std::time::Instant;

use rustix::thread::futex;
use semcache_fault::broken;

use super::mode::{Mode, mode};
use super::present::{DEPTH, THREADS};
use crate::process::ending::ending;

/// The calling thread is in a call that uses devices, until this value is dropped.
#[derive(Debug)]
pub(super) struct Underway(PhantomData<*const ()>);

impl Underway {
    /// None if the use of devices ends, or has ended.
    pub(super) fn begin() -> Option<Underway> {
        let call = Underway::whatever();
        // Counted before this look: a thread that ends the use of devices sets the mode before it reads the count.
        (!over()).then_some(call)
    }

    /// Counts the calling thread even if the use of devices has ended: another thread that ends it waits for this one.
    pub(super) fn whatever() -> Underway {
        if DEPTH.replace(DEPTH.get() + 1) == 0 {
            THREADS.fetch_add(1, SeqCst);
        }
        Underway(PhantomData)
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 && THREADS.fetch_sub(1, SeqCst) == 1 && over() {
            let _ = futex::wake(&THREADS, futex::Flags::PRIVATE, u32::MAX >> 1);
        }
    }
}

/// Whether calls on devices may no longer begin.
pub(super) fn over() -> bool {
    (ending() || mode() != Mode::On) && !broken!("break-ends")
}

/// Called after the mode has changed so that no call begins any more: returns when no other thread is in a call on
/// devices, or after `patience`.
pub(super) fn await_others(patience: Duration) {
    let own = u32::from(DEPTH.get() > 0);
    let began = Instant::now();
    loop {
        let threads = THREADS.load(SeqCst);
        let left = patience.saturating_sub(began.elapsed());
        if threads <= own || left.is_zero() || broken!("break-ends") {
            return;
        }
        // A thread that takes the count to zero wakes this one. If this thread is counted itself, the count never
        // reaches zero while it waits, and it sees the others' end within 10 ms.
        let a_moment = left.min(Duration::from_millis(10));
        let _ = futex::wait(
            &THREADS,
            futex::Flags::PRIVATE,
            threads,
            Some(&futex::Timespec {
                tv_sec: 0,
                tv_nsec: i64::from(a_moment.subsec_nanos()),
            }),
        );
    }
}
