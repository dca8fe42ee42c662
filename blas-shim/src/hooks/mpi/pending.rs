//! The buffers of operations that are under way, and memory that MPI knows for long.

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::buffers::{AllKept, Extent};

/// What a buffer is in use for. Several operations can have the same request, if they are complete.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Use {
    /// Until this request is complete.
    Request(usize),
    /// Until this window is synchronised with a process.
    Target(usize, c_int),
    /// Until this window is freed, or the memory at this address is detached from it.
    Window(usize, usize),
    /// Until the file operation of two steps ends.
    File(usize),
    /// Until the memory at this address is detached.
    Attached(usize),
}

type All = BTreeMap<Use, AllKept>;

/// No signal is blocked while these are locked: a handler of the program may not call MPI, and nothing else locks them. No memory of
/// the program is touched meanwhile.
static ALL: Mutex<All> = Mutex::new(All::new());
/// Its number of entries.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The buffers of persistent requests that are not freed.
static PERSISTENT: Mutex<BTreeMap<usize, Arc<[Extent]>>> = Mutex::new(BTreeMap::new());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many of the last buffers of the same use a further one is compared with.
const RECENT: usize = 8;

/// Notes that buffers are in use.
pub(super) fn add(by: Use, kept: AllKept) {
    if kept.is_empty() {
        return;
    }
    let mut all = locked(&ALL);
    match all.entry(by) {
        Entry::Vacant(entry) => {
            entry.insert(kept);
        }
        Entry::Occupied(mut entry) => {
            let same = entry.get_mut();
            for one in kept {
                // Many operations on a window may have the same buffer before it is synchronised.
                let recent = &same[same.len().saturating_sub(RECENT)..];
                if !recent.iter().any(|other| other.covers(&one)) {
                    same.push(one);
                }
            }
        }
    }
    COUNT.store(all.len(), Ordering::Relaxed);
}

/// Whether no buffers are in use.
pub(super) fn is_empty() -> bool {
    COUNT.load(Ordering::Relaxed) == 0
}

/// Takes what is in use so; the caller drops it once MPI no longer uses it.
pub(super) fn take(by: Use) -> AllKept {
    if is_empty() {
        return AllKept::new();
    }
    let mut all = locked(&ALL);
    let taken = all.remove(&by).unwrap_or_default();
    COUNT.store(all.len(), Ordering::Relaxed);
    taken
}

/// Takes all uses in a range.
pub(super) fn take_range(from: Use, to: Use) -> AllKept {
    if is_empty() {
        return AllKept::new();
    }
    let mut all = locked(&ALL);
    let found: Vec<_> = all.range(from..=to).map(|(by, _)| *by).collect();
    let taken = found
        .iter()
        .filter_map(|by| all.remove(by))
        .flatten()
        .collect();
    COUNT.store(all.len(), Ordering::Relaxed);
    taken
}

/// Notes the buffers of a persistent request, of which none is in use yet.
pub(super) fn add_persistent(request: usize, extents: Arc<[Extent]>) {
    locked(&PERSISTENT).insert(request, extents);
}

/// The buffers of a persistent request.
pub(super) fn persistent(request: usize) -> Option<Arc<[Extent]>> {
    locked(&PERSISTENT).get(&request).cloned()
}

/// Forgets a persistent request. Whether it was one.
pub(super) fn forget_persistent(request: usize) -> bool {
    locked(&PERSISTENT).remove(&request).is_some()
}

/// Requests that the program has freed, of which the operations were not complete. MPI does not tell when they are once a request is
/// freed, so they are freed later.
static FREED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static FREED_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Notes that a request is to be freed once its operation is complete.
pub(super) fn add_freed(request: usize) {
    let mut freed = locked(&FREED);
    freed.push(request);
    FREED_COUNT.store(freed.len(), Ordering::Relaxed);
}

/// Takes the requests that are to be freed.
pub(super) fn take_freed() -> Vec<usize> {
    if FREED_COUNT.load(Ordering::Relaxed) == 0 {
        return Vec::new();
    }
    FREED_COUNT.store(0, Ordering::Relaxed);
    core::mem::take(&mut *locked(&FREED))
}
