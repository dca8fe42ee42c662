#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test program, not the library in a user's process"
)]
#![expect(unsafe_code, reason = "maps memory and loads objects")]
#![expect(clippy::print_stderr, reason = "says what it skips")]
//! Adoption: memory that the program maps, static data of objects, and memory that must never be adopted.

mod recorder;

use std::ffi::{CString, c_void};
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use nix::sys::mman::{
    MRemapFlags, MapFlags, MmapAdvise, ProtFlags, mmap, mmap_anonymous, mremap, munmap,
};
use recorder::{Recorder, Told};
use semcache::host::adopt::{self, Unmap};
use semcache::host::{self, Block, Provenance};

const RW: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);
const ANON: MapFlags = MapFlags::MAP_PRIVATE.union(MapFlags::MAP_ANONYMOUS);
const PAGE: usize = 4096;
/// In these tests, blocks from this number of bytes on are adopted.
const LEAST: usize = 16 * PAGE;

static RECORDER: Recorder = Recorder::new(false);

fn set_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        adopt::configure(LEAST);
        host::set_observer(&RECORDER);
    });
}

/// `mmap` as the preloaded library's hook does it. Each mapping has an address range of its own, in which the kernel
/// maps nothing by its own choice: a range that a test has unmapped stays unmapped, whatever other threads map.
fn map_as(len: usize, prot: ProtFlags, flags: MapFlags, file: Option<&File>) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0x1100_0000_0000);
    let at = NEXT.fetch_add(1 << 30, Ordering::Relaxed);
    adopt::before_mmap(at, len, flags.bits());
    let (to, size) = (NonZeroUsize::new(at), NonZeroUsize::new(len).unwrap());
    // SAFETY: no fixed address.
    let p = unsafe {
        match file {
            Some(file) => mmap(to, size, prot, flags, file, 0),
            None => mmap_anonymous(to, size, prot, flags),
        }
    };
    let p = p.unwrap().as_ptr().expose_provenance();
    let fd = file.map_or(-1, |file| file.as_raw_fd());
    adopt::on_mmap(p, len, prot.bits(), flags.bits(), fd);
    p
}

/// Maps memory at an address, without the hooks.
fn map_at(at: usize, len: usize, flags: MapFlags) -> nix::Result<usize> {
    let (to, size) = (NonZeroUsize::new(at), NonZeroUsize::new(len).unwrap());
    // SAFETY: replaces this test's memory at most.
    let p = unsafe { mmap_anonymous(to, size, RW, flags) }?;
    Ok(p.as_ptr().expose_provenance())
}

fn map(len: usize) -> usize {
    map_as(len, RW, ANON, None)
}

fn ptr(addr: usize) -> NonNull<c_void> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(addr)).unwrap()
}

/// `munmap` as the hook does it.
fn unmap(addr: usize, len: usize) -> Unmap {
    let what = adopt::on_munmap(addr, len);
    if what == Unmap::Proceed {
        // SAFETY: tests unmap what they mapped.
        unsafe { munmap(ptr(addr), len) }.unwrap();
    }
    what
}

fn extent(addr: usize) -> Option<(usize, usize)> {
    host::find(addr).map(|b| (b.start, b.len))
}

fn marked(addr: usize) -> Block {
    let b = host::find(addr).expect("adopted");
    assert_eq!(b.provenance, Provenance::Adopted);
    assert!(host::mark_in_use(b.id));
    b
}

fn mapped(addr: usize) -> bool {
    let mut vec = 0u8;
    // SAFETY: mincore writes one byte for one page.
    unsafe { libc::mincore(ptr(addr).as_ptr(), PAGE, &raw mut vec) == 0 }
}

#[test]
fn plain_mappings_are_adopted_and_others_are_not() {
    set_up();
    let a = map(LEAST);
    assert_eq!(extent(a), Some((a, LEAST)));
    assert_eq!(extent(a + LEAST - 1), Some((a, LEAST)));
    assert_eq!(unmap(a, LEAST), Unmap::Proceed);
    assert_eq!(extent(a), None);

    let odd = map(LEAST + 1);
    assert_eq!(extent(odd), Some((odd, LEAST + PAGE)), "whole pages");
    unmap(odd, LEAST + 1);

    let file = tempfile::tempfile().expect("file");
    file.set_len(LEAST as u64).expect("length");
    for (len, prot, flags, file) in [
        (LEAST - PAGE, RW, ANON, None),
        (LEAST, ProtFlags::PROT_READ, ANON, None),
        (LEAST, ProtFlags::PROT_NONE, ANON, None),
        (LEAST, RW | ProtFlags::PROT_EXEC, ANON, None),
        (LEAST, RW, ANON | MapFlags::MAP_STACK, None),
        (
            LEAST,
            RW,
            MapFlags::MAP_SHARED | MapFlags::MAP_ANONYMOUS,
            None,
        ),
        (LEAST, RW, MapFlags::MAP_PRIVATE, Some(&file)),
        (LEAST, RW, MapFlags::MAP_SHARED, Some(&file)),
    ] {
        let p = map_as(len, prot, flags, file);
        assert_eq!(extent(p), None, "{len} {prot:?} {flags:?} {file:?}");
        unmap(p, len);
    }
    let p = map_as(LEAST, RW, ANON | MapFlags::MAP_NORESERVE, None);
    assert!(extent(p).is_some());
    unmap(p, LEAST);
}

#[test]
fn stacks_and_small_blocks_are_transient() {
    set_up();
    let local = [0u8; 64];
    assert_eq!(host::find(local.as_ptr().addr()), None);
    let boxed = Box::new([0u8; 64]);
    assert_eq!(host::find(boxed.as_ptr().addr()), None);
    std::thread::spawn(|| {
        let local = [0u8; 64];
        assert_eq!(host::find(local.as_ptr().addr()), None);
    })
    .join()
    .expect("thread");
    assert_eq!(host::find(0), None);
    assert_eq!(host::find(usize::MAX), None);
}

#[test]
fn a_thread_on_a_mapped_stack_is_transient() {
    set_up();
    let len = 1 << 20;
    let stack = map(len);
    assert!(extent(stack).is_some());
    extern "C" fn body(arg: *mut c_void) -> *mut c_void {
        let local = [1u8; 64];
        let other = host::find(arg.addr() + PAGE).is_none();
        std::ptr::without_provenance_mut(usize::from(
            host::find(local.as_ptr().addr()).is_none() && other,
        ))
    }
    // SAFETY: pthread calls as documented, on memory that outlives the thread.
    let result = unsafe {
        let mut attr = std::mem::zeroed::<libc::pthread_attr_t>();
        assert_eq!(libc::pthread_attr_init(&raw mut attr), 0);
        assert_eq!(
            libc::pthread_attr_setstack(&raw mut attr, ptr(stack).as_ptr(), len),
            0
        );
        let mut t = 0;
        assert_eq!(
            libc::pthread_create(&raw mut t, &raw const attr, body, ptr(stack).as_ptr()),
            0
        );
        let mut r = std::ptr::null_mut();
        assert_eq!(libc::pthread_join(t, &raw mut r), 0);
        r
    };
    assert_eq!(result.addr(), 1);
    unmap(stack, len);
    let again = map(len);
    assert!(extent(again).is_some());
    unmap(again, len);
}

#[test]
fn partial_unmap_leaves_new_blocks() {
    set_up();
    let a = map(3 * LEAST);
    let b = marked(a);
    assert_eq!(unmap(a + LEAST, LEAST), Unmap::Proceed);
    assert_eq!(
        RECORDER.of(b.id),
        [Told::Surrender(0, 3 * LEAST), Told::Release]
    );
    assert_eq!(
        [extent(a), extent(a + LEAST), extent(a + 2 * LEAST)],
        [Some((a, LEAST)), None, Some((a + 2 * LEAST, LEAST))]
    );
    assert!(host::find(a).is_some_and(|n| n.id != b.id));
    assert_eq!(host::block(b.id), None);
    unmap(a, 3 * LEAST);
    assert_eq!(extent(a), None);
    assert_eq!(RECORDER.of(b.id).len(), 2);
}

#[test]
fn guarded_pages_leave_pieces() {
    set_up();
    let a = map(4 * LEAST);
    let b = marked(a);
    let protect = |from: usize, len: usize, access: ProtFlags| {
        adopt::on_mprotect(a + from, len, access.bits());
    };
    protect(LEAST, PAGE, ProtFlags::PROT_READ);
    assert_eq!(
        RECORDER.of(b.id),
        [Told::Surrender(0, 4 * LEAST), Told::Release]
    );
    assert_eq!(
        [extent(a), extent(a + LEAST), extent(a + LEAST + PAGE)],
        [
            Some((a, LEAST)),
            None,
            Some((a + LEAST + PAGE, 3 * LEAST - PAGE))
        ]
    );
    // A piece in use stays a block until an operand reaches beyond it.
    let first = marked(a);
    assert!(host::holding(a, a + 2 * LEAST).is_some_and(|p| p.len == LEAST));
    protect(LEAST, PAGE, RW);
    assert_eq!(host::find(a), Some(first));
    let whole = host::holding(a, a + 2 * LEAST).expect("one piece");
    assert_eq!((whole.start, whole.len), (a, 4 * LEAST));
    assert_eq!(
        RECORDER.of(first.id),
        [Told::Surrender(0, LEAST), Told::Release]
    );
    unmap(a, 4 * LEAST);
    // Reserved memory is no block; committed memory is a block.
    // SAFETY: a new mapping.
    let at = unsafe {
        let size = NonZeroUsize::new(8 * LEAST).unwrap();
        mmap_anonymous(None, size, ProtFlags::PROT_NONE, ANON)
    }
    .expect("maps")
    .addr()
    .get();
    adopt::on_mmap(at, 8 * LEAST, ProtFlags::PROT_NONE.bits(), ANON.bits(), -1);
    assert_eq!(extent(at), None);
    adopt::on_mprotect(at + LEAST, 2 * LEAST, RW.bits());
    adopt::on_mprotect(at + 3 * LEAST, LEAST, RW.bits());
    assert_eq!(extent(at + 2 * LEAST), Some((at + LEAST, 3 * LEAST)));
    unmap(at, 8 * LEAST);
}

#[test]
fn a_whole_unmap_is_a_release() {
    set_up();
    let a = map(LEAST);
    let b = marked(a);
    assert_eq!(unmap(a, LEAST), Unmap::Proceed);
    assert_eq!(RECORDER.of(b.id), [Told::Release]);
}

#[test]
fn an_unmap_waits_for_devices() {
    set_up();
    let a = map(LEAST);
    let b = marked(a);
    RECORDER.hold(b.id);
    assert_eq!(unmap(a, LEAST), Unmap::Done);
    assert_eq!(extent(a), None);
    adopt::reap();
    assert!(mapped(a), "still mapped");
    RECORDER.let_go(b.id);
    adopt::reap();
    assert!(!mapped(a));
}

#[test]
fn advice_and_protection() {
    set_up();
    let a = map(2 * LEAST);
    let b = marked(a);
    adopt::on_madvise(a, PAGE, MmapAdvise::MADV_HUGEPAGE as i32);
    assert_eq!(RECORDER.of(b.id), []);
    adopt::on_madvise(a + PAGE, 2 * PAGE, MmapAdvise::MADV_DONTNEED as i32);
    adopt::on_mprotect(a, PAGE, RW.bits());
    assert_eq!(
        RECORDER.of(b.id),
        [Told::Surrender(PAGE, 2 * PAGE), Told::Surrender(0, PAGE)]
    );
    assert_eq!(host::find(a), Some(b));
    adopt::on_mprotect(a + LEAST, LEAST, ProtFlags::PROT_READ.bits());
    assert_eq!(
        RECORDER.of(b.id)[2..],
        [Told::Surrender(0, 2 * LEAST), Told::Release]
    );
    assert_eq!([extent(a), extent(a + LEAST)], [Some((a, LEAST)), None]);
    unmap(a, 2 * LEAST);
}

#[test]
fn remapping_adopts_the_new_place() {
    set_up();
    let a = map(LEAST);
    let b = marked(a);
    let may_move = MRemapFlags::MREMAP_MAYMOVE;
    adopt::before_mremap(a, LEAST, may_move.bits(), 0, 4 * LEAST);
    // SAFETY: mapped above.
    let n = unsafe { mremap(ptr(a), LEAST, 4 * LEAST, may_move, None) };
    let n = n.unwrap().as_ptr().expose_provenance();
    adopt::on_mremap(a, LEAST, n, 4 * LEAST);
    assert_eq!(
        RECORDER.of(b.id),
        [Told::Surrender(0, LEAST), Told::Release]
    );
    let now = host::find(n).expect("adopted");
    assert_eq!((now.start, now.len), (n, 4 * LEAST));
    assert_ne!(now.id, b.id);
    unmap(n, 4 * LEAST);
}

#[test]
fn a_fixed_mapping_ends_what_it_replaces() {
    set_up();
    let a = map(2 * LEAST);
    let b = marked(a);
    let flags = ANON | MapFlags::MAP_FIXED;
    adopt::before_mmap(a, LEAST, flags.bits());
    let p = map_at(a, LEAST, flags).unwrap();
    adopt::on_mmap(p, LEAST, RW.bits(), flags.bits(), -1);
    assert_eq!(
        RECORDER.of(b.id),
        [Told::Surrender(0, 2 * LEAST), Told::Release]
    );
    assert_eq!(
        [extent(a), extent(a + LEAST)],
        [None, Some((a + LEAST, LEAST))]
    );
    unmap(a, 2 * LEAST);
}

#[test]
fn a_mapping_that_went_unseen_is_forgotten() {
    set_up();
    let a = map(LEAST);
    let b = marked(a);
    // SAFETY: this test's mapping; unmapped past the hooks, as glibc does.
    unsafe { munmap(ptr(a), LEAST) }.unwrap();
    // A hole by now, or the call fails.
    if map_at(a, LEAST, ANON | MapFlags::MAP_FIXED_NOREPLACE) == Ok(a) {
        adopt::on_mmap(a, LEAST, RW.bits(), ANON.bits(), -1);
        assert!(RECORDER.of(b.id).contains(&Told::Release));
        assert!(host::find(a).is_some_and(|n| n.id != b.id));
        unmap(a, LEAST);
    }
}

#[test]
fn mappings_by_many_threads() {
    set_up();
    std::thread::scope(|s| {
        for t in 0..8usize {
            s.spawn(move || {
                for n in 0..200 {
                    let len = LEAST + (n + t) % 5 * PAGE;
                    let a = map(len);
                    assert_eq!(extent(a + len - 1), Some((a, len)));
                    if n % 3 == 0 {
                        let id = marked(a).id;
                        unmap(a, len);
                        assert_eq!(RECORDER.of(id), [Told::Release]);
                    } else {
                        unmap(a, len);
                    }
                }
            });
        }
    });
}

/// One thread unmaps memory that devices still read and maps other memory there as soon as the first is unmapped; other
/// threads finish delayed unmaps (`adopt::reap`). None of them may take the new memory for the old.
#[test]
fn what_is_mapped_where_a_block_waited_stays() {
    set_up();
    /// An address range in which the kernel maps nothing by its own choice, so that no other test's memory is replaced.
    const APART: usize = 0x1000_0000_0000;
    let map = |flags: MapFlags| {
        adopt::before_mmap(APART, LEAST, flags.bits());
        assert_eq!(map_at(APART, LEAST, flags), Ok(APART));
        adopt::on_mmap(APART, LEAST, RW.bits(), flags.bits(), -1);
        ptr(APART).cast::<usize>()
    };
    /// Ends the other threads, also when an assertion fails.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        let _ends = Ends(&done);
        for _ in 0..2 {
            s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    adopt::reap();
                }
            });
        }
        map(ANON | MapFlags::MAP_FIXED_NOREPLACE);
        for round in 0..2000 {
            let id = host::find(APART).expect("adopted").id;
            assert!(host::mark_in_use(id));
            RECORDER.hold(id);
            assert_eq!(unmap(APART, LEAST), Unmap::Done);
            RECORDER.let_go(id);
            // Not adopted: a mapping at a fixed address never is.
            let p = map(ANON | MapFlags::MAP_FIXED);
            // SAFETY: mapped above, if it is still there.
            unsafe { p.write_volatile(round) };
            std::thread::yield_now();
            // SAFETY: as above.
            assert_eq!(unsafe { p.read_volatile() }, round);
            assert_eq!(unmap(APART, LEAST), Unmap::Proceed);
            map(ANON | MapFlags::MAP_FIXED_NOREPLACE);
        }
    });
    unmap(APART, LEAST);
}

/// While an object is being closed, static data of all objects are left alone: tests with objects run one after the
/// other.
static LOADS: Mutex<()> = Mutex::new(());

/// Builds a shared object with a matrix in .bss and loads it. `None` where there is no C compiler.
fn load(dir: &std::path::Path, name: &str) -> Option<*mut c_void> {
    let (source, object) = (dir.join("m.c"), dir.join(name));
    std::fs::write(&source, "double matrix[1 << 16]; double table[1 << 14] = {1.0}; const double fixed[1 << 14] = {2.0};")
        .expect("writes");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&object)
        .arg(&source)
        .status();
    if !built.is_ok_and(|s| s.success()) {
        eprintln!("no C compiler: skipped");
        return None;
    }
    let path = CString::new(object.to_str().expect("utf-8")).expect("path");
    // SAFETY: an object without constructors.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null());
    Some(handle)
}

fn symbol(handle: *mut c_void, name: &std::ffi::CStr) -> usize {
    // SAFETY: an open handle.
    unsafe { libc::dlsym(handle, name.as_ptr()) }.expose_provenance()
}

#[test]
fn static_data_is_adopted_until_its_object_goes() {
    set_up();
    let _alone = LOADS.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().expect("dir");
    let Some(handle) = load(dir.path(), "libmatrix.so") else {
        return;
    };
    let matrix = symbol(handle, c"matrix");
    let block = marked(matrix + (1 << 18));
    assert!(block.start <= matrix + PAGE && block.start + block.len + PAGE >= matrix + (8 << 16));
    assert!(block.start.is_multiple_of(PAGE));
    // Adopted up to its last byte, which need not end a page.
    assert!(block.start + block.len >= matrix + (8 << 16));
    assert_eq!(
        host::find(symbol(handle, c"table") + 2 * PAGE).map(|b| b.id),
        Some(block.id),
        ".data and .bss are one"
    );
    assert_eq!(
        host::find(symbol(handle, c"fixed") + 2 * PAGE),
        None,
        "read-only"
    );

    adopt::on_dlclose();
    assert_eq!(
        RECORDER.of(block.id),
        [Told::Surrender(0, block.len), Told::Release]
    );
    // SAFETY: opened above.
    assert_eq!(unsafe { libc::dlclose(handle) }, 0);
    assert_eq!(host::find(matrix + (1 << 18)), None, "the object is gone");
    adopt::after_dlclose();
    assert_eq!(host::block(block.id), None);
}

#[test]
fn static_data_of_the_runtime_and_its_needs_is_not() {
    set_up();
    // This binary contains the code under test.
    static OWN: Mutex<[u8; 1 << 20]> = Mutex::new([0; 1 << 20]);
    assert_eq!(host::find((&raw const OWN).addr() + (1 << 19)), None);
    let _alone = LOADS.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().expect("dir");
    let Some(handle) = load(dir.path(), "libcublas.so.99") else {
        return;
    };
    assert_eq!(
        host::find(symbol(handle, c"matrix") + (1 << 18)),
        None,
        "excluded by name"
    );
}

#[test]
fn the_programs_protection_of_static_data_is_respected() {
    set_up();
    let _alone = LOADS.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().expect("dir");
    let Some(handle) = load(dir.path(), "libguarded.so") else {
        return;
    };
    let matrix = symbol(handle, c"matrix");
    let block = marked(matrix + (1 << 18));
    adopt::on_mprotect(block.start + PAGE, PAGE, ProtFlags::PROT_READ.bits());
    assert_eq!(
        RECORDER.of(block.id),
        [Told::Surrender(0, block.len), Told::Release]
    );
    assert_eq!(host::find(block.start + PAGE), None);
    let end = block.start + block.len;
    let rest = block.start + 2 * PAGE;
    assert_eq!(extent(matrix + (1 << 18)), Some((rest, end - rest)));
    adopt::on_mprotect(block.start + PAGE, PAGE, RW.bits());
    let again = host::holding(block.start, end).expect("one block again");
    assert_eq!((again.start, again.len), (block.start, block.len));
    assert_ne!(again.id, block.id);
}
