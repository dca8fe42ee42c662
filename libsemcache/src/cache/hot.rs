//! Launching again what was launched before: a kernel whose operands all lie where it needs them.
//!
//! [`Cache::conclude`] looks at what a call has left: if queueing its kernel once more would change nothing but
//! the lists of what is in flight, it notes where the operands lie and the version of each directory.
//! [`Cache::again`] compares the versions under the lock and launches. Whatever makes an operand unfit for
//! that (the CPU touched it, another call wrote it, it was evicted, resized, freed, flushed, made eager, its
//! device lost) either changes its directory, and with it the version (`cache::versioned`), or shows in a
//! field that is looked at each time, or in a scan (`cache::scan`). Of a block whose version is another one the operand is
//! looked at anew: other matrices of the same block may have changed.
#![expect(unsafe_code, reason = "launches a kernel on placed operands")]

use super::edges::Homecoming;
use super::task::Use;
use super::{Cache, CacheError, Entry, State};
use crate::base::counters::COUNTERS;
use crate::base::{AllocId, DeviceId, Intent, Rect, ReplicaId};
use crate::device::api::{Kernel, Operand, Ticket};
use crate::transfer::{Deps, Store};

/// The most operands of a kernel.
pub const OPERANDS: usize = 3;

/// An operand that lies where the kernel needs it.
#[derive(Clone, Debug)]
struct Placement {
    id: AllocId,
    version: u64,
    replica: ReplicaId,
    view: Rect,
    write: bool,
    /// The parts of the view that the kernel uses.
    touched: Vec<(Rect, Intent)>,
    /// What the kernel writes on pages that the operand shares with other data.
    home: Vec<Rect>,
}

/// A kernel's operands, all of them where it needs them as long as the versions of their directories stand.
#[derive(Clone, Debug)]
pub struct Resident {
    device: DeviceId,
    operands: Vec<Placement>,
    /// How many of them are only read: so many hits.
    reads: u64,
}

/// A kernel that was launched again.
#[derive(Debug)]
#[must_use = "the call may not return before what is coming has arrived"]
pub struct Launched {
    /// The kernel.
    pub kernel: Ticket,
    /// The copies home that the call waits for.
    pub coming: Result<Homecoming, CacheError>,
}

impl Resident {
    /// Where the kernel runs.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// The block that the kernel writes.
    #[must_use]
    pub fn written(&self) -> Option<AllocId> {
        self.operands.iter().find(|p| p.write).map(|p| p.id)
    }

    /// Whether some of what the kernel writes is copied home before the call returns.
    #[must_use]
    pub fn comes_home(&self) -> bool {
        self.coming_home().next().is_some()
    }

    fn coming_home(&self) -> impl Iterator<Item = &Placement> {
        self.operands.iter().filter(|p| !p.home.is_empty())
    }
}

impl Entry {
    /// Whether nothing is going on here that a call has to look at closely.
    fn quiet(&self) -> bool {
        self.unprotected.is_empty() && self.lost.is_empty()
    }

    /// Whether a kernel could use the operand in this replica as everything is now, leaving everything as it is. If so, the
    /// bytes that are to be copied home before the call returns.
    fn settled(&self, touched: &[(Rect, Intent)], replica: ReplicaId) -> Option<Vec<Rect>> {
        let mut home = Vec::new();
        for (rect, intent) in touched {
            home.append(&mut self.dir.repeats(replica, rect, *intent)?);
        }
        self.quiet().then_some(home)
    }
}

impl Cache {
    /// Where the operands of a kernel lie that was queued on `device` a moment ago, if it could be launched
    /// again just so. `uses` are whole operands of a call: what the call's end settles is looked at, too.
    pub(super) fn resident(
        &self,
        state: &State,
        device: DeviceId,
        uses: &[Use],
    ) -> Option<(Resident, Vec<Operand>)> {
        if uses.len() > OPERANDS || !self.whole() {
            return None;
        }
        let mut operands = Vec::with_capacity(uses.len());
        let mut located = Vec::with_capacity(uses.len());
        for u in uses {
            let e = state.entries.get(&u.id)?;
            let replica = e.covering(device, u)?;
            let touched: Vec<(Rect, Intent)> = u.touched().collect();
            let home = e.settled(&touched, replica)?;
            located.push(u.located(e.stores.get(&replica)?));
            operands.push(Placement {
                id: u.id,
                version: e.dir.version(),
                replica,
                view: u.view,
                write: u.access != Intent::Read,
                touched,
                home,
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

    /// Launches a kernel on operands that are where they were, and queues the copies home of what it writes on pages that they
    /// share with other data. `None`: they are not, or something wants a closer look; nothing has happened. If such a copy
    /// is refused, the only copy of these bytes is gone.
    ///
    /// # Errors
    /// Refused or lost; nothing has happened.
    ///
    /// # Safety
    /// The addresses in `kernel` are those that [`Cache::conclude`] gave for these operands, and that of a cell of
    /// the device which is the caller's.
    pub unsafe fn again(
        &self,
        resident: &mut Resident,
        kernel: &Kernel,
    ) -> Result<Option<Launched>, CacheError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        // Under the lock, where a loss is noted.
        if !self.whole() || state.calls + 1 >= state.forgive_at {
            return Ok(None);
        }
        for placement in &mut resident.operands {
            if placement.write && state.due(placement.id) || !placement.stands(state) {
                return Ok(None);
            }
        }
        let mut coming = Homecoming::default();
        for placement in resident.coming_home() {
            let e = state.entries.get(&placement.id).ok_or(CacheError::Gone)?;
            let come = self.beside(placement.id, e, placement.home.clone());
            coming.on_edges.push(come);
        }
        for placement in &resident.operands {
            if self.inspect_locked(state, placement.id, placement.view.span())? {
                return Ok(None);
            }
        }
        let mut deps = Deps::default();
        for placement in &resident.operands {
            let Some(s) = placement.store(state) else {
                return Ok(None);
            };
            s.ops.deps(&placement.view, placement.write, &mut deps);
        }
        // SAFETY: by the caller's promise the addresses are those of the operands when they were noted; the replicas
        // that they lie in are still there, and never move. The kernel is recorded in the replicas' operations
        // below, so their memory is not reused before it.
        let ticket = unsafe { self.backend.launch(resident.device, deps.tickets(), kernel) }?;
        for placement in &resident.operands {
            state.clock += 1;
            let stamp = state.clock;
            if let Some(s) = placement.store(state) {
                s.ops
                    .push(self.backend, placement.view, ticket, placement.write);
                s.stamp = stamp;
            }
            state.note_repeat(placement.id, placement.write);
        }
        state.calls += 1;
        let coming = self.queue_home(state, resident, coming);
        drop(guard);
        COUNTERS.cache.hits.add(resident.reads);
        Ok(Some(Launched {
            kernel: ticket,
            coming,
        }))
    }

    /// Queues the copies home that the call waits for.
    fn queue_home(
        &self,
        state: &mut State,
        resident: &Resident,
        mut coming: Homecoming,
    ) -> Result<Homecoming, CacheError> {
        for placement in resident.coming_home() {
            let e = state
                .entries
                .get_mut(&placement.id)
                .ok_or(CacheError::Gone)?;
            for rect in &placement.home {
                self.down(e, placement.replica, rect)?;
                e.host.ops.deps(rect, true, &mut coming.deps);
            }
        }
        Ok(coming)
    }
}

impl Placement {
    /// Whether the operand is still where it was. If other operands of its block have come or gone since, or others of
    /// its bytes, what matters of this one is looked at again.
    fn stands(&mut self, state: &State) -> bool {
        let Some(e) = state.entries.get(&self.id) else {
            return false;
        };
        if e.dir.version() != self.version {
            if !e.stores.contains_key(&self.replica) {
                return false;
            }
            let Some(home) = e.settled(&self.touched, self.replica) else {
                return false;
            };
            (self.home, self.version) = (home, e.dir.version());
        }
        e.quiet()
    }

    /// The replica that holds it.
    fn store<'a>(&self, state: &'a mut State) -> Option<&'a mut Store> {
        let e = state.entries.get_mut(&self.id)?;
        e.stores.get_mut(&self.replica)
    }
}

impl Entry {
    /// The replica on `device` that an operand is placed in: the largest, which later views land in, too.
    pub(super) fn covering(&self, device: DeviceId, operand: &Use) -> Option<ReplicaId> {
        let found = self
            .stores
            .iter()
            .filter(|(_, s)| s.device == device && s.covers(&operand.view));
        found.max_by_key(|(_, s)| s.rect.bytes()).map(|(&id, _)| id)
    }
}
