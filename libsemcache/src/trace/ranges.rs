//! Ranges and names of the program (`semcache.h`): slices of its threads, ranges of NVTX, and moments at which a matrix was named.

use core::cell::Cell;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use super::{Event, now, nvtx, on, record};

/// Ranges of one thread inside each other, at most: inner ones are not recorded.
const DEEPEST: usize = 16;
/// The most names of a process, which are kept for good: events refer to them. Further ones are recorded as `...`.
const MOST: usize = 4096;

#[derive(Clone, Copy)]
struct Open {
    depth: usize,
    /// When each began, and its name.
    all: [(u64, &'static str); DEEPEST],
}

std::thread_local! {
    static OPEN: Cell<Open> = const { Cell::new(Open { depth: 0, all: [(0, ""); DEEPEST] }) };
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
    let mut open = OPEN.get();
    if is_watched()
        && let Some(range) = open.all.get_mut(open.depth)
    {
        *range = (now(), interned(name));
        if nvtx::attached() {
            nvtx::begin(name);
        }
    }
    open.depth += 1;
    OPEN.set(open);
}

/// Ends the calling thread's innermost range; false if it has none. The caller has blocked signals.
pub fn end() -> bool {
    let mut open = OPEN.get();
    let Some(depth) = open.depth.checked_sub(1) else {
        return false;
    };
    open.depth = depth;
    if let Some(range) = open.all.get_mut(depth) {
        let (begun, name) = std::mem::take(range);
        // What was not watched at its beginning has no name.
        if begun > 0 {
            let span = (begun, now());
            record(Event::Range { span, name });
            if nvtx::attached() {
                nvtx::pop();
            }
        }
    }
    OPEN.set(open);
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
