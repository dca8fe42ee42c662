#![expect(unsafe_code, reason = "maps, protects and moves pages")]
//! System calls that map, protect and discard pages. They are made directly, because the preloaded library hooks libc's
//! functions of these names.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use once_cell::race::OnceBool;
use rustix::fs::{Mode, OFlags, open as open_file};
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{self, Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags};
use semcache_fault::probe::Probe;

/// A huge page.
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// `MADV_COLLAPSE` (Linux 6.1), which rustix does not name.
const MADV_COLLAPSE: i32 = 25;

pub(super) fn at(addr: usize) -> *mut c_void {
    ptr::with_exposed_provenance_mut(addr)
}

/// The page size, read from the auxiliary vector by libc: rustix's own reader may allocate, and this function is called
/// from inside the allocators.
pub(super) fn page_size() -> usize {
    static CACHED: AtomicUsize = AtomicUsize::new(0);
    match CACHED.load(Relaxed) {
        0 => {
            // SAFETY: getauxval reads a vector that the kernel left behind; no preconditions.
            let page = unsafe { libc::getauxval(libc::AT_PAGESZ) } as usize;
            CACHED.store(page, Relaxed);
            page
        }
        page => page,
    }
}

/// The pages that contain `len` bytes, in bytes; `None` if that overflows.
pub(super) fn whole_pages(len: usize) -> Option<usize> {
    let mask = page_size() - 1;
    Some(len.checked_add(mask)? & !mask)
}

/// Reserves address space without memory. Not with MAP_NORESERVE: an inaccessible private mapping is not charged to the
/// process anyway, and memory must be charged when it is made accessible later, so that absurd requests fail as they do
/// in glibc.
pub(super) fn reserve(len: usize) -> Option<usize> {
    // SAFETY: no address is asked for, so nothing existing changes.
    unsafe { mm::mmap_anonymous(ptr::null_mut(), len, ProtFlags::empty(), MapFlags::PRIVATE) }
        .ok()
        .map(|p| p.expose_provenance())
}

/// Maps zeroed memory for tables, which gets physical pages as it is touched.
pub(super) fn map_table(len: usize) -> Option<usize> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: no address is asked for, so nothing existing changes.
    unsafe {
        mm::mmap_anonymous(
            ptr::null_mut(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            flags,
        )
    }
    .ok()
    .map(|p| p.expose_provenance())
}

/// Makes reserved pages readable and writable; their contents are zero at the first touch.
///
/// # Safety
/// The pages are reserved by this module, and no other thread uses them.
pub(super) unsafe fn open(addr: usize, len: usize) -> bool {
    // SAFETY: only widens access to pages that the caller owns.
    unsafe { mm::mprotect(at(addr), len, MprotectFlags::READ | MprotectFlags::WRITE) }.is_ok()
}

/// Reserves a hole in the reserved range again, unless another mapping lies there meanwhile.
pub(super) fn plug(addr: usize, len: usize) -> bool {
    let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: NOREPLACE never changes an existing mapping.
    match unsafe { mm::mmap_anonymous(at(addr), len, ProtFlags::empty(), flags) } {
        Ok(p) if p.addr() == addr => true,
        Ok(p) => {
            // A kernel before 4.17 took the address as a hint.
            // SAFETY: mapped one line above, and no other thread knows of it.
            let _ = unsafe { mm::munmap(p, len) };
            false
        }
        Err(_) => false,
    }
}

/// Unmaps.
///
/// # Safety
/// The caller owns the pages, and nothing refers to them.
pub(super) unsafe fn unmap(addr: usize, len: usize) {
    // SAFETY: the caller's promise.
    let _ = unsafe { mm::munmap(at(addr), len) };
}

/// Resizes a mapping, in place or, if it `may_move`, anywhere.
///
/// # Safety
/// The caller owns the whole mapping, and no longer uses its old address if the mapping moves.
pub(super) unsafe fn remap(addr: usize, old: usize, new: usize, may_move: bool) -> Option<usize> {
    let flags = if may_move {
        MremapFlags::MAYMOVE
    } else {
        MremapFlags::empty()
    };
    // SAFETY: the caller's promise.
    unsafe { mm::mremap(at(addr), old, new, flags) }
        .ok()
        .map(|p| p.expose_provenance())
}

/// Requests huge pages for these bytes from now on. Advice: an error changes nothing but speed.
pub(super) fn advise_huge(addr: usize, len: usize) {
    // SAFETY: changes no contents and no access.
    let _ = unsafe { mm::madvise(at(addr), len, Advice::LinuxHugepage) };
}

/// Collapses present pages into huge ones now. Advice: an old kernel, or pinned pages, make the call fail without
/// effect.
pub(super) fn collapse(addr: usize, len: usize) {
    keeping_errno(|| {
        // SAFETY: changes no contents and no access, as seen by any thread.
        let _ = unsafe { libc::syscall(libc::SYS_madvise, at(addr), len, MADV_COLLAPSE) };
    });
}

/// Whether all pages of a range of at most one huge page are present in memory. One system call: 0.4 us, or 1 us if the
/// pages are small ones.
pub(super) fn present(addr: usize, len: usize) -> bool {
    const MOST: usize = HUGE_PAGE / 4096;
    let mut seen = [0u8; MOST];
    let pages = len.div_ceil(page_size());
    if pages > MOST {
        return false;
    }
    let mut known = false;
    keeping_errno(|| {
        // SAFETY: the kernel checks the address and writes one byte per page, for which there is room.
        known = unsafe { libc::syscall(libc::SYS_mincore, at(addr), len, seen.as_mut_ptr()) } == 0;
    });
    known && seen[..pages].iter().all(|page| page & 1 == 1)
}

/// Makes pages present for writing (Linux 5.14) without changing their contents. False if the kernel cannot.
pub(super) fn populate(addr: usize, len: usize) -> bool {
    // Not by libc's `syscall`: that is hooked, and the hook would make protected pages accessible.
    // SAFETY: changes no contents and no access; the kernel checks the address.
    unsafe { mm::madvise(at(addr), len, Advice::LinuxPopulateWrite) }.is_ok()
}

/// Whether the calling thread could read, or write, each of these pages now: the kernel faults them in as an access
/// would, but returns an error instead of raising a signal (Linux 5.14). `None` on an older kernel.
pub(super) fn touch(addr: usize, len: usize, write: bool) -> Option<bool> {
    let advice = if write {
        Advice::LinuxPopulateWrite
    } else {
        Advice::LinuxPopulateRead
    };
    loop {
        // SAFETY: changes no contents and no access; the kernel checks the address.
        match unsafe { mm::madvise(at(addr), len, advice) } {
            Ok(()) => return Some(true),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::INVAL) if !touches() => return None,
            Err(_) => return Some(false),
        }
    }
}

/// Whether the kernel knows the advice of [`touch`], which is tried on a page that is certainly readable.
fn touches() -> bool {
    static KNOWN: OnceBool = OnceBool::new();
    KNOWN.get_or_init(|| {
        let own = (&raw const KNOWN).addr() & !(page_size() - 1);
        // SAFETY: as above.
        unsafe { mm::madvise(at(own), page_size(), Advice::LinuxPopulateRead) }.is_ok()
    })
}

/// The text of /proc/self/maps.
pub(super) fn mappings() -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = open_file(c"/proc/self/maps", flags, Mode::empty()).ok()?;
    let (mut text, mut part) = (Vec::new(), [0u8; 4096]);
    loop {
        match retry_on_intr(|| rustix::io::read(&file, &mut part)).ok()? {
            0 => return String::from_utf8(text).ok(),
            n => text.extend_from_slice(&part[..n]),
        }
    }
}

/// Milliseconds of a monotonic clock, for ages; never 0. Read from the vDSO by libc's `clock_gettime`, which semcache
/// does not hook.
pub(super) fn now_ms() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a valid place.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut t) };
    (t.tv_sec as u64 * 1000 + t.tv_nsec as u64 / 1_000_000).max(1)
}

/// The word at `addr`, or `None` if there is no readable memory.
///
/// The kernel is asked by a call that reads a signal set and then refuses to use it (absl's AddressIsReadable does the
/// same): 0.1 us, where process_vm_readv takes 2.
pub(super) fn peek(addr: usize) -> Option<u64> {
    match semcache_fault::probe::look(addr) {
        Probe::Word(word) => return Some(word),
        Probe::Nothing => return None,
        Probe::Unable => {}
    }
    let mut readable = false;
    keeping_errno(|| {
        let (no_such_action, nowhere) = (-1i32, ptr::null_mut::<c_void>());
        // SAFETY: the kernel checks the address; an unknown action changes no mask.
        let rc = unsafe {
            libc::syscall(
                libc::SYS_rt_sigprocmask,
                no_such_action,
                at(addr),
                nowhere,
                8usize,
            )
        };
        // SAFETY: errno's address is valid for this thread.
        readable = rc == -1 && unsafe { *libc::__errno_location() } == libc::EINVAL;
    });
    // SAFETY: readable one call ago. Only a program that frees memory in the middle of a call on it could
    // change that.
    readable.then(|| unsafe { ptr::with_exposed_provenance::<u64>(addr).read_volatile() })
}

/// Runs code that may set errno, inside functions whose callers rely on errno.
fn keeping_errno(f: impl FnOnce()) {
    // SAFETY: errno's address is valid for this thread.
    let saved = unsafe { *libc::__errno_location() };
    f();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = saved };
}

/// Sets errno and returns null, as malloc does on failure.
pub(super) fn out_of_memory<T>() -> *mut T {
    // SAFETY: errno's address is valid for this thread.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    ptr::null_mut()
}

/// The most address space that the process may map; `None` if there is no limit.
pub(super) fn address_space_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::As).current
}

/// Types for which all-zero bytes are a valid value.
///
/// # Safety
/// All-zero bytes must be a valid value of the type.
pub(super) unsafe trait Zeroed: Copy {}
// SAFETY: zero is a number.
unsafe impl Zeroed for u32 {}

/// A fixed-size array in its own mapping, zero at first, with physical pages as it is touched: it can be used inside
/// malloc.
pub(super) struct Table<T> {
    base: *mut T,
    len: usize,
}

// SAFETY: the table owns its mapping; a thread shares the table only by the rules of the type that holds it.
unsafe impl<T: Send> Send for Table<T> {}

impl<T: Zeroed> Table<T> {
    /// The empty table.
    pub(super) const fn none() -> Self {
        Self {
            base: ptr::null_mut(),
            len: 0,
        }
    }

    /// Maps room for `len` elements.
    pub(super) fn map(len: usize) -> Option<Self> {
        let base = map_table(whole_pages(len.checked_mul(size_of::<T>())?)?)?;
        Some(Self {
            base: ptr::with_exposed_provenance_mut(base),
            len,
        })
    }

    /// Returns the memory to the system.
    pub(super) fn unmap(self) {
        if let Some(bytes) = whole_pages(self.len * size_of::<T>()).filter(|b| *b > 0) {
            // SAFETY: the table's own mapping, and `self` was the only way to it.
            unsafe { unmap(self.base.expose_provenance(), bytes) };
        }
    }

    pub(super) fn all(&self) -> &[T] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: `len` elements are mapped, all-zero is a value, and only `&mut self` writes.
        unsafe { core::slice::from_raw_parts(self.base, self.len) }
    }

    pub(super) fn all_mut(&mut self) -> &mut [T] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: as in `all`, and `&mut self` is exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.base, self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding() {
        let page = page_size();
        assert_eq!(whole_pages(0), Some(0));
        assert_eq!(whole_pages(1), Some(page));
        assert_eq!(whole_pages(page), Some(page));
        assert_eq!(whole_pages(page + 1), Some(2 * page));
        assert_eq!(whole_pages(usize::MAX), None);
    }

    #[test]
    fn peek_sees_what_is_there() {
        let word = 0x1234_5678_9abc_def0u64;
        assert_eq!(peek((&raw const word).addr()), Some(word));
        let page = page_size();
        let hole = reserve(page).expect("maps");
        assert_eq!(peek(hole), None);
        // SAFETY: reserved above.
        unsafe { unmap(hole, page) };
    }

    #[test]
    fn plug_never_replaces() {
        let page = page_size();
        let room = reserve(page).expect("maps");
        assert!(!plug(room, page));
        // SAFETY: reserved above.
        unsafe { unmap(room, page) };
        assert!(plug(room, page));
        // SAFETY: plugged above.
        unsafe { unmap(room, page) };
    }
}
