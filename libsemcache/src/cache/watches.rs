//! Data that are derived from bytes of a block (what is known of a sparse matrix's pattern, say) hold as long as these bytes do not
//! change. A derived replica of the directory stands for them (R17): every change of the bytes makes it invalid, and ends the *watch*
//! that the user of the data looks at. That devices evict copies of the bytes does not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::{AllocId, ReplicaId};

/// Whether watched bytes are what they were.
#[derive(Debug)]
pub struct Watch {
    same: Arc<AtomicBool>,
    /// The derived replicas. [`super::Cache::unwatch`] takes them out of the directory.
    pub(super) replicas: Vec<(AllocId, ReplicaId)>,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch {
            same: Arc::new(AtomicBool::new(true)),
            replicas: Vec::new(),
        }
    }
}

impl Watch {
    /// Whether nothing has changed them. It is certain while the cache's lock is held.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.same.load(Ordering::Acquire)
    }

    pub(super) fn end(&self) {
        self.same.store(false, Ordering::Release);
    }
}

/// The watches on bytes of a block, by derived replica.
#[derive(Debug, Default)]
pub(crate) struct Watches(BTreeMap<ReplicaId, Arc<AtomicBool>>);

impl Watches {
    /// Bytes of which this replica is derived are watched.
    pub(super) fn add(&mut self, replica: ReplicaId, watch: &Watch) {
        self.0.insert(replica, Arc::clone(&watch.same));
    }

    /// Bytes of a replica have changed, which may be a derived one.
    pub(super) fn end(&self, replica: ReplicaId) {
        if let Some(same) = self.0.get(&replica) {
            same.store(false, Ordering::Release);
        }
    }

    /// A replica has left the directory.
    pub(super) fn remove(&mut self, replica: ReplicaId) {
        self.end(replica);
        self.0.remove(&replica);
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.0.keys().for_each(|replica| self.end(*replica));
    }
}
