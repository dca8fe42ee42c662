//! A recording observer of host memory.
#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::HashMap;
use std::sync::Mutex;

use semcache::base::AllocId;
use semcache::host::{Block, Observer, Release};

/// One notification to an observer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    Release,
    Surrender(usize, usize),
    Resized(usize),
}

/// Records its notifications, by block, and gives the answers that it was set up with.
pub(crate) struct Recorder {
    /// Whether blocks may be resized.
    resizes: bool,
    told: Mutex<Option<HashMap<AllocId, Vec<Told>>>>,
    held: Mutex<Vec<AllocId>>,
}

impl Recorder {
    pub(crate) const fn new(resizes: bool) -> Self {
        Recorder {
            resizes,
            told: Mutex::new(None),
            held: Mutex::new(Vec::new()),
        }
    }
    fn note(&self, id: AllocId, t: Told) {
        self.told
            .lock()
            .expect("lock")
            .get_or_insert_default()
            .entry(id)
            .or_default()
            .push(t);
    }
    pub(crate) fn of(&self, id: AllocId) -> Vec<Told> {
        self.told
            .lock()
            .expect("lock")
            .as_ref()
            .and_then(|m| m.get(&id).cloned())
            .unwrap_or_default()
    }
    /// Marks a block as still used by a device.
    pub(crate) fn hold(&self, id: AllocId) {
        self.held.lock().expect("lock").push(id);
    }
    pub(crate) fn let_go(&self, id: AllocId) {
        self.held.lock().expect("lock").retain(|h| *h != id);
    }
}

impl Observer for Recorder {
    fn release(&self, block: Block) -> Release {
        self.note(block.id, Told::Release);
        if self.busy(block.id) {
            Release::Quarantine
        } else {
            Release::Now
        }
    }
    fn busy(&self, id: AllocId) -> bool {
        self.held.lock().expect("lock").contains(&id)
    }
    fn surrender(&self, block: Block, start: usize, len: usize) {
        self.note(block.id, Told::Surrender(start - block.start, len));
    }
    fn resized(&self, id: AllocId, new_len: usize, _content: usize) {
        assert!(self.resizes, "{id:?} {new_len}: adopted blocks do not grow");
        self.note(id, Told::Resized(new_len));
    }
}
