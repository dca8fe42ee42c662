#![expect(
    unsafe_code,
    reason = "calls glibc's allocator and writes its chunk headers"
)]
//! glibc's own allocator, called by names that no hook replaces, and the layout of its chunk headers.

use core::ffi::{c_char, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicUsize};

use once_cell::race::OnceBool;

use super::sys;
use semcache_fault::broken;

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(n: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(p: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_free(p: *mut c_void);
    fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
}

pub(super) fn malloc(size: usize) -> *mut c_void {
    // SAFETY: malloc has no preconditions.
    unsafe { __libc_malloc(size) }
}

pub(super) fn calloc(n: usize, size: usize) -> *mut c_void {
    // SAFETY: calloc has no preconditions.
    unsafe { __libc_calloc(n, size) }
}

pub(super) fn memalign(align: usize, size: usize) -> *mut c_void {
    // SAFETY: memalign has no preconditions (it rounds the alignment itself).
    unsafe { __libc_memalign(align, size) }
}

/// # Safety
/// `p` is null or a live pointer of glibc's.
pub(super) unsafe fn realloc(p: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { __libc_realloc(p, size) }
}

/// # Safety
/// `p` is null or a live pointer of glibc's.
pub(super) unsafe fn free(p: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { __libc_free(p) }
}

/// glibc's `malloc_usable_size`, which has no private alias: the next definition after semcache's in the search order.
/// Looked up at the first call; dlsym may call calloc for a small block, which is passed to glibc and does not come
/// back here.
///
/// # Safety
/// `p` is null or a live pointer of glibc's.
pub(super) unsafe fn usable_size(p: *mut c_void) -> usize {
    type UsableSize = unsafe extern "C" fn(*mut c_void) -> usize;
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let mut f = FOUND.load(Acquire);
    if f.is_null() {
        const NAME: &[u8] = b"malloc_usable_size\0";
        // SAFETY: the name is nul-terminated.
        f = unsafe { libc::dlsym(libc::RTLD_NEXT, NAME.as_ptr().cast::<c_char>()) };
        if f.is_null() {
            return 0;
        }
        FOUND.store(f, Release);
    }
    // SAFETY: a symbol of this name has this type in every libc.
    let f = unsafe { core::mem::transmute::<*mut c_void, UsableSize>(f) };
    // SAFETY: the caller's promise.
    unsafe { f(p) }
}

/// `chunk->size` bit: the chunk is a mapping of its own.
const IS_MMAPPED: usize = 2;
/// All flag bits of `chunk->size`.
const FLAGS: usize = 7;
/// `prev_size` and `size`, which lie before what malloc returns.
const HEADER: usize = 16;
/// Marks, together with the block's identity, a header page that semcache wrote.
const MAGIC: u64 = 0x5e3c_ac4e_0b10_c4ed;

/// What glibc adds to `prev_size + size` to get the extent of a mapped chunk: nothing before glibc 2.42, the size of
/// its header since.
static EXTRA: AtomicUsize = AtomicUsize::new(0);

/// Learns how this glibc measures mapped chunks, from a chunk of its own. Called before the first header is written.
pub(super) fn probe() {
    // Above the largest threshold that glibc's dynamic adjustment reaches, so the chunk is a mapping of its own, and
    // its pages are never touched.
    let p = malloc(64 << 20);
    if p.is_null() {
        return;
    }
    // The two words before a glibc block are its chunk header. Another allocator may export glibc's names (tcmalloc,
    // mimalloc), and then these words need not even be readable.
    let word = |at: usize| sys::peek(at).map_or(0, |word| word as usize);
    let (before, size) = (word(p.addr() - 16), word(p.addr() - 8));
    let rest = (before & !1).wrapping_add(size & !FLAGS) & (sys::page_size() - 1);
    if size & IS_MMAPPED != 0 && rest == sys::page_size() - HEADER {
        EXTRA.store(HEADER, Relaxed);
    }
    // SAFETY: allocated above.
    unsafe { free(p) };
}

/// Makes the page before a block look like the head of a mapped glibc chunk: libc's `free`, called by a library that is
/// bound past semcache's, then unmaps header page and block instead of ending the process.
///
/// # Safety
/// The page before `data` is writable and belongs to the block's run.
pub(super) unsafe fn write_header(data: usize, len: usize, id: u64) {
    let page = sys::page_size();
    let words = ptr::with_exposed_provenance_mut::<usize>(data);
    let size = (len + HEADER - EXTRA.load(Relaxed)) | IS_MMAPPED;
    // SAFETY: both words and the page's first word lie in the header page.
    unsafe {
        if !broken!("break-memory") {
            words.sub(2).write(page - HEADER);
            words.sub(1).write(size);
        }
        ptr::with_exposed_provenance_mut::<u64>(data - page).write(MAGIC ^ id);
    }
}

/// Whether the header that was written for this block is still in memory.
pub(super) fn header_stands(data: usize, id: u64) -> bool {
    sys::peek(data - sys::page_size()) == Some(MAGIC ^ id)
}

/// The identity in the header in front of a block; an arbitrary number if other bytes were written there, `None` if the
/// header cannot be read.
pub(super) fn header_id(data: usize) -> Option<u64> {
    sys::peek(data - sys::page_size()).map(|word| word ^ MAGIC)
}

/// Whether the program's `malloc` is neither semcache's nor libc's: another allocator was loaded before semcache, whose
/// hooks are then not called.
pub(super) fn another_malloc() -> bool {
    static KNOWN: OnceBool = OnceBool::new();
    KNOWN.get_or_init(|| {
        // SAFETY: a C string.
        let first = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr()) };
        let own = (
            another_malloc as fn() -> bool as *const c_void,
            libc::gnu_get_libc_version as *const c_void,
        );
        !first.is_null()
            && object_of(first) != object_of(own.0)
            && object_of(first) != object_of(own.1)
    })
}

/// The load address of the object that contains this code; 0 if there is none.
fn object_of(code: *const c_void) -> usize {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the record is written if there is such an object; all zero is a value of it.
    unsafe {
        libc::dladdr(code, found.as_mut_ptr());
        found.assume_init().dli_fbase.addr()
    }
}
