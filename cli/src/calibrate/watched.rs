//! The times of operations as the devices tell them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use semcache::device::api::{Backend, Ticket};
use semcache::device::measured;
use semcache::trace::OpId;

use super::machine::{Copy, Machine};

/// Start and end of an operation, in nanoseconds of the host's clock.
pub(super) type Span = (u64, u64);

static SEEN: Mutex<BTreeMap<OpId, Span>> = Mutex::new(BTreeMap::new());

/// How long a device may take until its first operation has a time: where other processes use it, its clock is found only when they
/// leave it alone for a moment.
const PATIENCE: Duration = Duration::from_secs(20);

/// From now on all operations are timed. That takes longer than a small kernel, so these are measured before.
pub(super) fn begin(machine: &Machine) -> Result<(), String> {
    measured::watch(|op, span| {
        SEEN.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(op, span);
    });
    for i in 0..machine.devices().len() {
        let begun = Instant::now();
        loop {
            let ticket = machine.copy(Copy::In(i), &[], 1 << 16)?;
            if span(machine.backend(), ticket)?.is_some() {
                break;
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!(
                    "the operations of GPU {i} cannot be timed while other processes use it"
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// Waits for an operation. Returns when it began and ended, if the device told that.
pub(super) fn span(backend: &dyn Backend, ticket: Ticket) -> Result<Option<Span>, String> {
    backend.wait(ticket).map_err(|e| e.to_string())?;
    backend.done(ticket).map_err(|e| e.to_string())?;
    let op = OpId::new(ticket.device, ticket.lane as u8, ticket.seq);
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(seen.remove(&op))
}

/// Forgets the times that nobody asked for.
pub(super) fn forget() {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Seconds of a span.
pub(super) fn seconds((start, end): Span) -> f64 {
    end.saturating_sub(start) as f64 * 1e-9
}
