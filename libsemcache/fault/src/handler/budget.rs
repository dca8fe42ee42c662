//! Retry budget: how often an access to a page that the page table calls accessible is retried.
//!
//! Such a fault is nearly always a lost race: the page was made accessible between the fault and the handler. But the
//! program may have protected a page that semcache once tracked, and then the access would be retried for ever. The
//! difference: each lost race comes with a write to the page table. So a retry that finds the table unchanged since the
//! same thread's last retry of the same address is counted, and after [`LIMIT`] of them in quick succession the fault
//! goes to the program's handler.

use crate::pages;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

const LIMIT: u32 = 200;
/// A pause this long between two retries means that the access succeeded in between.
const FORGET_NS: u64 = 10_000_000;
const ENTRIES: usize = 256;

/// The last retries of the threads that hash to this entry. Threads that collide lose each other's count, which costs
/// more retries and nothing else. For the same reason the fields need not be consistent with each other.
struct Entry {
    key: AtomicU64,
    changes: AtomicUsize,
    at: AtomicU64,
    count: AtomicU32,
}

static RETRIES: [Entry; ENTRIES] = [const {
    Entry {
        key: AtomicU64::new(0),
        changes: AtomicUsize::new(0),
        at: AtomicU64::new(0),
        count: AtomicU32::new(0),
    }
}; ENTRIES];

/// Whether to retry once more.
pub(super) fn spend(tid: u32, addr: usize, now: u64) -> bool {
    let entry = &RETRIES[tid as usize % ENTRIES];
    // Addresses have 47 bits. Threads whose low 17 bits agree share a count at the same address.
    let key = (addr as u64) | (u64::from(tid) << 47);
    let changes = pages::changes();
    let same = entry.key.swap(key, Ordering::Relaxed) == key;
    let recent = now.saturating_sub(entry.at.swap(now, Ordering::Relaxed)) < FORGET_NS;
    let unchanged = entry.changes.swap(changes, Ordering::Relaxed) == changes;
    if !same || !recent {
        entry.count.store(0, Ordering::Relaxed);
    } else if unchanged && entry.count.fetch_add(1, Ordering::Relaxed) + 1 >= LIMIT {
        entry.count.store(0, Ordering::Relaxed);
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, since the page table's count of changes is shared by the whole process.
    #[test]
    fn only_unexplained_retries_in_a_row_are_counted() {
        let at = 1 << 45;
        let touch = || pages::set(at, pages::page_size(), None).unwrap();
        let tries = |n: u32, tid: u32, step: u64, changing: bool| {
            (0..n)
                .take_while(|&i| {
                    if changing {
                        touch();
                    }
                    spend(tid, 4096, u64::from(i) * step)
                })
                .count()
        };
        // Other tests of this binary write to the table too: more retries, never fewer.
        assert!(tries(u32::MAX, 1, 1000, false) >= LIMIT as usize);
        assert_eq!(tries(2000, 2, 1000, true), 2000);
        assert_eq!(tries(2000, 3, FORGET_NS, false), 2000);
        for i in 0..2000 {
            assert!(spend(4, 4096 * (i as usize % 2), i));
        }
    }
}
