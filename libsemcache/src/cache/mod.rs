//! The cache: host allocations, their replicas on the devices, and the one lock over both.
//!
//! [`place`] gives a task device memory that holds its operands, [`apply`] executes what the directory
//! demands, [`fault`] serves the CPU, [`flush`] brings everything home (exit, fork), [`lifetime`] follows
//! what the program does with its memory, `open_for_good` gives the gate up, [`task`] queues one kernel, [`history`] and
//! [`push`] send home what the CPU is known to read, [`scan`] finds out what the CPU wrote where nothing traps it; [`call`] is
//! what a call asks of all this before, behind and besides its kernels.
//!
//! Locking: one mutex over all state. While it is held nothing dereferences a user address (the devices
//! read and write closed pages without faulting), nothing allocates from the process heap, and nothing
//! waits for a user thread; waiting for a device is allowed. So a fault can be served whatever lock the
//! faulting thread holds. Whoever may be called by a driver under the driver's own lock does not take it: hooks
//! of system calls look at the page table first (`semcache_fault::held`), a freed block's devices are asked only if the lock
//! is free ([`lifetime`]).

mod ahead;
pub mod apply;
pub mod call;
pub mod cells;
pub mod edges;
pub mod fault;
pub mod flush;
pub mod history;
pub mod hot;
pub mod lifetime;
pub mod lost;
mod open_for_good;
pub mod pins;
pub mod place;
pub mod push;
mod reductions;
pub mod scan;
mod scans;
pub mod task;
mod toll;
mod versioned;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::base::{AllocId, DeviceId, Interval, Rect, RectSet, ReplicaId};
use crate::device::api::{Backend, DeviceError};
use crate::directory::{Allocation, Illegal};
use crate::host::{self, Block};
use crate::process::waited::Waiting;
use crate::protect::Gate;
pub use crate::transfer::Deps;
use crate::transfer::engine::HostSide;
use crate::transfer::{Pool, Store};
use semcache_fault::held::Held;
use versioned::Versioned;

/// Why the cache could not do something. Nothing was lost; the caller goes to the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheError {
    /// A device said no.
    Device(DeviceError),
    /// Not enough device memory, with everything evicted that may be.
    NoRoom,
    /// The allocation is not known (it was freed meanwhile).
    Gone,
    /// The newest bytes existed only on a device that is lost.
    DataLost,
    /// A contradiction in the protocol: a bug, reported as such.
    Bug(String),
}

impl From<DeviceError> for CacheError {
    fn from(e: DeviceError) -> Self {
        CacheError::Device(e)
    }
}

impl From<Illegal> for CacheError {
    fn from(e: Illegal) -> Self {
        CacheError::Bug(format!("{e:?}"))
    }
}

/// One allocation that devices have used.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) block: Block,
    /// A remembered call ([`hot`]) trusts what it saw only while nobody has changed this.
    pub(crate) dir: Versioned<Allocation>,
    pub(crate) host: HostSide,
    pub(crate) stores: BTreeMap<ReplicaId, Store>,
    /// Newest bytes that existed only on a lost device: whoever touches them ends the process (rule of D9).
    pub(crate) lost: RectSet,
    /// Whether some panel may be closed or read-only at present.
    pub(crate) guarded: bool,
    /// Where the last fault's span ended, and how long the next read-ahead is.
    pub(crate) ahead: ahead::ReadAhead,
    /// Panels that ping-pong between CPU and devices.
    pub(crate) pingpong: HashMap<usize, PingPong>,
    /// Panels that should have been closed but were not: their bytes go home at the end of the call.
    pub(crate) unprotected: Vec<Interval>,
    /// Downloads queued so far: whether host bytes changed since a call began.
    pub(crate) downloads: u64,
    /// Panels that are armed rather than read-only.
    pub(crate) scans: scans::Scans,
}

/// A panel that CPU and devices fight over although they touch different bytes of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PingPong {
    pub(super) faults: u32,
    /// Eager until this many calls have run on devices; 0 = not eager.
    pub(super) until: u64,
    pub(super) rounds: u32,
}

/// Everything under the lock.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) entries: BTreeMap<AllocId, Entry>,
    /// Blocks of `entries` by address (not the transient ones): the fault path must not ask `host`, whose
    /// look-up may take the dynamic loader's lock, which the faulting thread may hold.
    pub(crate) by_start: BTreeMap<usize, AllocId>,
    pub(crate) pools: Vec<Pool>,
    /// Blocks that the program freed while devices still read or wrote them.
    pub(crate) dying: BTreeMap<AllocId, Deps>,
    pub(crate) history: HashMap<AllocId, history::History>,
    /// What was learned of blocks of a length: programs allocate the same again and again.
    pub(crate) lengths: HashMap<usize, history::Alike>,
    pub(crate) next_replica: u64,
    /// Grows with every use of a replica: the LRU clock.
    pub(crate) clock: u64,
    /// Calls that ran on devices.
    pub(crate) calls: u64,
    /// When `calls` reaches this, some panel may have been eager for long enough.
    pub(crate) forgive_at: u64,
}

impl State {
    /// The allocation that holds an address.
    pub(crate) fn find(&self, addr: usize) -> Option<AllocId> {
        let (_, id) = self.by_start.range(..=addr).next_back()?;
        let e = self.entries.get(id)?;
        (addr < e.block.start + e.block.len).then_some(*id)
    }

    /// The allocations that overlap a range of addresses.
    pub(crate) fn find_range(&self, start: usize, end: usize) -> Vec<AllocId> {
        let first = self.find(start);
        let rest = self.by_start.range(start + 1..end).map(|(_, &id)| id);
        first.into_iter().chain(rest).collect()
    }

    /// Takes an entry out.
    pub(crate) fn remove(&mut self, id: AllocId) -> Option<Entry> {
        let e = self.entries.remove(&id)?;
        if self.by_start.get(&e.block.start) == Some(&id) {
            self.by_start.remove(&e.block.start);
        }
        Some(e)
    }
}

/// The cache of one process.
#[derive(Debug)]
pub struct Cache {
    backend: &'static dyn Backend,
    gate: &'static dyn Gate,
    panel: usize,
    page: usize,
    cells: cells::Cells,
    state: Mutex<State>,
    /// The number of the next call.
    numbers: AtomicU64,
    held: Held,
    scanner: scans::Scanner,
    /// A device is gone: plans count on all of them, so no further call is offloaded.
    lost: AtomicBool,
    /// Nothing is tracked any more ([`open_for_good`]).
    eager: AtomicBool,
}

/// Allocations that may have a closed or read-only panel: the one word that the fast paths read (the shim's
/// stubs by its address).
pub static GUARDED: AtomicUsize = AtomicUsize::new(0);

/// Whether any panel of the process may be closed or read-only.
#[must_use]
pub fn any_guarded() -> bool {
    GUARDED.load(Ordering::Relaxed) != 0
}

std::thread_local! {
    static LOCKS: Cell<u64> = const { Cell::new(0) };
}

/// Ids of transient entries live above this, so that they never meet those of host blocks.
const TRANSIENT_BASE: u64 = 1 << 62;

impl Cache {
    /// A cache over the devices of `backend`. `panel` is a multiple of the page size.
    #[must_use]
    pub fn new(
        backend: &'static dyn Backend,
        gate: &'static dyn Gate,
        panel: usize,
        page: usize,
    ) -> Self {
        let pools = backend
            .devices()
            .iter()
            .enumerate()
            .map(|(i, c)| Pool::new(device_id(i), c.memory))
            .collect();
        Self {
            backend,
            gate,
            panel,
            page,
            cells: cells::Cells::new(backend),
            state: Mutex::new(State {
                pools,
                ..State::default()
            }),
            numbers: AtomicU64::new(0),
            held: Held::default(),
            eager: AtomicBool::new(false),
            scanner: scans::Scanner::default(),
            lost: AtomicBool::new(false),
        }
    }

    /// Whether all devices are still there.
    #[must_use]
    pub fn whole(&self) -> bool {
        !self.lost.load(Ordering::Relaxed)
    }

    /// The machine.
    #[must_use]
    pub fn backend(&self) -> &'static dyn Backend {
        self.backend
    }

    /// How often this thread has taken the cache's lock, for the test that counts that for one call.
    #[must_use]
    pub fn locks() -> u64 {
        LOCKS.get()
    }

    /// A panic while the lock was held left the state as the last whole step made it; going on is better
    /// than taking the process down.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        LOCKS.set(LOCKS.get() + 1);
        match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) => {
                // Who has it may be waiting for a device.
                let _waiting = Waiting::new();
                self.state.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    /// The entry of a block, made at its first use.
    pub(crate) fn entry<'a>(&self, state: &'a mut State, block: Block) -> &'a mut Entry {
        let (panel, page, traps) = (self.panel, self.page, self.traps());
        state.by_start.insert(block.start, block.id);
        state.entries.entry(block.id).or_insert_with(|| {
            let tracked = if traps {
                host::keep_mergeable(block);
                Interval {
                    start: 0,
                    end: block.len,
                }
            } else {
                Interval::default()
            };
            let dir = Allocation::new(block.len, panel, page, tracked).with_content(block.content);
            let mut e = Entry::new(block, dir);
            e.scans = self.new_scans(tracked);
            e
        })
    }

    /// A one-call entry for memory whose lifetime nobody knows: never tracked, dropped by
    /// [`Cache::finish_transient`].
    pub fn add_transient(&self, start: usize, len: usize) -> AllocId {
        let mut state = self.lock();
        state.clock += 1;
        let id = AllocId(TRANSIENT_BASE + state.clock);
        let block = Block {
            id,
            start,
            len,
            content: len,
            provenance: crate::host::Provenance::Adopted,
        };
        let dir = Allocation::new(len, self.panel, self.page, Interval::default());
        state.entries.insert(id, Entry::new(block, dir));
        id
    }

    /// Makes a block known, so that operands may refer to it. Whether it was not.
    pub fn add_block(&self, block: Block) -> bool {
        let mut state = self.lock();
        let fresh = !state.entries.contains_key(&block.id);
        if fresh {
            // The same memory under the name that it had a moment ago: whoever ends that name has yet to say so.
            for id in state.find_range(block.start, block.start + block.len) {
                if let Some(old) = state.entries.get(&id).map(|e| e.block) {
                    self.abandon_locked(&mut state, old);
                }
            }
        }
        self.entry(&mut state, block);
        fresh
    }

    /// Whether an address range overlaps a known allocation.
    #[must_use]
    pub fn overlaps(&self, start: usize, end: usize) -> bool {
        !self.lock().find_range(start, end).is_empty()
    }

    /// Bytes of a rectangle that are stale on the host, and that a device holds, for the decision. What a call on it would
    /// make the directory give up (R15) counts as being on no device.
    #[must_use]
    pub fn residency(&self, id: AllocId, rect: &Rect) -> Residency {
        self.residency_locked(&self.lock(), id, rect)
    }

    fn residency_locked(&self, state: &State, id: AllocId, rect: &Rect) -> Residency {
        let Some(e) = state.entries.get(&id) else {
            return Residency::default();
        };
        let mut resident = vec![0; self.backend.devices().len()];
        let mut held: Vec<&RectSet> = Vec::new();
        for (_, r) in e.dir.replicas() {
            let n = r.valid.shared_unmixed(rect);
            if n > 0 {
                held.push(&r.valid);
            }
            let d = r.device.index();
            resident[d] = resident[d].max(n);
        }
        let union = match held[..] {
            // Only where several hold some of it do pieces have to be told apart.
            [] | [_] => resident.iter().copied().max().unwrap_or(0),
            _ if held.iter().any(|set| set.contains(rect)) => rect.bytes(),
            _ => {
                let mut union = RectSet::new();
                for set in held.iter().filter(|set| set.mixed(rect).next().is_none()) {
                    set.common(rect).iter().for_each(|c| union.insert(c));
                }
                union.bytes()
            }
        };
        Residency {
            stale: e.dir.stale().shared_unmixed(rect),
            resident,
            union,
        }
    }
}

/// Where the bytes of an operand are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// Bytes whose newest copy is on a device only.
    pub stale: usize,
    /// Bytes valid on each device.
    pub resident: Vec<usize>,
    /// Bytes valid on any device.
    pub union: usize,
}

impl Entry {
    fn new(block: Block, dir: Allocation) -> Self {
        Self {
            block,
            dir: Versioned::new(dir),
            host: HostSide {
                base: block.start,
                ops: crate::transfer::Ops::default(),
            },
            stores: BTreeMap::new(),
            lost: RectSet::default(),
            guarded: false,
            ahead: ahead::ReadAhead::default(),
            pingpong: HashMap::new(),
            unprotected: Vec::new(),
            downloads: 0,
            scans: scans::Scans::default(),
        }
    }

    /// Opens every page that was ever closed: static data ends in a part of a page, which never is.
    pub(crate) fn open_pages(&self, gate: &dyn Gate) -> Result<(), crate::protect::GateError> {
        let pages = self.dir.tracked();
        gate.apply(
            self.host.base + pages.start,
            pages.len(),
            crate::base::Access::ReadWrite,
        )
    }

    pub(crate) fn set_guarded(&mut self, on: bool) {
        if self.guarded != on {
            self.guarded = on;
            if on {
                GUARDED.fetch_add(1, Ordering::Relaxed);
            } else {
                GUARDED.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.set_guarded(false);
    }
}

/// Backends list at most [`crate::base::ids::MAX_DEVICES`] devices.
pub(crate) fn device_id(i: usize) -> DeviceId {
    DeviceId(u8::try_from(i).unwrap_or(u8::MAX))
}
