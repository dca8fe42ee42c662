//! Queueing of one kernel: operands are placed in replicas, missing bytes uploaded, host panels protected, the kernel
//! launched.

use super::room::Room;
use super::{Cache, CacheError, State, changed};
use crate::base::counters::COUNTERS;
use crate::base::{AllocId, DeviceId, Intent, Rect, RectSet, ReplicaId};
use crate::device::api::{Backend, Kernel, Operand, Ticket};
use crate::directory::{Action, Event, Undo, separable};
use crate::transfer::{Deps, Store};

/// The bytes of an allocation that are an operand of a call, or of one of its kernels, and how the call or kernel uses
/// them.
#[derive(Clone, Debug)]
pub struct Use {
    /// The allocation.
    pub id: AllocId,
    /// Host address of offset 0 of the allocation.
    pub base: usize,
    /// The operand's bytes.
    pub view: Rect,
    /// For a kernel: the bytes of the same matrix or vector that the whole call touches on the kernel's device.
    pub footprint: Rect,
    /// Whether the operand is read, overwritten or both.
    pub access: Intent,
    /// For a kernel: the parts of the view that the kernel touches, and how, if not all of it; only these parts are
    /// copied. For an input also what is copied together with the view, the view included. Empty: the whole view.
    pub touched: Vec<(Rect, Intent)>,
    /// Bytes of an element.
    pub size: usize,
    /// The operand's [`Operand::step`] in host memory. A contiguous view does not tell the step.
    pub step: isize,
}

impl Use {
    /// Host address of the operand's lowest byte.
    #[must_use]
    pub fn addr(&self) -> usize {
        self.base + self.view.start
    }

    /// Notes that from here on the operand may be changed, if it is written at all.
    pub fn begun(&self) {
        if self.access != Intent::Read {
            changed::begun(self.addr());
        }
    }

    /// The bytes that the kernel touches, and how.
    pub(super) fn touched(&self) -> impl Iterator<Item = (Rect, Intent)> {
        let all = self.touched.is_empty();
        let whole = all.then_some((self.view, self.access));
        whole.into_iter().chain(self.touched.iter().copied())
    }

    /// As [`Use::touched`], in a replica that has memory for these bytes: an earlier call may have left one that holds the
    /// view, but not all that is to be copied with it.
    fn touched_in(&self, held: &Rect) -> impl Iterator<Item = (Rect, Intent)> {
        let beyond = self.touched.iter().any(|(rect, _)| !held.contains(rect));
        let whole = beyond.then_some((self.view, self.access));
        let touched = (!beyond).then(|| self.touched());
        whole.into_iter().chain(touched.into_iter().flatten())
    }

    /// Address and step of the operand in a replica that covers its view.
    pub(super) fn located(&self, s: &Store) -> Operand {
        let region = s.region(&self.view);
        Operand {
            addr: region.addr,
            step: self.step_at(region.pitch),
        }
    }

    /// The step of the operand where its runs are `pitch` bytes apart.
    #[must_use]
    pub fn step_at(&self, pitch: usize) -> isize {
        if self.view.bytes() <= self.size {
            // A single element has no next one; the distance that the caller gave may be more than a device takes.
            1
        } else if self.view.count == 1 {
            // Contiguous bytes are contiguous in every replica: columns whose leading dimension is their length, or
            // elements side by side. For a single column, no kernel uses the distance to the next.
            self.step
        } else {
            let elements = isize::try_from(pitch / self.size).unwrap_or(isize::MAX);
            elements * self.step.signum()
        }
    }
}

impl Cache {
    /// Queues one kernel on `device`; `kernel` builds it from the operands' device addresses. After an error no kernel
    /// was launched and no output changed.
    ///
    /// # Errors
    /// Refused, lost, no room, or a freed operand.
    #[expect(unsafe_code, reason = "launches a kernel on placed operands")]
    pub fn queue(
        &self,
        device: DeviceId,
        uses: &[Use],
        room: Room<'_>,
        kernel: &dyn Fn(&[Operand]) -> Kernel,
    ) -> Result<Ticket, CacheError> {
        self.queue_with(device, uses, room, |backend, after, operands| {
            // SAFETY: every operand lies in a replica that covers its view and belongs to `device`; the kernel is recorded in the
            // replicas' operations by `queue_with`, so their memory is not reused before the kernel completes.
            Ok(unsafe { backend.launch(device, after, &kernel(operands)) }?)
        })
    }

    /// As [`Cache::queue`], for a kernel that `launch` queues behind the tickets that it gets, on operands that lie where it is told.
    ///
    /// # Errors
    /// As [`Cache::queue`], and those of `launch`.
    pub fn queue_with(
        &self,
        device: DeviceId,
        uses: &[Use],
        room: Room<'_>,
        launch: impl FnOnce(&dyn Backend, &[Ticket], &[Operand]) -> Result<Ticket, CacheError>,
    ) -> Result<Ticket, CacheError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        if let Room::Tiles { leave, .. } = room {
            for tile in leave {
                self.leave(state, device, *tile)?;
            }
        }
        self.with_acquired(state, device, uses, room, |state, replicas| {
            let mut deps = Deps::default();
            let mut located = Vec::with_capacity(uses.len());
            for (u, r) in uses.iter().zip(replicas) {
                let s = store(state, u, *r)?;
                s.ops.deps(&u.view, u.access != Intent::Read, &mut deps);
                located.push(u.located(s));
            }
            let ticket = launch(self.backend, deps.tickets(), &located)?;
            for (u, r) in uses.iter().zip(replicas) {
                if let Ok(s) = store(state, u, *r) {
                    let writes = u.access != Intent::Read;
                    s.ops.push(self.backend, u.view, ticket, writes);
                }
            }
            Ok(ticket)
        })
    }

    /// Places operands in replicas on a device and steps the directory as for a kernel that uses them, which `run` queues. If it fails,
    /// the directory's states of the outputs are restored.
    pub(super) fn with_acquired<T>(
        &self,
        state: &mut State,
        device: DeviceId,
        uses: &[Use],
        room: Room<'_>,
        run: impl FnOnce(&mut State, &[ReplicaId]) -> Result<T, CacheError>,
    ) -> Result<T, CacheError> {
        let replicas = self.place_all(state, device, uses, room)?;
        self.tidy(state, uses, &replicas)?;
        // The directory's state of each output before this task: a refused launch restores it.
        let mut before = Vec::with_capacity(1);
        let mut deferred: Vec<(usize, Vec<Action>)> = Vec::new();
        let result = self
            .prepare(state, uses, &replicas, &mut before, &mut deferred)
            .and_then(|()| run(state, &replicas));
        match &result {
            Ok(_) => {
                for (i, actions) in &deferred {
                    if let Some(e) = state.entries.get_mut(&uses[*i].id) {
                        self.execute_deferred(e, actions);
                    }
                }
            }
            Err(_) => {
                // Newest first, so that two operands of one allocation are restored to the state before both.
                for Before { operand, dir, lost } in before.into_iter().rev() {
                    if let Some(e) = state.entries.get_mut(&uses[operand].id) {
                        e.lost = lost;
                        if let Some(dir) = dir {
                            self.restore(e, dir);
                        }
                    }
                }
            }
        }
        result
    }

    /// Copies an input of a call to a device before a task there uses it, unless other devices hold all of its bytes or copies
    /// of them to a device are in flight.
    ///
    /// # Errors
    /// Refused, lost, no room, or a freed operand. Replicas may have been made or evicted, and a part of the bytes copied.
    pub fn bring(&self, device: DeviceId, input: &Use, room: Room<'_>) -> Result<(), CacheError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let e = state.entries.get(&input.id).ok_or(CacheError::Gone)?;
        if input.touched().all(|(rect, _)| e.dir.on_devices(&rect)) {
            return Ok(());
        }
        self.send(state, device, input, room).map(drop)
    }

    /// Copies those bytes of an input to a device that it lacks; returns the replica that holds them.
    pub(super) fn send(
        &self,
        state: &mut State,
        device: DeviceId,
        input: &Use,
        room: Room<'_>,
    ) -> Result<ReplicaId, CacheError> {
        let inputs = std::slice::from_ref(input);
        let replicas = self.place_all(state, device, inputs, room)?;
        self.tidy(state, inputs, &replicas)?;
        self.prepare(state, inputs, &replicas, &mut Vec::new(), &mut Vec::new())?;
        replicas.first().copied().ok_or(CacheError::Gone)
    }

    /// Makes room in the directory's sets for the bytes that a kernel is about to use, before any of its operands is
    /// acquired (R15). Of the bytes removed from the sets, stale ones are written back while their panels stay
    /// inaccessible, and no thread waits for that. Likewise, bytes that the device needs and that only devices without a
    /// link to it have are written back.
    fn tidy(
        &self,
        state: &mut State,
        uses: &[Use],
        replicas: &[ReplicaId],
    ) -> Result<(), CacheError> {
        let State { entries, pools, .. } = state;
        for (i, (u, &replica)) in uses.iter().zip(replicas).enumerate() {
            let mut others = uses[..i].iter().filter(|v| v.id == u.id);
            if others.any(|v| !separable(&v.view, &u.view)) {
                return Err(CacheError::NoRoom);
            }
            let e = entries.get_mut(&u.id).ok_or(CacheError::Gone)?;
            let held = e.stores.get(&replica).ok_or(CacheError::Gone)?.rect;
            for (rect, intent) in u.touched_in(&held) {
                if e.dir.ready(&Event::used(replica, rect, intent)) {
                    continue;
                }
                if e.dir.untidy(&rect) {
                    self.step_closed(e, pools, &Event::Tidy { rect })?;
                }
                if intent != Intent::Overwrite {
                    for rect in e.dir.out_of_reach(replica, &rect) {
                        self.queue_write_back(e, pools, &rect)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn prepare(
        &self,
        state: &mut State,
        uses: &[Use],
        replicas: &[ReplicaId],
        before: &mut Vec<Before>,
        deferred: &mut Vec<(usize, Vec<Action>)>,
    ) -> Result<(), CacheError> {
        let State { entries, pools, .. } = state;
        // Inputs first: the step of an output may invalidate bytes of other replicas that an input still has to be
        // copied from.
        for pass in [Intent::Read, Intent::Update] {
            for (i, (u, &replica)) in uses.iter().zip(replicas).enumerate() {
                let reads_only = u.access == Intent::Read;
                if reads_only != (pass == Intent::Read) {
                    continue;
                }
                let e = entries.get_mut(&u.id).ok_or(CacheError::Gone)?;
                let held = e.stores.get(&replica).ok_or(CacheError::Gone)?.rect;
                let mut read = u.touched_in(&held).filter(|(_, i)| *i != Intent::Overwrite);
                if read.any(|(rect, _)| e.lost.overlaps(&rect)) {
                    return Err(CacheError::DataLost);
                }
                if reads_only {
                    let misses = COUNTERS.cache.misses.get();
                    for (rect, _) in u.touched_in(&held) {
                        self.step_of_task(
                            replica,
                            e,
                            pools,
                            &Event::DeviceRead { replica, rect },
                            None,
                        )?;
                    }
                    if COUNTERS.cache.misses.get() == misses {
                        COUNTERS.cache.hits.add(1);
                    }
                } else {
                    u.begun();
                    let mut later = Vec::new();
                    for (rect, intent) in u.touched_in(&held) {
                        let lost = e.lost.clone();
                        let event = Event::DeviceWrite {
                            replica,
                            rect,
                            keep: intent == Intent::Update,
                        };
                        let dir = self.step_of_task(replica, e, pools, &event, Some(&mut later))?;
                        before.push(Before {
                            operand: i,
                            dir,
                            lost,
                        });
                        e.lost.remove(&rect);
                    }
                    deferred.push((i, later));
                }
            }
        }
        Ok(())
    }
}

/// The state of an operand before one of the task's writes.
struct Before {
    operand: usize,
    /// How to undo the directory's step; `None` if the directory did not change.
    dir: Option<Undo>,
    lost: RectSet,
}

pub(super) fn store<'a>(
    state: &'a mut State,
    operand: &Use,
    replica: ReplicaId,
) -> Result<&'a mut Store, CacheError> {
    state
        .entries
        .get_mut(&operand.id)
        .and_then(|e| e.stores.get_mut(&replica))
        .ok_or(CacheError::Gone)
}
