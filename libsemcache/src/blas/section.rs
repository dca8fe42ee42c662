//! Asynchronous sections (`semcache.h`): the calls of a thread between two of its requests wait for nothing that they need not wait for,
//! as XKBlas's asynchronous calls (Gautier et al., PDP 2021). The end of a section asks for what completes when its results are computed.

use core::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::{AllocId, Interval};

std::thread_local! {
    /// The number of this thread's section, and how many sections it has begun inside each other.
    static OPEN: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// The bytes of each block that calls of a section write.
type Results = BTreeMap<AllocId, Interval>;

/// The results of all sections that are open, and the number of the last one.
static SECTIONS: Mutex<(u64, BTreeMap<u64, Results>)> = Mutex::new((0, BTreeMap::new()));

/// The caller has blocked signals: a handler of the program might ask for the lock.
fn sections() -> MutexGuard<'static, (u64, BTreeMap<u64, Results>)> {
    SECTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a section of this thread, or one more inside it.
pub fn begin() {
    let (number, depth) = OPEN.get();
    if depth > 0 {
        return OPEN.set((number, depth.saturating_add(1)));
    }
    let mut sections = sections();
    sections.0 += 1;
    let number = sections.0;
    sections.1.insert(number, Results::new());
    OPEN.set((number, 1));
}

/// Whether this thread is in a section.
#[must_use]
pub fn is_open() -> bool {
    OPEN.get().1 > 0
}

/// Ends the innermost section of this thread.
///
/// # Errors
/// The thread is in none.
pub fn end() -> Result<Results, NoSection> {
    let (number, depth) = OPEN.get();
    let left = depth.checked_sub(1).ok_or(NoSection)?;
    OPEN.set((number, left));
    let outermost = left == 0;
    let results = outermost.then(|| sections().1.remove(&number)).flatten();
    Ok(results.unwrap_or_default())
}

/// The thread is in no section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoSection;

/// From this number of blocks on, those that no longer exist are left out whenever the number has doubled.
const MANY: usize = 1024;

/// A call of this thread writes these bytes of a block. `exists` says whether a block still does.
pub(super) fn writes(id: AllocId, span: Interval, exists: &dyn Fn(AllocId) -> bool) {
    let (number, depth) = OPEN.get();
    if depth == 0 {
        return;
    }
    let grown = {
        let mut sections = sections();
        let Some(results) = sections.1.get_mut(&number) else {
            return;
        };
        let before = results.len();
        let all = results.entry(id).or_insert(span);
        *all = all.around(span);
        let grown = results.len() > before && results.len() >= MANY;
        (grown && results.len().is_power_of_two())
            .then(|| results.keys().copied().collect::<Vec<_>>())
    };
    // The cache has a lock of its own.
    if let Some(all) = grown {
        let gone: Vec<AllocId> = all.into_iter().filter(|id| !exists(*id)).collect();
        if let Some(results) = sections().1.get_mut(&number) {
            gone.iter().for_each(|id| _ = results.remove(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_section_has_all_results() {
        assert_eq!(end().unwrap_err(), NoSection);
        assert!(!is_open());
        begin();
        let all = |_| true;
        writes(AllocId(7), Interval::new(0, 10), &all);
        begin();
        writes(AllocId(7), Interval::new(100, 110), &all);
        writes(AllocId(8), Interval::new(5, 6), &all);
        assert!(end().expect("a section").is_empty() && is_open());
        let results = end().expect("a section");
        let expected = [
            (AllocId(7), Interval::new(0, 110)),
            (AllocId(8), Interval::new(5, 6)),
        ];
        assert_eq!(results.into_iter().collect::<Vec<_>>(), expected);
        assert!(!is_open());
        writes(AllocId(7), Interval::new(0, 10), &all);
    }

    #[test]
    fn blocks_that_have_gone_are_left_out_in_time() {
        begin();
        for i in 0..100_000 {
            let last = AllocId(i);
            writes(last, Interval::new(0, 1), &|id| id.0 + 10 > last.0);
        }
        let results = end().expect("a section");
        assert!(results.len() < 2 * MANY && results.contains_key(&AllocId(99_999)));
    }
}
