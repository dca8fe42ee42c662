//! Which memory is page-locked for devices: the table, and the rule that pages do not change under a pin.
//!
//! A pin belongs to a *mapping*. Whoever is about to discard, move or unmap pages says so first (`pages_go`),
//! and the pin is undone then; a block that is freed and kept for the next `malloc` keeps it. The cache decides
//! what is pinned and calls the device ([`claim`], [`finish`], [`take`], [`gone`]); the device's own
//! allocations come back here through the hooks, so that no lock is held around its calls, and nothing in the
//! allocator's ordinary paths undoes a pin: `idle` does that on a thread of its own.

#![expect(unsafe_code, reason = "declares a table element zeroable")]

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicUsize};

use rustix::thread::futex;

use super::Block;
use super::lock::Lock;
use super::observer::{self, run_of};
use super::runs::{MOST_PINNED as MOST, SPACE, State};
use super::sys::{self, Table, Zeroed};
use crate::base::AllocId;

/// Where a pin is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
enum Stage {
    /// Not pinned, and why not is remembered.
    #[default]
    Refused = 0,
    /// A thread is about to pin it.
    Coming,
    Here,
    /// A thread is about to undo it.
    Going,
}

/// Why a block is not pinned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Refusal {
    /// The device said no, or a page is closed: not asked again in this lifetime.
    #[default]
    Never = 0,
    /// No room in the budget: asked again once some pin was undone.
    Budget,
    /// Hardly any of it is present or an operand: asked again when operands cover twice as much.
    Sparse,
}

#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
struct Pin {
    start: usize,
    len: usize,
    /// The block that used it last.
    id: u64,
    /// When: the table's clock.
    stamp: u64,
    /// The operands seen, as one span: meaningful while not pinned.
    from: usize,
    to: usize,
    /// What has to change before a refusal is reconsidered.
    mark: u64,
    stage: Stage,
    refusal: Refusal,
    /// Its bytes are part of the sum.
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
    /// Pins undone so far.
    undone: u64,
    ended: bool,
    /// Nothing more is pinned.
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
/// Entries, so that nothing is locked while there are none.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Grows whenever a pin has come or gone.
static CHANGED: AtomicU32 = AtomicU32::new(0);

/// What became of the wish to pin a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// Nothing to do: it is pinned, or will not be.
    Settled,
    /// The caller pins this range, or says why not, by [`finish`]: until then others wait.
    Yours {
        /// First byte.
        start: usize,
        /// Bytes, whole pages.
        len: usize,
        /// Bytes that the operands seen so far span.
        covered: usize,
    },
}

/// A pinned range that may be undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pinned {
    /// First byte.
    pub start: usize,
    /// Bytes.
    pub len: usize,
    /// The block that used it last, which may be dead.
    pub id: AllocId,
    /// When it was used last, on a clock of its own.
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
            mark_run(&gone, false);
        }
    }

    /// Room for what matters: the refusal that was used longest ago is forgotten.
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
        let count = self.count;
        self.table.all_mut()[..count]
            .get_mut(i)
            .filter(|p| p.start == start)
    }
}

/// Tells the heap, which never discards a pinned block in passing. Under the table's lock, so that the two agree.
fn mark_run(pin: &Pin, pinned: bool) {
    let mut space = SPACE.lock();
    if let Some(i) = space.run_at(pin.start)
        && let Some(r) = space.run_mut(i)
        && r.start == pin.start
    {
        r.pinned = pinned;
    }
}

/// Marks the run of a block that lives; false if it does not. An adopted block has none.
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

/// Waits until something changes that has not since `seen` was read.
fn await_change(seen: u32) {
    // Errors (a change, a signal) only mean: look again.
    let _ = futex::wait(&CHANGED, futex::Flags::PRIVATE, seen, None);
}

/// A block becomes an operand from `at` on for `len` bytes. Waits while another thread pins it, or undoes its
/// pin.
pub fn claim(block: &Block, at: usize, len: usize) -> Claim {
    let Some(whole) = sys::whole_pages(block.len) else {
        return Claim::Settled;
    };
    loop {
        let seen = CHANGED.load(Acquire);
        let mut pins = PINS.lock();
        if pins.ended || pins.barred {
            return Claim::Settled;
        }
        pins.clock += 1;
        let (stamp, undone) = (pins.clock, pins.undone);
        let fresh = Pin {
            start: block.start,
            len: whole,
            id: block.id.0,
            stamp,
            from: at,
            to: at + len,
            stage: Stage::Coming,
            ..Pin::default()
        };
        let Some(i) = pins.first_overlapping(block.start, whole) else {
            if !mark_live(block) {
                return Claim::Settled;
            }
            if pins.insert(fresh) {
                return yours(&fresh);
            }
            mark_run(&fresh, false);
            return Claim::Settled;
        };
        let same = pins.all()[i].start == block.start && pins.all()[i].len == whole;
        let p = &mut pins.table.all_mut()[i];
        match p.stage {
            Stage::Coming | Stage::Going => {
                drop(pins);
                await_change(seen);
            }
            Stage::Here if same => {
                (p.stamp, p.id) = (stamp, block.id.0);
                return Claim::Settled;
            }
            Stage::Here => {
                // A mapping that has grown, or shrunk by a system call that nobody saw.
                drop(pins);
                pages_go(block.start, whole);
            }
            Stage::Refused if same && p.id == block.id.0 => {
                p.stamp = stamp;
                (p.from, p.to) = (p.from.min(at), p.to.max(at + len));
                let again = match p.refusal {
                    Refusal::Never => false,
                    Refusal::Budget => p.mark != undone,
                    Refusal::Sparse => (p.to - p.from) as u64 >= p.mark,
                };
                if !again || !mark_live(block) {
                    return Claim::Settled;
                }
                p.stage = Stage::Coming;
                return yours(p);
            }
            // Another lifetime's.
            Stage::Refused => pins.remove(i),
        }
    }
}

/// Whether the next use of a block as an operand would try to pin it.
#[must_use]
pub fn pending(block: &Block) -> bool {
    let Some(whole) = sys::whole_pages(block.len) else {
        return false;
    };
    let pins = PINS.lock();
    match pins.first_overlapping(block.start, whole) {
        _ if pins.barred => false,
        Some(i) => {
            let p = &pins.all()[i];
            p.stage == Stage::Refused && p.id != block.id.0
        }
        None => !pins.ended,
    }
}

fn yours(p: &Pin) -> Claim {
    Claim::Yours {
        start: p.start,
        len: p.len,
        covered: p.to - p.from,
    }
}

/// Takes a claimed range's bytes out of the budget, or says how many too many they are.
///
/// # Errors
/// The bytes that have to be given back first.
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

/// Ends a claim.
pub fn finish(start: usize, result: Result<(), Refusal>) {
    let mut pins = PINS.lock();
    let undone = pins.undone;
    let mut given_back = 0;
    if let Some(p) = pins.at(start).filter(|p| p.stage == Stage::Coming) {
        match result {
            Ok(()) => p.stage = Stage::Here,
            Err(refusal) => {
                (p.stage, p.refusal) = (Stage::Refused, refusal);
                p.mark = match refusal {
                    Refusal::Sparse => 2 * (p.to - p.from) as u64,
                    _ => undone,
                };
                if core::mem::take(&mut p.counted) {
                    given_back = p.len;
                }
                mark_run(p, false);
            }
        }
    }
    pins.bytes -= given_back;
    drop(pins);
    announce();
}

/// The pinned range that was used longest ago, but after `after`.
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

/// Takes a pinned range that was not used since, to undo it on the device and call [`gone`]; until then whoever
/// changes its pages waits. False if somebody was faster.
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

/// The device has undone a pin that was taken.
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

/// Nothing is pinned from now on; what is can be undone as before.
pub fn bar() {
    PINS.lock().barred = true;
}

/// Waits until no thread is about to pin or to undo a pin. Whether any pin is left.
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

/// The pages of these addresses are about to change: no pin is left on any of them. Waits for copies, and for
/// threads that are pinning. Never called with a lock held, nor where the device's own code may be the caller.
pub(super) fn pages_go(start: usize, len: usize) {
    while COUNT.load(Acquire) != 0 {
        let seen = CHANGED.load(Acquire);
        let mut pins = PINS.lock();
        let Some(i) = pins.first_overlapping(start, len) else {
            return;
        };
        let count = pins.count;
        let ended = pins.ended;
        let p = &mut pins.table.all_mut()[..count][i];
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

/// Whether any of these pages is pinned, or about to be: what must not be when they change.
pub(super) fn any(start: usize, len: usize) -> bool {
    if COUNT.load(Acquire) == 0 {
        return false;
    }
    let pins = PINS.lock();
    let end = start.saturating_add(len);
    !pins.ended
        && pins
            .all()
            .iter()
            .any(|p| p.stage != Stage::Refused && p.start < end && start < p.start + p.len)
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
    // Nothing is allocated under the lock.
    for p in pins.all().iter().filter(|p| p.stage == Stage::Here) {
        if list.len() < list.capacity() {
            list.push((p.start, p.len));
        }
    }
    list
}

/// The end of the process: nothing is pinned from now on, and nothing is undone any more. Waits for what is
/// under way on other threads, but not for long: the device's own end comes next.
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

/// Forgets everything: a child of fork has no devices, and its memory is a copy.
pub(super) fn forget_all() {
    let mut pins = PINS.lock();
    pins.count = 0;
    pins.bytes = 0;
    COUNT.store(0, Release);
    drop(pins);
    SPACE.lock().forget_pins();
}

/// The lock of this file, for fork. Taken before the heap's.
pub(super) fn hold_for_fork() {
    PINS.hold();
}

pub(super) fn release_after_fork() {
    PINS.release();
}
