//! The cache: host allocations, their replicas in device memory, and the one lock over both.
//!
//! [`place`] gives a task device memory that holds its operands, [`apply`] executes the directory's actions (copies,
//! page protection), [`fault`] serves page faults of the CPU, [`flush`] writes everything back to the host (exit,
//! fork), [`lifetime`] follows free, realloc and munmap of the program's memory, `open_for_good` ends page protection
//! for the rest of the process, [`task`] queues one kernel, [`push`] writes results back ahead of the
//! CPU's access, [`scan`] finds the pages that the CPU wrote where writes are not trapped (dirty tracking); [`call`] is
//! what a BLAS call asks of the cache before its kernels, after them and at its end.
//!
//! Locking: one mutex over all state. A thread that holds the mutex loads and stores nothing at addresses of the
//! program (copies by devices read and write inaccessible pages without faulting; [`edges`] reads write-tracked pages,
//! which are accessible, by a copy that gives up if it faults), allocates nothing from the process heap, and waits for
//! no thread of the program; it may wait for a device. So the service thread can serve a fault whatever lock the
//! faulting thread holds. Code that a driver may call under the driver's own locks does not take the mutex: hooks of
//! system calls look at the page table first (`semcache_fault::held`), and whether devices still use a freed block is
//! asked only if the mutex is free ([`lifetime`]).

mod ahead;
pub mod apply;
pub mod blocks;
pub mod call;
pub mod cells;
pub mod changed;
pub mod copied;
pub mod derived;
pub mod edges;
pub mod fault;
mod fault_site;
pub mod flush;
pub mod frozen;
pub mod hints;
mod holds;
pub mod hot;
pub mod lifetime;
pub mod lost;
pub mod names;
mod open_for_good;
mod opened;
pub mod orders;
mod owners;
pub mod pins;
pub mod pins_ahead;
pub mod place;
pub mod push;
mod reductions;
pub mod room;
pub mod scan;
mod scans;
pub mod task;
mod versioned;
pub mod watches;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::base::config::Peers;
use crate::base::heuristics::Without;
use crate::base::{AllocId, DeviceId, Interval, Links, Rect, RectSet, ReplicaId};
use crate::device::api::{self, Backend, DeviceError};
use crate::directory::{Allocation, Illegal};
use crate::host::{self, Block};
use crate::policy::block_uses::BlockUses;
use crate::process::spent::Spent;
use crate::process::waited::Waiting;
use crate::protect::Gate;
pub use crate::transfer::Deps;
use crate::transfer::engine::HostSide;
use crate::transfer::{Pool, Store};
use semcache_fault::held::Held;
use versioned::Versioned;

/// The buffers that system calls and operations of MPI use at this moment, also those that began before devices were in use.
pub(crate) static HELD: Held = Held::new();

/// Why the cache could not do something. No data was lost unless the variant says so; the call runs on the host BLAS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheError {
    /// A device refused an operation, or is lost.
    Device(DeviceError),
    /// Not enough device memory, even after eviction of every replica that may be evicted.
    NoRoom,
    /// The cache has no entry for the allocation: the program freed it meanwhile.
    Gone,
    /// The newest bytes existed only on a device that is lost.
    DataLost,
    /// A contradiction in the coherence protocol: a bug of the runtime.
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

/// One allocation of host memory that devices have used.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) block: Block,
    /// A replayed call ([`hot`]) uses an operand's placement without another look only while the version of this is
    /// unchanged.
    pub(crate) dir: Versioned<Allocation>,
    pub(crate) host: HostSide,
    pub(crate) stores: BTreeMap<ReplicaId, Store>,
    /// Newest bytes that existed only on a lost device: a CPU access to one of them ends the process.
    pub(crate) lost: RectSet,
    /// Whether some panel may be protected (inaccessible, read-only or write-tracked) at present.
    pub(crate) guarded: bool,
    /// Where the spans of the last faults ended, and how long the next read-ahead is.
    pub(crate) ahead: ahead::ReadAhead,
    /// Panels with false sharing: CPU and devices take turns at different bytes of the panel.
    pub(crate) pingpong: HashMap<usize, PingPong>,
    /// Panels that should be inaccessible or read-only but could not be protected: their results are written back at
    /// the end of the call.
    pub(crate) unprotected: Vec<Interval>,
    /// Copies to the host queued so far, without streamed write-backs: shows whether host bytes changed since a call
    /// began.
    pub(crate) downloads: u64,
    /// Panels that are write-tracked rather than read-only.
    pub(crate) scans: scans::Scans,
    /// What the program orders for matrices in the block.
    pub(crate) orders: Option<Box<orders::Orders>>,
    /// What data derived from bytes of the block depend on.
    pub(crate) watches: watches::Watches,
}

/// A panel with false sharing: CPU and devices take turns at different bytes of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PingPong {
    pub(super) faults: u32,
    /// The panel is write-through until devices have run this many calls; 0: it is not.
    pub(super) until: u64,
    pub(super) rounds: u32,
}

/// The state of the cache, behind its mutex.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) entries: BTreeMap<AllocId, Entry>,
    /// Blocks of `entries` by address (without transient ones). The fault path looks addresses up here and not in
    /// `host`, whose look-up may take the dynamic loader's lock, which the faulting thread may hold.
    pub(crate) by_start: BTreeMap<usize, AllocId>,
    pub(crate) pools: Vec<Pool>,
    /// Blocks that the program freed while device operations in flight still read or wrote them.
    pub(crate) dying: BTreeMap<AllocId, Deps>,
    pub(crate) uses: BlockUses,
    pub(crate) next_replica: u64,
    /// Grows with every use of a replica: the LRU clock.
    pub(crate) clock: u64,
    /// BLAS calls that ran on devices.
    pub(crate) calls: u64,
    /// When `calls` reaches this, the write-through time of some panel ends.
    pub(crate) forgive_at: u64,
    /// What kernels of the program use, by numbers that the program got.
    pub(crate) holds: holds::Holds,
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

    /// The name of a replica that is being made.
    fn new_replica(&mut self) -> ReplicaId {
        self.next_replica += 1;
        ReplicaId(self.next_replica)
    }

    /// Takes an entry out of the state.
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
    links: Links,
    cells: cells::Cells,
    state: Mutex<State>,
    /// Pages that were made writable while a fork holds the lock of `state`.
    opened: opened::Lock,
    /// The number of the next call.
    numbers: AtomicU64,
    scanner: scans::Scanner,
    /// A device is lost. Plans count on all devices, so no further call is offloaded.
    lost: AtomicBool,
    /// Page protection and dirty tracking have ended for the rest of the process ([`open_for_good`]).
    write_through: AtomicBool,
    /// Whether the program ever gave a matrix a distribution.
    distributes: AtomicBool,
    /// Blocks become write-through and are protected again by turns, as no prediction makes them on simulated devices.
    mixed: bool,
}

/// Number of allocations that may have a protected panel: the one word that the fast paths read (the shim's stubs by
/// its address).
pub static GUARDED: AtomicUsize = AtomicUsize::new(0);

/// Whether any panel of the process may be protected (inaccessible, read-only or write-tracked).
#[must_use]
pub fn any_guarded() -> bool {
    GUARDED.load(Ordering::Relaxed) != 0
}

std::thread_local! {
    static LOCKS: Cell<u64> = const { Cell::new(0) };
}

/// Ids of transient entries are above this number, ids of host blocks below it.
const TRANSIENT_BASE: u64 = 1 << 62;

/// Whether an id is that of memory of unknown lifetime, made for one call.
#[must_use]
pub fn is_transient(id: AllocId) -> bool {
    id.0 >= TRANSIENT_BASE
}

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
            .map(|(i, c)| Pool::new(DeviceId::at(i), c.memory))
            .collect();
        Self {
            backend,
            gate,
            panel,
            page,
            links: api::links(backend.devices()),
            cells: cells::Cells::new(backend),
            state: Mutex::new(State {
                pools,
                ..State::default()
            }),
            opened: opened::Lock::default(),
            numbers: AtomicU64::new(0),
            write_through: AtomicBool::new(false),
            distributes: AtomicBool::new(false),
            scanner: scans::Scanner::default(),
            lost: AtomicBool::new(false),
            mixed: false,
        }
    }

    /// The same cache, whose blocks become write-through and are protected again every few calls (`SEMCACHE_GATE=mixed`).
    #[must_use]
    pub fn with_turns(mut self, mixed: bool) -> Self {
        self.mixed = mixed;
        self
    }

    /// The same cache, of which some heuristics are left out.
    #[must_use]
    pub fn with_heuristics(mut self, without: Without) -> Self {
        let state = self.state.get_mut();
        state.unwrap_or_else(PoisonError::into_inner).uses = BlockUses::new(without);
        self
    }

    /// The same cache, of which devices get bytes from each other as `SEMCACHE_PEERS` and `SEMCACHE_JOINS` say.
    #[must_use]
    pub fn with_peers(mut self, peers: Peers, joins: bool) -> Self {
        self.links = self.links.used(peers, joins);
        self
    }

    /// Whether no device has been lost.
    #[must_use]
    pub fn whole(&self) -> bool {
        !self.lost.load(Ordering::Relaxed)
    }

    /// How the devices read each other's memory.
    #[must_use]
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// The machine whose devices hold the replicas.
    #[must_use]
    pub fn backend(&self) -> &'static dyn Backend {
        self.backend
    }

    /// How often the calling thread has taken the cache's lock; a test counts the locks of one call with this.
    #[must_use]
    pub fn locks() -> u64 {
        LOCKS.get()
    }

    /// Takes the cache's lock, also after a thread panicked while holding it: the state is as the last complete step
    /// left it, and going on is better than ending the process.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        LOCKS.set(LOCKS.get() + 1);
        match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) => {
                // The thread that holds the lock may be waiting for a device: the calling thread's wait counts as a
                // wait for a device.
                let _waiting = Waiting::on(Spent::Turn);
                self.state.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    /// The entry of a block, made at the block's first use.
    pub(crate) fn entry<'a>(&self, state: &'a mut State, block: Block) -> &'a mut Entry {
        let (panel, page, traps) = (self.panel, self.page, self.traps());
        let links = self.links.clone();
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
            let dir = Allocation::new(block.len, panel, page, tracked)
                .with_content(block.content)
                .with_links(links);
            let mut e = Entry::new(block, dir);
            e.scans = self.new_scans(tracked);
            e
        })
    }

    /// Makes an entry for one call's operand in memory of unknown lifetime: its pages are never protected or
    /// write-tracked, and [`Cache::finish_transient`] removes it.
    pub fn add_transient(&self, start: usize, len: usize) -> AllocId {
        self.add_transient_locked(&mut self.lock(), start, len)
    }

    fn add_transient_locked(&self, state: &mut State, start: usize, len: usize) -> AllocId {
        state.clock += 1;
        let id = AllocId(TRANSIENT_BASE + state.clock);
        let block = Block {
            id,
            start,
            len,
            content: len,
            provenance: crate::host::Provenance::Adopted,
        };
        let dir = Allocation::new(len, self.panel, self.page, Interval::default())
            .with_links(self.links.clone());
        state.entries.insert(id, Entry::new(block, dir));
        id
    }

    /// Makes an entry for a block, so that operands may refer to it. Returns whether the block had none.
    pub fn add_block(&self, block: Block) -> bool {
        let mut state = self.lock();
        let fresh = !state.entries.contains_key(&block.id);
        if fresh {
            // An entry that overlaps the block belongs to an earlier block at this address, whose end the cache has not
            // been told yet. Its newest bytes are copied to the host, and the entry is removed.
            for id in state.find_range(block.start, block.start + block.len) {
                if let Some(old) = state.entries.get(&id).map(|e| e.block) {
                    self.abandon_locked(&mut state, old);
                }
            }
        }
        self.entry(&mut state, block);
        fresh
    }

    /// Whether a range of addresses overlaps an allocation that has an entry.
    #[must_use]
    pub fn overlaps(&self, start: usize, end: usize) -> bool {
        !self.lock().find_range(start, end).is_empty()
    }

    /// Counts the bytes of a rectangle that are stale on the host, and those that are valid on devices, for the offload
    /// decision. Bytes that the directory would drop to make room for a call on this rectangle (R15) count as being on
    /// no device.
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
            let Some(device) = r.device else {
                continue;
            };
            let n = r.valid.shared_unmixed(rect);
            if n > 0 {
                held.push(&r.valid);
            }
            let d = device.index();
            resident[d] = resident[d].max(n);
        }
        let union = match held[..] {
            // Pieces are told apart only where several replicas hold some of the rectangle.
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
            orders: None,
            watches: watches::Watches::default(),
        }
    }

    /// Makes all pages accessible that were ever protected. The page in which static data end may hold other data, and
    /// is never protected.
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
