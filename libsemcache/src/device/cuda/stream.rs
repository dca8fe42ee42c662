//! A CUDA stream and its events: what is queued on it, and which operations are complete. When operations began and
//! ended is told by other events (`times`).
//!
//! An event is recorded behind every operation that is worth waiting for alone. Behind small kernels none is: a thread
//! that waits for one waits for an event that is recorded then, behind all operations queued so far. Where several devices compute, one
//! is recorded before each kernel that takes long, since another device may wait for results of the small ones before it.

use std::collections::VecDeque;

use super::clock::{Clock, Idle};
use super::driver::{self, CUevent, CUstream, Status};
use super::times::Times;
use crate::base::DeviceId;
use crate::base::timed::Operation;
use crate::device::api::{Lane, Ticket};

/// The most operations of a stream of which it is known for which other one they wait.
const FOLLOW: usize = 1024;

/// A stream and its events, used under the machine's lock. The stream's context must be current to record an event and
/// to read the times of complete operations.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) raw: CUstream,
    /// The number of operations queued.
    issued: u64,
    /// The number of operations known to be complete, from the first on.
    completed: u64,
    /// Events recorded, oldest first: when the event is complete, all operations up to the number are.
    recorded: VecDeque<(u64, CUevent)>,
    spare: Vec<CUevent>,
    /// For each stream of the machine, its last operation for which this stream waits already.
    behind: Vec<u64>,
    /// Operations that wait for one of another stream, oldest first, and for which.
    follow: VecDeque<(u64, Ticket)>,
    times: Times,
}

// SAFETY: the driver's handles may be used by any thread.
#[expect(unsafe_code, reason = "handles of the driver are pointers")]
unsafe impl Send for Stream {}

impl Stream {
    /// A stream of the current context, in a machine of `streams` streams.
    pub(super) fn new(streams: usize, device: DeviceId, lane: Lane) -> Result<Stream, Status> {
        Ok(Stream {
            raw: driver::create_stream()?,
            issued: 0,
            completed: 0,
            recorded: VecDeque::new(),
            spare: Vec::new(),
            behind: vec![0; streams],
            follow: VecDeque::new(),
            times: Times::new(device, lane),
        })
    }

    /// Called before the first part of an operation is queued: the operation's time begins.
    pub(super) fn begins(&mut self, clock: &mut Clock<Idle>) {
        self.times.begins(self.raw, clock);
    }

    /// Numbers an operation that was just queued. With `event`, an event is recorded so that a thread can wait for it
    /// alone. With `operation`, its time ends here.
    pub(super) fn queued(&mut self, event: bool, operation: Option<Operation>) -> u64 {
        self.issued += 1;
        if let Some(operation) = operation {
            self.times.ends(self.raw, self.issued, operation);
        }
        if event {
            // If no event can be recorded now, a waiting thread records one later, or waits for the whole stream.
            let _ = self.record();
        }
        self.issued
    }

    /// Called before an operation that takes long: what waits for one of the operations before it does not wait for this one, too.
    pub(super) fn takes_long(&mut self) {
        if self.completed < self.issued {
            // If no event can be recorded now, others wait longer.
            let _ = self.record();
        }
    }

    /// Records an event behind all operations that are queued.
    fn record(&mut self) -> Result<CUevent, Status> {
        if let Some(&(seq, e)) = self.recorded.back()
            && seq == self.issued
        {
            return Ok(e);
        }
        if self.spare.is_empty() {
            // Events that are complete can be used again.
            let _ = self.poll();
        }
        let e = match self.spare.pop() {
            Some(e) => e,
            None => driver::create_event()?,
        };
        if let Err(status) = driver::record(e, self.raw) {
            self.spare.push(e);
            return Err(status);
        }
        self.recorded.push_back((self.issued, e));
        Ok(e)
    }

    /// Asks the driver which recorded events are complete.
    pub(super) fn poll(&mut self) -> Result<(), Status> {
        while let Some(&(seq, e)) = self.recorded.front() {
            if !driver::event_done(e)? {
                break;
            }
            self.retire(seq, e);
        }
        Ok(())
    }

    fn retire(&mut self, seq: u64, e: CUevent) {
        self.recorded.pop_front();
        self.spare.push(e);
        self.complete(seq);
    }

    fn complete(&mut self, seq: u64) {
        self.completed = self.completed.max(seq);
        while self.follow.front().is_some_and(|(s, _)| *s <= seq) {
            self.follow.pop_front();
        }
        self.times.complete(self.completed);
    }

    /// Whether an operation is known to be complete; asks the driver if necessary.
    pub(super) fn done(&mut self, seq: u64) -> Result<bool, Status> {
        if self.completed < seq {
            self.poll()?;
        }
        if self.completed >= seq {
            return Ok(true);
        }
        // The operation has no event: ask for the whole stream; if that is busy, record an event for the next question.
        if self.recorded.back().is_none_or(|&(last, _)| last < seq) {
            if driver::stream_done(self.raw)? {
                self.all_done();
                return Ok(true);
            }
            self.record()?;
        }
        Ok(false)
    }

    fn all_done(&mut self) {
        self.spare.extend(self.recorded.drain(..).map(|(_, e)| e));
        self.complete(self.issued);
    }

    /// An event at or after an operation; `None` if the operation is complete already.
    pub(super) fn event(&mut self, seq: u64) -> Result<Option<CUevent>, Status> {
        if self.completed >= seq {
            return Ok(None);
        }
        match self.recorded.iter().find(|(s, _)| *s >= seq) {
            Some(&(_, e)) => Ok(Some(e)),
            None => self.record().map(Some),
        }
    }

    /// Whether operations queued on this stream from now on wait for operation `seq` of the stream with that index
    /// already.
    pub(super) fn is_behind(&self, stream: usize, seq: u64) -> bool {
        self.behind[stream] >= seq
    }

    /// Makes operations queued on this stream from now on wait for operation `seq` of the stream with that index, by
    /// its event.
    pub(super) fn wait_for(
        &mut self,
        stream: usize,
        ticket: Ticket,
        e: CUevent,
    ) -> Result<(), Status> {
        driver::stream_after(self.raw, e)?;
        self.behind[stream] = self.behind[stream].max(ticket.seq);
        // A thread that waits for more than these takes the time of all for that of the last.
        if self.follow.len() < FOLLOW {
            self.follow.push_back((self.issued + 1, ticket));
        }
        Ok(())
    }

    /// The operation of another stream that an operation, or an earlier part of the same copy, waits for. It has an event, or one
    /// behind it has for which this stream waits as well.
    pub(super) fn follows(&self, seq: u64) -> Option<Ticket> {
        let mut all = self.follow.iter().rev();
        all.find(|(s, _)| *s <= seq).map(|(_, ticket)| *ticket)
    }

    /// Notes that operation `seq` is complete, because the caller has waited for its event.
    pub(super) fn known(&mut self, seq: u64) {
        while let Some(&(s, e)) = self.recorded.front() {
            if s > seq {
                break;
            }
            self.retire(s, e);
        }
        self.complete(seq);
    }

    /// The number that the next operation gets.
    pub(super) fn next(&self) -> u64 {
        self.issued + 1
    }

    /// The number of operations known to be complete.
    pub(super) fn completed(&self) -> u64 {
        self.completed
    }
}
