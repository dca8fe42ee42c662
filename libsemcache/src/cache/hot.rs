//! Launching again what was launched before: a kernel whose operands all lie where it needs them.
//!
//! [`Cache::resident`] looks at what a call has left: if queueing its kernel once more would change nothing but
//! the lists of what is in flight, it notes where the operands lie and the version of each directory.
//! [`Cache::again`] compares the versions under the lock and launches. Whatever makes an operand unfit for
//! that (the CPU touched it, another call wrote it, it was evicted, resized, freed, flushed, made eager, its
//! device lost) either changes its directory, and with it the version (`cache::versioned`), or shows in a
//! field that is looked at each time, or in a scan (`cache::scan`).
#![expect(unsafe_code, reason = "launches a kernel on placed operands")]

use super::place::Need;
use super::task::{Located, Use};
use super::{Cache, CacheError, Entry, State};
use crate::base::counters::COUNTERS;
use crate::base::{AllocId, DeviceId, Intent, Rect, ReplicaId};
use crate::device::api::{Kernel, Ticket};
use crate::directory::Event;
use crate::transfer::{Deps, Store};

/// The most operands of a kernel.
pub const OPERANDS: usize = 3;

/// An operand that lies where the kernel needs it.
#[derive(Clone, Copy, Debug)]
struct Held {
    id: AllocId,
    version: u64,
    replica: ReplicaId,
    view: Rect,
    write: bool,
}

/// A kernel's operands, all of them where it needs them as long as their versions stand.
#[derive(Clone, Debug)]
pub struct Resident {
    device: DeviceId,
    operands: Vec<Held>,
    /// How many of them are only read: so many hits.
    reads: u64,
}

impl Resident {
    /// Where the kernel runs.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        self.device
    }
}

impl Entry {
    /// Whether nothing is going on here that a call has to look at closely.
    fn quiet(&self) -> bool {
        self.unprotected.is_empty() && self.lost.is_empty()
    }

    /// Whether a kernel could use the operand in this replica as everything is now, leaving everything as it is:
    /// every byte is guarded on the host or, if it is only read, watched, the newest is here, and what is written is nowhere else.
    fn settled(&self, u: &Use, replica: ReplicaId) -> bool {
        let ready = |(rect, intent): (Rect, Intent)| {
            let event = Event::used(replica, rect, intent);
            let mut open = self.dir.open_territory(&rect);
            if intent == Intent::Read {
                open = self.dir.unwatched(open);
            }
            open.is_empty() && self.dir.ready(&event)
        };
        self.quiet() && u.touched().all(ready)
    }
}

impl Cache {
    /// Where the operands of a kernel lie that was queued on `device` a moment ago, if it could be launched
    /// again just so. `uses` are whole operands of a call: what the call's end settles is looked at, too.
    #[must_use]
    pub fn resident(&self, device: DeviceId, uses: &[Use]) -> Option<(Resident, Vec<Located>)> {
        if uses.len() > OPERANDS || !self.whole() {
            return None;
        }
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut operands = Vec::with_capacity(uses.len());
        let mut located = Vec::with_capacity(uses.len());
        for u in uses {
            let e = state.entries.get_mut(&u.need.id)?;
            let replica = e.covering(device, &u.need)?;
            if !e.settled(u, replica) {
                return None;
            }
            located.push(u.located(e.stores.get(&replica)?));
            operands.push(Held {
                id: u.need.id,
                version: e.dir.version(),
                replica,
                view: u.need.view,
                write: u.access != Intent::Read,
            });
        }
        let reads = operands.iter().filter(|o| !o.write).count() as u64;
        let resident = Resident {
            device,
            operands,
            reads,
        };
        Some((resident, located))
    }

    /// Launches a kernel on operands that are where they were. `None`: they are not, or something wants a closer
    /// look; nothing has happened.
    ///
    /// # Errors
    /// Refused or lost; nothing has happened.
    ///
    /// # Safety
    /// The addresses in `kernel` are those that [`Cache::resident`] gave for these operands, and that of a cell of
    /// the device which is the caller's.
    pub unsafe fn again(
        &self,
        resident: &Resident,
        kernel: &Kernel,
    ) -> Result<Option<Ticket>, CacheError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        // Under the lock, where a loss is noted.
        if !self.whole() || state.calls + 1 >= state.forgive_at {
            return Ok(None);
        }
        for held in &resident.operands {
            if self.inspect_locked(state, held.id, held.view.span())? {
                return Ok(None);
            }
        }
        let mut deps = Deps::default();
        for held in &resident.operands {
            if held.write && state.due(held.id) {
                return Ok(None);
            }
            let Some(s) = held.find(state) else {
                return Ok(None);
            };
            s.ops.deps(&held.view, held.write, &mut deps);
        }
        // SAFETY: by the caller's promise the addresses are those of the operands when they were noted; the
        // versions say that since then no replica has gone. The kernel is recorded in the replicas' operations
        // below, so their memory is not reused before it.
        let ticket = unsafe { self.backend.launch(resident.device, deps.tickets(), kernel) }?;
        for held in &resident.operands {
            state.clock += 1;
            let stamp = state.clock;
            if let Some(s) = held.find(state) {
                s.ops.push(self.backend, held.view, ticket, held.write);
                s.stamp = stamp;
            }
            state.note_repeat(held.id, held.write);
        }
        state.calls += 1;
        drop(guard);
        COUNTERS.hits.add(resident.reads);
        Ok(Some(ticket))
    }
}

impl Held {
    /// The replica, if the operand is still what it was.
    fn find<'a>(&self, state: &'a mut State) -> Option<&'a mut Store> {
        let e = state.entries.get_mut(&self.id)?;
        if e.dir.version() != self.version || !e.quiet() {
            return None;
        }
        e.stores.get_mut(&self.replica)
    }
}

impl Use {
    /// Where the operand lies in a replica that covers it.
    pub(super) fn located(&self, s: &Store) -> Located {
        let region = s.region(&self.need.view);
        // One run (a contiguous view) keeps its own leading dimension also inside a compact replica.
        let pitch = if s.flat() || self.need.view.count == 1 {
            self.stride
        } else {
            region.pitch
        };
        Located {
            addr: region.addr,
            pitch,
        }
    }
}

impl Entry {
    /// The replica on `device` that an operand is placed in: the largest, which later views land in, too.
    pub(super) fn covering(&self, device: DeviceId, need: &Need) -> Option<ReplicaId> {
        let found = self
            .stores
            .iter()
            .filter(|(_, s)| s.device == device && s.covers(&need.view));
        found.max_by_key(|(_, s)| s.rect.bytes()).map(|(&id, _)| id)
    }
}
