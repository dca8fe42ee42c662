//! Host and device memory that queued operations still use.

#![expect(unsafe_code, reason = "gives device memory back")]

use semcache::base::DeviceId;
use semcache::device::api::{Backend, Ticket};

use crate::machine::machine;

/// Memory that a queued operation still uses.
#[derive(Debug)]
pub(crate) enum Needed {
    /// Host memory.
    Buffer(#[expect(dead_code, reason = "held, not looked at")] Vec<u8>),
    /// Device memory.
    Block(DeviceId, u64),
}

/// Memory that is freed when the tickets of its operations are complete.
#[derive(Debug)]
pub(crate) struct Staging {
    held: Vec<(Ticket, Needed)>,
    /// When the list has this length, it is searched for memory that can be freed.
    limit: usize,
}

impl Staging {
    pub(crate) const fn new() -> Self {
        Staging {
            held: Vec::new(),
            limit: 0,
        }
    }

    pub(crate) fn hold(&mut self, until: Ticket, what: Needed) {
        if self.held.len() >= self.limit {
            self.settle();
            self.limit = 2 * self.held.len() + 16;
        }
        self.held.push((until, what));
    }

    /// Holds device memory until the ticket is complete.
    pub(crate) fn hold_block(&mut self, until: Ticket, device: DeviceId, addr: u64) {
        self.hold(until, Needed::Block(device, addr));
    }

    /// Frees the memory of operations that are complete.
    pub(crate) fn settle(&mut self) {
        let Ok(machine) = machine() else {
            return;
        };
        self.held.retain(|(until, what)| {
            // An operation that failed is not executed any more, so its memory is freed, too.
            let over = machine.done(*until).unwrap_or(true);
            if over && let Needed::Block(device, addr) = what {
                // SAFETY: a block that was taken for the operations up to this ticket, which are complete.
                unsafe { machine.free(*device, *addr) };
            }
            !over
        });
    }
}
