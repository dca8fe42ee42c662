//! Stand-in for the CUDA functions on streams and events.

#![expect(
    unsafe_code,
    reason = "the program's pointers, as the C functions take them"
)]

use core::ffi::c_uint;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use semcache::trace;

use crate::machine;
use crate::names::{Outcome, Status};
use crate::platform::put;
use crate::settings::settings;
use crate::state::lock;
use crate::stream::{Event, Stream, Tickets};
use crate::times;

pub(crate) unsafe fn stream_create(stream: *mut usize, flags: c_uint) -> Outcome {
    let mut state = lock()?;
    let context = state.current()?;
    if flags > 1 {
        return Err(Status::InvalidValue);
    }
    let number = state.fresh();
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(stream, number)? };
    let fresh = Stream {
        context,
        blocking: flags == 0,
        frontier: Tickets::default(),
    };
    state.streams.insert(number, fresh);
    Ok(())
}

pub(crate) fn stream_destroy(stream: usize) -> Outcome {
    let mut state = lock()?;
    let number = state.stream(stream)?;
    if number != stream || state.contexts.contains_key(&number) {
        return Err(Status::InvalidHandle);
    }
    // Operations that are queued in the destroyed stream are still executed; the order of the null stream covers them.
    if let Some(gone) = state.streams.remove(&number)
        && let Some(null) = state.streams.get_mut(&gone.context)
    {
        null.frontier.add(&gone.frontier);
    }
    Ok(())
}

pub(crate) fn stream_wait(stream: usize, event: usize, _flags: c_uint) -> Outcome {
    let mut state = lock()?;
    let stream = state.stream(stream)?;
    let tickets = state
        .events
        .get(&event)
        .ok_or(Status::InvalidHandle)?
        .tickets
        .clone();
    if let Some(stream) = state.streams.get_mut(&stream) {
        stream.frontier.add(&tickets);
    }
    Ok(())
}

pub(crate) fn stream_synchronize(stream: usize) -> Outcome {
    let tickets = {
        let state = lock()?;
        state.order(state.stream(stream)?)
    };
    machine::wait(&tickets)
}

pub(crate) fn stream_query(stream: usize) -> Outcome {
    let tickets = {
        let state = lock()?;
        state.order(state.stream(stream)?)
    };
    asked(&tickets)
}

fn ready(tickets: &Tickets) -> Outcome {
    if machine::done(tickets)? {
        Ok(())
    } else {
        Err(Status::NotReady)
    }
}

/// The number of consecutive queries whose operations were not complete.
static UNANSWERED: AtomicU32 = AtomicU32::new(0);

/// Answers a query of a stream or an event. Some operations of simulated devices run only when a thread waits for them,
/// whereas a GPU's run by themselves: so after enough unsuccessful queries the querying thread waits.
fn asked(tickets: &Tickets) -> Outcome {
    let patience = if settings().late { 1000 } else { 20 };
    let answer = ready(tickets);
    if answer != Err(Status::NotReady) {
        UNANSWERED.store(0, Relaxed);
        return answer;
    }
    if UNANSWERED.fetch_add(1, Relaxed) < patience {
        return answer;
    }
    UNANSWERED.store(0, Relaxed);
    machine::wait(tickets)
}

/// `CU_EVENT_DISABLE_TIMING`
const DISABLE_TIMING: c_uint = 2;

pub(crate) unsafe fn event_create(event: *mut usize, flags: c_uint) -> Outcome {
    let mut state = lock()?;
    let context = state.current()?;
    let number = state.fresh();
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(event, number)? };
    let fresh = Event {
        context,
        timing: flags & DISABLE_TIMING == 0,
        tickets: Tickets::default(),
        recorded: None,
    };
    state.events.insert(number, fresh);
    Ok(())
}

pub(crate) fn event_destroy(event: usize) -> Outcome {
    let removed = lock()?.events.remove(&event);
    removed.map(drop).ok_or(Status::InvalidHandle)
}

pub(crate) fn event_record(event: usize, stream: usize) -> Outcome {
    let mut state = lock()?;
    let stream = state.stream(stream)?;
    let context = state.streams.get(&stream).map(|s| s.context);
    let tickets = state.order(stream);
    let event = state.events.get_mut(&event).ok_or(Status::InvalidHandle)?;
    if Some(event.context) != context {
        return Err(Status::InvalidHandle);
    }
    event.tickets = tickets;
    event.recorded = Some(trace::now());
    Ok(())
}

fn tickets_of(event: usize) -> Outcome<Tickets> {
    let state = lock()?;
    let event = state.events.get(&event).ok_or(Status::InvalidHandle)?;
    Ok(event.tickets.clone())
}

pub(crate) fn event_query(event: usize) -> Outcome {
    asked(&tickets_of(event)?)
}

pub(crate) fn event_synchronize(event: usize) -> Outcome {
    let tickets = tickets_of(event)?;
    lock()?.current()?;
    machine::wait(&tickets)
}

pub(crate) unsafe fn event_elapsed(milliseconds: *mut f32, from: usize, to: usize) -> Outcome {
    let state = lock()?;
    state.current()?;
    let stamped = |event: usize| {
        let event = state.events.get(&event).filter(|event| event.timing);
        let event = event.ok_or(Status::InvalidHandle)?;
        Ok((event, event.recorded.ok_or(Status::InvalidHandle)?))
    };
    let (from, to) = (stamped(from)?, stamped(to)?);
    if from.0.context != to.0.context {
        return Err(Status::InvalidHandle);
    }
    // A stream reaches an event when all operations before it are complete, and not before the event is recorded.
    let reached = |(event, recorded): (&Event, u64)| {
        ready(&event.tickets)?;
        Ok(recorded.max(times::end(&event.tickets)))
    };
    let (from, to) = (reached(from)?, reached(to)?);
    #[expect(clippy::cast_precision_loss, reason = "as the driver's result")]
    let elapsed = to.wrapping_sub(from).cast_signed() as f64 / 1e6;
    #[expect(clippy::cast_possible_truncation, reason = "as the driver's result")]
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe {
        put(milliseconds, elapsed as f32)
    }
}
