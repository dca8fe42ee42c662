#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]
#![expect(unsafe_code, reason = "maps memory and loads objects")]
#![expect(clippy::print_stderr, reason = "says what it skips")]
//! Adoption: memory that the program maps, static data of objects, and memory that must never be adopted.

mod recorder;

use std::ffi::{CString, c_void};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use libc::{
    MAP_ANONYMOUS, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, MAP_SHARED, MAP_STACK, PROT_READ,
    PROT_WRITE,
};
use recorder::{Recorder, Told};
use semcache::host::adopt::{self, Unmap};
use semcache::host::{self, Block, Provenance};

const RW: i32 = PROT_READ | PROT_WRITE;
const ANON: i32 = MAP_PRIVATE | MAP_ANONYMOUS;
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
fn map_as(len: usize, prot: i32, flags: i32, fd: i32) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0x1100_0000_0000);
    let at = NEXT.fetch_add(1 << 30, Ordering::Relaxed);
    adopt::before_mmap(at, len, flags);
    // SAFETY: no fixed address.
    let p = unsafe { libc::mmap(ptr(at), len, prot, flags, fd, 0) };
    assert_ne!(p, libc::MAP_FAILED);
    adopt::on_mmap(p.expose_provenance(), len, prot, flags, fd);
    p.addr()
}

fn map(len: usize) -> usize {
    map_as(len, RW, ANON, -1)
}

fn ptr(addr: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(addr)
}

/// `munmap` as the hook does it.
fn unmap(addr: usize, len: usize) -> Unmap {
    let what = adopt::on_munmap(addr, len);
    if what == Unmap::Proceed {
        // SAFETY: tests unmap what they mapped.
        assert_eq!(unsafe { libc::munmap(ptr(addr), len) }, 0);
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
    unsafe { libc::mincore(ptr(addr), PAGE, &raw mut vec) == 0 }
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
    let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
    for (len, prot, flags, fd) in [
        (LEAST - PAGE, RW, ANON, -1),
        (LEAST, PROT_READ, ANON, -1),
        (LEAST, libc::PROT_NONE, ANON, -1),
        (LEAST, RW | libc::PROT_EXEC, ANON, -1),
        (LEAST, RW, ANON | MAP_STACK, -1),
        (LEAST, RW, MAP_SHARED | MAP_ANONYMOUS, -1),
        (LEAST, RW, MAP_PRIVATE, fd),
        (LEAST, RW, MAP_SHARED, fd),
    ] {
        let p = map_as(len, prot, flags, fd);
        assert_eq!(extent(p), None, "{len} {prot} {flags:x} {fd}");
        unmap(p, len);
    }
    let p = map_as(LEAST, RW, ANON | MAP_NORESERVE, -1);
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
        ptr(usize::from(
            host::find(local.as_ptr().addr()).is_none() && other,
        ))
    }
    // SAFETY: pthread calls as documented, on memory that outlives the thread.
    let result = unsafe {
        let mut attr = std::mem::zeroed::<libc::pthread_attr_t>();
        assert_eq!(libc::pthread_attr_init(&raw mut attr), 0);
        assert_eq!(
            libc::pthread_attr_setstack(&raw mut attr, ptr(stack), len),
            0
        );
        let mut t = 0;
        assert_eq!(
            libc::pthread_create(&raw mut t, &raw const attr, body, ptr(stack)),
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
    let open = libc::PROT_READ | libc::PROT_WRITE;
    let a = map(4 * LEAST);
    let b = marked(a);
    let protect = |from: usize, len: usize, access| adopt::on_mprotect(a + from, len, access);
    protect(LEAST, PAGE, libc::PROT_READ);
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
    protect(LEAST, PAGE, open);
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
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            8 * LEAST,
            rustix::mm::ProtFlags::empty(),
            rustix::mm::MapFlags::PRIVATE,
        )
    }
    .expect("maps")
    .addr();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    adopt::on_mmap(at, 8 * LEAST, libc::PROT_NONE, flags, -1);
    assert_eq!(extent(at), None);
    adopt::on_mprotect(at + LEAST, 2 * LEAST, open);
    adopt::on_mprotect(at + 3 * LEAST, LEAST, open);
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
    adopt::on_madvise(a, PAGE, libc::MADV_HUGEPAGE);
    assert_eq!(RECORDER.of(b.id), []);
    adopt::on_madvise(a + PAGE, 2 * PAGE, libc::MADV_DONTNEED);
    adopt::on_mprotect(a, PAGE, RW);
    assert_eq!(
        RECORDER.of(b.id),
        [Told::Surrender(PAGE, 2 * PAGE), Told::Surrender(0, PAGE)]
    );
    assert_eq!(host::find(a), Some(b));
    adopt::on_mprotect(a + LEAST, LEAST, PROT_READ);
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
    adopt::before_mremap(a, LEAST, libc::MREMAP_MAYMOVE, 0, 4 * LEAST);
    // SAFETY: mapped above.
    let n =
        unsafe { libc::mremap(ptr(a), LEAST, 4 * LEAST, libc::MREMAP_MAYMOVE) }.expose_provenance();
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
    let flags = ANON | MAP_FIXED;
    adopt::before_mmap(a, LEAST, flags);
    // SAFETY: replaces part of this test's own mapping.
    let p = unsafe { libc::mmap(ptr(a), LEAST, RW, flags, -1, 0) };
    adopt::on_mmap(p.addr(), LEAST, RW, flags, -1);
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
    unsafe { libc::munmap(ptr(a), LEAST) };
    // SAFETY: a hole by now, or the call fails.
    let p = unsafe { libc::mmap(ptr(a), LEAST, RW, ANON | libc::MAP_FIXED_NOREPLACE, -1, 0) };
    if p.addr() == a {
        adopt::on_mmap(a, LEAST, RW, ANON, -1);
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
    let map = |flags: i32| {
        adopt::before_mmap(APART, LEAST, flags);
        // SAFETY: replaces this test's memory at most.
        let p = unsafe { libc::mmap(ptr(APART), LEAST, RW, flags, -1, 0) };
        assert_eq!(p.expose_provenance(), APART);
        adopt::on_mmap(APART, LEAST, RW, flags, -1);
        p.cast::<usize>()
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
        map(ANON | libc::MAP_FIXED_NOREPLACE);
        for round in 0..2000 {
            let id = host::find(APART).expect("adopted").id;
            assert!(host::mark_in_use(id));
            RECORDER.hold(id);
            assert_eq!(unmap(APART, LEAST), Unmap::Done);
            RECORDER.let_go(id);
            // Not adopted: a mapping at a fixed address never is.
            let p = map(ANON | MAP_FIXED);
            // SAFETY: mapped above, if it is still there.
            unsafe { p.write_volatile(round) };
            std::thread::yield_now();
            // SAFETY: as above.
            assert_eq!(unsafe { p.read_volatile() }, round);
            assert_eq!(unmap(APART, LEAST), Unmap::Proceed);
            map(ANON | libc::MAP_FIXED_NOREPLACE);
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
    adopt::on_mprotect(block.start + PAGE, PAGE, PROT_READ);
    assert_eq!(
        RECORDER.of(block.id),
        [Told::Surrender(0, block.len), Told::Release]
    );
    assert_eq!(host::find(block.start + PAGE), None);
    let end = block.start + block.len;
    let rest = block.start + 2 * PAGE;
    assert_eq!(extent(matrix + (1 << 18)), Some((rest, end - rest)));
    adopt::on_mprotect(block.start + PAGE, PAGE, PROT_READ | PROT_WRITE);
    let again = host::holding(block.start, end).expect("one block again");
    assert_eq!((again.start, again.len), (block.start, block.len));
    assert_ne!(again.id, block.id);
}
