//! Results that a thread of the runtime page-locks while the calling thread sends inputs to the devices.
//!
//! A task's results are page-locked before it is queued, since their pages become inaccessible then. With several GPUs that runs at 15
//! to 30 GB/s, as long as it takes to send the inputs through staging memory; beside each other both take as long as one of them.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32};

use rustix::thread::futex;

use super::{Cache, pins};
use crate::base::Interval;
use crate::host::Block;

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
pub struct PinsAhead<'a> {
    blocks: Vec<Results>,
    /// For each operand that is a result, the index of its block.
    of: Vec<Option<usize>>,
    /// The blocks of all operands.
    call: &'a [Option<Block>],
    /// Index of a block, and the piece of it.
    wanted: Vec<(usize, (usize, usize))>,
    /// For each task, the number of pieces that are page-locked before it is queued.
    before: Vec<usize>,
    /// How many are page-locked, or will not be.
    done: AtomicU32,
    stopped: AtomicBool,
}

impl<'a> PinsAhead<'a> {
    /// `call`: the blocks of all operands; `written`: of an operand that the call writes, its address and length.
    #[must_use]
    pub fn new(
        call: &'a [Option<Block>],
        written: impl Fn(usize) -> Option<(usize, usize)>,
    ) -> PinsAhead<'a> {
        let mut blocks: Vec<Results> = Vec::new();
        let of = |(i, block): (usize, &Option<Block>)| {
            let (block, (at, len)) = (block.as_ref()?, written(i)?);
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
            call,
            wanted: Vec::new(),
            before: Vec::new(),
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

    /// Page-locks the pieces one after the other. If it unwinds, nobody waits for the rest.
    pub fn run(&self, cache: &Cache) {
        struct Ended<'a>(&'a PinsAhead<'a>);
        impl Drop for Ended<'_> {
            fn drop(&mut self) {
                self.0.set_done(self.0.wanted.len());
            }
        }
        let ended = Ended(self);
        // The calling thread holds the cache's lock while it copies inputs to staging memory, so it is taken once and not for each
        // piece. All threads that claim several pieces do so in the order of addresses: none waits for another one that waits for it.
        let mut order: Vec<usize> = (0..self.wanted.len()).collect();
        order.sort_unstable_by_key(|&i| self.wanted[i].1);
        let claim = |i: usize| {
            let (block, piece) = self.wanted[i];
            let Results { block, bytes, .. } = &self.blocks[block];
            pins::claim(block, piece, *bytes)
        };
        let claimed = order.into_iter().filter_map(claim).collect();
        let mut free = cache.accessible(claimed);
        for (i, (_, piece)) in self.wanted.iter().enumerate() {
            if let Some(at) = free.iter().position(|c| c.start() == piece.0) {
                let claimed = free.swap_remove(at);
                if self.stopped.load(Relaxed) {
                    claimed.later();
                } else {
                    cache.pin_claimed(claimed, self.call);
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

    /// Waits until one more piece is done.
    pub fn wait(&self, task: usize) {
        let seen = self.done.load(Acquire);
        if !self.ready(task) {
            let _ = futex::wait(&self.done, futex::Flags::PRIVATE, seen, None);
        }
    }

    /// No task waits for further pieces.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }
}
