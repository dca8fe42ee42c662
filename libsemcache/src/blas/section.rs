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

/// A call of this thread writes these bytes of a block.
pub(super) fn writes(id: AllocId, span: Interval) {
    let (number, depth) = OPEN.get();
    if depth > 0
        && let Some(results) = sections().1.get_mut(&number)
    {
        let all = results.entry(id).or_insert(span);
        *all = all.around(span);
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
        writes(AllocId(7), Interval::new(0, 10));
        begin();
        writes(AllocId(7), Interval::new(100, 110));
        writes(AllocId(8), Interval::new(5, 6));
        assert!(end().expect("a section").is_empty() && is_open());
        let results = end().expect("a section");
        let expected = [
            (AllocId(7), Interval::new(0, 110)),
            (AllocId(8), Interval::new(5, 6)),
        ];
        assert_eq!(results.into_iter().collect::<Vec<_>>(), expected);
        assert!(!is_open());
        writes(AllocId(7), Interval::new(0, 10));
        assert!(sections().1.values().all(Results::is_empty));
    }
}
