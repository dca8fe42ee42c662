#![expect(unsafe_code, reason = "mprotect of the program's memory")]
//! The page protection gate: `mprotect`, with the page table that the SIGSEGV handler reads.

use super::{Gate, GateError};
use crate::base::Access;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::MprotectFlags;
use semcache_fault::pages;
use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering};

/// The gate needs no more splits of mappings than this, also where the kernel would permit more.
const MOST_SPLITS: usize = 30_000;
/// The kernel's default limit of mappings, used where the limit cannot be read.
const DEFAULT_MAP_COUNT: usize = 65_530;

/// Restricts pages with `mprotect`, and keeps the page table of the signal handler in step.
#[derive(Debug)]
pub struct MprotectGate {
    closes: AtomicU64,
    /// Places where this gate has given neighbouring pages different access; each costs the process about one mapping.
    splits: AtomicIsize,
    budget: isize,
}

impl MprotectGate {
    /// A gate that uses at most half of the mappings that the kernel permits the process, and leaves the program 1024
    /// (`SPARE_MAPPINGS`) beyond those that the process has now.
    #[must_use]
    pub fn new() -> MprotectGate {
        let most = max_map_count();
        let left = most.saturating_sub(mapped() + SPARE_MAPPINGS);
        MprotectGate::with_budget((most / 2).min(MOST_SPLITS).min(left))
    }

    /// A gate that splits mappings at `budget` places at most.
    #[must_use]
    pub fn with_budget(budget: usize) -> MprotectGate {
        MprotectGate {
            closes: AtomicU64::new(0),
            splits: AtomicIsize::new(0),
            budget: isize::try_from(budget).unwrap_or(isize::MAX),
        }
    }

    /// Places where neighbouring pages have different access now because of this gate: an estimate of the mappings that
    /// the gate costs.
    #[must_use]
    pub fn splits(&self) -> usize {
        usize::try_from(self.splits.load(Ordering::Relaxed)).unwrap_or(0)
    }

    fn count_splits(&self, before: usize, after: usize) {
        self.splits
            .fetch_add(after as isize - before as isize, Ordering::Relaxed);
    }
}

impl Default for MprotectGate {
    fn default() -> MprotectGate {
        MprotectGate::new()
    }
}

impl Gate for MprotectGate {
    fn apply(&self, addr: usize, len: usize, access: Access) -> Result<(), GateError> {
        self.restrict(addr, len, access, &|| false)
    }

    fn restrict(
        &self,
        addr: usize,
        len: usize,
        access: Access,
        in_use: &dyn Fn() -> bool,
    ) -> Result<(), GateError> {
        let found = pages::survey(addr, len, access).map_err(range)?;
        if len == 0 || found.uniform == Some(access) {
            return Ok(());
        }
        if access == Access::ReadWrite && found.open {
            // Nothing has restricted this memory: only the page table has to learn that it is tracked.
            return pages::set(addr, len, Some(access)).map_err(GateError::Os);
        }
        let more = found.seams_after as isize - found.seams as isize;
        if access != Access::ReadWrite
            && more > 0
            && self.splits.load(Ordering::Relaxed) + more > self.budget
        {
            return Err(GateError::VmaBudget);
        }
        // Lower the table, change the protection, raise the table: see the module's documentation.
        pages::lower(addr, len, access).map_err(GateError::Os)?;
        if in_use() {
            // Only the kernel knows what protection the pages have; `doubt` makes the next change call `mprotect`
            // again.
            pages::doubt(addr, len).map_err(GateError::Os)?;
            let now = pages::survey(addr, len, access).map_or(found.seams, |s| s.seams);
            self.count_splits(found.seams, now);
            return Err(GateError::InUse);
        }
        let flags = match access {
            Access::None => MprotectFlags::empty(),
            Access::Read => MprotectFlags::READ,
            Access::ReadWrite => MprotectFlags::READ | MprotectFlags::WRITE,
        };
        // SAFETY: the range is memory of a live allocation (the caller's contract), to which no Rust reference exists;
        // the fault service answers every access to it by the program.
        let changed = unsafe { rustix::mm::mprotect(addr as *mut _, len, flags) };
        // A range with unmapped pages may be made readable: an access to an unmapped page need not be trapped. Results
        // there are copied to the host before their call returns.
        if changed == Err(Errno::NOMEM)
            && access != Access::None
            && change_what_is_there(addr, len, access, flags)
        {
            let now = pages::survey(addr, len, access).map_or(found.seams, |s| s.seams);
            self.count_splits(found.seams, now);
            return Ok(());
        }
        if let Err(error) = changed {
            // The kernel may have changed a part of the range. `lower` has allocated the table's leaves, so `doubt`
            // cannot fail.
            let _ = pages::doubt(addr, len);
            let now = pages::survey(addr, len, access).map_or(found.seams, |s| s.seams);
            self.count_splits(found.seams, now);
            return Err(GateError::Os(error));
        }
        pages::set(addr, len, Some(access)).map_err(GateError::Os)?;
        self.count_splits(found.seams, found.seams_after);
        if access == Access::None {
            self.closes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn forget(&self, addr: usize, len: usize) {
        // A page that is not in the table counts as accessible, so the seams left are those of an accessible range.
        if let Ok(found) = pages::survey(addr, len, Access::ReadWrite)
            && pages::set(addr, len, None).is_ok()
        {
            self.count_splits(found.seams, found.seams_after);
        }
    }

    fn traps(&self) -> bool {
        true
    }

    fn closes(&self) -> u64 {
        self.closes.load(Ordering::Relaxed)
    }
}

/// Changes a range page by page, after the program has unmapped some of its pages without a hooked libc call: those
/// leave the page table. Returns whether there are such pages and all others were changed.
fn change_what_is_there(addr: usize, len: usize, access: Access, flags: MprotectFlags) -> bool {
    let page = pages::page_size();
    let mut gone = false;
    let all = (addr..addr + len).step_by(page).all(|at| {
        // SAFETY: as for the whole range.
        let now = match unsafe { rustix::mm::mprotect(at as *mut _, page, flags) } {
            Ok(()) => Some(access),
            Err(Errno::NOMEM) if !mapped_at(at) => None,
            Err(_) => return false,
        };
        gone |= now.is_none();
        pages::set(at, page, now).is_ok()
    });
    all && gone
}

/// Whether a page is mapped at this address: `mprotect` fails with `ENOMEM` also where splitting a mapping fails.
fn mapped_at(at: usize) -> bool {
    let advice = rustix::mm::Advice::Normal;
    // SAFETY: `MADV_NORMAL` changes no contents.
    let advised = unsafe { rustix::mm::madvise(at as *mut _, pages::page_size(), advice) };
    advised != Err(Errno::NOMEM)
}

fn range(_: Errno) -> GateError {
    GateError::Range
}

/// Mappings left to the program: at the limit not even its heap can grow.
const SPARE_MAPPINGS: usize = 1024;

/// Mappings that the process has now; 0 if `/proc/self/maps` cannot be read. Allocates nothing.
#[must_use]
pub fn mapped() -> usize {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(c"/proc/self/maps", flags, Mode::empty()) else {
        return 0;
    };
    let (mut text, mut lines) = ([0u8; 4096], 0);
    loop {
        match rustix::io::read(&file, &mut text) {
            Ok(0) | Err(_) => return lines,
            Ok(n) => lines += text[..n].iter().filter(|c| **c == b'\n').count(),
        }
    }
}

/// The kernel's limit of mappings of a process. Allocates nothing.
#[must_use]
pub fn max_map_count() -> usize {
    let read = || -> Result<usize, Errno> {
        let file = rustix::fs::open(
            c"/proc/sys/vm/max_map_count",
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let mut text = [0u8; 32];
        let len = rustix::io::read(&file, &mut text)?;
        text.get(..len)
            .and_then(|t| std::str::from_utf8(t).ok())
            .and_then(|t| t.trim().parse().ok())
            .ok_or(Errno::INVAL)
    };
    read().unwrap_or(DEFAULT_MAP_COUNT)
}

#[cfg(test)]
mod tests {
    use super::super::apart;
    use super::*;
    use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    use std::num::NonZeroUsize;
    use std::ptr::NonNull;

    /// Maps new memory.
    ///
    /// # Safety
    /// With flags that say so, it replaces what is mapped there.
    unsafe fn map(at: usize, len: usize, flags: MapFlags) -> NonNull<core::ffi::c_void> {
        let (at, len) = (NonZeroUsize::new(at), NonZeroUsize::new(len).unwrap());
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the caller's promise.
        unsafe { mmap_anonymous(at, len, access, flags) }.unwrap()
    }

    fn pointer(addr: usize) -> NonNull<core::ffi::c_void> {
        NonNull::new(addr as *mut _).unwrap()
    }

    /// Fresh memory between two unmapped pages.
    struct Block {
        addr: usize,
        pages: usize,
    }

    impl Block {
        fn new(count: usize) -> Block {
            let len = (count + 2) * page();
            // SAFETY: a new mapping, of which the first and the last page are unmapped.
            unsafe {
                let base = map(apart(len).addr(), len, MapFlags::MAP_PRIVATE);
                munmap(base, page()).unwrap();
                munmap(base.byte_add(len - page()), page()).unwrap();
                Block {
                    addr: base.as_ptr() as usize + page(),
                    pages: count,
                }
            }
        }

        fn at(&self, index: usize) -> usize {
            self.addr + index * page()
        }

        /// The protection of each page according to the kernel: 'n', 'r' or 'w'.
        fn kernel(&self) -> String {
            let page = |i| match region::query(core::ptr::without_provenance::<u8>(self.at(i))) {
                Ok(r) if r.is_writable() => 'w',
                Ok(r) if r.is_readable() => 'r',
                Ok(_) => 'n',
                Err(why) => panic!("page {i}: {why}"),
            };
            (0..self.pages).map(page).collect()
        }

        fn table(&self) -> String {
            (0..self.pages)
                .map(|i| match pages::get(self.at(i)) {
                    None => '-',
                    Some(Access::None) => 'n',
                    Some(Access::Read) => 'r',
                    Some(Access::ReadWrite) => 'w',
                })
                .collect()
        }
    }

    impl Drop for Block {
        fn drop(&mut self) {
            pages::set(self.addr, self.pages * page(), None).unwrap();
            // SAFETY: a mapping of this test, to which no reference is left.
            unsafe { munmap(pointer(self.addr), self.pages * page()).unwrap() };
        }
    }

    fn page() -> usize {
        pages::page_size()
    }

    #[test]
    fn protection_and_table_agree() {
        let (gate, block) = (MprotectGate::new(), Block::new(6));
        let apply = |from: usize, count: usize, access| {
            gate.apply(block.at(from), count * page(), access).unwrap();
            block.table()
        };
        assert_eq!(apply(0, 6, Access::ReadWrite), "wwwwww");
        assert_eq!(apply(1, 4, Access::None), "wnnnnw");
        assert_eq!(block.kernel(), "wnnnnw");
        assert_eq!((gate.closes(), gate.splits()), (1, 2));
        assert_eq!(apply(1, 4, Access::None), "wnnnnw");
        assert_eq!(gate.closes(), 1, "nothing changed");
        assert_eq!(apply(2, 1, Access::ReadWrite), "wnwnnw");
        assert_eq!(gate.splits(), 4);
        assert_eq!(apply(3, 3, Access::Read), "wnwrrr");
        assert_eq!(block.kernel(), "wnwrrr");
        // The access at the right end now differs from that of the page beyond, which is untracked and counts as
        // accessible.
        assert_eq!(gate.splits(), 4);
        assert_eq!(apply(0, 6, Access::None), "nnnnnn");
        assert_eq!((gate.closes(), gate.splits()), (2, 2));
        assert_eq!(apply(0, 6, Access::ReadWrite), "wwwwww");
        assert_eq!(block.kernel(), "wwwwww");
        assert_eq!((gate.closes(), gate.splits()), (2, 0));
        assert_eq!(apply(0, 0, Access::None), "wwwwww");
        assert!(gate.traps());
    }

    #[test]
    fn the_budget_refuses_to_split_and_never_to_open() {
        let (gate, block) = (MprotectGate::with_budget(4), Block::new(8));
        let apply =
            |from: usize, count: usize, access| gate.apply(block.at(from), count * page(), access);
        apply(1, 1, Access::None).unwrap();
        apply(3, 1, Access::None).unwrap();
        assert_eq!(apply(5, 1, Access::None), Err(GateError::VmaBudget));
        assert_eq!(block.table(), "-n-n----");
        assert_eq!(block.kernel(), "wnwnwwww");
        // Filling the gap needs no split.
        apply(2, 1, Access::None).unwrap();
        apply(5, 1, Access::Read).unwrap();
        apply(2, 1, Access::ReadWrite).unwrap();
        assert_eq!(gate.splits(), 6);
        assert_eq!(gate.closes(), 3);
        gate.forget(block.addr, 8 * page());
        assert_eq!(gate.splits(), 0);
        assert_eq!(block.table(), "--------");
        apply(0, 8, Access::None).unwrap();
        gate.apply(block.addr, 8 * page(), Access::ReadWrite)
            .unwrap();
        // `forget` leaves protections alone, and memory that was never restricted needs no `mprotect`.
        assert_eq!(block.kernel(), "wwwwwwww");
    }

    #[test]
    fn a_failure_leaves_doubt_which_is_never_skipped() {
        let (gate, block) = (MprotectGate::new(), Block::new(4));
        // SAFETY: a page of this test's mapping.
        unsafe { munmap(pointer(block.at(2)), page()).unwrap() };
        let whole = |access| gate.apply(block.addr, 4 * page(), access);
        assert_eq!(whole(Access::None), Err(GateError::Os(Errno::NOMEM)));
        assert_eq!(block.table(), "nnnn");
        // The kernel has made only the pages before the hole inaccessible. At the next change the gate does not trust
        // the table, and does not when it makes pages accessible either.
        assert_eq!(whole(Access::None), Err(GateError::Os(Errno::NOMEM)));
        gate.apply(block.addr, 2 * page(), Access::ReadWrite)
            .unwrap();
        gate.apply(block.at(3), page(), Access::ReadWrite).unwrap();
        assert_eq!(block.table(), "wwnw");
        gate.forget(block.at(2), page());
        assert_eq!(gate.splits(), 0);
        assert_eq!(gate.closes(), 0);
        // SAFETY: a new mapping in the hole made above.
        unsafe {
            let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED_NOREPLACE;
            map(block.at(2), page(), flags);
        }
        assert_eq!(block.kernel(), "wwww");
    }

    #[test]
    fn ranges_that_are_not_pages_are_refused() {
        let gate = MprotectGate::new();
        for (addr, len) in [(1, page()), (page(), 1), (usize::MAX - page() + 1, page())] {
            assert_eq!(gate.apply(addr, len, Access::None), Err(GateError::Range));
        }
    }

    #[test]
    fn the_limit_of_mappings_is_read() {
        assert!(max_map_count() >= 1000);
    }
}
