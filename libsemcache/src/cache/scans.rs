//! What a scan goes by: which blocks are scanned, and which panels of a block are armed.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use log::debug;

use crate::base::{Interval, Rect, RectSet};
use crate::protect::WpAsync;

/// Which blocks are scanned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Choice {
    /// None.
    #[default]
    Never,
    /// Those whose history says so.
    ByHistory,
    /// All where it is possible.
    Always,
}

/// The process's scans: the descriptors are opened when the first block is to be scanned.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    pub(super) choice: Choice,
    pub(super) watch: OnceLock<Option<WpAsync>>,
    /// Whether any block is, or was.
    pub(super) used: AtomicBool,
}

impl Scanner {
    pub(super) fn watch(&self) -> Option<&WpAsync> {
        let open = || {
            WpAsync::new()
                .inspect_err(|e| debug!("no asynchronous write protection: {e}"))
                .ok()
        };
        self.watch.get_or_init(open).as_ref()
    }
}

/// How the inputs of one entry are watched.
#[derive(Debug, Default)]
pub(crate) struct Scans {
    /// Panels that are limited to reading from now on are armed.
    pub(super) on: bool,
    /// It did not work here: not tried again.
    pub(super) refused: bool,
    /// The offsets that are registered.
    pub(super) registered: Option<Interval>,
    /// The panels that are armed, all of them open.
    pub(super) armed: RectSet,
    /// What was found written and has not been stepped yet.
    pub(super) dirt: Vec<Interval>,
}

impl Scans {
    /// Whether what the CPU writes is looked for afterwards, where it is possible.
    pub(crate) fn on(&self) -> bool {
        self.on
    }

    /// Whether nothing has to be looked for.
    pub(crate) fn idle(&self) -> bool {
        self.armed.is_empty() && self.dirt.is_empty()
    }

    /// Those of these bytes that are sent without a trap.
    pub(crate) fn untrapped(&self, rect: &Rect) -> Vec<Rect> {
        self.armed.common(rect)
    }

    /// The panels are no longer armed, as far as anybody relies on it: nothing in them is valid, or they are closed.
    pub(crate) fn disarm(&mut self, span: Interval) {
        if !self.armed.is_empty() {
            self.armed.remove(&Rect::from(span));
        }
    }

    /// Nothing of the block is valid: what was found written is of no interest.
    pub(crate) fn clear(&mut self) {
        self.dirt.clear();
    }

    pub(super) fn refuse(&mut self) {
        (self.on, self.refused) = (false, true);
    }
}
