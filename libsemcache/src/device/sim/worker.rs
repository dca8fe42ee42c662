//! Worker threads of the simulated machine: they execute operations, one thread per stream, with random delays if the
//! machine is seeded.

#![expect(unsafe_code, reason = "executes operations on raw memory")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use semcache_fault::handler::mask::{Section, restricted};

use super::queue::{Next, Op, Queues, StreamSet, Work};
use super::{Inner, copy, memory::POISON};
use crate::device::api::{Ticket, undelivered};
use crate::device::arith;
use crate::process::signals_blocked::SignalsBlocked;
use crate::trace;

/// Stack of a worker: the arithmetic keeps its blocks on the heap.
const STACK: usize = 1 << 20;

/// Starts the worker of `stream`.
pub(super) fn start(inner: &Arc<Inner>, stream: usize) -> std::io::Result<()> {
    let inner = Arc::clone(inner);
    // The new thread inherits the blocked signals, so no signal reaches it from its first instruction on.
    let blocked = SignalsBlocked::new();
    let result = std::thread::Builder::new()
        .name("semcache-sim".to_owned())
        .stack_size(STACK)
        .spawn(move || serve(&inner, stream));
    drop(blocked);
    result.map(drop)
}

/// Executes the operations of one stream until the machine stops.
fn serve(inner: &Inner, stream: usize) {
    if let Some(hook) = inner.config.on_thread_start {
        hook();
    }
    let mut dice = Dice::new(inner.config.seed, stream);
    let mut scratch = Vec::new();
    let mut queues = inner.lock();
    loop {
        // In a process that restricts its system calls (seccomp) no operation is executed any more: no thread waits for
        // those left.
        let section = Section::begin();
        let next = match section {
            Some(_) => queues.next(stream),
            None => Next::Sleep,
        };
        let op = match next {
            Next::Run(op) => op,
            Next::Sleep => {
                drop(section);
                if let Some(other) = queues.neglected(stream) {
                    inner.signals[other].work.notify_one();
                }
                queues = inner.sleep(queues, stream);
                continue;
            }
            Next::Stop => return,
        };
        drop(queues);
        dice.delay();
        let executed = run(inner, stream, &op, &mut scratch);
        dice.delay();
        queues = inner.lock();
        let mut wake = StreamSet::default();
        retire(inner, &mut queues, stream, executed, &mut wake);
        inner.wake_streams(wake);
    }
}

/// Executes an operation taken from its queue; returns whether that succeeded.
fn run(inner: &Inner, stream: usize, op: &Op, scratch: &mut Vec<u8>) -> bool {
    let (started, start) = (Instant::now(), trace::now());
    let executed = catch_unwind(AssertUnwindSafe(|| execute(inner, op, scratch))).unwrap_or(false);
    throttle(inner, op, started);
    if executed {
        inner.signals[stream].times.executed(stream, op, start);
    }
    executed
}

/// Retires the operation that was running in `stream`, and wakes the threads that wait for it.
fn retire(inner: &Inner, queues: &mut Queues, stream: usize, executed: bool, wake: &mut StreamSet) {
    if executed {
        queues.finish(stream, wake);
    } else {
        queues.fail(stream, wake);
        inner.note_loss();
    }
    inner.publish(queues, stream);
    inner.wake_waiters(queues, stream, *wake, !executed);
}

/// Executes one operation that `ticket` needs on the calling thread, which waits for that ticket. Returns whether there
/// was an operation that no thread executes yet.
pub(super) fn help<'a>(
    inner: &'a Inner,
    mut queues: MutexGuard<'a, Queues>,
    ticket: Ticket,
    scratch: &mut Vec<u8>,
) -> (MutexGuard<'a, Queues>, bool) {
    let Some(stream) = queues.needed(ticket) else {
        return (queues, false);
    };
    let Next::Run(op) = queues.next(stream) else {
        return (queues, false);
    };
    drop(queues);
    let executed = run(inner, stream, &op, scratch);
    queues = inner.lock();
    let mut wake = StreamSet::default();
    retire(inner, &mut queues, stream, executed, &mut wake);
    // The calling thread continues with the operations that this one unblocked; a worker is only woken for large ones.
    let wake = queues.worth_waking(stream, wake);
    inner.wake_streams(wake);
    (queues, true)
}

/// Executes an operation; returns whether that succeeded.
fn execute(inner: &Inner, op: &Op, scratch: &mut Vec<u8>) -> bool {
    if inner.config.hollow {
        return true;
    }
    // SAFETY: the caller of the queueing function vouches for host addresses and for exclusive use; device regions were
    // checked to lie within allocated blocks.
    let result = unsafe {
        match op.work {
            Work::Upload { ref src, dst, .. } => {
                src.arrive(&inner.host, dst, scratch);
                Ok(())
            }
            Work::Download { src, dst, shape } => {
                let written = if undelivered::lacks(dst, shape) {
                    Err(Errno::FAULT)
                } else {
                    copy::download(&inner.host, src, dst, shape, scratch)
                };
                written.or_else(|_| undelivered::store(&inner.host, src, dst, shape))
            }
            Work::Peer {
                src, dst, shape, ..
            } => {
                copy::move_within(src, dst, shape);
                Ok(())
            }
            Work::Kernel(ref kernel) => {
                arith::run(kernel);
                Ok(())
            }
            Work::Sparse(ref kernel) => {
                arith::multiply(kernel);
                Ok(())
            }
            Work::Dense(ref kernel) => {
                arith::solve(kernel);
                Ok(())
            }
            Work::Poison { dst, shape } => {
                copy::fill(dst, shape, POISON);
                Ok(())
            }
        }
    };
    if let Err(error) = result {
        log::error!(
            "simulated copy failed, its device is lost: {error}: {:?}",
            op.work
        );
    }
    result.is_ok()
}

/// Makes a copy take as long as its bytes take on the configured link.
fn throttle(inner: &Inner, op: &Op, started: Instant) {
    let Some(gbs) = inner.config.link_gbs.filter(|gbs| *gbs > 0.0) else {
        return;
    };
    if matches!(
        op.work,
        Work::Kernel(_) | Work::Sparse(_) | Work::Dense(_) | Work::Poison { .. }
    ) {
        return;
    }
    let bytes = op.work.shape().bytes();
    #[expect(clippy::cast_precision_loss, reason = "a duration, not a count")]
    let seconds = bytes as f64 / (gbs * 1e9);
    let end = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    while let Some(rest) = end
        .checked_sub(started.elapsed())
        .filter(|rest| !rest.is_zero() && !restricted())
    {
        std::thread::sleep(rest);
    }
}

/// A small deterministic random generator (splitmix64) that chooses delays.
struct Dice {
    state: u64,
    on: bool,
}

impl Dice {
    fn new(seed: u64, stream: usize) -> Self {
        Dice {
            state: seed ^ (stream as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15),
            on: seed != 0,
        }
    }

    fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Delays the worker: not at all, by a few yields, or by a short sleep.
    fn delay(&mut self) {
        if !self.on {
            return;
        }
        let roll = self.roll();
        match roll % 8 {
            0..=2 => {}
            3..=5 => (0..=roll >> 8 & 7).for_each(|_| std::thread::yield_now()),
            _ => std::thread::sleep(Duration::from_micros(roll >> 8 & 127)),
        }
    }
}
