//! Times of the operations of a stream: a timing event is recorded before an operation and another one behind it, and
//! once the operation is complete, the driver tells when it began and ended.
//!
//! No operation fails because it could not be timed: then it has no time. A stream that was idle reaches the first event
//! before the operation has been queued, so the time of an operation includes what the host needs to queue it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::clock::{Clock, Handle, Idle, Reference};
use super::driver::{self, CUevent, CUstream, Elapsed};
use crate::base::DeviceId;
use crate::base::timed::Operation;
use crate::device::api::Lane;
use crate::device::measured::Reason;
use crate::trace::{self, OpId};

/// At every multiple of this number of operations that were not read yet the driver is asked which are complete.
const MANY: usize = 1 << 10;
/// While this number of operations were not read yet, no further ones are timed.
const MOST: usize = 4 << 10;

/// An operation that is to be timed: its first event is recorded.
#[derive(Debug)]
struct Begun {
    start: CUevent,
    reference: Arc<Reference<Handle>>,
    elapsed: Elapsed,
    reason: Reason,
    /// The host's time before the first event was recorded.
    queued: u64,
}

/// An operation that is queued between its two events.
#[derive(Debug)]
struct Timed {
    begun: Begun,
    end: CUevent,
    seq: u64,
    operation: Operation,
    /// Nanoseconds that the host took to queue it.
    queueing: u64,
}

/// The timed operations of a stream, used under the machine's lock and with the stream's context current.
#[derive(Debug)]
pub(super) struct Times {
    device: DeviceId,
    lane: Lane,
    /// The number of operations that began, timed or not.
    count: u64,
    /// The operation that is being queued, if it is to be timed.
    begun: Option<Begun>,
    /// Operations whose times were not read yet, oldest first.
    unread: VecDeque<Timed>,
    spare: Vec<CUevent>,
    /// The end of the last operation whose times were read.
    last: u64,
}

impl Times {
    pub(super) fn new(device: DeviceId, lane: Lane) -> Times {
        Times {
            device,
            lane,
            count: 0,
            begun: None,
            unread: VecDeque::new(),
            spare: Vec::new(),
            last: 0,
        }
    }

    /// Begins an operation that is queued next on the stream: its first event is recorded, if it is to be timed.
    pub(super) fn begins(&mut self, stream: CUstream, clock: &mut Clock<Idle>) {
        // The operation that began last may not have been queued, because it was refused.
        self.spare.extend(self.begun.take().map(|b| b.start));
        self.count += 1;
        if let Some(reason) = Reason::of(self.count) {
            self.begun = self.begin(stream, clock, reason);
        }
    }

    fn begin(
        &mut self,
        stream: CUstream,
        clock: &mut Clock<Idle>,
        reason: Reason,
    ) -> Option<Begun> {
        let elapsed = clock.elapsed()?;
        if !self.unread.is_empty() && self.unread.len().is_multiple_of(MANY) {
            self.poll();
        }
        if self.unread.len() >= MOST {
            return None;
        }
        let reference = clock.reference()?;
        let queued = trace::now();
        Some(Begun {
            start: self.record(stream)?,
            reference,
            elapsed,
            reason,
            queued,
        })
    }

    /// The operation that began has been queued as operation `seq`: its second event is recorded, before any event by
    /// which a thread learns that the operation is complete.
    pub(super) fn ends(&mut self, stream: CUstream, seq: u64, operation: Operation) {
        let Some(begun) = self.begun.take() else {
            return;
        };
        let Some(end) = self.record(stream) else {
            self.spare.push(begun.start);
            return;
        };
        let queueing = trace::now().saturating_sub(begun.queued);
        self.unread.push_back(Timed {
            begun,
            end,
            seq,
            operation,
            queueing,
        });
    }

    fn record(&mut self, stream: CUstream) -> Option<CUevent> {
        let event = match self.spare.pop() {
            Some(event) => event,
            None => driver::create_timing_event().ok()?,
        };
        if driver::record(event, stream).is_err() {
            self.spare.push(event);
            return None;
        }
        Some(event)
    }

    /// Asks the driver which operations are complete, and reads their times.
    fn poll(&mut self) {
        while let Some(first) = self.unread.front()
            && driver::event_done(first.end) == Ok(true)
        {
            self.read_first();
        }
    }

    /// Reads the times of the operations up to `seq`, which are complete.
    pub(super) fn complete(&mut self, seq: u64) {
        while self.unread.front().is_some_and(|first| first.seq <= seq) {
            self.read_first();
        }
    }

    fn read_first(&mut self) {
        let Some(timed) = self.unread.pop_front() else {
            return;
        };
        let Begun {
            start,
            reference,
            elapsed,
            reason,
            queued,
        } = timed.begun;
        let elapsed = |from: Handle, to: Handle| elapsed.milliseconds(from.0, to.0).ok();
        if let Some(span) = reference.span(elapsed, Handle(start), Handle(timed.end)) {
            let span = possible(span, queued.max(self.last), trace::now());
            self.last = span.1;
            let op = OpId::new(self.device, self.lane as u8, timed.seq);
            reason.fulfil(op, timed.operation, span, timed.queueing);
        }
        self.spare.extend([start, timed.end]);
    }
}

/// The part of a span between two times. The clocks of device and host agree to some microseconds only; but an operation did
/// not begin before it was queued, nor before the end of the operation before it, and it has ended by now.
fn possible(span: (u64, u64), earliest: u64, now: u64) -> (u64, u64) {
    let latest = now.max(earliest);
    let start = span.0.clamp(earliest, latest);
    (start, span.1.clamp(start, latest))
}

#[cfg(test)]
mod tests {
    use super::possible;

    #[test]
    fn a_span_lies_behind_the_one_before_and_before_now() {
        assert_eq!(possible((10, 20), 5, 30), (10, 20));
        assert_eq!(possible((10, 20), 12, 30), (12, 20));
        assert_eq!(possible((10, 20), 25, 30), (25, 25));
        assert_eq!(possible((10, 20), 5, 15), (10, 15));
        assert_eq!(possible((10, 20), 5, 8), (8, 8));
        // A host clock that seems to stand behind the last operation.
        assert_eq!(possible((10, 20), 25, 8), (25, 25));
    }
}
