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

/// One piece of an operand's block.
#[derive(Debug)]
struct Wanted {
    operand: usize,
    piece: (usize, usize),
}

/// Pieces of a call's results, in the order in which its tasks first use them.
#[derive(Debug)]
pub struct PinsAhead<'a> {
    /// The block of each operand that is a result.
    results: Vec<Option<Block>>,
    /// The bytes of each operand: its address and length.
    bytes: &'a [(usize, usize)],
    /// The blocks of all operands.
    call: &'a [Option<Block>],
    wanted: Vec<Wanted>,
    /// For each operand and piece of its block, its position in `wanted`.
    positions: Vec<Vec<Option<usize>>>,
    /// For each task, the number of pieces that are page-locked before it is queued.
    before: Vec<usize>,
    /// How many are page-locked, or will not be.
    done: AtomicU32,
    stopped: AtomicBool,
}

impl<'a> PinsAhead<'a> {
    /// `call` and `bytes`: the blocks of all operands, and of each its address and length; `written`: whether the call writes it.
    #[must_use]
    pub fn new(
        call: &'a [Option<Block>],
        bytes: &'a [(usize, usize)],
        written: impl Fn(usize) -> bool,
    ) -> PinsAhead<'a> {
        let result = |(i, block): (usize, &Option<Block>)| block.filter(|_| written(i));
        PinsAhead {
            results: call.iter().enumerate().map(result).collect(),
            bytes,
            call,
            wanted: Vec::new(),
            positions: vec![Vec::new(); call.len()],
            before: Vec::new(),
            done: AtomicU32::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// Adds the next task, which uses these bytes of operands, counted from the starts of their blocks.
    pub fn task(&mut self, uses: impl Iterator<Item = (usize, Interval)>) {
        let mut before = 0;
        for (operand, span) in uses {
            let Some(Some(block)) = self.results.get(operand) else {
                continue;
            };
            for (i, piece) in pins::pieces(block, block.start + span.start, span.len()) {
                let positions = &mut self.positions[operand];
                if positions.len() <= i {
                    positions.resize(i + 1, None);
                }
                let at = *positions[i].get_or_insert_with(|| {
                    self.wanted.push(Wanted { operand, piece });
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
        for (i, w) in self.wanted.iter().enumerate() {
            if self.stopped.load(Relaxed) {
                break;
            }
            if let Some(block) = &self.results[w.operand] {
                cache.pin_piece(block, w.piece, self.bytes[w.operand], true, self.call);
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
