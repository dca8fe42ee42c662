//! The clock of a device, converted to the host's monotonic clock.
//!
//! The driver only tells how much time lies between two events, as a 32-bit number of milliseconds. So an event whose
//! time by the host's clock is known, the *reference*, is recorded on a stream on which nothing else is queued, and the
//! times of operations are told by their distance from it. The host's clock is read before the event is recorded and
//! after it is seen complete: the event lies between the two readings. A distance of one second is told to within 60 ns, and
//! the clocks drift apart, so an older reference is replaced as soon as an operation is to be timed.
#![expect(unsafe_code, reason = "handles of the driver are pointers")]

use std::sync::Arc;

use log::debug;

use super::driver::{self, CUevent, CUstream, Elapsed};
use crate::trace;

/// An older reference is replaced before the next operation is timed.
const LONGEST_NS: u64 = 1_000_000_000;
/// The number of events recorded to find a reference: the one that lies between the closest readings is taken.
const TRIES: usize = 5;
/// An event on an idle stream is complete after some 10 us. A calling thread waits no longer than this for it.
const PATIENCE_NS: u64 = 200_000;

/// Nanoseconds for the driver's milliseconds; `None` for a number that is not finite.
fn nanoseconds(ms: f32) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "saturates")]
    ms.is_finite().then(|| (f64::from(ms) * 1e6).round() as i64)
}

/// An event between two readings of the host's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Marked<E> {
    pub(super) event: E,
    pub(super) before: u64,
    pub(super) after: u64,
}

impl<E> Marked<E> {
    fn width(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }

    /// The time of the event by the host's clock, and the largest error of that. `chained` is the time by the distance from
    /// the reference before: it is taken where it agrees with the readings, so that a new reference does not move
    /// the operations behind it against those before it by more than the clocks have drifted apart.
    fn time(&self, chained: Option<u64>) -> (u64, u64) {
        let at = match chained {
            Some(chained) => chained.clamp(self.before, self.after.max(self.before)),
            None => self.before + self.width() / 2,
        };
        let error = (at - self.before).max(self.after.saturating_sub(at));
        (at, error)
    }
}

/// A device whose clock is converted.
pub(super) trait Device {
    /// An event of the device.
    type Event: Copy;
    /// Records an event on the idle stream, and waits until it is complete; `None` if that fails or takes long.
    fn mark(&mut self) -> Option<Marked<Self::Event>>;
    /// Takes an event back that no reference needs any more.
    fn unmark(&mut self, event: Self::Event);
    /// Milliseconds from one event to another.
    fn elapsed(&self, from: Self::Event, to: Self::Event) -> Option<f32>;
    /// The host's clock.
    fn now(&self) -> u64;
}

/// An event whose time by the host's clock is known.
#[derive(Debug)]
pub(super) struct Reference<E> {
    event: E,
    at: u64,
}

impl<E: Copy> Reference<E> {
    /// The start and the end of an operation by the host's clock, from the events before and behind it.
    pub(super) fn span(
        &self,
        elapsed: impl Fn(E, E) -> Option<f32>,
        start: E,
        end: E,
    ) -> Option<(u64, u64)> {
        let from = nanoseconds(elapsed(self.event, start)?)?;
        // A short operation far from the reference: its length is told more precisely than the distances of its ends.
        let length = nanoseconds(elapsed(start, end)?)?;
        let start = self.at.checked_add_signed(from)?;
        Some((start, start.checked_add_signed(length.max(0))?))
    }
}

/// The clock of one device.
#[derive(Debug)]
pub(super) struct Clock<D: Device> {
    device: D,
    current: Option<Arc<Reference<D::Event>>>,
    /// References of which operations are not read yet.
    former: Vec<Arc<Reference<D::Event>>>,
    /// When the last search for a reference ended.
    sought: u64,
}

impl<D: Device> Clock<D> {
    pub(super) fn new(device: D) -> Clock<D> {
        Clock {
            device,
            current: None,
            former: Vec::new(),
            sought: 0,
        }
    }

    /// A reference that is not too old, for an operation that is about to be queued; `None` if none could be found.
    /// The device's context is current.
    pub(super) fn reference(&mut self) -> Option<Arc<Reference<D::Event>>> {
        let now = self.device.now();
        if self.sought == 0 || now.saturating_sub(self.sought) > LONGEST_NS {
            self.seek();
            self.sought = self.device.now().max(1);
        }
        self.current.clone()
    }

    /// Finds a new reference. If that fails, because the stream of the clock waits behind other work for example, the
    /// present one stays until the next attempt.
    fn seek(&mut self) {
        let mut best: Option<Marked<D::Event>> = None;
        for _ in 0..TRIES {
            let Some(marked) = self.device.mark() else {
                break;
            };
            match best.filter(|best| best.width() <= marked.width()) {
                Some(_) => self.device.unmark(marked.event),
                None => {
                    if let Some(worse) = best.replace(marked) {
                        self.device.unmark(worse.event);
                    }
                }
            }
        }
        if let Some(best) = best {
            let old = self.current.take();
            let chained = old.as_ref().and_then(|old| {
                let distance = nanoseconds(self.device.elapsed(old.event, best.event)?)?;
                old.at.checked_add_signed(distance)
            });
            let (at, error) = best.time(chained);
            let drift = chained.map_or(0, |c| at.abs_diff(c));
            debug!("a device's clock is known to {error} ns, moved by {drift} ns");
            self.current = Some(Arc::new(Reference {
                event: best.event,
                at,
            }));
            self.former.extend(old);
        }
        // A reference that no operation holds any more gives its event back.
        for i in (0..self.former.len()).rev() {
            if Arc::strong_count(&self.former[i]) == 1 {
                let unused = self.former.swap_remove(i);
                self.device.unmark(unused.event);
            }
        }
    }
}

/// A GPU's stream for references. If it could not be made, or the driver tells no times, nothing is timed.
#[derive(Debug)]
pub(super) struct Idle {
    stream: Option<(CUstream, Elapsed)>,
    spare: Vec<CUevent>,
}

impl Idle {
    /// A stream of the current context.
    pub(super) fn new() -> Idle {
        Idle {
            stream: Elapsed::find().and_then(|f| Some((driver::create_stream().ok()?, f))),
            spare: Vec::new(),
        }
    }
}

/// An event of the driver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle(pub(super) CUevent);

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Handle {}
// SAFETY: as above; the handle itself is never written.
unsafe impl Sync for Handle {}
// SAFETY: as above.
unsafe impl Send for Idle {}

impl Device for Idle {
    type Event = Handle;

    fn mark(&mut self) -> Option<Marked<Handle>> {
        let (stream, _) = self.stream?;
        let event = match self.spare.pop() {
            Some(event) => event,
            None => driver::create_timing_event().ok()?,
        };
        let before = self.now();
        let mut known = driver::record(event, stream).map(|()| false);
        while known == Ok(false) && self.now().saturating_sub(before) < PATIENCE_NS {
            known = driver::event_done(event);
        }
        let after = self.now();
        if known == Ok(true) {
            return Some(Marked {
                event: Handle(event),
                before,
                after,
            });
        }
        self.spare.push(event);
        None
    }

    fn unmark(&mut self, event: Handle) {
        self.spare.push(event.0);
    }

    fn elapsed(&self, from: Handle, to: Handle) -> Option<f32> {
        self.stream?.1.milliseconds(from.0, to.0).ok()
    }

    fn now(&self) -> u64 {
        trace::now()
    }
}

impl Clock<Idle> {
    /// The driver's function for times; `None` if nothing can be timed.
    pub(super) fn elapsed(&self) -> Option<Elapsed> {
        self.device.stream.map(|(_, f)| f)
    }
}

#[cfg(test)]
mod tests;
