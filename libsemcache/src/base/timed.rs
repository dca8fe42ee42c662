//! Measured times of what devices and the driver did, on their way from the floor that measures to the policy that
//! corrects its rates by them.
//!
//! The queue keeps a few times until the next decision takes them. No thread waits here: a time that finds the queue full, or in
//! use by another thread, is dropped.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, TryLockError};

use super::dense::DenseWork;
use super::{DeviceId, Work};

/// What an operation of a device does, as far as its time tells a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A copy from the host to the device.
    Upload(Copied),
    /// A copy from the device to the host.
    Download(Copied),
    /// A copy of this number of bytes from another device.
    Peer(DeviceId, usize),
    /// A kernel on operands that the device holds.
    Kernel(Work),
    /// A product of a sparse matrix that moves this number of bytes of the device's memory.
    Sparse(usize),
    /// A factorization or solution of a dense system.
    Dense(DenseWork),
    /// Moves or fills bytes within the device.
    Within,
}

/// The bytes of a copy between the host and a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copied {
    /// All of them.
    pub bytes: usize,
    /// Those that lie beside each other in both memories (of a matrix, the bytes of a column), if the copy engine moves them in
    /// place. Zero if a part passes through staging memory: that takes as long as the CPU needs.
    pub run: usize,
}

/// What was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// An operation of a device.
    Operation(DeviceId, Operation),
    /// Page-locking of this number of bytes.
    Locking(usize),
}

/// One measured time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timed {
    /// What was measured.
    pub what: What,
    /// The measured time.
    pub seconds: f64,
}

/// Times that the queue keeps at once.
const MOST: usize = 64;

struct Queue {
    kept: [Timed; MOST],
    count: usize,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    kept: [Timed {
        what: What::Locking(0),
        seconds: 0.0,
    }; MOST],
    count: 0,
});

/// How many times the queue has, so that a decision without new ones takes no lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn queue() -> Option<MutexGuard<'static, Queue>> {
    match QUEUE.try_lock() {
        Ok(queue) => Some(queue),
        Err(TryLockError::Poisoned(queue)) => Some(queue.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Adds a measured time to the queue.
pub fn note(timed: Timed) {
    if let Some(mut queue) = queue()
        && queue.count < MOST
    {
        let at = queue.count;
        queue.kept[at] = timed;
        queue.count += 1;
        COUNT.store(queue.count, Relaxed);
    }
}

/// Passes on all times that the queue has, the oldest first, and empties it.
pub fn take(each: &mut dyn FnMut(&Timed)) {
    if COUNT.load(Relaxed) == 0 {
        return;
    }
    let Some(mut queue) = queue() else {
        return;
    };
    let (kept, count) = (queue.kept, queue.count);
    queue.count = 0;
    COUNT.store(0, Relaxed);
    drop(queue);
    kept[..count].iter().for_each(each);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The one test of the queue, which is one for the process.
    #[test]
    fn a_full_queue_drops_what_comes_and_gives_what_it_has_once() {
        take(&mut |_| {});
        for bytes in 0..2 * MOST {
            note(Timed {
                what: What::Locking(bytes),
                seconds: 1.0,
            });
        }
        let mut found = Vec::new();
        take(&mut |timed| found.push(timed.what));
        assert_eq!(found, (0..MOST).map(What::Locking).collect::<Vec<_>>());
        take(&mut |timed| panic!("{timed:?}"));
    }
}
