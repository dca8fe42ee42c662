//! Reserved address space: a fault by a wild pointer into it looks to the program as if nothing were mapped there.
//!
//! Large allocations come from a reserved address range, whose freed and never used parts are mappings without access.
//! With glibc's allocator nothing would be mapped there, and the fault's `si_code` would say so. Pages that the program
//! itself protected are the exception.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Enough, since the program rarely protects parts of blocks that malloc returned.
const MOST: usize = 64;

static START: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);

/// Blocks in which the program itself changed page protection: first byte and length, 0 if free. A reader that sees
/// half of a change may misjudge one access that races with the change.
static GUARDED: [(AtomicUsize, AtomicUsize); MOST] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; MOST];
/// More blocks were protected than fit in the table: from then on no fault is treated as unmapped.
static TOO_MANY: AtomicBool = AtomicBool::new(false);

/// Sets the reserved range. Called once.
pub fn announce(start: usize, len: usize) {
    START.store(start, Ordering::Relaxed);
    LEN.store(len, Ordering::Release);
}

/// Notes that the program itself protects pages of the block at `start`.
pub fn guard(start: usize, len: usize) {
    if GUARDED
        .iter()
        .any(|(s, _)| s.load(Ordering::Acquire) == start)
    {
        return;
    }
    for (s, l) in &GUARDED {
        if s.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            l.store(len, Ordering::Release);
            return;
        }
    }
    TOO_MANY.store(true, Ordering::Relaxed);
}

/// Notes that the block at `start` was freed.
pub fn unguard(start: usize) {
    for (s, l) in &GUARDED {
        if s.load(Ordering::Acquire) == start {
            l.store(0, Ordering::Release);
            s.store(0, Ordering::Release);
        }
    }
}

/// Whether, without semcache, nothing would be mapped at an address that has no access.
pub(crate) fn is_bare(addr: usize) -> bool {
    let len = LEN.load(Ordering::Acquire);
    addr.wrapping_sub(START.load(Ordering::Relaxed)) < len
        && !TOO_MANY.load(Ordering::Relaxed)
        && !GUARDED
            .iter()
            .any(|(s, l)| addr.wrapping_sub(s.load(Ordering::Acquire)) < l.load(Ordering::Acquire))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test: the range is the process's.
    #[test]
    fn bare_is_what_is_reserved_and_not_guarded() {
        let base = 1 << 40;
        assert!(!is_bare(base) && !is_bare(0));
        announce(base, 1 << 30);
        assert!(is_bare(base) && is_bare(base + (1 << 30) - 1));
        assert!(!is_bare(base - 1) && !is_bare(base + (1 << 30)));
        guard(base + 8192, 4096);
        guard(base + 8192, 4096);
        assert!(is_bare(base + 8191) && !is_bare(base + 8192) && is_bare(base + 12288));
        unguard(base + 8192);
        assert!(is_bare(base + 8192));
        for i in 0..=MOST {
            assert!(is_bare(base));
            guard(base + 4096 * (i + 1), 4096);
        }
        assert!(!is_bare(base));
    }
}
