//! Calls that are on devices at this moment. Whoever ends the use of devices waits for those of other threads: at the end
//! of the process the driver's own end comes next, and a thread that is in the driver then meets functions that are gone.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::SeqCst;
use core::time::Duration;
use std::time::Instant;

use rustix::thread::futex;
use semcache_fault::broken;

use super::mode::{Mode, mode};
use super::present::{DEPTH, THREADS};
use crate::process::ending::ending;

/// This thread is in a call that uses devices, until dropped.
#[derive(Debug)]
pub(super) struct Underway(PhantomData<*const ()>);

impl Underway {
    /// Unless the use of devices ends, or has ended.
    pub(super) fn begin() -> Option<Underway> {
        let call = Underway::whatever();
        // Said before this look: whoever ends it says so before looking here.
        (!over()).then_some(call)
    }

    /// Also then: whoever else ends it is to wait for this thread.
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

/// No call begins any more.
fn over() -> bool {
    (ending() || mode() != Mode::On) && !broken!("break-ends")
}

/// When it has been said that no call begins any more: returns when no other thread is in such a call, or after
/// `patience`.
pub(super) fn await_others(patience: Duration) {
    let own = u32::from(DEPTH.get() > 0);
    let began = Instant::now();
    loop {
        let threads = THREADS.load(SeqCst);
        let left = patience.saturating_sub(began.elapsed());
        if threads <= own || left.is_zero() || broken!("break-ends") {
            return;
        }
        // The last one wakes; one that is not the last is seen a moment later.
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
