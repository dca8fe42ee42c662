//! Hooks of `malloc` and its family.
//!
//! If the process has another allocator (jemalloc, tcmalloc, mimalloc, a sanitizer's), that is, if the next `malloc` in
//! load order is not glibc's, every call is passed on to that allocator: a block must be freed by the allocator that
//! served it. The look-up of the next `malloc` may itself allocate, in the dynamic linker; such requests are served
//! from `SPARE`.

#![expect(unsafe_code, reason = "exports libc functions")]

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use super::real::{errno, real, set_errno};
use semcache::host::heap;

const UNKNOWN: u8 = 0;
const ASKING: u8 = 1;
const GLIBC: u8 = 2;
const FOREIGN: u8 = 3;

/// Which allocator owns the process's heap.
static OWNER: AtomicU8 = AtomicU8::new(UNKNOWN);

#[inline]
fn owner() -> u8 {
    match OWNER.load(Ordering::Acquire) {
        UNKNOWN => ask(),
        known => known,
    }
}

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
}

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Calloc = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Usable = unsafe extern "C" fn(*mut c_void) -> usize;
type Trim = unsafe extern "C" fn(usize) -> c_int;

#[cold]
fn ask() -> u8 {
    if OWNER
        .compare_exchange(UNKNOWN, ASKING, Ordering::AcqRel, Ordering::Acquire)
        .is_err()
    {
        return OWNER.load(Ordering::Acquire);
    }
    // glibc exports one function under both names.
    let next = next_malloc().map_or(0, |f| f as usize);
    let found = if next == 0 || next == __libc_malloc as *const () as usize {
        GLIBC
    } else {
        // Looked up while requests are served from `SPARE`, so that these look-ups need no allocator later.
        let _ = (next_calloc(), next_realloc(), next_free());
        heap::leave_to_another();
        FOREIGN
    };
    if found == GLIBC {
        semcache::runtime::init::configure_memory();
    }
    OWNER.store(found, Ordering::Release);
    found
}

fn next_malloc() -> Option<Malloc> {
    real!(malloc: Malloc)
}

fn next_calloc() -> Option<Calloc> {
    real!(calloc: Calloc)
}

fn next_realloc() -> Option<Realloc> {
    real!(realloc: Realloc)
}

fn next_free() -> Option<Free> {
    real!(free: Free)
}

const SPARE_SIZE: usize = 64 << 10;

/// Memory that is handed out while the owner of the heap is not known yet. Never reused.
#[repr(align(64))]
struct Spare(UnsafeCell<[u8; SPARE_SIZE]>);
// SAFETY: `spare` hands out disjoint parts, and no other code accesses the buffer.
unsafe impl Sync for Spare {}

static SPARE: Spare = Spare(UnsafeCell::new([0; SPARE_SIZE]));
static SPARE_USED: AtomicUsize = AtomicUsize::new(0);
/// The bytes in front of each piece, of which the last word holds the piece's length.
const SPARE_HEADER: usize = 16;

#[cold]
fn spare(align: usize, size: usize) -> *mut c_void {
    let base = SPARE.0.get() as usize;
    let place = |used: usize| {
        let at = (base + used + SPARE_HEADER).checked_next_multiple_of(align.max(16))? - base;
        Some((at, at.checked_add(size)?))
    };
    let before = SPARE_USED.fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
        place(used)
            .map(|(_, end)| end)
            .filter(|end| *end <= SPARE_SIZE)
    });
    let Some((at, _)) = before.ok().and_then(place) else {
        return ptr::null_mut();
    };
    // SAFETY: inside the buffer; only this call uses this piece and the bytes before it.
    unsafe {
        let piece = SPARE.0.get().cast::<u8>().add(at);
        piece.cast::<usize>().sub(1).write(size);
        piece.cast()
    }
}

/// Whether a pointer is to a piece of `SPARE`; such pieces stay in use after the heap's owner is known.
#[inline]
fn is_spare(p: *mut c_void) -> bool {
    SPARE_USED.load(Ordering::Relaxed) != 0
        && (p as usize).wrapping_sub(SPARE.0.get() as usize) < SPARE_SIZE
}

/// # Safety
/// `p` is a spare piece.
unsafe fn spare_size(p: *mut c_void) -> usize {
    // SAFETY: the piece's length is stored before it.
    unsafe { p.cast::<usize>().sub(1).read() }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn malloc(size: usize) -> *mut c_void {
    match owner() {
        GLIBC => heap::malloc(size),
        ASKING => spare(16, size),
        // SAFETY: the program's argument.
        _ => next_malloc().map_or(ptr::null_mut(), |f| unsafe { f(size) }),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn calloc(n: usize, size: usize) -> *mut c_void {
    match owner() {
        GLIBC => heap::calloc(n, size),
        // Memory of `SPARE` is zero: each byte is handed out once.
        ASKING => n
            .checked_mul(size)
            .map_or(ptr::null_mut(), |size| spare(16, size)),
        // SAFETY: the program's arguments.
        _ => next_calloc().map_or(ptr::null_mut(), |f| unsafe { f(n, size) }),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn realloc(p: *mut c_void, size: usize) -> *mut c_void {
    let owner = owner();
    if owner == ASKING || is_spare(p) {
        // SAFETY: as C says for `realloc`; the length of a piece of `SPARE` is stored before it, and only such pieces
        // exist while the owner of the heap is being looked up.
        unsafe {
            let new = malloc(size);
            if is_spare(p) && !new.is_null() {
                let len = spare_size(p).min(size);
                ptr::copy_nonoverlapping(p.cast::<u8>(), new.cast::<u8>(), len);
            }
            return new;
        }
    }
    // SAFETY: the program's arguments.
    unsafe {
        match owner {
            GLIBC => heap::realloc(p, size),
            _ => next_realloc().map_or(ptr::null_mut(), |f| f(p, size)),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn reallocarray(p: *mut c_void, n: usize, size: usize) -> *mut c_void {
    match n.checked_mul(size) {
        // SAFETY: the program's arguments.
        Some(bytes) => unsafe { realloc(p, bytes) },
        None => {
            set_errno(libc::ENOMEM);
            ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn free(p: *mut c_void) {
    if p.is_null() || is_spare(p) {
        return;
    }
    // SAFETY: the program's argument, passed to the allocator that served it.
    unsafe {
        match owner() {
            GLIBC => heap::free(p),
            ASKING => {}
            _ => {
                if let Some(f) = next_free() {
                    f(p);
                }
            }
        }
    }
}

/// An old name of `free`, with the same effect.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn cfree(p: *mut c_void) {
    // SAFETY: the program's argument.
    unsafe { free(p) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn memalign(align: usize, size: usize) -> *mut c_void {
    match owner() {
        GLIBC => heap::memalign(align, size),
        ASKING => spare(align, size),
        // SAFETY: the program's arguments.
        _ => real!(memalign: Calloc).map_or(ptr::null_mut(), |f| unsafe { f(align, size) }),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    match owner() {
        FOREIGN => match real!(aligned_alloc: Calloc) {
            // SAFETY: the program's arguments.
            Some(f) => unsafe { f(align, size) },
            None => ptr::null_mut(),
        },
        // SAFETY: in glibc, too, both are the same function.
        _ => unsafe { memalign(align, size) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn posix_memalign(
    to: *mut *mut c_void,
    align: usize,
    size: usize,
) -> c_int {
    if owner() == FOREIGN {
        type Posix = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;
        // SAFETY: the program's arguments.
        return real!(posix_memalign: Posix)
            .map_or(libc::ENOMEM, |f| unsafe { f(to, align, size) });
    }
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    let before = errno();
    // SAFETY: the program's arguments; `to` is where the program wants the pointer.
    unsafe {
        let p = memalign(align, size);
        set_errno(before);
        if p.is_null() {
            return libc::ENOMEM;
        }
        *to = p;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn valloc(size: usize) -> *mut c_void {
    match owner() {
        // SAFETY: the program's argument.
        FOREIGN => real!(valloc: Malloc).map_or(ptr::null_mut(), |f| unsafe { f(size) }),
        // SAFETY: the program's argument.
        _ => unsafe { memalign(rustix::param::page_size(), size) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pvalloc(size: usize) -> *mut c_void {
    let page = rustix::param::page_size();
    match (owner(), size.checked_next_multiple_of(page)) {
        // SAFETY: the program's argument.
        (FOREIGN, _) => real!(pvalloc: Malloc).map_or(ptr::null_mut(), |f| unsafe { f(size) }),
        // SAFETY: the program's argument.
        (_, Some(whole)) => unsafe { memalign(page, whole.max(page)) },
        (_, None) => {
            set_errno(libc::ENOMEM);
            ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn malloc_usable_size(p: *mut c_void) -> usize {
    if p.is_null() {
        return 0;
    }
    // SAFETY: the program's argument.
    unsafe {
        if is_spare(p) {
            return spare_size(p);
        }
        match owner() {
            FOREIGN => real!(malloc_usable_size: Usable).map_or(0, |f| f(p)),
            _ => heap::usable_size(p),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn malloc_trim(pad: usize) -> c_int {
    let ours = owner() == GLIBC && heap::trim();
    // SAFETY: the program's argument.
    let theirs = real!(malloc_trim: Trim).map_or(0, |f| unsafe { f(pad) });
    c_int::from(ours || theirs != 0)
}
