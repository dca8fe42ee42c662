//! Data that are derived from bytes of a block (what is known of a sparse matrix's pattern, say) hold as long as these bytes do not
//! change. The bytes lie on devices, so that their pages are read-only or write-tracked, and every change reaches the directory: then
//! copies on devices become invalid, or a kernel writes one. A *watch* ends with the first such event, and when a replica that has
//! some of the bytes leaves its device, since nothing may notice a change from then on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::Rect;

/// Whether watched bytes are what they were.
#[derive(Clone, Debug)]
pub struct Watch(Arc<AtomicBool>);

impl Default for Watch {
    fn default() -> Watch {
        Watch(Arc::new(AtomicBool::new(true)))
    }
}

impl Watch {
    /// Whether nothing has changed them. It is certain while the cache's lock is held.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn end(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The watched bytes of a block.
#[derive(Debug, Default)]
pub(crate) struct Watches(Vec<(Rect, Watch)>);

impl Watches {
    /// Adds bytes to those that a watch is kept on.
    pub(super) fn add(&mut self, rect: Rect, watch: &Watch) {
        self.0.push((rect, watch.clone()));
    }

    /// Bytes have changed, or are on a device no longer.
    pub(super) fn end(&mut self, rect: &Rect) {
        self.0.retain(|(of, watch)| {
            let ends = of.overlaps(rect);
            if ends {
                watch.end();
            }
            !ends && watch.holds()
        });
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.0.iter().for_each(|(_, watch)| watch.end());
    }
}
