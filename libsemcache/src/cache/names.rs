//! Names that a program gives its matrices (`semcache.h`), for messages and the report. They end with their block; in the report they
//! stay.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::counters::PAGE;

/// The names, by the address of the matrix's first byte, each with the address behind its last byte.
static NAMES: Mutex<BTreeMap<usize, (usize, Arc<str>)>> = Mutex::new(BTreeMap::new());

/// Whether there ever was a name: a block that ends is looked up only then.
static ANY: AtomicBool = AtomicBool::new(false);

/// The most names at a time: further ones are not kept.
const MOST: usize = 4096;

/// The caller has blocked signals: a handler of the program might ask for the lock.
fn names() -> MutexGuard<'static, BTreeMap<usize, (usize, Arc<str>)>> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Names the matrix with these bytes, in place of all names of matrices that it overlaps; `None`: it has none.
pub fn set(start: usize, end: usize, name: Option<&str>) {
    if let Some(matrix) = PAGE.matrices.known(start) {
        matrix.name.set(name.unwrap_or_default().as_bytes());
    }
    replace(start, end, name);
}

fn replace(start: usize, end: usize, name: Option<&str>) {
    ANY.store(true, Ordering::Relaxed);
    let mut names = names();
    names.retain(|&from, &mut (to, _)| to <= start || from >= end);
    if let Some(name) = name.filter(|_| names.len() < MOST) {
        names.insert(start, (end, Arc::from(name)));
    }
}

/// The memory has become another matrix's, or nobody's.
pub(super) fn forget(start: usize, end: usize) {
    if ANY.load(Ordering::Relaxed) {
        replace(start, end, None);
    }
}

/// The first name in a block, for the report, which begins to count its calls; `None` also if another thread holds the lock.
pub fn in_block(start: usize, end: usize) -> Option<Arc<str>> {
    if !ANY.load(Ordering::Relaxed) {
        return None;
    }
    let names = NAMES.try_lock().ok()?;
    let (_, (_, name)) = names.range(start..end).next()?;
    Some(Arc::clone(name))
}

/// The name of the matrix that has the byte at an address, followed by the address; `None` also if another thread holds the lock, as the
/// process may be about to end.
pub(super) fn at(addr: usize) -> Option<Arc<str>> {
    let names = NAMES.try_lock().ok()?;
    let (_, (end, name)) = names.range(..=addr).next_back()?;
    (addr < *end).then(|| Arc::clone(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_with_its_memory() {
        let base = 1 << 40;
        set(base, base + 100, Some("A"));
        set(base + 100, base + 200, Some("B"));
        assert_eq!(at(base + 99).as_deref(), Some("A"));
        assert_eq!(at(base + 100).as_deref(), Some("B"));
        assert_eq!(at(base + 200).as_deref(), None);
        assert_eq!(in_block(base, base + 200).as_deref(), Some("A"));
        assert_eq!(in_block(base + 1, base + 100).as_deref(), None);
        set(base + 50, base + 150, Some("C"));
        assert_eq!(at(base).as_deref(), None);
        assert_eq!(at(base + 149).as_deref(), Some("C"));
        forget(base + 60, base + 70);
        assert_eq!(at(base + 149).as_deref(), None);
    }
}
