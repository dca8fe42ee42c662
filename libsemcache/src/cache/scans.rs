//! Dirty tracking: which panels of a block are write-tracked, and the scanner that reads the kernel's marks.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use log::debug;

use crate::base::{Interval, Rect, RectSet};
use crate::protect::WpAsync;

/// Which blocks are write-tracked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Choice {
    /// None.
    #[default]
    Never,
    /// Blocks of which the CPU rewrites a small part between calls, by their use so far.
    ByUse,
    /// All blocks, where the kernel can do it.
    Always,
}

/// The process's dirty tracking: the descriptors are opened when the first block is to be write-tracked.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    pub(super) choice: Choice,
    pub(super) tracker: OnceLock<Option<WpAsync>>,
    /// Whether any block is write-tracked, or was.
    pub(super) used: AtomicBool,
}

impl Scanner {
    pub(super) fn tracker(&self) -> Option<&WpAsync> {
        let open = || {
            WpAsync::new()
                .inspect_err(|e| debug!("no asynchronous write protection: {e}"))
                .ok()
        };
        self.tracker.get_or_init(open).as_ref()
    }
}

/// Dirty tracking of one entry.
#[derive(Debug, Default)]
pub(crate) struct Scans {
    /// Panels that become restricted to reading are write-tracked instead.
    pub(super) on: bool,
    /// Dirty tracking failed for this block and is not tried again.
    pub(super) refused: bool,
    /// The offsets that are registered for write tracking.
    pub(super) registered: Option<Interval>,
    /// The write-tracked ranges. Those that are inaccessible are the pages of an evicted result that another operand shares with
    /// other data.
    pub(super) write_tracked: RectSet,
    /// Pages found written whose bytes replicas have not dropped yet.
    pub(super) dirt: Vec<Interval>,
}

impl Scans {
    /// Whether scans find the CPU's writes, where that is possible, instead of page protection trapping them.
    pub(crate) fn on(&self) -> bool {
        self.on
    }

    /// Whether no page is write-tracked and none was found written.
    pub(crate) fn idle(&self) -> bool {
        self.write_tracked.is_empty() && self.dirt.is_empty()
    }

    /// The pages no longer count as write-tracked: replicas hold nothing valid in them, or they are inaccessible.
    pub(crate) fn untrack(&mut self, span: Interval) {
        if !self.write_tracked.is_empty() {
            self.write_tracked.remove(&Rect::from(span));
        }
    }

    /// Forgets the pages found written: replicas hold nothing valid of the block.
    pub(crate) fn clear(&mut self) {
        self.dirt.clear();
    }

    pub(super) fn refuse(&mut self) {
        (self.on, self.refused) = (false, true);
    }
}
