//! The address range of semcache's `malloc`: one reserved range, cut into runs of 2 MiB slots, one block in each run.
//!
//! ```text
//!   slot 0       slot 1                 slot 2 ...
//!   |......|hdr|block|margin|........|hdr|block ...
//!              ^ 2 MiB-aligned ^ head-room, inaccessible
//! ```
//!
//! A run is a power of two of slots. Once carved from the range it is never moved, merged or split; idle runs wait on a
//! list per order. A block starts at the first byte of its run. The page before the block holds its header; that page
//! is the last of the preceding slot, so a run's capacity is one page and the margin less than its slots. Address space is
//! plentiful, so what rounding wastes is room in which realloc can extend the block.
//!
//! The margin behind a block is accessible memory that belongs to no block and is never tracked ([`margin`]).
//!
//! All functions here run under one lock and access tables only. The caller makes pages accessible and discards pages
//! without the lock, while the run is [`State::Busy`].

#![expect(unsafe_code, reason = "declares table elements zeroable")]

mod cached;

use super::lock::Lock;
use super::sys::{self, Table, Zeroed};
use super::{Block, Provenance};
use crate::base::AllocId;
pub(super) use cached::Due;

/// Blocks start at multiples of this: the size of a huge page.
pub(super) const SLOT: usize = sys::HUGE_PAGE;
/// Run orders: up to 2^22 slots, half of the largest reservation.
const ORDERS: usize = 23;
/// The most runs: an index fits into the low 16 bits of an identity, of which one value marks adopted blocks.
pub(super) const MAX_RUNS: usize = 0xFFFF;
/// Each live block costs two or three mappings, and more once panels of it are made inaccessible: all blocks together get this
/// share (1/`SHARE_OF_MAPPINGS`) of the mappings that a process may have (65,530 unless the administrator has set
/// another limit).
const SHARE_OF_MAPPINGS: usize = 8;
/// The most live blocks; the remaining runs are for blocks of sizes that are requested later.
const MAX_LIVE: usize = MAX_RUNS / 2;
/// End of a list.
const NONE: u32 = 0;

/// The state of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub(super) enum State {
    /// No accessible pages; on the idle list of its order.
    #[default]
    Idle = 0,
    /// Between two states; only one thread uses the run.
    Busy,
    /// Holds a block that the program uses.
    Live,
    /// The block was freed; its pages are kept for the next block.
    Cached,
    /// The block was freed, but devices still refer to it.
    Quarantined,
    /// Another mapping may lie in the run, which is never used again.
    Lost,
}

/// A run and the block in it.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Run {
    /// First byte of the block.
    pub start: usize,
    /// Bytes of the block, whole pages. The margin behind them is accessible, too.
    pub len: usize,
    /// Bytes of the block that the program asked for.
    pub content: usize,
    /// The identity of the block's lifetime.
    pub id: u64,
    /// When the block was freed and kept: by the count of requests, and in milliseconds (0: the clock was not read).
    stamp: u64,
    when: u64,
    /// The next run on the list that holds this one: index + 1.
    next: u32,
    /// The slots that operands have covered so far, whose pages were collapsed into huge ones.
    pub hull: (u32, u32),
    order: u8,
    pub state: State,
    /// The observer is told what happens to the block.
    pub in_use: bool,
    /// The block was an operand in this lifetime.
    pub used: bool,
    /// The block is page-locked for devices, or about to be (see `pins`): it is not discarded within `malloc` or
    /// `free`.
    pub pinned: bool,
    /// Huge pages were requested for the block.
    pub huge: bool,
    /// The program changed attributes of the block's pages: they are not reused for another block.
    pub odd: bool,
    /// The program changed access to the block's pages: look-ups do not find the block, so that it is never tracked.
    pub untracked: bool,
    /// The block is `untracked` only because the program guards pages of it at present (see `guards`).
    pub guarded: bool,
}

// SAFETY: all fields are numbers, bools and a fieldless enum whose zero is Idle.
unsafe impl Zeroed for Run {}

impl Run {
    /// The block in it.
    pub(super) fn block(&self) -> Block {
        Block {
            id: AllocId(self.id),
            start: self.start,
            len: self.len,
            content: self.content,
            provenance: Provenance::Owned,
        }
    }
}

/// A run taken for a new block; its state is Busy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub index: usize,
    pub start: usize,
    /// The length of the former block, whose pages are accessible, perhaps with its contents; 0 for a run without pages.
    pub open: usize,
    /// The former block's pages are huge.
    pub huge: bool,
}

/// A run whose pages must be discarded; its state is Busy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Victim {
    pub index: usize,
    pub start: usize,
    pub len: usize,
}

/// The runs of the reserved range and the lists that they are on.
pub(super) struct Space {
    base: usize,
    slots: usize,
    /// The first slot that belongs to no run yet.
    bump: usize,
    /// The run of each slot: index + 1.
    heads: Table<u32>,
    runs: Table<Run>,
    count: usize,
    idle: [u32; ORDERS],
    live: usize,
    /// The most blocks that may live at once.
    most: usize,
    clock: u64,
    cached: [u32; CACHED],
    n_cached: usize,
    /// The most bytes of freed operands that are kept; 0 while no thread returns idle ones.
    big_limit: usize,
    /// The blocks in quarantine: the oldest and the newest.
    waiting: (u32, u32),
}

fn index(link: u32) -> Option<usize> {
    (link as usize).checked_sub(1)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "indices are below MAX_RUNS"
)]
fn link(index: usize) -> u32 {
    index as u32 + 1
}

/// The bytes that are accessible behind a block of `len` bytes, whole pages.
///
/// Kernels of OpenBLAS read one element behind a strided vector: the row of a matrix is followed by an element one column behind the
/// matrix (`cgemv_n` and `zgemv_n` of 0.3.21 for Haswell and Zen, called by LAPACK's gelqf and csytrf). In most programs other memory
/// is mapped there. The margin is one column of any matrix that has at least 64 of them, or whose columns are at most 64 KiB long.
/// Nothing else touches it, so it takes address space only, except in a process that locks all its memory (`mlockall`).
pub(super) fn margin(len: usize) -> usize {
    const LEAST: usize = 64 << 10;
    const PART: usize = 64;
    LEAST + (len / PART).next_multiple_of(sys::page_size())
}

/// The bytes of a block of `len` bytes and of the margin behind it.
pub(super) fn with_margin(len: usize) -> usize {
    len + margin(len)
}

/// The most bytes of a block in a run of this order.
fn capacity_of(order: usize) -> usize {
    let room = (SLOT << order) - sys::page_size();
    room - margin(room)
}

/// The smallest order whose capacity holds `len` bytes.
fn order_for(len: usize) -> Option<usize> {
    (0..ORDERS).find(|order| capacity_of(*order) >= len)
}

impl Space {
    /// Without a reserved range: holds no block.
    pub(super) const fn none() -> Self {
        Self {
            base: 0,
            slots: 0,
            bump: 1,
            heads: Table::none(),
            runs: Table::none(),
            count: 0,
            idle: [NONE; ORDERS],
            live: 0,
            most: MAX_LIVE,
            clock: 0,
            cached: [NONE; CACHED],
            n_cached: 0,
            big_limit: 0,
            waiting: (NONE, NONE),
        }
    }

    /// Takes over a reserved range, which begins at a multiple of [`SLOT`]. False if there is no memory for
    /// the tables.
    pub(super) fn adopt_range(&mut self, base: usize, len: usize) -> bool {
        let slots = len / SLOT;
        let Some(heads) = Table::map(slots) else {
            return false;
        };
        let Some(runs) = Table::map(MAX_RUNS) else {
            heads.unmap();
            return false;
        };
        (self.base, self.slots) = (base, slots);
        (self.heads, self.runs) = (heads, runs);
        true
    }

    /// Removes the slots beyond `len` bytes that belong to no run. Returns the bytes that are kept.
    pub(super) fn shrink(&mut self, len: usize) -> usize {
        self.slots = self.slots.min((len / SLOT).max(self.bump));
        self.slots * SLOT
    }

    /// Sets the limit on live blocks from the number of mappings that the process may have.
    pub(super) fn limit(&mut self, mappings: usize) {
        self.most = (mappings / SHARE_OF_MAPPINGS).min(MAX_LIVE);
    }

    /// Whether as many blocks live as the limit allows.
    pub(super) fn full(&self) -> bool {
        self.live >= self.most
    }

    pub(super) fn run(&self, index: usize) -> Option<&Run> {
        self.runs.all()[..self.count.min(self.runs.all().len())].get(index)
    }

    pub(super) fn run_mut(&mut self, index: usize) -> Option<&mut Run> {
        let count = self.count.min(self.runs.all().len());
        self.runs.all_mut()[..count].get_mut(index)
    }

    /// The run whose slots contain `addr`, in any state.
    pub(super) fn run_at(&self, addr: usize) -> Option<usize> {
        let slot = addr.checked_sub(self.base)? / SLOT;
        index(*self.heads.all().get(slot)?)
    }

    /// The live block that contains `addr`.
    pub(super) fn live_at(&self, addr: usize) -> Option<usize> {
        let i = self.run_at(addr)?;
        let r = self.run(i)?;
        (r.state == State::Live && addr - r.start < r.len).then_some(i)
    }

    /// The live block that starts at `addr`.
    pub(super) fn live_from(&self, addr: usize) -> Option<usize> {
        self.live_at(addr)
            .filter(|i| self.run(*i).is_some_and(|r| r.start == addr))
    }

    /// The most bytes a block in this run can have.
    pub(super) fn capacity(&self, index: usize) -> usize {
        self.run(index)
            .map_or(0, |r| capacity_of(usize::from(r.order)))
    }

    /// Takes a run for a block of `len` bytes: one that keeps the pages of a freed block of about that size, an idle
    /// one, or a new one. `zeroed` says that the block is for calloc.
    pub(super) fn take(&mut self, len: usize, align: usize, zeroed: bool) -> Option<Taken> {
        if self.full() {
            return None;
        }
        self.clock += 1;
        let cached = self.take_cached(len, align, zeroed && len > CLEAR_BY_HAND);
        let taken = match cached {
            Some(t) => t,
            None => self.take_bare(len, align)?,
        };
        self.live += 1;
        Some(taken)
    }

    /// Takes a run of at least this capacity without accessible pages.
    pub(super) fn take_empty(&mut self, capacity: usize) -> Option<Taken> {
        let taken = self.take_bare(capacity, 1)?;
        self.live += 1;
        Some(taken)
    }

    fn take_bare(&mut self, room: usize, align: usize) -> Option<Taken> {
        let order = order_for(room)?;
        let found = (self.take_idle(order, align))
            .or_else(|| self.carve(order, align))
            .or_else(|| (order + 1..ORDERS).find_map(|o| self.take_idle(o, align)))?;
        let r = self.run_mut(found)?;
        *r = Run {
            start: r.start,
            order: r.order,
            state: State::Busy,
            ..Run::default()
        };
        Some(Taken {
            index: found,
            start: r.start,
            open: 0,
            huge: false,
        })
    }

    fn take_idle(&mut self, order: usize, align: usize) -> Option<usize> {
        let mut before = None;
        let mut at = index(self.idle[order]);
        // Only alignments beyond a slot's, which are rare, need a search: any run serves all others.
        while let Some(i) = at {
            let r = *self.run(i)?;
            if r.start.is_multiple_of(align) {
                match before.and_then(|b| self.run_mut(b)) {
                    Some(b) => b.next = r.next,
                    None => self.idle[order] = r.next,
                }
                return Some(i);
            }
            (before, at) = (at, index(r.next));
        }
        None
    }

    fn carve(&mut self, order: usize, align: usize) -> Option<usize> {
        let start = (self.base + self.bump * SLOT).checked_next_multiple_of(align)?;
        let first = (start - self.base) / SLOT;
        let end = first.checked_add(1 << order)?;
        if end > self.slots || self.count == MAX_RUNS {
            return None;
        }
        let i = self.count;
        self.count += 1;
        self.bump = end;
        self.heads.all_mut()[first..end].fill(link(i));
        #[expect(clippy::cast_possible_truncation, reason = "below ORDERS")]
        let order = order as u8;
        *self.run_mut(i)? = Run {
            start,
            order,
            state: State::Busy,
            ..Run::default()
        };
        Some(i)
    }

    /// The taken run now holds a live block.
    pub(super) fn publish(&mut self, index: usize, len: usize, content: usize, id: u64) {
        if let Some(r) = self.run_mut(index) {
            r.content = content;
            (r.len, r.id, r.state, r.in_use) = (len, id, State::Live, false);
            r.used = false;
        }
    }

    /// Returns a run that holds no block any more to its idle list if its pages are discarded (`clean`); else the run
    /// is lost.
    pub(super) fn put_back(&mut self, index: usize, clean: bool) {
        let Some(order) = self.run(index).map(|r| usize::from(r.order)) else {
            return;
        };
        let head = self.idle[order];
        let Some(r) = self.run_mut(index) else { return };
        (r.len, r.in_use) = (0, false);
        if clean {
            (r.state, r.next) = (State::Idle, head);
            self.idle[order] = link(index);
        } else {
            r.state = State::Lost;
        }
    }

    /// Subtracts a block from the number of live ones: it died, or was never published.
    pub(super) fn count_out(&mut self) {
        self.live = self.live.saturating_sub(1);
    }

    /// Appends a dead block to the quarantine.
    pub(super) fn quarantine(&mut self, i: usize) {
        let Some(r) = self.run_mut(i) else { return };
        (r.state, r.next) = (State::Quarantined, NONE);
        match index(self.waiting.1).and_then(|last| self.run_mut(last)) {
            Some(last) => last.next = link(i),
            None => self.waiting.0 = link(i),
        }
        self.waiting.1 = link(i);
    }

    /// Takes the oldest block out of quarantine; its run is Busy then.
    pub(super) fn next_waiting(&mut self) -> Option<(usize, u64)> {
        let i = index(self.waiting.0)?;
        let r = self.run_mut(i)?;
        r.state = State::Busy;
        let (next, id) = (r.next, r.id);
        self.waiting.0 = next;
        if next == NONE {
            self.waiting.1 = NONE;
        }
        Some((i, id))
    }

    /// The first run, from index `from` on, that holds pages and shares a byte with `[addr, addr + len)`.
    pub(super) fn next_overlapping(&self, addr: usize, len: usize, from: usize) -> Option<usize> {
        let page = sys::page_size();
        // Runs are carved upwards: their order by index is their order by address.
        let carved = &self.runs.all()[..self.count];
        let first = carved.partition_point(|r| r.start + (SLOT << r.order) <= addr);
        (first.max(from)..self.count)
            .take_while(|i| carved[*i].start - page < addr.saturating_add(len))
            .find(|i| {
                let r = &carved[*i];
                let held = matches!(r.state, State::Live | State::Cached | State::Quarantined);
                held && addr < r.start + r.len
            })
    }

    /// Marks all blocks as not pinned, and keeps no freed operands: a child of fork has no thread that returns them.
    pub(super) fn forget_pins(&mut self) {
        self.big_limit = 0;
        let count = self.count;
        for r in &mut self.runs.all_mut()[..count] {
            r.pinned = false;
        }
    }

    /// Marks all blocks as not in use.
    pub(super) fn forget_users(&mut self) {
        let count = self.count;
        for r in &mut self.runs.all_mut()[..count] {
            r.in_use = false;
        }
    }
}

/// The runs of this process.
pub(super) static SPACE: Lock<Space> = Lock::deferring(Space::none());

/// The most blocks that are pinned at once.
pub(super) const MOST_PINNED: usize = 1024;

/// The most freed blocks that keep their pages: as many as may be pinned, and 64 others.
const CACHED: usize = MOST_PINNED + 64;

/// A recycled block of up to this size is cleared for `calloc` by writing zeros, as glibc does. A larger block gets
/// fresh pages: a program that requests that many zeros may touch few of them. A pinned block is always cleared: all
/// its pages are present, and several threads clear them faster than the kernel provides fresh ones.
const CLEAR_BY_HAND: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::cached::{CACHED_PER_CLASS, KEEP_MS};
    use super::*;

    #[test]
    fn orders() {
        let page = sys::page_size();
        assert_eq!(order_for(1), Some(0));
        for order in 0..ORDERS {
            let most = capacity_of(order);
            assert!(with_margin(most) <= (SLOT << order) - page);
            assert_eq!(order_for(most), Some(order));
        }
        assert_eq!(order_for(capacity_of(0) + 1), Some(1));
        assert_eq!(order_for(SLOT), Some(1));
        assert_eq!(order_for(2 * SLOT), Some(2));
        assert_eq!(order_for(usize::MAX), None);
        assert_eq!(order_for(1 << 60), None);
    }

    fn space() -> Space {
        let mut s = Space::none();
        assert!(s.adopt_range(1 << 40, 1 << 30));
        s
    }

    #[test]
    fn carve_free_recycle() {
        let mut s = space();
        let a = s.take(1 << 20, 1, false).expect("room");
        assert_eq!((a.start, a.open), ((1 << 40) + SLOT, 0));
        s.publish(a.index, 1 << 20, 1 << 20, 7);
        assert_eq!(s.live_at(a.start + 5), Some(a.index));
        assert_eq!(s.live_from(a.start + 5), None);
        assert_eq!(s.live_at(a.start + (1 << 20)), None);
        assert!(s.retire(a.index).is_none(), "kept");
        s.count_out();
        assert_eq!(s.live_at(a.start), None);
        let b = s.take((1 << 20) + 4096, 1, false).expect("room");
        assert_eq!((b.index, b.open), (a.index, 1 << 20));
        let c = s.take(64 << 20, 1, true).expect("room");
        assert_ne!(c.index, b.index);
    }

    #[test]
    fn live_blocks_are_bounded() {
        let mut s = space();
        s.limit(24);
        let taken: Vec<_> = (0..4).map_while(|_| s.take(1 << 20, 1, false)).collect();
        assert_eq!(taken.len(), 3);
        assert!(s.full());
        s.count_out();
        assert!(!s.full() && s.take(1 << 20, 1, false).is_some());
        s.limit(usize::MAX);
        assert_eq!(s.most, MAX_LIVE);
    }

    #[test]
    fn the_cache_is_bounded() {
        let mut s = space();
        let taken: Vec<_> = (0..6)
            .map(|_| s.take(1 << 20, 1, false).expect("room"))
            .collect();
        let mut victims = 0;
        for t in &taken {
            s.publish(t.index, 1 << 20, 1 << 20, 1);
            victims += usize::from(s.retire(t.index).is_some());
        }
        assert_eq!((victims, s.n_cached), (2, CACHED_PER_CLASS));
        while let Some(v) = s.overdue(Due::All) {
            s.put_back(v.index, true);
        }
        assert_eq!((s.n_cached, s.cached_bytes(false)), (0, 0));
    }

    #[test]
    fn operands_are_kept_within_their_limit() {
        let mut s = Space::none();
        assert!(s.adopt_range(1 << 40, 64 << 30));
        let large = 2 << 30;
        // Frees a block: returns its run, and whether its pages are discarded at once.
        let freed = |s: &mut Space, used: bool, pinned: bool| {
            let t = s.take(large, 1, false).expect("room");
            s.publish(t.index, large, large, 1);
            let r = s.run_mut(t.index).expect("a run");
            (r.used, r.pinned) = (used, pinned);
            s.count_out();
            let victim = s.retire(t.index);
            if let Some(v) = victim {
                s.put_back(v.index, true);
            }
            (t.index, victim.is_some())
        };
        assert!(freed(&mut s, true, false).1, "nobody would return it");
        s.keep_operands(2 * large);
        assert!(freed(&mut s, false, false).1, "not an operand");
        let (plain, went) = freed(&mut s, true, false);
        assert!(!went && !s.crowded());
        // The same block is reused as it is; for calloc fresh pages are better.
        assert_eq!(s.take(large, 1, true).map(|t| t.open), Some(0));
        let again = s.take(large, 1, false).expect("room");
        assert_eq!((again.index, again.open), (plain, large));
        s.publish(plain, large, large, 3);
        assert!(s.retire(plain).is_some(), "not an operand this time");
        // Pinned blocks stay until a call that may unpin them.
        let three: Vec<_> = (0..3)
            .map(|_| {
                let t = s.take_bare(large, 1).expect("room");
                s.publish(t.index, large, large, 2);
                s.run_mut(t.index).expect("a run").pinned = true;
                t.index
            })
            .collect();
        assert!(three.iter().all(|i| s.retire(*i).is_none()));
        assert!(s.crowded() && s.overdue(Due::Passing).is_none());
        assert!(s.overdue(Due::Unpinned).is_none());
        let now = sys::now_ms();
        assert_eq!(s.overdue(Due::Idle(now)).map(|v| v.index), Some(three[0]));
        assert!(s.overdue(Due::Idle(now)).is_none());
        let late = now + 2 * KEEP_MS;
        assert_eq!(s.overdue(Due::Idle(late)).map(|v| v.index), Some(three[1]));
        assert!(s.take(large + 4096, 1, false).is_some_and(|t| t.open == 0));
        let zeros = s.take(large, 1, true).expect("room");
        assert_eq!((zeros.index, zeros.open), (three[2], large));
    }

    #[test]
    fn quarantine_is_a_queue() {
        let mut s = space();
        for id in 1..4 {
            let t = s.take(1 << 20, 1, false).expect("room");
            s.publish(t.index, 1 << 20, 1 << 20, id);
            s.quarantine(t.index);
        }
        let (i, id) = s.next_waiting().expect("three");
        assert_eq!(id, 1);
        s.quarantine(i);
        assert_eq!(
            [s.next_waiting(), s.next_waiting(), s.next_waiting()].map(|w| w.map(|w| w.1)),
            [Some(2), Some(3), Some(1)]
        );
        assert!(s.next_waiting().is_none());
    }

    #[test]
    fn gigantic_alignment() {
        let mut s = space();
        let a = s.take(1 << 20, 64 << 20, false).expect("room");
        assert!(a.start.is_multiple_of(64 << 20));
        assert!(s.take(1 << 20, 1 << 42, false).is_none());
    }
}
