//! Times of the operations that simulated devices execute.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::queue::{LANES, Op, Work};
use crate::base::DeviceId;
use crate::device::measured::{Kind, Reason};
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
        let (kind, start) = match op.work {
            Work::Upload {
                piece: Some(ref piece),
                ..
            } => {
                let Some((began, bytes)) = piece.executed(start) else {
                    return;
                };
                (Kind::Upload(bytes), began)
            }
            Work::Upload { ref src, .. } => (Kind::Upload(src.shape().bytes()), start),
            Work::Download { shape, .. } => (Kind::Download(shape.bytes()), start),
            Work::Peer { from, shape, .. } if from != device(stream) => {
                (Kind::Peer(shape.bytes()), start)
            }
            Work::Kernel(ref kernel) => (Kind::Kernel(kernel.paced_work()), start),
            Work::Peer { .. } | Work::Poison { .. } => (Kind::Within, start),
        };
        let Some(reason) = Reason::of(self.count.fetch_add(1, Relaxed) + 1) else {
            return;
        };
        // Pieces of uploads that two threads queue at the same time may alternate.
        let start = start.max(self.ended.load(Relaxed));
        let end = trace::now().max(start);
        self.ended.store(end, Relaxed);
        let lane = u8::try_from(stream % LANES).unwrap_or(0);
        reason.fulfil(OpId::new(device(stream), lane, op.seq), kind, (start, end));
    }
}

/// The device of a stream.
fn device(stream: usize) -> DeviceId {
    DeviceId::at(stream / LANES)
}
