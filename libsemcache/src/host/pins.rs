//! Pinned (page-locked) host memory: the table of pinned ranges, and the rule that pages do not change while they are pinned.
//!
//! A large block is pinned in pieces, as calls come to use them. A pin belongs to a *mapping*. Code that is about to discard, move or unmap pages calls `pages_go` first, which
//! unpins them; a block that is freed and kept for the next `malloc` stays pinned. The cache decides what is pinned and
//! calls the device ([`claim`], [`finish`], [`take`], [`gone`]). The device driver's own allocations enter the hooks
//! again, so no lock is held around its calls, and the ordinary paths of the allocator unpin nothing: the thread of
//! `idle` does that.

#![expect(unsafe_code, reason = "declares a table element zeroable")]

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicUsize};

use rustix::thread::futex;

use super::Block;
use super::lock::Lock;
use super::observer::{self, run_of};
use super::runs::{MOST_PINNED, SPACE, State};
use super::sys::{self, Table, Zeroed};
use crate::base::AllocId;

/// The most ranges in the table: a block has several.
const MOST: usize = 8 * MOST_PINNED;

/// State of an entry of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
enum Stage {
    /// Not pinned; `refusal` says why.
    #[default]
    Refused = 0,
    /// A thread is about to pin the range.
    Coming,
    Here,
    /// A thread is about to unpin the range.
    Going,
}

/// Why a block is not pinned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Refusal {
    /// The device refused: not tried again in this lifetime of the block.
    #[default]
    Never = 0,
    /// The budget of pinned bytes is used up: tried again after some range was unpinned.
    Budget,
    /// A page is protected, or nothing of the range has been moved before, or is to be moved now: tried again at the next use, also by
    /// a later block on the same pages.
    Later,
    /// Hardly any page of the block is present or part of an operand: tried again when operands cover twice as many bytes.
    Sparse,
}

#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
struct Pin {
    start: usize,
    len: usize,
    /// The block that was the last to use the pin.
    id: u64,
    /// The value of the table's clock at that use.
    stamp: u64,
    /// The operands seen, as one span: valid while the range is not pinned.
    from: usize,
    to: usize,
    /// The value that must be reached or must change before a refusal is reconsidered.
    mark: u64,
    stage: Stage,
    refusal: Refusal,
    /// Whether `len` is part of the sum `bytes`.
    counted: bool,
}

// SAFETY: numbers, a bool and fieldless enums whose zeros are Refused and Never.
unsafe impl Zeroed for Pin {}

struct Pins {
    /// By address, disjoint.
    table: Table<Pin>,
    count: usize,
    clock: u64,
    bytes: usize,
    /// Number of ranges unpinned so far.
    undone: u64,
    ended: bool,
    /// If set, no further range is pinned.
    barred: bool,
}

static PINS: Lock<Pins> = Lock::new(Pins {
    table: Table::none(),
    count: 0,
    clock: 0,
    bytes: 0,
    undone: 0,
    ended: false,
    barred: false,
});
/// Number of entries in the table, so that no lock is taken while there are none.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Changes whenever a range was pinned or unpinned.
static CHANGED: AtomicU32 = AtomicU32::new(0);

/// The answer to a request to pin a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// The block is pinned already, or will not be: the caller has nothing to do.
    Settled,
    /// The caller pins this range, or says why it cannot, by [`finish`]: until then other threads that need it wait.
    Yours {
        /// First byte.
        start: usize,
        /// Bytes, whole pages.
        len: usize,
        /// Bytes from the first to the last of the operands seen so far.
        covered: usize,
        /// Whether no operand lay in these pages before, as far as the table knows.
        first: bool,
    },
}

/// A pinned range, which may be unpinned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pinned {
    /// First byte.
    pub start: usize,
    /// Bytes.
    pub len: usize,
    /// The block that was the last to use the range; it may be dead.
    pub id: AllocId,
    /// When the range was used last, on the table's own clock.
    pub stamp: u64,
}

impl Pins {
    fn all(&self) -> &[Pin] {
        &self.table.all()[..self.count]
    }

    fn first_overlapping(&self, start: usize, len: usize) -> Option<usize> {
        let i = self.all().partition_point(|p| p.start + p.len <= start);
        (i < self.count && self.all()[i].start < start.saturating_add(len)).then_some(i)
    }

    /// The entries that hold a range of addresses, if each byte of it is pinned.
    fn covering(&mut self, start: usize, len: usize) -> Option<&mut [Pin]> {
        let end = start.saturating_add(len);
        let first = self.all().partition_point(|p| p.start + p.len <= start);
        let mut at = start;
        let mut held = 0;
        for p in &self.all()[first..] {
            if at >= end || p.start > at || p.stage != Stage::Here {
                break;
            }
            at = p.start + p.len;
            held += 1;
        }
        (at >= end).then(|| &mut self.table.all_mut()[first..first + held])
    }

    fn insert(&mut self, pin: Pin) -> bool {
        if self.table.all().is_empty() {
            match Table::map(MOST) {
                Some(t) => self.table = t,
                None => return false,
            }
        }
        if self.count == MOST && !self.drop_a_refusal() {
            return false;
        }
        let at = self.all().partition_point(|p| p.start < pin.start);
        let count = self.count;
        self.table.all_mut().copy_within(at..count, at + 1);
        self.table.all_mut()[at] = pin;
        self.count += 1;
        COUNT.store(self.count, Release);
        true
    }

    fn remove(&mut self, i: usize) {
        let gone = self.all()[i];
        let count = self.count;
        self.table.all_mut().copy_within(i + 1..count, i);
        self.count -= 1;
        COUNT.store(self.count, Release);
        if gone.counted {
            self.bytes -= gone.len;
        }
        if gone.stage != Stage::Refused {
            self.undone += 1;
            self.mark_run(gone.start);
        }
    }

    /// Tells the allocator whether any piece of the block around `addr` is pinned, because it does not discard a pinned block
    /// within `malloc` or `free`. Called under the lock of the pins, so that both tables agree.
    fn mark_run(&self, addr: usize) {
        let mut space = SPACE.lock();
        let Some(i) = space.run_at(addr) else {
            return;
        };
        let capacity = space.capacity(i);
        if let Some(r) = space.run_mut(i)
            && addr >= r.start
            && addr - r.start < capacity
        {
            r.pinned = self.any(r.start, capacity);
        }
    }

    /// Whether a range of addresses has bytes that are pinned or about to be.
    fn any(&self, start: usize, len: usize) -> bool {
        let end = start.saturating_add(len);
        let first = self.all().partition_point(|p| p.start + p.len <= start);
        let within = self.all()[first..].iter().take_while(|p| p.start < end);
        within.into_iter().any(|p| p.stage != Stage::Refused)
    }

    /// Makes room for a new entry: removes the refusal that was used longest ago.
    fn drop_a_refusal(&mut self) -> bool {
        let refused = |i: &usize| self.all()[*i].stage == Stage::Refused;
        let oldest = (0..self.count)
            .filter(refused)
            .min_by_key(|i| self.all()[*i].stamp);
        if let Some(i) = oldest {
            self.remove(i);
        }
        oldest.is_some()
    }

    fn at(&mut self, start: usize) -> Option<&mut Pin> {
        let i = self.first_overlapping(start, 1)?;
        self.table.all_mut().get_mut(i).filter(|p| p.start == start)
    }
}

/// Marks a live block as pinned for the allocator; false if the block is dead. An adopted block has no such mark.
fn mark_live(block: &Block) -> bool {
    let Some(index) = run_of(block.id) else {
        return true;
    };
    let mut space = SPACE.lock();
    let live = space
        .run_mut(index)
        .filter(|r| r.state == State::Live && r.id == block.id.0);
    live.is_some_and(|r| {
        r.pinned = true;
        true
    })
}

fn announce() {
    CHANGED.fetch_add(1, Release);
    let _ = futex::wake(&CHANGED, futex::Flags::PRIVATE, u32::MAX >> 1);
}

/// Waits until `CHANGED` differs from `seen`.
fn await_change(seen: u32) {
    // An error (the futex has changed, a signal) only means: look at the table again.
    let _ = futex::wait(&CHANGED, futex::Flags::PRIVATE, seen, None);
}

/// The pages of a block, in bytes.
#[must_use]
pub fn pages(block: &Block) -> usize {
    sys::whole_pages(block.len).unwrap_or(0)
}

/// Marks the pinned ranges that hold `len` bytes of a block from `start` on as used now; false if not all of these bytes are
/// pinned, or were pinned for another block: its ranges may be other ones. The pieces of a large matrix are many, and this looks at all of them under the lock once.
pub fn used(block: &Block, start: usize, len: usize) -> bool {
    let mut pins = PINS.lock();
    pins.clock += 1;
    let stamp = pins.clock;
    let mine = |held: &&mut [Pin]| held.iter().all(|p| p.id == block.id.0);
    let held = pins.covering(start, len).filter(mine);
    held.map(|held| held.iter_mut().for_each(|p| p.stamp = stamp))
        .is_some()
}

/// The bytes `[at, at + len)` of a piece of a block become an operand: decides whether the calling thread is to pin the piece,
/// which is given by its start and its length in whole pages. While another thread pins or unpins it, a `patient` caller waits.
pub fn claim(block: &Block, piece: (usize, usize), at: (usize, usize), patient: bool) -> Claim {
    let ((start, whole), (at, len)) = (piece, at);
    if whole == 0 {
        return Claim::Settled;
    }
    loop {
        let seen = CHANGED.load(Acquire);
        let mut pins = PINS.lock();
        if pins.ended || pins.barred {
            return Claim::Settled;
        }
        pins.clock += 1;
        let (stamp, undone) = (pins.clock, pins.undone);
        let fresh = Pin {
            start,
            len: whole,
            id: block.id.0,
            stamp,
            from: at,
            to: at + len,
            stage: Stage::Coming,
            ..Pin::default()
        };
        let Some(i) = pins.first_overlapping(start, whole) else {
            if !mark_live(block) {
                return Claim::Settled;
            }
            if pins.insert(fresh) {
                return yours(&fresh, true);
            }
            pins.mark_run(start);
            return Claim::Settled;
        };
        let same = pins.all()[i].start == start && pins.all()[i].len == whole;
        let p = &mut pins.table.all_mut()[i];
        match p.stage {
            Stage::Here if same => {
                (p.stamp, p.id) = (stamp, block.id.0);
                return Claim::Settled;
            }
            Stage::Coming | Stage::Going | Stage::Here if !patient => return Claim::Settled,
            Stage::Coming | Stage::Going => {
                drop(pins);
                await_change(seen);
            }
            Stage::Here => {
                // The mapping has grown, or was shrunk by a system call that no hook saw: the old range is unpinned.
                drop(pins);
                pages_go(start, whole);
            }
            Stage::Refused if same && (p.id == block.id.0 || p.refusal == Refusal::Later) => {
                p.stamp = stamp;
                (p.from, p.to) = (p.from.min(at), p.to.max(at + len));
                if p.id != block.id.0 {
                    // The same pages are used again by another block.
                    (p.id, p.from, p.to) = (block.id.0, at, at + len);
                }
                let again = match p.refusal {
                    Refusal::Never => false,
                    Refusal::Later => true,
                    Refusal::Budget => p.mark != undone,
                    Refusal::Sparse => (p.to - p.from) as u64 >= p.mark,
                };
                if !again || !mark_live(block) {
                    return Claim::Settled;
                }
                p.stage = Stage::Coming;
                return yours(p, false);
            }
            // A refusal of an earlier block at this address.
            Stage::Refused => pins.remove(i),
        }
    }
}

/// Of the pieces of a block that hold `len` bytes from `at` on, each given by its start and its length in whole pages, the bytes of
/// those that no use of this block has tried to pin.
#[must_use]
pub fn pending(
    block: &Block,
    (at, len): (usize, usize),
    pieces: impl Iterator<Item = (usize, usize)>,
) -> usize {
    let mut pins = PINS.lock();
    if pins.barred || pins.covering(at, len).is_some() {
        return 0;
    }
    let tried = |&(start, whole): &(usize, usize)| match pins.first_overlapping(start, whole) {
        Some(i) => {
            let p = &pins.all()[i];
            p.stage == Stage::Refused && p.id != block.id.0
        }
        None => !pins.ended,
    };
    pieces.filter(tried).map(|(_, whole)| whole).sum()
}

fn yours(p: &Pin, first: bool) -> Claim {
    Claim::Yours {
        start: p.start,
        len: p.len,
        covered: p.to - p.from,
        first,
    }
}

/// Adds the bytes of a claimed range to the sum of pinned bytes if the sum stays within the budget.
///
/// # Errors
/// The number of bytes that have to be unpinned first.
pub fn reserve(start: usize, budget: usize) -> Result<(), usize> {
    let mut pins = PINS.lock();
    let bytes = pins.bytes;
    let Some(p) = pins.at(start).filter(|p| !p.counted) else {
        return Ok(());
    };
    let (over, len) = ((bytes + p.len).saturating_sub(budget), p.len);
    if over > 0 {
        return Err(over);
    }
    p.counted = true;
    pins.bytes += len;
    Ok(())
}

/// Ends a claim: the range is pinned, or `result` says why not.
pub fn finish(start: usize, result: Result<(), Refusal>) {
    let mut pins = PINS.lock();
    let undone = pins.undone;
    let (mut given_back, mut refused) = (0, false);
    if let Some(p) = pins.at(start).filter(|p| p.stage == Stage::Coming) {
        match result {
            Ok(()) => p.stage = Stage::Here,
            Err(refusal) => {
                refused = true;
                (p.stage, p.refusal) = (Stage::Refused, refusal);
                p.mark = match refusal {
                    Refusal::Sparse => 2 * (p.to - p.from) as u64,
                    _ => undone,
                };
                if core::mem::take(&mut p.counted) {
                    given_back = p.len;
                }
            }
        }
    }
    pins.bytes -= given_back;
    if refused {
        pins.mark_run(start);
    }
    drop(pins);
    announce();
}

/// Of the ranges used after `after`, the pinned one that was used longest ago.
#[must_use]
pub fn oldest(after: u64) -> Option<Pinned> {
    let pins = PINS.lock();
    pins.all()
        .iter()
        .filter(|p| p.stage == Stage::Here && p.stamp > after)
        .min_by_key(|p| p.stamp)
        .map(|p| Pinned {
            start: p.start,
            len: p.len,
            id: AllocId(p.id),
            stamp: p.stamp,
        })
}

/// Marks a pinned range as about to be unpinned, unless it was used since it was looked up: the caller unpins it on the device and
/// calls [`gone`]; until then threads that change its pages wait. False if the range was used or marked meanwhile.
#[must_use]
pub fn take(pinned: &Pinned) -> bool {
    let mut pins = PINS.lock();
    let found = pins
        .at(pinned.start)
        .filter(|p| p.stage == Stage::Here && p.stamp == pinned.stamp);
    found.is_some_and(|p| {
        p.stage = Stage::Going;
        true
    })
}

/// Called after the device has unpinned a range that [`take`] marked.
pub fn gone(start: usize) {
    let mut pins = PINS.lock();
    if let Some(i) = pins.first_overlapping(start, 1) {
        let p = pins.all()[i];
        if p.start == start && p.stage == Stage::Going {
            pins.remove(i);
        }
    }
    drop(pins);
    announce();
}

/// No range is pinned from now on; pinned ranges can still be unpinned.
pub fn bar() {
    PINS.lock().barred = true;
}

/// Whether no further range is pinned.
#[must_use]
pub fn barred() -> bool {
    let pins = PINS.lock();
    pins.barred || pins.ended
}

/// Waits until no thread is about to pin or unpin a range. Whether any range is still pinned.
#[must_use]
pub fn settled() -> bool {
    loop {
        let seen = CHANGED.load(Acquire);
        let pins = PINS.lock();
        let busy = |p: &Pin| matches!(p.stage, Stage::Coming | Stage::Going);
        if pins.ended || !pins.all().iter().any(busy) {
            let left = |p: &Pin| p.stage == Stage::Here;
            return !pins.ended && pins.all().iter().any(left);
        }
        drop(pins);
        await_change(seen);
    }
}

/// Called before pages of `[start, start + len)` change: unpins every range that overlaps them. Waits for device copies, and for
/// threads that are pinning. Never called with a lock held, nor where the device's own code may be the caller.
pub(super) fn pages_go(start: usize, len: usize) {
    while COUNT.load(Acquire) != 0 {
        let seen = CHANGED.load(Acquire);
        let mut pins = PINS.lock();
        let Some(i) = pins.first_overlapping(start, len) else {
            return;
        };
        let ended = pins.ended;
        let p = &mut pins.table.all_mut()[i];
        match p.stage {
            Stage::Refused => pins.remove(i),
            Stage::Here if ended => pins.remove(i),
            Stage::Here => {
                p.stage = Stage::Going;
                let (start, len) = (p.start, p.len);
                drop(pins);
                observer::unpin(start, len);
                gone(start);
            }
            Stage::Coming | Stage::Going => {
                drop(pins);
                await_change(seen);
            }
        }
    }
}

/// Whether any of these pages is pinned or about to be: pages that change must not be.
pub(super) fn any(start: usize, len: usize) -> bool {
    if COUNT.load(Acquire) == 0 {
        return false;
    }
    let pins = PINS.lock();
    !pins.ended && pins.any(start, len)
}

/// Bytes that are pinned, or about to be.
#[must_use]
pub fn bytes() -> usize {
    PINS.lock().bytes
}

/// The pinned ranges, for tests.
#[must_use]
pub fn ranges() -> Vec<(usize, usize)> {
    let mut list = Vec::with_capacity(COUNT.load(Relaxed) + 8);
    let pins = PINS.lock();
    // No memory is allocated under the lock.
    for p in pins.all().iter().filter(|p| p.stage == Stage::Here) {
        if list.len() < list.capacity() {
            list.push((p.start, p.len));
        }
    }
    list
}

/// Called at the end of the process: no range is pinned or unpinned from now on. Waits for pins that other threads have
/// begun, at most two seconds: the device's own shutdown comes next.
pub fn end() {
    for _ in 0..2000 {
        let mut pins = PINS.lock();
        pins.ended = true;
        let busy = |p: &Pin| matches!(p.stage, Stage::Coming | Stage::Going);
        if !pins.all().iter().any(busy) {
            return;
        }
        drop(pins);
        std::thread::sleep(core::time::Duration::from_millis(1));
    }
}

/// Empties the table: a child of fork has no devices, and its memory is a copy that is not pinned.
pub(super) fn forget_all() {
    let mut pins = PINS.lock();
    pins.count = 0;
    pins.bytes = 0;
    COUNT.store(0, Release);
    drop(pins);
    SPACE.lock().forget_pins();
}

/// Holds the lock of this table during fork. Taken before the lock of the owned blocks.
pub(super) fn hold_for_fork() {
    PINS.hold();
}

pub(super) fn release_after_fork() {
    PINS.release();
}
