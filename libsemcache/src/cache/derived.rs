//! Beginning of the watch on bytes from which data are derived, which ends as [`super::watches`] says.

use super::Cache;
use super::watches::Watch;
use crate::base::{AllocId, Interval, Rect, Spans};

/// The most bytes of a range that devices may lack: those on a first and a last page that it shares with other data.
const MOST_LOOSE: usize = 64 << 10;

impl Cache {
    /// Watches those of these contiguous bytes that devices hold, from now on. Adds the addresses of the others to `loose`. If these are
    /// many, or a block has gone, the watch has ended already.
    #[must_use]
    pub fn watch(&self, of: &[(AllocId, Interval)], loose: &mut Vec<Interval>) -> Watch {
        let watch = Watch::default();
        let mut guard = self.lock();
        for (id, span) in of {
            let Some(e) = guard.entries.get_mut(id) else {
                watch.end();
                continue;
            };
            let lacking = e.dir.nowhere(vec![Rect::from(*span)]);
            let lacking: Spans = lacking.iter().map(Rect::span).collect();
            let mut held: Spans = [*span].into_iter().collect();
            held.subtract(&lacking);
            for run in held.iter() {
                e.watches.add(Rect::from(*run), &watch);
            }
            let at = e.host.base;
            let addresses = |run: &Interval| Interval::new(at + run.start, at + run.end);
            loose.extend(lacking.iter().map(addresses));
            if lacking.iter().map(|run| run.len()).sum::<usize>() > MOST_LOOSE {
                watch.end();
            }
        }
        watch
    }
}
