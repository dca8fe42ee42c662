//! Placement: gives a task device memory that holds its operands. That is an existing replica that covers the view, a
//! new one shaped for the whole call, or a compact tile. If the operands of the call fit, the least recently used replicas
//! are evicted for it; if not, the call's plan says which tiles leave.

use super::room::Room;
use super::task::Use;
use super::{Cache, CacheError, Entry, State};
use crate::base::counters::COUNTERS;
use crate::base::{AllocId, DeviceId, Rect, RectSet, ReplicaId};
use crate::directory::Event;
use crate::trace;
use crate::transfer::ops::Ops;
use crate::transfer::pool::{ALIGN, Range};
use crate::transfer::{Deps, Store};

/// A flat replica wastes device memory on the gaps between columns: one is made if at least three quarters of it are
/// used.
const DENSE: (usize, usize) = (3, 4);
/// If one device has this many replicas of one allocation, the next replica mirrors all of the allocation if there is
/// room. A factorization uses one part of a matrix after another; with a replica for each part, copies of the same
/// bytes would fill the device, and every question to the directory would have to look at all of them.
const CROWDED: usize = 16;
/// If one device has this many replicas of one allocation, the next one mirrors all of it even if together they hold
/// less than [`SPARSE`] of it: an arena of small matrices. If a mirror has no room, each new replica evicts the least
/// recently used replica of the allocation.
const OVERCROWDED: usize = 64;
/// The share of an allocation that replicas must hold together before a mirror pays.
const SPARSE: (usize, usize) = (1, 8);

/// What a device holds before a call that runs by tiles.
#[derive(Debug, Default)]
pub struct Held {
    /// The number of tiles for which the device has memory, those it holds included.
    pub slots: usize,
    /// The number of tiles for which it would have memory if nothing else stayed.
    pub most: usize,
    /// The tiles of the call's operands that it holds, and whether all of their bytes are valid.
    pub tiles: Vec<(AllocId, Rect, bool)>,
    /// Replicas that are no tiles of the call and stay.
    pub others: Vec<Other>,
}

/// A replica of bytes of an operand that is no tile of the call: an earlier call had other tiles, or needed none.
#[derive(Debug)]
pub struct Other {
    /// The allocation.
    pub alloc: AllocId,
    /// The bytes of the allocation.
    pub rect: Rect,
    /// Which of them are valid.
    pub valid: RectSet,
    /// Bytes of device memory.
    pub memory: usize,
}

/// Bytes of the largest value of a reduction.
const VALUE: usize = 16;

impl Cache {
    /// Before a call whose operands do not fit into `device`: evicts all replicas but tiles of the call, which have `slot`
    /// bytes of memory each, and those of which `keep` says that they stay.
    ///
    /// # Errors
    /// A device is lost, or refused to copy the newest bytes of a replica to the host.
    pub fn make_room(
        &self,
        device: DeviceId,
        slot: usize,
        tile: &dyn Fn(AllocId, &Rect) -> bool,
        keep: &dyn Fn(&Other) -> bool,
    ) -> Result<Held, CacheError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let (mut held, mut others) = (Held::default(), Vec::new());
        let State { entries, pools, .. } = state;
        let pool = &pools[device.index()];
        // What the program wants to stay does, if enough memory for the call is left.
        let mut spare = pool.capacity() / 2;
        for (&alloc, e) in &*entries {
            for (&replica, s) in e.stores.iter().filter(|(_, s)| s.device == device) {
                if s.held > 0 {
                    continue;
                }
                let valid = e.dir.replica(replica).map(|r| &r.valid);
                if s.range.len >= slot && s.range.len < slot + ALIGN && tile(alloc, &s.rect) {
                    let all = valid.is_some_and(|valid| valid.contains(&s.rect));
                    held.tiles.push((alloc, s.rect, all));
                    continue;
                }
                let other = Other {
                    alloc,
                    rect: s.rect,
                    valid: valid.cloned().unwrap_or_default(),
                    memory: s.range.len,
                };
                let kept = e.keeps(device, &s.rect) && s.range.len <= spare;
                if kept {
                    spare -= s.range.len;
                }
                if kept || keep(&other) {
                    held.others.push(other);
                } else {
                    others.push((alloc, replica));
                }
            }
        }
        for (alloc, replica) in others {
            self.evict(state, device, alloc, replica)?;
        }
        let pool = &mut state.pools[device.index()];
        held.slots = pool.slots(self.backend, slot) + held.tiles.len();
        held.most = pool.capacity() / slot.max(1);
        Ok(held)
    }

    /// Evicts the replica on `device` of exactly these bytes, if there is one.
    pub(super) fn leave(
        &self,
        state: &mut State,
        device: DeviceId,
        (alloc, rect): (AllocId, Rect),
    ) -> Result<(), CacheError> {
        let found = state.entries.get(&alloc).and_then(|e| {
            let mut stores = e.stores.iter();
            stores
                .find(|(_, s)| s.device == device && s.rect == rect && s.held == 0)
                .map(|(&r, _)| r)
        });
        match found {
            Some(replica) => self.evict(state, device, alloc, replica),
            None => Ok(()),
        }
    }

    /// Finds or makes a replica on `device` for each operand of a task.
    pub(super) fn place_all(
        &self,
        state: &mut State,
        device: DeviceId,
        operands: &[Use],
        room: Room<'_>,
    ) -> Result<Vec<ReplicaId>, CacheError> {
        let place_each = |state: &mut State, operands: &[Use]| {
            let mut replicas = Vec::with_capacity(operands.len());
            for operand in operands {
                let replica = self.place(state, device, operand, &replicas, room)?;
                replicas.push(replica);
            }
            Ok(replicas)
        };
        let bytes: usize = operands.iter().map(|o| tile_bytes(&o.view)).sum();
        let fits = bytes <= state.pools[device.index()].capacity();
        match place_each(state, operands) {
            // All other replicas have been evicted by now; but those of this task may lie apart, with too little memory
            // in each place between them, or in chunks of memory that are larger than they are.
            Err(CacheError::NoRoom) if fits => {
                while self.evict_of(state, device, None, &[])? {}
                state.pools[device.index()].give_back_whole_chunks(self.backend);
                // A tile may have room where what is copied together with it has none.
                let alone = |o: &Use| match room {
                    Room::Tiles { .. } => Use {
                        footprint: o.view,
                        ..o.clone()
                    },
                    Room::Whole { .. } => o.clone(),
                };
                let alone: Vec<Use> = operands.iter().map(alone).collect();
                place_each(state, &alone)
            }
            placed => placed,
        }
    }

    /// Finds or makes a replica on `device` that holds `operand.view`. Replicas in `pinned` are used by the same task
    /// and are not evicted.
    fn place(
        &self,
        state: &mut State,
        device: DeviceId,
        operand: &Use,
        pinned: &[ReplicaId],
        room: Room<'_>,
    ) -> Result<ReplicaId, CacheError> {
        state.clock += 1;
        let stamp = state.clock;
        let entry = state.entries.get_mut(&operand.id).ok_or(CacheError::Gone)?;
        if let Some(id) = entry.covering(device, operand) {
            if let Some(s) = entry.stores.get_mut(&id) {
                s.stamp = stamp;
            }
            return Ok(id);
        }
        let flat = match room {
            Room::Whole { flat } => flat,
            Room::Tiles { .. } => false,
        };
        if let Room::Tiles { slot, .. } = room {
            // The value of a reduction needs no slot.
            let slot = if operand.view.bytes() <= VALUE {
                0
            } else {
                slot
            };
            let made = self.make(
                state,
                device,
                operand.id,
                operand.footprint,
                pinned,
                (true, slot),
            )?;
            return made.ok_or(CacheError::NoRoom);
        }
        let extent = entry.block.len;
        let crowded = entry.crowded(device);
        let full = entry.replicas_on(device) >= OVERCROWDED;
        let capacity = state.pools[device.index()].capacity();
        for (rect, evict) in candidates(operand, extent, capacity, (flat, crowded)) {
            if let Some(id) = self.make(state, device, operand.id, rect, pinned, (evict, 0))? {
                if full && rect.bytes() < extent {
                    self.evict_of(state, device, Some(operand.id), &[pinned, &[id]])?;
                }
                return Ok(id);
            }
        }
        Err(CacheError::NoRoom)
    }

    /// Makes a new replica of `rect` in memory of `slot` bytes, or as many as it needs if that is 0. Evicts others if `evict`;
    /// `None` if there is no room for it.
    fn make(
        &self,
        state: &mut State,
        device: DeviceId,
        id: AllocId,
        rect: Rect,
        pinned: &[ReplicaId],
        (evict, slot): (bool, usize),
    ) -> Result<Option<ReplicaId>, CacheError> {
        let (bytes, pitch) = Store::layout(&rect);
        let (range, deps) = loop {
            let pool = &mut state.pools[device.index()];
            let got = match slot {
                _ if slot < bytes => pool.alloc(self.backend, bytes),
                _ => pool.alloc_slot(self.backend, slot),
            };
            if let Some(got) = got? {
                break got;
            }
            if !evict
                || bytes > state.pools[device.index()].capacity()
                || !self.evict_of(state, device, None, &[pinned])?
            {
                // Where a slot has no room, the bytes alone may have.
                if slot <= bytes {
                    return Ok(None);
                }
                match state.pools[device.index()].alloc(self.backend, bytes)? {
                    Some(got) => break got,
                    None => return Ok(None),
                }
            }
        };
        let replica = state.add_replica((id, device, rect), (range, pitch), &deps)?;
        Ok(Some(replica))
    }

    /// Evicts the least recently used replica on `device` (of the allocation `of`, if given), first those that the program did not want
    /// to stay ([`Cache::keep`]). `false` if none may be evicted.
    fn evict_of(
        &self,
        state: &mut State,
        device: DeviceId,
        of: Option<AllocId>,
        pinned: &[&[ReplicaId]],
    ) -> Result<bool, CacheError> {
        let whose = |a: &AllocId| of.is_none_or(|of| of == *a);
        let here = |s: &Store| s.device == device && s.held == 0;
        let victim = state
            .entries
            .iter()
            .filter(|(a, _)| whose(a))
            .flat_map(|(&a, e)| e.stores.iter().map(move |(&r, s)| (a, e, r, s)))
            .filter(|(_, _, r, s)| here(s) && !pinned.iter().any(|p| p.contains(r)))
            .min_by_key(|(_, e, _, s)| (e.keeps(device, &s.rect), s.stamp))
            .map(|(a, _, r, _)| (a, r));
        let Some((alloc, replica)) = victim else {
            return Ok(false);
        };
        self.evict(state, device, alloc, replica).map(|()| true)
    }

    /// Evicts a replica. Bytes that only it holds are written back, and no thread waits for that.
    pub(super) fn evict(
        &self,
        state: &mut State,
        device: DeviceId,
        alloc: AllocId,
        replica: ReplicaId,
    ) -> Result<(), CacheError> {
        let State { entries, pools, .. } = state;
        let e = entries.get_mut(&alloc).ok_or(CacheError::Gone)?;
        let bytes = e.stores.get(&replica).map_or(0, |s| s.range.len);
        self.step_closed(e, pools, &Event::Evict { replica })?;
        COUNTERS.cache.evictions.add(1);
        if trace::on() {
            trace::record(trace::Event::Evict {
                at: trace::now(),
                device,
                bytes: bytes as u64,
                cause: trace::cause(),
            });
        }
        Ok(())
    }
}

impl State {
    /// A new replica of bytes of a block, in this device memory with this pitch, which operations may still use.
    pub(super) fn add_replica(
        &mut self,
        (id, device, rect): (AllocId, DeviceId, Rect),
        (range, pitch): (Range, usize),
        deps: &Deps,
    ) -> Result<ReplicaId, CacheError> {
        let replica = self.new_replica();
        let mut ops = Ops::default();
        for &t in deps.tickets() {
            ops.push_ordered(rect, t);
        }
        let entry = self.entries.get_mut(&id).ok_or(CacheError::Gone)?;
        entry.dir.add_replica(replica, device, rect);
        entry.stores.insert(
            replica,
            Store {
                device,
                rect,
                range,
                pitch,
                ops,
                stamp: self.clock,
                held: 0,
            },
        );
        Ok(replica)
    }
}

impl Entry {
    /// Whether the program wants a replica of these bytes to stay.
    fn keeps(&self, device: DeviceId, rect: &Rect) -> bool {
        let orders = self.orders.as_ref();
        orders.is_some_and(|orders| orders.keep(device, rect))
    }

    fn replicas_on(&self, device: DeviceId) -> usize {
        let here = self.stores.values().filter(|s| s.device == device);
        here.count()
    }

    /// Whether the replicas on `device` are too many, so that one mirror of the whole allocation is better.
    fn crowded(&self, device: DeviceId) -> bool {
        let here = self.stores.values().filter(|s| s.device == device);
        let (count, bytes) = here.fold((0, 0), |(n, b), s| (n + 1, b + s.rect.bytes()));
        count >= OVERCROWDED || count >= CROWDED && bytes >= self.block.len / SPARSE.1 * SPARSE.0
    }
}

/// Rectangles to try for a new replica, best first, each with whether others may be evicted for it.
fn candidates(
    operand: &Use,
    extent: usize,
    capacity: usize,
    (flats, crowded): (bool, bool),
) -> impl Iterator<Item = (Rect, bool)> {
    let span = operand.footprint.span();
    let flat = Rect::interval(
        span.start & !(ALIGN - 1),
        span.end.next_multiple_of(ALIGN).min(extent.max(span.end)),
    );
    let dense = operand.footprint.bytes() >= flat.bytes() / DENSE.1 * DENSE.0;
    // A mirror of the whole allocation serves every later view. It pays if the call uses most of the allocation, and if
    // there are too many smaller replicas; but the latter is no reason to evict others.
    let whole = Rect::interval(0, extent);
    let mut list: Vec<(Rect, bool)> = Vec::with_capacity(4);
    let dense = dense && flats;
    let most = dense && flat.bytes() * 2 >= extent;
    if (most || crowded && flats) && extent <= capacity / 4 {
        list.push((whole, most));
    }
    if dense {
        list.push((flat, true));
    }
    list.push((operand.footprint, true));
    list.push((operand.view, true));
    list.into_iter()
        .filter(move |(r, _)| holds(r, &operand.view))
}

/// Whether a kernel can use `view` in a replica of `rect`.
#[must_use]
pub fn holds(rect: &Rect, view: &Rect) -> bool {
    rect.contains(view) && covers(rect, view)
}

/// Device memory that a compact replica of `rect` takes.
#[must_use]
pub fn tile_bytes(rect: &Rect) -> usize {
    Store::layout(rect).0.next_multiple_of(ALIGN)
}

/// Device memory that a replica of `rect` takes at most, flat or compact.
#[must_use]
pub fn device_bytes(rect: &Rect) -> usize {
    let span = rect.span();
    Store::layout(rect)
        .0
        .max((span.end - span.start).min(rect.bytes() / DENSE.0 * DENSE.1))
}

/// Whether `view` would have one leading dimension in a replica of `rect`.
fn covers(rect: &Rect, view: &Rect) -> bool {
    rect.count == 1 || view.count == 1 || rect.stride == view.stride
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Intent;
    use crate::device::sim::{SimConfig, SimMachine};
    use crate::protect::WriteThroughGate;

    /// A cache of one device with `memory` bytes.
    fn cache(memory: usize) -> Cache {
        let cfg = SimConfig {
            devices: 1,
            memory,
            ..SimConfig::default()
        };
        let sim = Box::leak(Box::new(SimMachine::new(cfg).unwrap()));
        Cache::new(sim, &WriteThroughGate, 4096, 4096)
    }

    /// In a memory of eight units of 64 KiB, places blocks one after the other, and then two for the same task; the numbers are
    /// the blocks' sizes in these units.
    fn placed(first: &[usize], last: [usize; 2]) {
        const UNIT: usize = 1 << 16;
        let cache = cache(8 * UNIT);
        let block = |units: usize, base: usize| {
            let view = Rect::interval(0, units * UNIT);
            Use {
                id: cache.add_transient(base, view.end()),
                base,
                view,
                footprint: view,
                access: Intent::Read,
                touched: Vec::new(),
                size: 8,
                step: 1,
            }
        };
        let blocks = first.iter().chain(&last).zip(1..);
        let blocks: Vec<Use> = blocks
            .map(|(&units, megabyte)| block(units, megabyte << 20))
            .collect();
        let (alone, together) = blocks.split_at(first.len());
        let mut state = cache.lock();
        let room = Room::Whole { flat: true };
        let mut place = |uses: &[Use]| {
            let placed = cache.place_all(&mut state, DeviceId(0), uses, room);
            assert_eq!(placed.unwrap().len(), uses.len());
        };
        alone
            .iter()
            .for_each(|one| place(std::slice::from_ref(one)));
        // The first of the two is resident already.
        place(&together[..1]);
        place(together);
    }

    #[test]
    fn what_fits_has_room_wherever_a_part_of_it_lies() {
        // The one unit that is resident lies behind three others: neither before it nor behind it are there seven.
        placed(&[8, 3], [1, 7]);
        // Four of five units that the device has given at once leave one, beside the three that it has not given yet.
        placed(&[5], [4, 4]);
    }

    /// Which of three blocks have a replica, of which the memory holds two and a fourth one.
    fn left(cache: &Cache, order: impl FnOnce(&Cache, [AllocId; 3])) -> [bool; 3] {
        const SIZE: usize = 1 << 18;
        let view = Rect::interval(0, SIZE);
        let block = |base: usize| Use {
            id: cache.add_transient(base, SIZE),
            base,
            view,
            footprint: view,
            access: Intent::Read,
            touched: Vec::new(),
            size: 8,
            step: 1,
        };
        let [a, b, c, d] = [1, 2, 3, 4].map(|at| block(at << 20));
        let place = |operand: &Use| {
            let mut state = cache.lock();
            let operands = std::slice::from_ref(operand);
            let room = Room::Whole { flat: true };
            cache
                .place_all(&mut state, DeviceId(0), operands, room)
                .unwrap();
        };
        [&a, &b, &c].into_iter().for_each(place);
        order(cache, [a.id, b.id, c.id]);
        place(&d);
        let state = cache.lock();
        [&a, &b, &c].map(|u| !state.entries[&u.id].stores.is_empty())
    }

    #[test]
    fn what_is_kept_or_held_leaves_last() {
        let view = Rect::interval(0, 1 << 18);
        let memory = 3 << 18;
        assert_eq!(left(&cache(memory), |_, _| {}), [false, true, true]);
        let kept = left(&cache(memory), |cache, [a, ..]| {
            cache.keep(a, &view, None, true);
        });
        assert_eq!(kept, [true, false, true]);
        let no_longer = left(&cache(memory), |cache, [a, ..]| {
            cache.keep(a, &view, Some(DeviceId(0)), true);
            cache.keep(a, &view, None, false);
        });
        assert_eq!(no_longer, [false, true, true]);
        // All are kept: the one that was used longest ago leaves all the same.
        let all = left(&cache(memory), |cache, all| {
            all.iter().for_each(|id| cache.keep(*id, &view, None, true));
        });
        assert_eq!(all, [false, true, true]);
        let held = left(&cache(memory), |cache, [a, b, _]| {
            let mut state = cache.lock();
            for id in [a, b] {
                let e = state.entries.get_mut(&id).unwrap();
                e.stores.values_mut().for_each(|s| s.held += 1);
            }
        });
        assert_eq!(held, [true, true, false]);
    }

    /// Returns the number of replicas of a block of `extent` bytes after `views` were placed, and whether the last view
    /// is in a mirror of the whole block.
    fn after(memory: usize, extent: usize, views: impl Iterator<Item = Rect>) -> (usize, bool) {
        let cache = cache(memory);
        let id = cache.add_transient(1 << 20, extent);
        let mut state = cache.lock();
        let mut mirrored = false;
        for view in views {
            let operand = Use {
                id,
                base: 1 << 20,
                view,
                footprint: view,
                access: Intent::Read,
                touched: Vec::new(),
                size: 8,
                step: 512,
            };
            let device = DeviceId(0);
            let at = cache.place(
                &mut state,
                device,
                &operand,
                &[],
                Room::Whole { flat: true },
            );
            let at = at.unwrap();
            let store = &state.entries[&id].stores[&at];
            assert!(store.covers(&view));
            mirrored = store.rect == Rect::interval(0, extent);
        }
        (state.entries[&id].stores.len(), mirrored)
    }

    /// Squares of `n` x `n` doubles, one further down the diagonal each time, in a matrix of 512.
    fn squares(n: usize) -> impl Iterator<Item = Rect> {
        (0..400).map(move |i| Rect {
            start: i * (512 + 1) * 8,
            width: n * 8,
            stride: 512 * 8,
            count: n,
        })
    }

    #[test]
    fn a_block_of_many_views_gets_a_mirror() {
        let (large, matrix) = (64 << 20, 512 * 512 * 8);
        let few = squares(64).take(CROWDED);
        assert_eq!(after(large, matrix, few), (CROWDED, false));
        assert_eq!(after(large, matrix, squares(64)), (CROWDED + 1, true));
        // Small replicas may be more before a mirror is made.
        assert_eq!(after(large, matrix, squares(8)), (OVERCROWDED + 1, true));
        // No mirror if it would leave too little room: then the least recently used replicas are evicted.
        assert_eq!(after(4 << 20, matrix, squares(8)), (OVERCROWDED, false));
    }

    #[test]
    fn a_view_of_most_of_a_block_gets_a_mirror_at_once() {
        let most = Rect::interval(64, 3000);
        assert_eq!(after(64 << 20, 4096, [most].into_iter()), (1, true));
        let half = Rect::interval(64, 1000);
        assert_eq!(after(64 << 20, 4096, [half, half].into_iter()), (1, false));
    }
}
