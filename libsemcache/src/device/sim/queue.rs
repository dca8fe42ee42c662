//! The streams of a simulated machine as a data structure: which operations are queued, which may run, which are done,
//! which have failed. It has no threads and no clock; the machine keeps one [`Queues`] behind a mutex.
//!
//! Rules:
//!
//! 1. A stream runs its operations one after the other, each after all tickets that it names.
//! 2. Late mode: an operation may run only if it is *demanded*. Demanding a ticket demands everything before it in its
//!    stream and, transitively, every ticket that one of these operations names.
//! 3. When a device is lost, its queued operations fail; operations that are executing complete. At the same instant
//!    these queued operations of all streams fail, too: those that name a failed ticket, copies from the lost device,
//!    and those behind a failed operation in its stream. So no queued operation waits for ever, and none runs on data
//!    that never arrived.
//! 4. A failed ticket names the device whose loss failed it. An operation that names a failed ticket is refused as lost
//!    when it is queued; the other streams of living devices continue.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::staged::{Piece, Staged};
use super::status::BAD_VALUE;
use crate::base::DeviceId;
use crate::device::api::{
    CsrKernel, DenseKernel, DeviceError, Kernel, Lane, Region, Shape, Ticket,
};

/// Streams per device.
pub(super) const LANES: usize = Lane::ALL.len();

/// The most operations that may wait in late mode; beyond, the oldest is demanded.
pub(super) const LATE_LIMIT: usize = 100_000;

/// At every multiple of this number of queued operations a stream's worker is woken even for small ones.
const LAZY_LIMIT: usize = 64;

/// Executing a copy of fewer bytes takes less time than waking a thread.
const SMALL_BYTES: usize = 64 << 10;

/// Executing a kernel of fewer multiply-adds takes less time than waking a thread.
const SMALL_FLOPS: usize = 100_000;

/// What an operation does.
#[derive(Debug)]
pub(super) enum Work {
    Upload {
        src: Staged,
        dst: Region,
        /// Which piece this is, if the upload was cut.
        piece: Option<Piece>,
    },
    Download {
        src: Region,
        dst: Region,
        shape: Shape,
    },
    Peer {
        from: DeviceId,
        src: Region,
        dst: Region,
        shape: Shape,
    },
    Kernel(Kernel),
    Sparse(Box<CsrKernel>),
    Dense(Box<DenseKernel>),
    Poison {
        dst: Region,
        shape: Shape,
    },
}

impl Work {
    /// Whether executing it takes less time than waking a thread for it.
    fn small(&self) -> bool {
        match *self {
            Work::Kernel(ref kernel) => kernel.work() < SMALL_FLOPS,
            Work::Sparse(ref kernel) => kernel.nnz < SMALL_FLOPS,
            Work::Dense(_) => false,
            _ => {
                let Shape { width, count } = self.shape();
                width * count < SMALL_BYTES && count < 64
            }
        }
    }

    /// The shape that a copy moves, or that poison fills; empty for a kernel.
    pub(super) fn shape(&self) -> Shape {
        match *self {
            Work::Upload { ref src, .. } => src.shape(),
            Work::Download { shape, .. }
            | Work::Peer { shape, .. }
            | Work::Poison { shape, .. } => shape,
            Work::Kernel(_) | Work::Sparse(_) | Work::Dense(_) => Shape { width: 0, count: 0 },
        }
    }
}

/// A queued operation.
#[derive(Debug)]
pub(super) struct Op {
    pub(super) seq: u64,
    /// Position among all operations of the machine.
    order: u64,
    after: Vec<Ticket>,
    pub(super) work: Work,
}

/// Tickets `from..=to` of a stream that failed because `by` was lost.
#[derive(Clone, Copy, Debug)]
struct Failed {
    from: u64,
    to: u64,
    by: DeviceId,
}

#[derive(Debug, Default)]
struct Stream {
    issued: u64,
    /// The last ticket up to which all are complete or failed.
    retired: u64,
    queue: VecDeque<Op>,
    /// The operation that a worker is executing.
    running: Option<u64>,
    /// The last ticket that is demanded.
    demanded: u64,
    failed: Vec<Failed>,
    /// The ticket that the front of the queue was last seen waiting for.
    blocked: Option<Ticket>,
}

impl Stream {
    fn failed(&self, seq: u64) -> Option<DeviceId> {
        self.failed
            .iter()
            .find(|f| f.from <= seq && seq <= f.to)
            .map(|f| f.by)
    }

    /// Fails the queued operations from position `at` on.
    fn fail_from(&mut self, at: usize, by: DeviceId) {
        if let Some(op) = self.queue.get(at) {
            self.failed.push(Failed {
                from: op.seq,
                to: self.issued,
                by,
            });
            self.queue.truncate(at);
        }
    }

    /// Moves `retired` over failed tickets.
    fn settle(&mut self) {
        while let Some(f) = self.failed.iter().find(|f| f.from == self.retired + 1) {
            self.retired = f.to;
        }
    }
}

/// A set of streams, by stream index.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct StreamSet([u64; LANES]);

impl StreamSet {
    pub(super) fn add(&mut self, stream: usize) {
        self.0[stream / 64] |= 1 << (stream % 64);
    }

    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().enumerate().flat_map(|(word, bits)| {
            let next = |rest: &u64| Some(rest & (rest - 1)).filter(|_| *rest != 0);
            core::iter::successors(Some(bits).filter(|b| *b != 0), move |rest| {
                next(rest).filter(|b| *b != 0)
            })
            .map(move |rest| word * 64 + rest.trailing_zeros() as usize)
        })
    }
}

/// The state of a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    Pending,
    Done,
    Lost(DeviceId),
    /// Never issued.
    Unknown,
}

/// What a stream's worker does next.
#[derive(Debug)]
pub(super) enum Next {
    Run(Op),
    Sleep,
    Stop,
}

/// All streams of a machine.
#[derive(Debug)]
pub(super) struct Queues {
    streams: Vec<Stream>,
    dead: Vec<bool>,
    late: bool,
    /// Whether workers are left asleep for small operations.
    lazy: bool,
    /// The number of threads that sleep until a ticket is retired.
    sleepers: usize,
    order: u64,
    queued: usize,
    stopped: bool,
}

/// The index of a stream.
pub(super) fn index(device: DeviceId, lane: Lane) -> usize {
    device.index() * LANES + lane as usize
}

impl Queues {
    pub(super) fn new(devices: usize, late: bool, lazy: bool) -> Self {
        Queues {
            streams: (0..devices * LANES).map(|_| Stream::default()).collect(),
            dead: vec![false; devices],
            late,
            lazy,
            sleepers: 0,
            order: 0,
            queued: 0,
            stopped: false,
        }
    }

    pub(super) fn retired(&self, stream: usize) -> u64 {
        self.streams[stream].retired
    }

    pub(super) fn is_lost(&self, device: DeviceId) -> bool {
        self.dead.get(device.index()).copied().unwrap_or(false)
    }

    pub(super) fn status(&self, ticket: Ticket) -> Status {
        let Some(stream) = self.streams.get(index(ticket.device, ticket.lane)) else {
            return Status::Unknown;
        };
        if let Some(by) = stream.failed(ticket.seq) {
            Status::Lost(by)
        } else if ticket.seq > stream.issued {
            Status::Unknown
        } else if ticket.seq <= stream.retired {
            Status::Done
        } else {
            Status::Pending
        }
    }

    /// The operation that one which has not begun yet waits for: of several, the one that was named last.
    pub(super) fn behind(&self, ticket: Ticket) -> Option<Ticket> {
        let queue = &self.streams.get(index(ticket.device, ticket.lane))?.queue;
        let at = queue.partition_point(|op| op.seq < ticket.seq);
        let op = queue.get(at).filter(|op| op.seq == ticket.seq)?;
        let pending = |t: &&Ticket| self.status(**t) == Status::Pending;
        op.after.iter().rev().find(pending).copied()
    }

    /// Queues an operation. On error nothing is queued. Adds the streams whose workers have something to do to `wake`.
    pub(super) fn enqueue(
        &mut self,
        device: DeviceId,
        lane: Lane,
        after: &[Ticket],
        work: Work,
        wake: &mut StreamSet,
    ) -> Result<Ticket, DeviceError> {
        let small = work.small();
        let from = if let Work::Peer { from, .. } = work {
            from
        } else {
            device
        };
        if let Some(device) = [device, from].into_iter().find(|d| self.is_lost(*d)) {
            return Err(DeviceError::Lost { device });
        }
        let mut open: Vec<Ticket> = Vec::new();
        for t in after {
            match self.status(*t) {
                Status::Done => {}
                Status::Lost(device) => return Err(DeviceError::Lost { device }),
                Status::Unknown => return Err(unknown(device)),
                Status::Pending => {
                    let same = |o: &&mut Ticket| (o.device, o.lane) == (t.device, t.lane);
                    match open.iter_mut().find(same) {
                        Some(o) => o.seq = o.seq.max(t.seq),
                        None => open.push(*t),
                    }
                }
            }
        }
        let s = index(device, lane);
        // Tickets of the operation's own stream need not be named: the stream runs in order.
        open.retain(|t| index(t.device, t.lane) != s);
        self.order += 1;
        self.queued += 1;
        let stream = &mut self.streams[s];
        stream.issued += 1;
        let seq = stream.issued;
        stream.queue.push_back(Op {
            seq,
            order: self.order,
            after: open,
            work,
        });
        if !self.late {
            // A worker is not woken for an operation that takes less time than waking it: the thread that waits for its
            // ticket executes it, or a larger operation behind it wakes the worker.
            let queued = stream.queue.len();
            let idle = stream.running.is_none();
            if idle && (!(self.lazy && small) || queued.is_multiple_of(LAZY_LIMIT)) {
                wake.add(s);
            }
        } else if self.queued > LATE_LIMIT {
            self.demand_oldest(wake);
        }
        Ok(Ticket { device, lane, seq })
    }

    /// Demands the oldest operation that is not demanded yet.
    fn demand_oldest(&mut self, wake: &mut StreamSet) {
        let oldest = (0..self.streams.len())
            .filter_map(|s| {
                let stream = &self.streams[s];
                let first = stream.queue.partition_point(|op| op.seq <= stream.demanded);
                let op = stream.queue.get(first)?;
                Some((op.order, s, op.seq))
            })
            .min();
        if let Some((_, s, seq)) = oldest {
            self.demand_stream(s, seq, wake);
        }
    }

    /// Demands a ticket (rule 2). Does nothing outside late mode.
    pub(super) fn demand(&mut self, ticket: Ticket, wake: &mut StreamSet) {
        if self.late {
            self.demand_stream(index(ticket.device, ticket.lane), ticket.seq, wake);
        }
    }

    fn demand_stream(&mut self, s: usize, seq: u64, wake: &mut StreamSet) {
        let mut todo = vec![(s, seq)];
        while let Some((s, seq)) = todo.pop() {
            let stream = &mut self.streams[s];
            let before = stream.demanded;
            if seq <= before {
                continue;
            }
            stream.demanded = seq;
            wake.add(s);
            // Queues are in ticket order.
            let from = stream.queue.partition_point(|op| op.seq <= before);
            let to = stream.queue.partition_point(|op| op.seq <= seq);
            let after = stream.queue.range(from..to).flat_map(|op| &op.after);
            todo.extend(after.map(|t| (index(t.device, t.lane), t.seq)));
        }
    }

    /// What the worker of `stream` does now; [`Next::Run`] passes the operation to the worker.
    pub(super) fn next(&mut self, stream: usize) -> Next {
        if self.stopped {
            return Next::Stop;
        }
        self.streams[stream].blocked = None;
        // A waiting thread may be executing the operation before this one.
        if self.streams[stream].running.is_some() {
            return Next::Sleep;
        }
        let Some(op) = self.streams[stream].queue.front() else {
            return Next::Sleep;
        };
        if self.late && op.seq > self.streams[stream].demanded {
            return Next::Sleep;
        }
        let open = |t: &&Ticket| self.streams[index(t.device, t.lane)].retired < t.seq;
        let blocked = op.after.iter().find(open).copied();
        let stream = &mut self.streams[stream];
        stream.blocked = blocked;
        if blocked.is_some() {
            return Next::Sleep;
        }
        match stream.queue.pop_front() {
            Some(op) => {
                self.queued -= 1;
                stream.running = Some(op.seq);
                Next::Run(op)
            }
            None => Next::Sleep,
        }
    }

    /// A stream whose next operation may run now and is needed for `ticket`, so that the thread that waits for the
    /// ticket can execute the operation.
    pub(super) fn needed(&self, ticket: Ticket) -> Option<usize> {
        let mut s = index(ticket.device, ticket.lane);
        loop {
            let stream = &self.streams[s];
            let op = stream.queue.front()?;
            if stream.running.is_some() || (self.late && op.seq > stream.demanded) {
                return None;
            }
            let open = |t: &&Ticket| self.streams[index(t.device, t.lane)].retired < t.seq;
            match op.after.iter().find(open) {
                None => return Some(s),
                // An operation names older tickets only, so this loop ends.
                Some(t) => s = index(t.device, t.lane),
            }
        }
    }

    /// The stream whose operation `stream` waits for, if no thread executes that: its worker may not have been woken
    /// for small operations.
    pub(super) fn neglected(&self, stream: usize) -> Option<usize> {
        let t = self.streams[stream].blocked?;
        let s = index(t.device, t.lane);
        self.streams[s].running.is_none().then_some(s)
    }

    /// Notes that a thread begins (`more`) or ends to sleep until a ticket is retired: while any does, workers are
    /// woken for small operations, too.
    pub(super) fn sleeper(&mut self, more: bool) {
        self.sleepers = if more {
            self.sleepers + 1
        } else {
            self.sleepers.saturating_sub(1)
        };
    }

    /// All streams with queued operations of which no thread executes one.
    pub(super) fn pending(&self) -> StreamSet {
        let mut set = StreamSet::default();
        for (s, stream) in self.streams.iter().enumerate() {
            if !stream.queue.is_empty() && stream.running.is_none() {
                set.add(s);
            }
        }
        set
    }

    /// Of the streams in `wake`, and of `stream`, whose operation has just been executed: those whose next operation is
    /// worth waking a worker.
    pub(super) fn worth_waking(&self, stream: usize, mut wake: StreamSet) -> StreamSet {
        if self.sleepers > 0 {
            return self.pending();
        }
        wake.add(stream);
        let mut worth = StreamSet::default();
        for s in wake.iter().filter(|s| *s < self.streams.len()) {
            let large = |op: &Op| !(self.lazy && op.work.small());
            if self.streams[s].queue.front().is_some_and(large) {
                worth.add(s);
            }
        }
        worth
    }

    /// Retires the running operation of `stream`, which is complete. Streams that this may unblock are added to `wake`.
    pub(super) fn finish(&mut self, stream: usize, wake: &mut StreamSet) {
        let this = &mut self.streams[stream];
        if let Some(seq) = this.running.take() {
            this.retired = seq;
            this.settle();
        }
        self.unblock(wake);
    }

    /// Fails the running operation of `stream`, which could not be executed: its device is lost with it.
    pub(super) fn fail(&mut self, stream: usize, wake: &mut StreamSet) {
        let by = device_of(stream);
        if let Some(seq) = self.streams[stream].running.take() {
            self.streams[stream].failed.push(Failed {
                from: seq,
                to: seq,
                by,
            });
        }
        self.lose(by, wake);
    }

    /// Loses a device (rule 3). All streams are added to `wake`: a thread may wait for a ticket of any of them.
    pub(super) fn lose(&mut self, device: DeviceId, wake: &mut StreamSet) {
        if let Some(dead) = self.dead.get_mut(device.index()) {
            *dead = true;
        }
        for s in 0..self.streams.len() {
            if device_of(s) == device {
                self.streams[s].fail_from(0, device);
            }
        }
        // Failures spread along tickets and streams until no further operation fails.
        while let Some((s, at, by)) = self.doomed() {
            self.streams[s].fail_from(at, by);
        }
        for s in 0..self.streams.len() {
            self.streams[s].settle();
            wake.add(s);
        }
        self.queued = self.streams.iter().map(|s| s.queue.len()).sum();
    }

    /// A queued operation that can no longer run: its stream, its position, and the lost device that is the cause.
    fn doomed(&self) -> Option<(usize, usize, DeviceId)> {
        let blame = |op: &Op| {
            let source = match op.work {
                Work::Peer { from, .. } if self.is_lost(from) => Some(from),
                _ => None,
            };
            let lost = |t: &Ticket| self.streams[index(t.device, t.lane)].failed(t.seq);
            source.or_else(|| op.after.iter().find_map(lost))
        };
        self.streams.iter().enumerate().find_map(|(s, stream)| {
            stream
                .queue
                .iter()
                .enumerate()
                .find_map(|(i, op)| Some((s, i, blame(op)?)))
        })
    }

    /// Ends the machine: all queued operations fail, workers stop.
    pub(super) fn stop(&mut self, wake: &mut StreamSet) {
        self.stopped = true;
        for device in 0..self.dead.len() {
            self.lose(device_of(device * LANES), wake);
        }
    }

    /// Adds the streams whose next operation waited for a ticket that is retired now.
    fn unblock(&self, wake: &mut StreamSet) {
        for (s, stream) in self.streams.iter().enumerate() {
            if let Some(t) = stream.blocked
                && self.streams[index(t.device, t.lane)].retired >= t.seq
            {
                wake.add(s);
            }
        }
    }
}

/// The device of a stream.
fn device_of(stream: usize) -> DeviceId {
    DeviceId::at(stream / LANES)
}

/// The refusal of a ticket that was never issued, an error of the caller: waiting for such a ticket would never end.
pub(super) fn unknown(device: DeviceId) -> DeviceError {
    DeviceError::Refused {
        device,
        what: "ticket",
        code: BAD_VALUE,
    }
}
