//! Waits of a thread for an operation: what of it the thread spends on the operation itself, and what on those before it.

use super::api::{DeviceError, Ticket};
use crate::process::waited::Waiting;

/// Waits for an operation. First for the one that it waits for, by what `behind` says, and before that for the one that this one
/// waits for: a copy of a result is mostly a wait for the kernel, and a kernel may be one for its input.
pub(super) fn in_turn(
    ticket: Ticket,
    behind: impl Fn(Ticket) -> Option<Ticket>,
    wait: impl Fn(Ticket) -> Result<(), DeviceError>,
) -> Result<(), DeviceError> {
    let first = behind(ticket);
    let before = first.and_then(&behind);
    for earlier in [before, first].into_iter().flatten() {
        let _waiting = Waiting::on(earlier.lane.spent());
        // A failure shows in the wait below.
        let _ = wait(earlier);
    }
    let _waiting = Waiting::on(ticket.lane.spent());
    wait(ticket)
}
