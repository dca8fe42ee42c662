//! Results that a thread of the runtime page-locks while the calling thread sends inputs to the devices.
//!
//! A task's results are page-locked before it is queued, since their pages become inaccessible then. That runs at 53 GB/s with one
//! GPU and at 15 with four, and takes as long as sending the inputs through staging memory.
//!
//! Before the thread begins, the calling thread claims all pieces, and takes the cache's lock to see which are accessible: later it
//! holds that lock nearly always. A thread that cannot begin, since the calling thread holds the dynamic linker's lock, is not
//! waited for: the calling thread page-locks the pieces itself.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32};
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use rustix::thread::futex;

use super::pins::{Claimed, LEAST};
use super::{Cache, pins};
use crate::base::Interval;
use crate::host::{self, Block};

/// How long a task waits for the thread to begin. That takes a tenth of a millisecond.
const PATIENCE: Duration = Duration::from_millis(2);

/// A block with results of a call.
#[derive(Debug)]
struct Results {
    block: Block,
    /// From the first to the last byte of the results.
    bytes: (usize, usize),
    /// For each piece of the block that a task uses, its position in the order.
    positions: Vec<Option<usize>>,
}

/// Pieces of the blocks of a call's results, in the order in which its tasks first use them.
#[derive(Debug)]
pub struct PinsAhead {
    blocks: Vec<Results>,
    /// For each operand that is a result, the index of its block.
    of: Vec<Option<usize>>,
    /// The blocks of all operands.
    call: Vec<Option<Block>>,
    /// Index of a block, and the piece of it.
    wanted: Vec<(usize, (usize, usize))>,
    /// For each task, the number of pieces that are page-locked before it is queued.
    before: Vec<usize>,
    /// The pieces that can be page-locked, and that no other thread can page-lock meanwhile.
    claimed: Mutex<Vec<Claimed>>,
    /// 1 once a thread has begun to page-lock them.
    begun: AtomicU32,
    /// How many are page-locked, or will not be.
    done: AtomicU32,
    stopped: AtomicBool,
}

/// Stops [`PinsAhead`] when it is dropped.
#[derive(Debug)]
pub struct Stop<'a>(pub &'a PinsAhead);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl PinsAhead {
    /// `call`: the blocks of all operands; `written`: of an operand that the call writes, its address and length.
    #[must_use]
    pub fn new(
        call: &[Option<Block>],
        written: impl Fn(usize) -> Option<(usize, usize)>,
    ) -> PinsAhead {
        let mut blocks: Vec<Results> = Vec::new();
        let of = |(i, block): (usize, &Option<Block>)| {
            let block = block.as_ref().filter(|b| b.len >= LEAST)?;
            let (at, len) = written(i)?;
            let known = blocks.iter().position(|r| r.block.id == block.id);
            let index = known.unwrap_or_else(|| {
                blocks.push(Results {
                    block: *block,
                    bytes: (at, len),
                    positions: Vec::new(),
                });
                blocks.len() - 1
            });
            let (from, bytes) = blocks[index].bytes;
            let (start, end) = (from.min(at), (from + bytes).max(at + len));
            blocks[index].bytes = (start, end - start);
            Some(index)
        };
        PinsAhead {
            of: call.iter().enumerate().map(of).collect(),
            blocks,
            call: call.to_vec(),
            wanted: Vec::new(),
            before: Vec::new(),
            claimed: Mutex::default(),
            begun: AtomicU32::new(0),
            done: AtomicU32::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// Adds the next task, which uses these bytes of operands, counted from the starts of their blocks.
    pub fn task(&mut self, uses: impl Iterator<Item = (usize, Interval)>) {
        let mut before = 0;
        for (operand, span) in uses {
            let Some(Some(index)) = self.of.get(operand) else {
                continue;
            };
            let Results {
                block, positions, ..
            } = &mut self.blocks[*index];
            for (i, piece) in pins::pieces(block, block.start + span.start, span.len()) {
                if positions.len() <= i {
                    positions.resize(i + 1, None);
                }
                let at = *positions[i].get_or_insert_with(|| {
                    self.wanted.push((*index, piece));
                    self.wanted.len() - 1
                });
                before = before.max(at + 1);
            }
        }
        self.before.push(before);
    }

    /// After the last task was added: claims the pieces, as far as they can be page-locked now. The caller holds no lock.
    pub fn claim(&mut self, cache: &Cache) {
        // All threads that claim several pieces do so in the order of addresses, and wait for no other piece before these are
        // page-locked or refused: none waits for another one that waits for it.
        let mut order = self.wanted.clone();
        order.sort_unstable_by_key(|&(_, piece)| piece);
        let claim = |(block, piece): (usize, (usize, usize))| {
            let Results { block, bytes, .. } = &self.blocks[block];
            pins::claim(block, piece, *bytes, true)
        };
        let claimed = order.into_iter().filter_map(claim).collect();
        self.claimed = Mutex::new(cache.accessible(claimed));
    }

    /// Whether this thread is the one that page-locks the pieces, and these.
    fn begin(&self) -> Option<Vec<Claimed>> {
        if self.begun.swap(1, AcqRel) == 1 {
            return None;
        }
        let _ = futex::wake(&self.begun, futex::Flags::PRIVATE, 1);
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        Some(std::mem::take(&mut *claimed))
    }

    /// Page-locks the claimed pieces one after the other, unless another thread has begun to do so. If it unwinds, no task waits for
    /// the rest.
    pub fn run(&self, cache: &Cache) {
        struct Ended<'a>(&'a PinsAhead);
        impl Drop for Ended<'_> {
            fn drop(&mut self) {
                self.0.set_done(self.0.wanted.len());
            }
        }
        let Some(mut claimed) = self.begin() else {
            return;
        };
        let ended = Ended(self);
        for (i, (_, piece)) in self.wanted.iter().enumerate() {
            if let Some(at) = claimed.iter().position(|c| c.start() == piece.0) {
                let claimed = claimed.swap_remove(at);
                if self.stopped.load(Relaxed) || host::pins::barred() {
                    claimed.later();
                } else {
                    cache.pin_claimed(claimed, &self.call);
                }
            }
            self.set_done(i + 1);
        }
        drop(ended);
    }

    fn set_done(&self, count: usize) {
        self.done
            .store(u32::try_from(count).unwrap_or(u32::MAX), Release);
        let _ = futex::wake(&self.done, futex::Flags::PRIVATE, 1);
    }

    /// Whether the results of a task are page-locked, or will not be.
    #[must_use]
    pub fn ready(&self, task: usize) -> bool {
        let before = self.before.get(task).copied().unwrap_or(0);
        self.done.load(Acquire) as usize >= before
    }

    /// Waits until one more piece is done, for a task whose results are not ready.
    pub fn wait(&self, cache: &Cache, task: usize) {
        if self.begun.load(Acquire) == 0 {
            if let Ok(patience) = PATIENCE.try_into() {
                let _ = futex::wait(&self.begun, futex::Flags::PRIVATE, 0, Some(&patience));
            }
            self.run(cache);
        }
        let seen = self.done.load(Acquire);
        if !self.ready(task) {
            let _ = futex::wait(&self.done, futex::Flags::PRIVATE, seen, None);
        }
    }

    /// No task waits for further pieces: those that are not page-locked yet can be claimed by other threads.
    fn stop(&self) {
        self.stopped.store(true, Relaxed);
        if let Some(claimed) = self.begin() {
            claimed.into_iter().for_each(Claimed::later);
            self.set_done(self.wanted.len());
        }
    }
}
