//! Times of the operations that simulated devices execute.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::queue::{LANES, Op, Work};
use crate::base::DeviceId;
use crate::base::dense::DenseWork;
use crate::base::timed::{Copied, Operation};
use crate::device::api::Shape;
use crate::device::measured::Reason;
use crate::trace::{self, OpId};

/// What is known of the times of a stream's operations. One thread at a time executes operations of the stream.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// The number of operations with a ticket that were executed.
    count: AtomicU64,
    /// The end of the last one.
    ended: AtomicU64,
}

impl Times {
    /// Notes that the operation, of the stream with this index, was executed just now, and began at `start`.
    pub(super) fn executed(&self, stream: usize, op: &Op, start: u64) {
        let (operation, start) = match op.work {
            Work::Upload {
                piece: Some(ref piece),
                ..
            } => {
                let Some((began, bytes)) = piece.executed(start) else {
                    return;
                };
                (Operation::Upload(Copied { bytes, run: 0 }), began)
            }
            Work::Upload { ref src, .. } => (Operation::Upload(copied(src.shape())), start),
            Work::Download { shape, .. } => (Operation::Download(copied(shape)), start),
            Work::Peer { from, shape, .. } if from != device(stream) => {
                (Operation::Peer(from, shape.bytes()), start)
            }
            Work::Kernel(ref kernel) => (Operation::Kernel(kernel.timed_work()), start),
            Work::Sparse(ref kernel) => (Operation::Sparse(kernel.bytes()), start),
            Work::Dense(ref kernel) => (Operation::Dense(DenseWork::of(kernel)), start),
            Work::Peer { .. } | Work::Poison { .. } => (Operation::Within, start),
        };
        let Some(reason) = Reason::of(self.count.fetch_add(1, Relaxed) + 1) else {
            return;
        };
        // Pieces of uploads that two threads queue at the same time may alternate.
        let start = start.max(self.ended.load(Relaxed));
        let end = trace::now().max(start);
        self.ended.store(end, Relaxed);
        let lane = u8::try_from(stream % LANES).unwrap_or(0);
        reason.fulfil(
            OpId::new(device(stream), lane, op.seq),
            operation,
            (start, end),
            0,
        );
    }
}

fn copied(shape: Shape) -> Copied {
    Copied {
        bytes: shape.bytes(),
        run: shape.width,
    }
}

/// The device of a stream.
fn device(stream: usize) -> DeviceId {
    DeviceId::at(stream / LANES)
}
