//! Order between operations: streams wait for each other's events on the devices, the host waits for streams.

use std::sync::atomic::Ordering;

use super::driver;
use super::machine::{All, CudaMachine, LANES, queues, stream, stream_ref};
use crate::base::DeviceId;
use crate::device::api::{DeviceError, Lane, Ticket};
use crate::device::awaited;

/// A device that refuses a wait this number of times in a row counts as lost.
const MOST_REFUSALS: u32 = 100;

impl CudaMachine {
    /// Makes a lane wait for tickets: on the device where that is possible, else on the host.
    pub(super) fn order(
        &self,
        all: &mut All,
        device: DeviceId,
        lane: Lane,
        after: &[Ticket],
    ) -> Result<(), DeviceError> {
        let me = device.index() * LANES + lane as usize;
        for t in after {
            let other = t.device.index() * LANES + t.lane as usize;
            if other == me {
                continue;
            }
            let behind = |all: &All| {
                stream_ref(all, device, lane).is_some_and(|s| s.is_behind(other, t.seq))
            };
            if behind(all) {
                continue;
            }
            if self.lost[t.device.index()].load(Ordering::Relaxed) {
                // The effects of the ticket's operation are undefined, and so would be those of an operation that
                // follows it.
                return Err(DeviceError::Lost { device: t.device });
            }
            let Some(theirs) = stream(all, t.device, t.lane) else {
                continue;
            };
            // An event is recorded in the context of its stream.
            let (_, _current) = self.enter(t.device)?;
            let event = theirs.event(t.seq);
            let Some(event) = event.map_err(|s| self.failed(t.device, "call", s))? else {
                continue;
            };
            let (_, _mine) = self.enter(device)?;
            let Some(mine) = stream(all, device, lane) else {
                continue;
            };
            if mine.wait_for(other, *t, event).is_err() {
                // The stream cannot wait for the event, so the calling thread does.
                driver::event_wait(event).map_err(|s| self.failed(t.device, "call", s))?;
            }
        }
        Ok(())
    }

    /// Waits for an operation that is not known to be complete, and notes on what the thread spends that time.
    pub(super) fn await_in_turn(&self, ticket: Ticket) -> Result<(), DeviceError> {
        let behind = |t: Ticket| {
            let all = self.lock();
            stream_ref(&all, t.device, t.lane).and_then(|s| s.follows(t.seq))
        };
        awaited::in_turn(ticket, behind, |ticket| self.await_one(ticket))
    }

    fn await_one(&self, ticket: Ticket) -> Result<(), DeviceError> {
        // A refused wait is repeated: the operation is queued, and the waiting thread has no other way to learn of its
        // end.
        let mut tries = 0;
        while let Err(error) = self.past(ticket.device, ticket.lane, ticket.seq) {
            tries += 1;
            if matches!(error, DeviceError::Lost { .. }) {
                return Err(error);
            }
            if tries >= MOST_REFUSALS {
                self.lost[ticket.device.index()].store(true, Ordering::Relaxed);
                return Err(DeviceError::Lost {
                    device: ticket.device,
                });
            }
            std::thread::yield_now();
        }
        if ticket.lane == Lane::Out {
            let mut all = self.lock();
            if let Ok(q) = queues(&mut all, ticket.device) {
                self.land(q, ticket.device, ticket.seq)?;
            }
        }
        Ok(())
    }

    /// Waits, without the machine's lock, until a stream has completed an operation.
    pub(super) fn past(&self, device: DeviceId, lane: Lane, seq: u64) -> Result<(), DeviceError> {
        let (_, _current) = self.enter(device)?;
        let event = {
            let mut all = self.lock();
            let Some(s) = stream(&mut all, device, lane) else {
                return Ok(());
            };
            match s.event(seq) {
                Ok(None) => return Ok(()),
                Ok(Some(e)) => Ok(e),
                Err(_) => Err(s.raw as usize),
            }
        };
        let waited = match event {
            Ok(e) => driver::event_wait(e),
            // No event can be recorded, so the calling thread waits for the whole stream.
            Err(raw) => driver::stream_wait(raw as _),
        };
        if let Err(status) = waited {
            let error = self.failed(device, "call", status);
            if matches!(error, DeviceError::Lost { .. }) {
                return Err(error);
            }
            // The driver refused this one wait: the calling thread polls until the operation is complete.
            self.ask_until_done(device, lane, seq)?;
        }
        if let Some(s) = stream(&mut self.lock(), device, lane) {
            s.known(seq);
        }
        Ok(())
    }

    fn ask_until_done(&self, device: DeviceId, lane: Lane, seq: u64) -> Result<(), DeviceError> {
        loop {
            let asked = match stream(&mut self.lock(), device, lane) {
                Some(s) => s.done(seq),
                None => return Ok(()),
            };
            match asked {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(status) => {
                    let error = self.failed(device, "call", status);
                    if matches!(error, DeviceError::Lost { .. }) {
                        return Err(error);
                    }
                }
            }
            std::thread::yield_now();
        }
    }
}
