//! Pinning: the program's memory is page-locked, so that devices copy it in place and not through staging memory.
//!
//! A block is pinned in pieces. If one device is used, or another thread pins results, each is pinned when a task first uses
//! bytes of it: so the device copies and computes while the calling thread pins what later tasks use. With many cores inputs pass
//! through staging memory at their first use, and are pinned at their second; arrays of a sparse matrix that devices have no room
//! to keep are pinned at their first. On an H100 machine pieces of 64 MiB are pinned at the rate of whole blocks, 50 GB/s in 2
//! MiB pages, beside copies at full speed (bench/results/h100-cold.md). Another thread pins the pieces of results where that
//! takes long ([`super::pins_ahead`]).
//!
//! A piece is pinned before any of its pages is made inaccessible, since the driver refuses inaccessible pages: a piece holds whole
//! panels. The cache's lock is not held, since pinning takes time. `host::pins` records what is pinned, and ends a pin
//! before the pages change; this file calls the device. Pins affect speed only, never correctness.

use std::sync::Once;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Instant;

use log::{debug, warn};
use once_cell::race::OnceBool;

use super::{Cache, Entry};
use crate::base::config::Pin;
use crate::base::counters::COUNTERS;
use crate::base::timed::{self, Timed, What};
use crate::base::{Access, AllocId, Interval, Rect};
use crate::device::api::DeviceError;
use crate::host::pins::{self, Claim, Pinned, Refusal};
use crate::host::{self, Block};
use crate::process::crew;
use crate::process::spent::{Spending, Spent};
use crate::protect;

/// The smallest block that is pinned: a call of the driver costs as much as copying a few hundred kilobytes through a
/// staging buffer.
pub(super) const LEAST: usize = 256 << 10;
/// Of a block whose pages are mostly untouched, operands must span this share (in percent) before all of its pages are
/// made present and pinned.
const SHARE: usize = 50;
/// Bytes that may stay pinned at a fork. Fork copies every pinned page, which takes 0.4 to 0.75 s for each gigabyte;
/// for these few it does not show.
const FORK_MOST: usize = 16 << 20;

/// The most pieces of a block.
const MOST_PIECES: usize = 256;
/// Page-locking is slower than copies through staging memory by this number of threads: with 1, 2, 3 and 4 contexts of H200 53, 30,
/// 21 and 15 GB/s are page-locked, after which the bytes are yet to be copied, and 16 and 32 threads copy 47 and 59 GB/s. New memory
/// took 0.33 instead of 0.42 s on two H200 (bench/results/h200-x2-families.md), and 0.55 instead of 0.74 s on four H100
/// (h100-cold.md).
const STAGING_CORES: usize = 16;
/// When operands are page-locked: an index into [`Pin::ALL`].
static WHEN: AtomicU8 = AtomicU8::new(Pin::Auto as u8);

/// Sets when operands are page-locked.
pub fn set_when(when: Pin) {
    WHEN.store(when as u8, Ordering::Relaxed);
}

fn when() -> Pin {
    Pin::ALL[usize::from(WHEN.load(Ordering::Relaxed))]
}

/// Whether copies through staging memory are faster than page-locking. The processors are counted once: that is a system call, and this is
/// asked for each operand of each call.
fn many_cores() -> bool {
    static MANY: OnceBool = OnceBool::new();
    MANY.get_or_init(|| crew::cores() >= STAGING_CORES)
}

/// Bytes of a piece.
static PIECE: AtomicUsize = AtomicUsize::new(64 << 20);

/// Sets the bytes of a piece: a multiple of the panel.
pub fn set_piece(bytes: usize) {
    PIECE.store(bytes.max(1 << 16), Ordering::Relaxed);
}

/// The pieces of a block that overlap the addresses from `at` on, each with its index, start and length in whole pages.
pub(super) fn pieces(
    block: &Block,
    at: usize,
    len: usize,
) -> impl Iterator<Item = (usize, (usize, usize))> + use<> {
    let (pages, unit) = (pins::pages(block), PIECE.load(Ordering::Relaxed));
    let piece = (pages / MOST_PIECES).next_multiple_of(unit).max(unit);
    let (start, end) = (block.start, at.saturating_add(len).min(block.start + pages));
    let first = at.saturating_sub(start) / piece;
    let last = end.saturating_sub(start).div_ceil(piece);
    (first..last).map(move |i| (i, (start + i * piece, piece.min(pages - i * piece))))
}

/// The blocks of a call, of which pieces are pinned as tasks come to use them.
#[derive(Debug)]
pub struct Pinning<'a> {
    blocks: &'a [Option<Block>],
    /// For each operand that is pinned so, the pieces that have been pinned, or will not be.
    done: Vec<Option<Vec<bool>>>,
    /// Whether the calling thread waits while another thread pins a piece, or sends it through staging memory.
    patient: bool,
}

impl<'a> Pinning<'a> {
    /// Nothing is pinned as tasks come to use it.
    #[must_use]
    pub fn none() -> Pinning<'a> {
        Pinning::new(&[], |_| false, true)
    }

    /// `blocks`: of all operands of the call; `by_task`: whether pieces of an operand are pinned as tasks come to use them. A thread
    /// that holds claims of other pieces is not `patient`.
    #[must_use]
    pub fn new(
        blocks: &'a [Option<Block>],
        by_task: impl Fn(usize) -> bool,
        patient: bool,
    ) -> Pinning<'a> {
        let done = |operand: usize| by_task(operand).then(Vec::new);
        Pinning {
            blocks,
            done: (0..blocks.len()).map(done).collect(),
            patient,
        }
    }

    /// Called before a task that uses these bytes of an operand, counted from the start of its block.
    pub fn need(&mut self, cache: &Cache, operand: usize, written: bool, span: Interval) {
        let Some(Some(block)) = self.blocks.get(operand) else {
            return;
        };
        if block.len < LEAST {
            return;
        }
        let at = block.start + span.start;
        for (i, piece) in pieces(block, at, span.len()) {
            let Some(Some(done)) = self.done.get_mut(operand) else {
                return;
            };
            if done.len() <= i {
                done.resize(i + 1, false);
            }
            if std::mem::replace(&mut done[i], true) {
                continue;
            }
            // A piece that passes through staging memory does so for all operands of the call.
            if !(cache.stages_inputs() && self.other_uses(operand, block, i)) {
                let bytes = (at, span.len());
                cache.pin_piece(block, piece, bytes, written, (self.blocks, self.patient));
            }
        }
    }

    /// Whether a task has used this piece of a block as another operand.
    fn other_uses(&self, operand: usize, block: &Block, piece: usize) -> bool {
        let same = |b: &Option<Block>| b.is_some_and(|b| b.id == block.id);
        let done = |done: &Option<Vec<bool>>| done.as_ref()?.get(piece).copied();
        let mut all = self.blocks.iter().zip(&self.done).enumerate();
        all.any(|(i, (b, d))| i != operand && same(b) && done(d) == Some(true))
    }
}

/// Bytes that may be pinned; 0: not computed yet.
static BUDGET: AtomicUsize = AtomicUsize::new(0);

/// Sets the most bytes that may be pinned. The default is three quarters of the memory that the process may use.
pub fn set_budget(bytes: usize) {
    BUDGET.store(bytes.max(1), Ordering::Relaxed);
}

fn budget() -> usize {
    match BUDGET.load(Ordering::Relaxed) {
        0 => {
            let bytes = (host::memory() / 4 * 3).max(1);
            // A budget that was set meanwhile is kept.
            let _ = BUDGET.compare_exchange(0, bytes, Ordering::Relaxed, Ordering::Relaxed);
            BUDGET.load(Ordering::Relaxed)
        }
        known => known,
    }
}

/// The right to pin one range. If it is dropped without a result (after a panic), the pin counts as refused for good:
/// other threads wait for a result.
#[derive(Debug)]
pub(super) struct Claimed {
    id: AllocId,
    start: usize,
    len: usize,
    /// Bytes from the first to the last of the operands seen so far.
    covered: usize,
    /// Whether no operand lay in these pages before, as far as the table of pins knows.
    first: bool,
    result: Result<(), Refusal>,
}

impl Claimed {
    /// The range's first byte.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// The range is not pinned now.
    pub(super) fn later(mut self) {
        self.result = Err(Refusal::Later);
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        pins::finish(self.start, self.result);
    }
}

/// Of an operand's bytes those in a piece, from and to.
fn part_in(piece: (usize, usize), (at, len): (usize, usize)) -> (usize, usize) {
    let from = at.max(piece.0);
    (from, (at + len).min(piece.0 + piece.1).max(from))
}

/// Claims a piece of a block for `len` bytes of an operand from `at` on, unless it is pinned or will not be. While another
/// thread pins it, a `patient` caller waits.
pub(super) fn claim(
    block: &Block,
    piece: (usize, usize),
    (at, len): (usize, usize),
    patient: bool,
) -> Option<Claimed> {
    let (from, to) = part_in(piece, (at, len));
    match pins::claim(block, piece, (from, to - from), patient) {
        Claim::Settled => None,
        Claim::Yours {
            start,
            len,
            covered,
            first,
        } => Some(Claimed {
            id: block.id,
            start,
            len,
            covered,
            first,
            result: Err(Refusal::Never),
        }),
    }
}

/// Why a device's driver does not page-lock memory, by the statuses that CUDA's documentation of cuMemHostRegister gives.
fn unlockable(error: DeviceError) -> String {
    let DeviceError::Refused { code, .. } = error else {
        return error.to_string();
    };
    match code {
        1 => "the driver takes no such memory (with holes, or of a file)".to_owned(),
        2 => "the driver has no memory for that, or the system's limit is reached".to_owned(),
        712 => "the program has page-locked it, or a part of it, already".to_owned(),
        801 => "the driver does not support that here".to_owned(),
        _ => format!("the driver refuses it (CUDA status {code})"),
    }
}

impl Cache {
    /// Bytes that would be pinned first if `len` bytes of the block from `at` on were used as an operand.
    #[must_use]
    pub fn unpinned(&self, block: &Block, at: usize, len: usize) -> usize {
        if block.len < LEAST {
            return 0;
        }
        let pieces = pieces(block, at, len).map(|(_, piece)| piece);
        pins::pending(block, (at, len), pieces)
    }

    /// Whether inputs pass through staging memory at their first use.
    #[must_use]
    pub fn stages_inputs(&self) -> bool {
        self.stages(true)
    }

    /// Whether it takes longer to pin these bytes of a block, which the call writes, than to start a thread that does it.
    #[must_use]
    pub fn pins_slowly(&self, block: &Block, (at, len): (usize, usize)) -> bool {
        when() != Pin::Off && self.unpinned(block, at, len) > PIECE.load(Ordering::Relaxed)
    }

    /// Pins the pieces of a block that hold `len` bytes from `at` on, which are an operand, as far as that pays and is
    /// possible; `now`: also where inputs pass through staging memory at their first use, since the call writes these bytes, or devices
    /// have no room to keep them. `call` are the blocks of this call, whose pins are not ended to make room. The caller holds no lock, has
    /// made no page of these pieces inaccessible for this call, and has marked the block as in use.
    pub fn pin(&self, block: &Block, (at, len): (usize, usize), now: bool, call: &[Option<Block>]) {
        // A matrix that stays on the devices between calls: one question instead of one for each of up to 256 pieces.
        let stays = || !now && self.moves_nothing(block, at, at + len);
        if block.len >= LEAST && !pins::used(block, at, len) && !stays() {
            for (_, piece) in pieces(block, at, len) {
                self.pin_piece(block, piece, (at, len), now, (call, true));
            }
        }
    }

    fn pin_piece(
        &self,
        block: &Block,
        piece: (usize, usize),
        (at, len): (usize, usize),
        now: bool,
        (call, patient): (&[Option<Block>], bool),
    ) {
        let Some(claimed) = claim(block, piece, (at, len), patient) else {
            return;
        };
        let (from, to) = part_in(piece, (at, len));
        let staged = self.stages(claimed.first && !now);
        if staged || !now && self.moves_nothing(block, from, to) {
            claimed.later();
            return;
        }
        let free = self.accessible(vec![claimed]);
        free.into_iter().for_each(|c| self.pin_claimed(c, call));
    }

    /// Of these ranges, those without an inaccessible or read-only page; the others are pinned at a later use. Pages may be more
    /// restricted than the directory says, until the CPU touches them ([`Cache::step_closed`]). The caller's own call restricts no page of
    /// the ranges before they are pinned.
    pub(super) fn accessible(&self, claimed: Vec<Claimed>) -> Vec<Claimed> {
        let state = self.lock();
        let (free, closed): (Vec<_>, Vec<_>) = claimed.into_iter().partition(|c| {
            state.entries.get(&c.id).is_none_or(|e: &Entry| {
                let at = c.start - e.host.base;
                !e.guarded
                    || e.dir.access(Interval::new(at, at + c.len)) == Access::ReadWrite
                        && protect::range_permits(c.start, c.len, true)
            })
        });
        drop(state);
        COUNTERS.host.pin_refused.add(closed.len() as u64);
        closed.into_iter().for_each(Claimed::later);
        free
    }

    /// Pins an accessible range.
    pub(super) fn pin_claimed(&self, mut claimed: Claimed, call: &[Option<Block>]) {
        host::idle::start();
        claimed.result = self.try_pin(&claimed, call);
        match claimed.result {
            Ok(()) => COUNTERS.host.pinned.add(claimed.len as u64),
            Err(Refusal::Sparse) => {}
            Err(_) => COUNTERS.host.pin_refused.add(1),
        }
    }

    /// Whether bytes pass through staging memory now. A result never does if it may be page-locked: its pages become inaccessible, so
    /// the CPU copies it from staging memory through the kernel, at 6 GB/s, and it cannot be page-locked then.
    fn stages(&self, first: bool) -> bool {
        match when() {
            Pin::First => false,
            Pin::Again => first,
            Pin::Off => true,
            Pin::Auto => first && many_cores(),
        }
    }

    /// Whether devices hold all bytes of a range, so that none is uploaded. Where inputs pass through staging memory at first,
    /// page-locking such bytes for a later use takes longer than that use may save.
    fn moves_nothing(&self, block: &Block, from: usize, to: usize) -> bool {
        if self.backend.usable() < 2 && !self.stages(true) {
            return false;
        }
        let rect = Rect::interval(from - block.start, to - block.start);
        let state = self.lock();
        let entry = state.entries.get(&block.id);
        entry.is_some_and(|e| e.dir.on_devices(&rect))
    }

    fn try_pin(&self, claimed: &Claimed, call: &[Option<Block>]) -> Result<(), Refusal> {
        let &Claimed {
            start,
            len,
            covered,
            ..
        } = claimed;
        if covered / SHARE * 100 < len && host::present_share(start, len) < SHARE {
            return Err(Refusal::Sparse);
        }
        while pins::reserve(start, budget()).is_err() {
            if !self.give_up_oldest(call) {
                static SAID: Once = Once::new();
                SAID.call_once(|| {
                    warn!(
                        "no more memory is page-locked: {} bytes are, of {}; copies of other blocks are slower",
                        pins::bytes(),
                        budget()
                    );
                });
                return Err(Refusal::Budget);
            }
        }
        let _spending = Spending::on(Spent::PageLock);
        let began = Instant::now();
        // Pages without memory would be faulted in by one thread inside the driver; `populate` uses several.
        host::populate(start, len);
        let locking = Instant::now();
        let result = self.backend.pin(start, len);
        let (spent, locked) = (began.elapsed(), locking.elapsed());
        COUNTERS
            .host
            .pin_us
            .add(u64::try_from(spent.as_micros()).unwrap_or(u64::MAX));
        result.map_err(|error| {
            static SAID: Once = Once::new();
            SAID.call_once(|| {
                warn!(
                    "{} kB of a matrix cannot be page-locked: {}; its copies pass through staging memory, which is slower; \
                     further such memory is only counted (host.pin_refused)",
                    len.div_ceil(1000),
                    unlockable(error)
                );
            });
            Refusal::Never
        })?;
        timed::note(Timed {
            what: What::Locking(len),
            seconds: locked.as_secs_f64(),
        });
        debug!("pinned {len} bytes at {start:#x} in {spent:?}");
        Ok(())
    }

    /// Ends the pin of the least recently used piece, among those of blocks with no stale byte and nothing in flight. Returns
    /// whether there was one.
    fn give_up_oldest(&self, call: &[Option<Block>]) -> bool {
        let mut after = 0;
        while let Some(p) = pins::oldest(after) {
            after = p.stamp;
            let mut blocks = call.iter().flatten();
            let wanted = blocks.any(|b| b.start <= p.start && p.start - b.start < b.len);
            if !wanted && self.unused(p.id) && self.undo(&p) {
                return true;
            }
        }
        false
    }

    /// Whether the host holds the newest bytes of a block, with no operation in flight over them.
    fn unused(&self, id: AllocId) -> bool {
        let mut state = self.lock();
        if state.dying.contains_key(&id) {
            return false;
        }
        state.entries.get_mut(&id).is_none_or(|e| {
            e.host.ops.prune(self.backend);
            e.dir.stale().is_empty() && e.host.ops.is_empty()
        })
    }

    pub(super) fn undo(&self, pinned: &Pinned) -> bool {
        let mine = pins::take(pinned);
        if mine {
            self.backend.unpin(pinned.start, pinned.len);
            pins::gone(pinned.start);
        }
        mine
    }

    /// Before fork, after all newest bytes were written back: ends all pins if more than a few bytes are pinned, since
    /// fork copies every pinned page at once. In the parent, blocks are pinned again at their next use, if their pages
    /// are accessible then.
    pub fn unpin_for_fork(&self) {
        if pins::bytes() <= FORK_MOST {
            return;
        }
        while let Some(p) = pins::oldest(0) {
            self.undo(&p);
        }
    }
}
