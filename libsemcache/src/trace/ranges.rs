//! Ranges and names of the program (`semcache.h`): slices of its threads, ranges of NVTX, and moments at which a matrix was named.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use rustix::thread::gettid;

use super::{Event, now, nvtx, on, record};

/// The most names of a process, which are kept for good: events refer to them. Further ones are recorded as `...`.
const MOST: usize = 4096;

/// When a range began, and its name; zero and none if nothing watched then.
type Range = (u64, &'static str);

/// The ranges of each thread, the innermost last. Not in the threads' own memory: a library that is loaded late gets little of that.
static OPEN: Mutex<BTreeMap<u32, Vec<Range>>> = Mutex::new(BTreeMap::new());

fn of_thread<T>(change: impl FnOnce(&mut Vec<Range>) -> T) -> T {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let thread = gettid().as_raw_nonzero().get().unsigned_abs();
    let ranges = open.entry(thread).or_default();
    let changed = change(ranges);
    if ranges.is_empty() {
        open.remove(&thread);
    }
    changed
}

/// The same text for the rest of the process. The caller has blocked signals.
fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let names = names.get_or_insert_default();
    if let Some(known) = names.get(name) {
        return known;
    }
    if names.len() >= MOST {
        return "...";
    }
    let kept: &'static str = Box::leak(Box::from(name));
    names.insert(kept);
    kept
}

fn is_watched() -> bool {
    on() || nvtx::attached()
}

/// Begins a range of the calling thread. The caller has blocked signals.
pub fn begin(name: &str) {
    let range = match is_watched() {
        true => (now(), interned(name)),
        false => (0, ""),
    };
    if range.0 > 0 && nvtx::attached() {
        nvtx::begin(name);
    }
    of_thread(|ranges| ranges.push(range));
}

/// Ends the calling thread's innermost range; false if it has none. The caller has blocked signals.
pub fn end() -> bool {
    let Some((begun, name)) = of_thread(Vec::pop) else {
        return false;
    };
    if begun > 0 {
        let span = (begun, now());
        record(Event::Range { span, name });
        if nvtx::attached() {
            nvtx::pop();
        }
    }
    true
}

/// The program has named the matrix that begins at an address. The caller has blocked signals.
pub fn named(addr: usize, bytes: usize, name: &str) {
    if on() {
        record(Event::Named {
            at: now(),
            name: interned(name),
            addr: addr as u64,
            bytes: bytes as u64,
        });
    }
}
