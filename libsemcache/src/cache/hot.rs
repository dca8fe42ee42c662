//! Replay: the kernels of a call are launched again, without a new decision or placement, while all their operands lie in device memory
//! where they need them. Most calls have one; one of level 1 on parts of vectors has one for each device.
//!
//! [`Cache::conclude`] looks at the state after a call. If queueing the call's kernels once more would change nothing
//! but the lists of operations in flight, `conclude` notes where the operands lie and the version of each operand's
//! directory. [`Cache::again`] compares the versions under the lock and launches the kernels. Any event that makes an
//! operand unfit for that (an access of the CPU, a write by another call, eviction, resizing, free, flush,
//! write-through, loss of the device) either changes the operand's directory, and with it the version
//! (`cache::versioned`), or shows in a field that is checked at each replay, or in a scan of write-tracked pages
//! (`cache::scan`). If the version has changed, the operand's own bytes are looked at again: the change may concern
//! other matrices of the same block. Of an operand that is written other replicas may hold copies by then; they lose them, as they
//! would in an ordinary call.
#![expect(unsafe_code, reason = "launches a kernel on placed operands")]

use super::edges::{PendingCopies, count_edges};
use super::task::Use;
use super::{Cache, CacheError, Entry, State, changed};
use crate::base::counters::COUNTERS;
use crate::base::{AllocId, DeviceId, Intent, Rect, ReplicaId};
use crate::device::api::{Kernel, Operand, Ticket};
use crate::directory::{Action, Event, Undo};
use crate::transfer::{Deps, Store};
use smallvec::SmallVec;

/// The largest number of operands of a kernel.
pub const OPERANDS: usize = 3;

/// An operand and the replica that it lies in, as a kernel needs it.
#[derive(Clone, Debug)]
struct Placement {
    id: AllocId,
    version: u64,
    replica: ReplicaId,
    view: Rect,
    write: bool,
    /// The parts of the view that the kernel uses, and how.
    touched: Vec<(Rect, Intent)>,
    /// Bytes that the kernel writes on pages that the operand shares with other data: they are written back before the
    /// call returns.
    write_back: Vec<Rect>,
    /// Whether other replicas hold copies of bytes that the kernel writes, which they lose when it is launched.
    outdates: bool,
}

/// The operands of a kernel that may be replayed, each in a replica on the kernel's device, valid as long as the
/// versions of the operands' directories stand.
#[derive(Clone, Debug)]
pub struct Resident {
    device: DeviceId,
    operands: Vec<Placement>,
    /// How many of the operands are only read: each counts as a cache hit.
    reads: u64,
}

/// A kernel that a replay is to launch again.
#[derive(Debug)]
pub struct Again<'a> {
    /// Where its operands lie.
    pub resident: &'a mut Resident,
    /// The kernel.
    pub kernel: Kernel,
}

/// The kernels that were launched again by a replay.
#[derive(Debug)]
#[must_use = "the call may not return before pending copies have ended"]
pub struct Launched {
    /// The kernels' tickets, in their order. If a device has refused one of several, it and those behind it were not launched and have
    /// none.
    pub kernels: SmallVec<[Ticket; 2]>,
    /// The write-backs to shared pages that the call has to wait for.
    pub pending: Result<PendingCopies, CacheError>,
}

impl Resident {
    /// The device that the kernel runs on.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// The block that the kernel writes.
    #[must_use]
    pub fn written(&self) -> Option<AllocId> {
        self.operands.iter().find(|p| p.write).map(|p| p.id)
    }

    /// Whether some bytes that the kernel writes are written back before the call returns.
    #[must_use]
    pub fn writes_back(&self) -> bool {
        self.writing_back().next().is_some()
    }

    fn writing_back(&self) -> impl Iterator<Item = &Placement> {
        self.operands.iter().filter(|p| !p.write_back.is_empty())
    }
}

impl Entry {
    /// Whether no panel of the entry waits for protection and none of its bytes are lost; otherwise a replay has to be
    /// refused.
    fn quiet(&self) -> bool {
        self.unprotected.is_empty() && self.lost.is_empty()
    }

    /// Whether a kernel could use the operand in this replica now and leave the directory as it is. If so, the bytes
    /// that are to be written back before the call returns.
    fn settled(&self, touched: &[(Rect, Intent)], replica: ReplicaId) -> Option<Vec<Rect>> {
        let mut write_back = Vec::new();
        for (rect, intent) in touched {
            write_back.append(&mut self.dir.repeats(replica, rect, *intent)?);
        }
        self.quiet().then_some(write_back)
    }

    /// Whether a kernel could write the operand in this replica now, and the directory would change only in that other replicas lose
    /// their copies: those that a sparse product has made of the neighbouring rows of a vector in parts.
    fn only_outdates(&self, touched: &[(Rect, Intent)], replica: ReplicaId) -> bool {
        let mut touched = touched.iter();
        touched
            .all(|(rect, intent)| *intent != Intent::Read && self.dir.only_outdates(replica, rect))
            && self.quiet()
    }
}

impl Cache {
    /// Notes where the operands of a kernel lie that was just queued on `device`, if the kernel could be launched again
    /// without any change of the directories. The operands of a call's kernels together are all bytes of the call's operands, so the
    /// effects of the call's end are checked too.
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
            let write_back = e.settled(&touched, replica)?;
            located.push(u.located(e.stores.get(&replica)?));
            operands.push(Placement {
                id: u.id,
                version: e.dir.version(),
                replica,
                view: u.view,
                write: u.access != Intent::Read,
                touched,
                write_back,
                outdates: false,
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

    /// Launches the kernels of a call, whose operands lie where an earlier call placed them, and queues the write-back of the bytes
    /// that they write on pages shared with other data. `None`: an operand has moved or changed, or the call needs the
    /// full path; nothing was launched. If such a write-back is refused after the launch, the only copy of the bytes is
    /// gone. `result` is what the only kernel leaves in mapped memory, if the use of its block says whether it may;
    /// `sent` the upload of other inputs of it.
    ///
    /// # Errors
    /// Refused or lost; nothing was launched.
    ///
    /// # Safety
    /// The addresses in each kernel are those that [`Cache::conclude`] returned for these operands, and the address of a
    /// cell of the device that the caller has taken.
    pub unsafe fn again(
        &self,
        parts: &mut [Again<'_>],
        result: Option<(AllocId, Rect)>,
        sent: Option<Ticket>,
    ) -> Result<Option<Launched>, CacheError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        // Checked under the lock, under which a loss is noted.
        if !self.whole() || state.calls + 1 >= state.forgive_at {
            return Ok(None);
        }
        for placement in parts.iter_mut().flat_map(|p| &mut p.resident.operands) {
            if placement.write && state.uses.due(placement.id) || !placement.stands(state) {
                return Ok(None);
            }
        }
        let mut pending = PendingCopies::default();
        for placement in parts.iter().flat_map(|p| p.resident.writing_back()) {
            let e = state.entries.get(&placement.id).ok_or(CacheError::Gone)?;
            let come = self.beside(placement.id, e, placement.write_back.clone());
            pending.on_edges.push(come);
        }
        for placement in parts.iter().flat_map(|p| &p.resident.operands) {
            if self.inspect_locked(state, placement.id, placement.view.span())? {
                return Ok(None);
            }
        }
        if let Some((id, rect)) = result
            && !self.is_for_cpu(state, id, &rect, true)
        {
            return Ok(None);
        }
        let mut kernels = SmallVec::new();
        for Again { resident, kernel } in &*parts {
            let mut deps = Deps::default();
            sent.into_iter().for_each(|upload| deps.add(upload));
            for placement in &resident.operands {
                let e = state.entries.get(&placement.id).ok_or(CacheError::Gone)?;
                let s = e.stores.get(&placement.replica).ok_or(CacheError::Gone)?;
                if placement.write {
                    changed::begun(e.block.start + placement.view.start);
                }
                s.ops.deps(&placement.view, placement.write, &mut deps);
            }
            let outdated = match self.outdate(state, resident) {
                Ok(outdated) => outdated,
                Err(error) if kernels.is_empty() => return Err(error),
                Err(_) => break,
            };
            // SAFETY: by the caller's promise the addresses are those of the operands when [`Cache::conclude`] noted them;
            // the replicas that they lie in still exist, and replicas never move. The kernel is recorded in the replicas'
            // operations below, so their memory is not reused before it completes.
            let launched = unsafe { self.backend.launch(resident.device, deps.tickets(), kernel) };
            let ticket = match launched {
                Ok(ticket) => ticket,
                Err(error) => {
                    self.restore_all(state, outdated);
                    if kernels.is_empty() {
                        return Err(error.into());
                    }
                    break;
                }
            };
            for Outdated { id, actions, .. } in &outdated {
                if let Some(e) = state.entries.get_mut(id) {
                    self.execute_deferred(e, actions);
                }
            }
            for placement in &resident.operands {
                state.clock += 1;
                let stamp = state.clock;
                if let Some(s) = placement.store(state) {
                    s.ops
                        .push(self.backend, placement.view, ticket, placement.write);
                    s.stamp = stamp;
                }
                let reads = placement
                    .touched
                    .iter()
                    .any(|(_, i)| *i != Intent::Overwrite);
                // Parts of a call are on the same blocks.
                if kernels.is_empty() {
                    state.note_repeat(placement.id, placement.write, reads);
                }
            }
            kernels.push(ticket);
        }
        state.calls += 1;
        let launched = &parts[..kernels.len()];
        let pending = self.queue_write_backs(state, launched, pending);
        drop(guard);
        COUNTERS
            .cache
            .hits
            .add(launched.iter().map(|p| p.resident.reads).sum());
        Ok(Some(Launched { kernels, pending }))
    }

    /// Steps the directories for a kernel that writes bytes of which other replicas hold copies. If a step fails, none is made.
    fn outdate(
        &self,
        state: &mut State,
        kernel: &Resident,
    ) -> Result<SmallVec<[Outdated; 1]>, CacheError> {
        let mut all = SmallVec::new();
        for placement in kernel.operands.iter().filter(|p| p.outdates) {
            let id = placement.id;
            for (rect, intent) in &placement.touched {
                let event = Event::used(placement.replica, *rect, *intent);
                let mut actions = Vec::new();
                let e = state.entries.get_mut(&id).ok_or(CacheError::Gone);
                match e.and_then(|e| Ok(e.dir.step(&event, &mut actions)?)) {
                    Ok(undo) => all.push(Outdated { id, undo, actions }),
                    Err(error) => {
                        self.restore_all(state, all);
                        return Err(error);
                    }
                }
            }
        }
        Ok(all)
    }

    fn restore_all(&self, state: &mut State, outdated: SmallVec<[Outdated; 1]>) {
        for Outdated { id, undo, .. } in outdated.into_iter().rev() {
            if let Some(e) = state.entries.get_mut(&id) {
                self.restore(e, undo);
            }
        }
    }

    /// Queues the write-backs to shared pages that the call has to wait for.
    fn queue_write_backs(
        &self,
        state: &mut State,
        launched: &[Again<'_>],
        mut pending: PendingCopies,
    ) -> Result<PendingCopies, CacheError> {
        for placement in launched.iter().flat_map(|p| p.resident.writing_back()) {
            let e = state
                .entries
                .get_mut(&placement.id)
                .ok_or(CacheError::Gone)?;
            count_edges(e, placement.write_back.iter().map(Rect::bytes).sum());
            for rect in &placement.write_back {
                self.down(e, placement.replica, rect)?;
                e.host.ops.deps(rect, true, &mut pending.deps);
            }
        }
        Ok(pending)
    }
}

/// A step of a directory by which other replicas lose their copies of what a kernel writes.
struct Outdated {
    id: AllocId,
    undo: Undo,
    /// Executed when the kernel is launched.
    actions: Vec<Action>,
}

impl Placement {
    /// Whether the operand is still valid in the replica where it was placed. If the directory of its block has changed
    /// since, the bytes of this operand are looked at again.
    fn stands(&mut self, state: &State) -> bool {
        let Some(e) = state.entries.get(&self.id) else {
            return false;
        };
        if e.dir.version() != self.version {
            if !e.stores.contains_key(&self.replica) {
                return false;
            }
            self.outdates = false;
            match e.settled(&self.touched, self.replica) {
                Some(write_back) => self.write_back = write_back,
                None if e.only_outdates(&self.touched, self.replica) => {
                    (self.write_back, self.outdates) = (Vec::new(), true);
                }
                None => return false,
            }
            self.version = e.dir.version();
        }
        e.quiet()
    }

    /// The replica that holds the operand.
    fn store<'a>(&self, state: &'a mut State) -> Option<&'a mut Store> {
        let e = state.entries.get_mut(&self.id)?;
        e.stores.get_mut(&self.replica)
    }
}

impl Entry {
    /// The replica on `device` that an operand is placed in: of those that cover its view the largest, in which later
    /// views lie as well. Where elements of another size were cached, the operand may lie in a replica at an address that no
    /// kernel can use.
    pub(super) fn covering(&self, device: DeviceId, operand: &Use) -> Option<ReplicaId> {
        let found = self
            .stores
            .iter()
            .filter(|(_, s)| s.device == device && s.covers(&operand.view))
            .filter(|(_, s)| {
                s.addr(operand.view.start)
                    .is_multiple_of(operand.size.max(1) as u64)
            });
        found.max_by_key(|(_, s)| s.rect.bytes()).map(|(&id, _)| id)
    }
}
