#![expect(
    unsafe_code,
    reason = "leaves of the table are mapped memory, reached by raw pointers"
)]
//! Page table of the fault path: what is known of every page of the 47-bit address space, wait-free to read.
//!
//! Two levels: a static array with one pointer per GiB, and leaves of one [`PageByte`] per page, mapped without reserve
//! when first written and never freed, so that a reader in a signal handler needs neither lock nor reference count.
//! Untouched parts of both levels cost no memory.
//!
//! A page that semcache stops tracking stays in the table as accessible ([`Access::ReadWrite`]), so that a late fault
//! on it is retried; only memory that is freed or unmapped becomes untracked.
//!
//! Readers may run on any thread at any time. Callers serialise writers of *overlapping* ranges.

use crate::page::{Access, PageByte};
use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

const ADDRESS_BITS: u32 = 47;
const LEAF_BITS: u32 = 30;
const LEAF_SPAN: usize = 1 << LEAF_BITS;
const LEAVES: usize = 1 << (ADDRESS_BITS - LEAF_BITS);

static ROOT: [AtomicPtr<PageByte>; LEAVES] = [const { AtomicPtr::new(ptr::null_mut()) }; LEAVES];
/// log2 of the page size; 0 until the first use outside a handler.
static PAGE_SHIFT: AtomicU32 = AtomicU32::new(0);
static CHANGES: AtomicUsize = AtomicUsize::new(0);
/// The first GiB that has a leaf, and the first behind the last one.
static FIRST: AtomicUsize = AtomicUsize::new(LEAVES);
static BEHIND: AtomicUsize = AtomicUsize::new(0);

/// The size of a page in bytes. The first call asks the system and must not come from a signal handler.
#[must_use]
pub fn page_size() -> usize {
    1 << shift()
}

fn shift() -> u32 {
    let known = PAGE_SHIFT.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let shift = rustix::param::page_size().trailing_zeros();
    PAGE_SHIFT.store(shift, Ordering::Relaxed);
    shift
}

/// Number of writes to the table, each of which counts before it changes the first page, and again behind the last one: while it stays the
/// same, no page changes but those of a write that was under way when it was read. The fault handler compares it to tell a lost race, which
/// always comes with a write, from a page that the program itself protected.
#[must_use]
pub fn changes() -> usize {
    CHANGES.load(Ordering::Acquire)
}

/// What is known of the page of `addr`; `None` if the page is untracked. Wait-free, for the signal handler.
#[must_use]
pub fn get(addr: usize) -> Option<Access> {
    let shift = PAGE_SHIFT.load(Ordering::Relaxed);
    let leaf = ROOT.get(addr >> LEAF_BITS)?.load(Ordering::Acquire);
    if shift == 0 || leaf.is_null() {
        return None;
    }
    // SAFETY: a non-null entry of ROOT is a leaf of LEAF_SPAN >> shift bytes that is never unmapped, and
    // the index is smaller than that.
    unsafe { &*leaf.add((addr % LEAF_SPAN) >> shift) }.get()
}

/// The addresses from the first to the last GiB of which any page was ever tracked: [`get`] is `None` for all others.
#[must_use]
#[inline]
pub fn extent() -> Range<usize> {
    let (first, behind) = (
        FIRST.load(Ordering::Relaxed),
        BEHIND.load(Ordering::Relaxed),
    );
    first << LEAF_BITS..behind << LEAF_BITS
}

/// Sets what is known of the pages of `[start, start + len)`; `None` means untracked.
///
/// # Errors
/// `EINVAL` for a range that is not whole pages of the 47-bit space, the error of `mmap` (`ENOMEM`) if a leaf cannot be
/// mapped; then pages before that leaf may be set already.
pub fn set(start: usize, len: usize, access: Option<Access>) -> Result<(), Errno> {
    change(start, len, access.is_some(), |page| page.set(access))
}

/// Restricts what is known of the pages to `access`; untracked pages count as accessible. To be called before the
/// protection itself is restricted.
///
/// # Errors
/// As [`set`].
pub fn lower(start: usize, len: usize, access: Access) -> Result<(), Errno> {
    change(start, len, true, |page| page.lower(access))
}

/// Marks the protection of the pages as unknown: a fault on them is posted, and [`survey`] finds them equal to no
/// access.
///
/// # Errors
/// As [`set`].
pub fn doubt(start: usize, len: usize) -> Result<(), Errno> {
    change(start, len, true, PageByte::doubt)
}

fn change(start: usize, len: usize, map: bool, write: impl Fn(&PageByte)) -> Result<(), Errno> {
    check(start, len)?;
    CHANGES.fetch_add(1, Ordering::AcqRel);
    let changed = each_leaf(start, len, |gib, first, last| {
        let Some(leaf) = leaf(gib, map)? else {
            return Ok(());
        };
        for index in first..last {
            // SAFETY: `leaf` has LEAF_SPAN >> shift bytes, is never unmapped, and `last` is at most that.
            write(unsafe { &*leaf.add(index) });
        }
        Ok(())
    });
    CHANGES.fetch_add(1, Ordering::AcqRel);
    changed
}

/// What [`survey`] finds in a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Survey {
    /// Every page has exactly this access.
    pub uniform: Option<Access>,
    /// No page is restricted: each is accessible or untracked.
    pub open: bool,
    /// Places where two neighbouring pages differ, the two ends of the range included.
    pub seams: usize,
    /// The number of such places if the whole range had the access asked about.
    pub seams_after: usize,
}

/// Compares the pages of `[start, start + len)` with each other, with their neighbours, and with `access`.
///
/// # Errors
/// `EINVAL` as in [`set`].
pub fn survey(start: usize, len: usize, access: Access) -> Result<Survey, Errno> {
    check(start, len)?;
    let outside = |addr: usize| opened(raw(addr));
    // Page 0 and the end of the address space have no neighbour, which then counts as accessible.
    let before = start
        .checked_sub(page_size())
        .map_or(Access::ReadWrite as u8, outside);
    let after = outside(start + len);
    let (mut seams, mut previous, mut same, mut open) = (0, before, true, true);
    let mut look = |byte: u8| {
        same &= byte == access as u8;
        open &= byte == 0 || byte == Access::ReadWrite as u8;
        seams += usize::from(opened(byte) != previous);
        previous = opened(byte);
    };
    each_leaf(start, len, |gib, first, last| {
        match leaf(gib, false)? {
            // SAFETY: as in `change`.
            Some(leaf) => (first..last).for_each(|i| look(unsafe { &*leaf.add(i) }.raw())),
            None => look(0),
        }
        Ok(())
    })?;
    seams += usize::from(after != previous);
    let target = access as u8;
    Ok(Survey {
        uniform: same.then_some(access),
        open,
        seams,
        seams_after: if len == 0 {
            seams
        } else {
            usize::from(before != target) + usize::from(after != target)
        },
    })
}

/// Calls `f(start, end, access)` for each run of neighbouring pages of `[start, start + len)` with the same access, in
/// ascending order. Untracked pages, and pages whose protection is unknown, count as accessible.
///
/// # Errors
/// `EINVAL` as in [`set`].
pub fn runs(
    start: usize,
    len: usize,
    mut f: impl FnMut(usize, usize, Access),
) -> Result<(), Errno> {
    check(start, len)?;
    let (shift, mut run) = (shift(), None);
    // The byte of the page before. Most pages have the same, and this loop is the whole cost of a range of many pages.
    let mut before = None;
    each_leaf(start, len, |gib, first, last| {
        let mut look = |index: usize, byte: u8| {
            if before.replace(byte) == Some(byte) {
                return;
            }
            let access = match byte {
                1 => Access::None,
                2 => Access::Read,
                _ => Access::ReadWrite,
            };
            let at = (gib << LEAF_BITS) + (index << shift);
            if run.is_none_or(|(_, known)| known != access)
                && let Some((from, known)) = run.replace((at, access))
            {
                f(from, at, known);
            }
        };
        match leaf(gib, false)? {
            // SAFETY: as in `change`.
            Some(leaf) => (first..last).for_each(|i| look(i, unsafe { &*leaf.add(i) }.raw())),
            None => look(first, 0),
        }
        Ok(())
    })?;
    if let Some((from, known)) = run {
        f(from, start + len, known);
    }
    Ok(())
}

/// An untracked page counts as accessible.
const fn opened(byte: u8) -> u8 {
    if byte == 0 {
        Access::ReadWrite as u8
    } else {
        byte
    }
}

fn raw(addr: usize) -> u8 {
    let leaf = ROOT
        .get(addr >> LEAF_BITS)
        .map_or(ptr::null_mut(), |l| l.load(Ordering::Acquire));
    if leaf.is_null() {
        return 0;
    }
    // SAFETY: as in `get`.
    unsafe { &*leaf.add((addr % LEAF_SPAN) >> shift()) }.raw()
}

fn check(start: usize, len: usize) -> Result<(), Errno> {
    let mask = page_size() - 1;
    let end = start.checked_add(len).ok_or(Errno::INVAL)?;
    if (start | len) & mask != 0 || end > 1 << ADDRESS_BITS {
        return Err(Errno::INVAL);
    }
    Ok(())
}

/// Calls `f(gib, first page, end page)` for the part of the range in each GiB.
fn each_leaf(
    start: usize,
    len: usize,
    mut f: impl FnMut(usize, usize, usize) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let (shift, end) = (shift(), start + len);
    let mut at = start;
    while at < end {
        let gib = at >> LEAF_BITS;
        let stop = end.min((gib + 1) << LEAF_BITS);
        let base = gib << LEAF_BITS;
        f(gib, (at - base) >> shift, (stop - base) >> shift)?;
        at = stop;
    }
    Ok(())
}

/// The leaf of a GiB; mapped now if `map` says so.
fn leaf(gib: usize, map: bool) -> Result<Option<*const PageByte>, Errno> {
    let entry = ROOT.get(gib).ok_or(Errno::INVAL)?;
    let found = entry.load(Ordering::Acquire);
    if !found.is_null() {
        return Ok(Some(found));
    }
    if !map {
        return Ok(None);
    }
    let bytes = LEAF_SPAN >> shift();
    // SAFETY: a new anonymous mapping at an address of the kernel's choice disturbs nothing. It is zeroed, and the zero
    // byte is a valid `PageByte`, which is a transparent `AtomicU8`.
    let fresh = unsafe {
        mmap_anonymous(
            ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    }?
    .cast::<PageByte>();
    // Before the leaf can be found.
    FIRST.fetch_min(gib, Ordering::Relaxed);
    BEHIND.fetch_max(gib + 1, Ordering::Relaxed);
    match entry.compare_exchange(ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(Some(fresh)),
        Err(winner) => {
            // SAFETY: the mapping made just above, whose address no other thread has.
            let _ = unsafe { munmap(fresh.cast(), bytes) };
            Ok(Some(winner))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A corner of the address space of its own for each test: nothing is mapped or touched there.
    fn corner(n: usize) -> usize {
        (1 << 46) + n * (16 << LEAF_BITS)
    }

    #[test]
    fn runs_are_whole_and_of_one_access() {
        // The range begins in a leaf that is never mapped.
        let (gib, page) = (1 << LEAF_BITS, page_size());
        let at = corner(9) + gib;
        set(at + page, 2 * page, Some(Access::None)).unwrap();
        set(at + 3 * page, page, Some(Access::Read)).unwrap();
        doubt(at + 4 * page, page).unwrap();
        let (mut found, mut count) = ([(0, 0, Access::None); 4], 0);
        runs(at - gib, 2 * gib, |from, to, access| {
            found[count] = (from, to, access);
            count += 1;
        })
        .unwrap();
        let (shut, shown, open) = (Access::None, Access::Read, Access::ReadWrite);
        let expected = [
            (at - gib, at + page, open),
            (at + page, at + 3 * page, shut),
            (at + 3 * page, at + 4 * page, shown),
            (at + 4 * page, at + gib, open),
        ];
        assert_eq!((found, count), (expected, 4));
        runs(at, 0, |_, _, _| panic!("no page")).unwrap();
        assert!(runs(at + 1, page, |_, _, _| ()).is_err());
    }

    #[test]
    fn unknown_until_set_and_after() {
        let (at, page) = (corner(0), page_size());
        assert_eq!(get(at), None);
        set(at + page, page, Some(Access::None)).unwrap();
        assert!(extent().contains(&at) && !extent().contains(&0));
        assert_eq!(get(at + page - 1), None);
        assert_eq!(get(at + page), Some(Access::None));
        assert_eq!(get(at + 2 * page - 1), Some(Access::None));
        assert_eq!(get(at + 2 * page), None);
        set(at, 3 * page, Some(Access::ReadWrite)).unwrap();
        assert_eq!(get(at), Some(Access::ReadWrite));
        set(at, 3 * page, None).unwrap();
        assert_eq!(get(at + page), None);
        set(at, 0, Some(Access::Read)).unwrap();
        assert_eq!(get(at), None);
    }

    #[test]
    fn a_range_may_span_leaves() {
        let (at, page) = (corner(1), page_size());
        let start = at + LEAF_SPAN - page;
        set(start, LEAF_SPAN + 2 * page, Some(Access::Read)).unwrap();
        for (addr, expected) in [
            (start - 1, None),
            (start, Some(Access::Read)),
            (at + LEAF_SPAN, Some(Access::Read)),
            (at + 2 * LEAF_SPAN, Some(Access::Read)),
            (at + 2 * LEAF_SPAN + page - 1, Some(Access::Read)),
            (at + 2 * LEAF_SPAN + page, None),
        ] {
            assert_eq!(get(addr), expected, "{addr:#x}");
        }
        let s = survey(start, LEAF_SPAN + 2 * page, Access::Read).unwrap();
        assert_eq!(
            (s.uniform, s.seams, s.seams_after),
            (Some(Access::Read), 2, 2)
        );
    }

    #[test]
    fn bad_ranges_are_refused() {
        let page = page_size();
        for (start, len) in [
            (1, page),
            (page, page - 1),
            ((1 << 47) - page, 2 * page),
            (usize::MAX - page + 1, page),
        ] {
            assert_eq!(set(start, len, Some(Access::None)), Err(Errno::INVAL));
        }
        set((1 << 47) - page, page, Some(Access::None)).unwrap();
        assert_eq!(get((1 << 47) - 1), Some(Access::None));
        assert_eq!(get(1 << 47), None);
        assert_eq!(get(usize::MAX), None);
        assert_eq!(
            survey((1 << 47) - page, page, Access::Read).unwrap().seams,
            2
        );
        set((1 << 47) - page, page, None).unwrap();
    }

    #[test]
    fn lowering_never_raises_and_doubt_equals_nothing() {
        let (at, page) = (corner(2), page_size());
        set(at, page, Some(Access::None)).unwrap();
        set(at + page, page, Some(Access::ReadWrite)).unwrap();
        lower(at, 3 * page, Access::Read).unwrap();
        assert_eq!(get(at), Some(Access::None));
        assert_eq!(get(at + page), Some(Access::Read));
        assert_eq!(get(at + 2 * page), Some(Access::Read));
        doubt(at, page).unwrap();
        lower(at, page, Access::None).unwrap();
        assert_eq!(get(at), Some(Access::None));
        let s = survey(at, page, Access::None).unwrap();
        assert_eq!((s.uniform, s.open), (None, false));
    }

    #[test]
    fn seams_count_both_ends() {
        let (at, page) = (corner(3), page_size());
        let seen = |start: usize, pages: usize, access| {
            let s = survey(at + start * page, pages * page, access).unwrap();
            (s.seams, s.seams_after)
        };
        assert_eq!(seen(4, 4, Access::None), (0, 2));
        set(at + 4 * page, 4 * page, Some(Access::None)).unwrap();
        assert_eq!(seen(4, 4, Access::None), (2, 2));
        assert_eq!(seen(5, 1, Access::ReadWrite), (0, 2));
        set(at + 5 * page, page, Some(Access::ReadWrite)).unwrap();
        assert_eq!(seen(4, 4, Access::ReadWrite), (4, 0));
        assert_eq!(seen(3, 6, Access::None), (4, 2));
        assert_eq!(seen(8, 1, Access::None), (1, 1));
    }
}
