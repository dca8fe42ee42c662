#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test program, not the library in a user's process"
)]
#![expect(unsafe_code, reason = "drives malloc and friends")]
//! The large-allocation heap against the semantics of C. Tests of facts of the whole process (limits, fork, a foreign
//! free) run in a re-executed child.

mod recorder;

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Once;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::mman::{MmapAdvise, ProtFlags, madvise};
use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};
use recorder::{Recorder, Told};
use semcache::host::{self, Block, Provenance, heap};
use testkit::{Rng, alone};

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
const OPEN: i32 = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE).bits();

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_realloc(p: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_free(p: *mut c_void);
}

static RECORDER: Recorder = Recorder::new(true);

fn set_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        heap::configure(MIB);
        semcache::host::adopt::configure(MIB);
        host::set_observer(&RECORDER);
    });
}

fn ours(p: *mut c_void) -> bool {
    heap::contains(p.addr())
}

fn bytes<'a>(p: *mut c_void, len: usize) -> &'a mut [u8] {
    // SAFETY: tests pass live blocks of at least that size, and use one such slice at a time.
    unsafe { std::slice::from_raw_parts_mut(p.cast(), len) }
}

fn free(p: *mut c_void) {
    // SAFETY: tests free what they allocated, once.
    unsafe { heap::free(p) }
}

fn realloc(p: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: tests pass live blocks and use only the result afterwards.
    unsafe { heap::realloc(p, size) }
}

fn usable(p: *mut c_void) -> usize {
    // SAFETY: tests pass live blocks.
    unsafe { heap::usable_size(p) }
}

fn find(p: *mut c_void) -> Block {
    host::find(p.addr()).expect("a block")
}

fn fill(p: *mut c_void, len: usize, seed: usize) {
    for (i, b) in bytes(p, len).iter_mut().enumerate().step_by(509) {
        *b = (i / 509 + seed) as u8;
    }
}

fn check(p: *mut c_void, len: usize, seed: usize) {
    for (i, b) in bytes(p, len).iter().enumerate().step_by(509) {
        assert_eq!(*b, (i / 509 + seed) as u8, "byte {i}");
    }
}

#[test]
fn threshold_alignment_and_extent() {
    set_up();
    for size in [
        0,
        1,
        PAGE,
        MIB - 1,
        MIB,
        MIB + 1,
        2 * MIB - PAGE,
        2 * MIB - PAGE + 1,
        2 * MIB,
        3 * MIB + 5,
        65 * MIB,
    ] {
        for p in [
            heap::malloc(size),
            heap::calloc(1, size),
            heap::memalign(64, size),
        ] {
            assert!(!p.is_null());
            assert_eq!(ours(p), size >= MIB, "{size}");
            let n = usable(p);
            assert!(n >= size);
            if n > 0 {
                bytes(p, n)[0] = 1;
                bytes(p, n)[n - 1] = 1;
            }
            if size >= MIB {
                assert!(p.addr().is_multiple_of(2 * MIB) && n == size);
                let b = find(p);
                assert_eq!(
                    (b.start, b.content, b.provenance),
                    (p.addr(), n, Provenance::Owned)
                );
                assert!(b.len >= n && b.len.is_multiple_of(PAGE));
                assert_eq!(host::find(p.addr() + b.len - 1), Some(b));
                assert_eq!(host::find(p.addr() + b.len), None);
                assert_eq!(host::find(p.addr() - 1), None);
                assert_eq!(host::block(b.id), Some(b));
                free(p);
                // By its identity: another test's thread may have been given the address already.
                assert_eq!(host::block(b.id), None);
            } else {
                assert_eq!(host::find(p.addr()), None);
                free(p);
            }
        }
    }
    free(std::ptr::null_mut());
    assert_eq!(usable(std::ptr::null_mut()), 0);
}

#[test]
fn any_alignment() {
    set_up();
    for align in [
        1,
        3,
        16,
        PAGE,
        MIB,
        2 * MIB,
        4 * MIB,
        64 * MIB,
        1024 * MIB,
        4096 * MIB,
    ] {
        for size in [100, MIB, 5 * MIB] {
            let p = heap::memalign(align, size);
            assert!(!p.is_null(), "{align} {size}");
            assert!(
                p.addr().is_multiple_of(if align == 3 { 4 } else { align }),
                "{align} {size}"
            );
            fill(p, size, 3);
            check(p, size, 3);
            free(p);
        }
    }
}

#[test]
fn absurd_requests_fail_as_with_glibc() {
    set_up();
    let errno = || std::io::Error::last_os_error().raw_os_error();
    for size in [usize::MAX, usize::MAX / 2, 1 << 46, 40 << 40] {
        assert!(heap::malloc(size).is_null(), "{size}");
        assert_eq!(errno(), Some(Errno::ENOMEM as i32));
        assert!(heap::calloc(1, size).is_null());
    }
    assert!(heap::calloc(usize::MAX, 2).is_null());
    assert_eq!(errno(), Some(Errno::ENOMEM as i32));
    let p = heap::malloc(2 * MIB);
    fill(p, 2 * MIB, 1);
    for size in [usize::MAX, 1 << 46] {
        assert!(realloc(p, size).is_null());
        assert_eq!(errno(), Some(Errno::ENOMEM as i32));
    }
    check(p, 2 * MIB, 1);
    assert!(realloc(p, 0).is_null());
}

#[test]
fn calloc_is_zero_after_recycling() {
    set_up();
    for size in [MIB, 3 * MIB + 77, 31 * MIB, 33 * MIB, 65 * MIB] {
        let p = heap::malloc(size);
        bytes(p, size).fill(0xff);
        free(p);
        let q = heap::calloc(size / 7, 7);
        assert!(bytes(q, size / 7 * 7).iter().all(|b| *b == 0), "{size}");
        free(q);
    }
}

/// Reads the byte one column behind a matrix of 64 columns that is all of the block, and the one just behind the block.
fn read_behind(p: *mut c_void, size: usize) {
    for behind in [size.next_multiple_of(PAGE), size + size / 64] {
        // SAFETY: no Rust object lies there. The byte is to be readable, else this test's process ends.
        let _ = unsafe { p.cast::<u8>().wrapping_add(behind).read_volatile() };
    }
}

#[test]
fn a_column_behind_a_block_is_readable() {
    set_up();
    // Fresh, and from a run in which a longer block was.
    for size in [MIB, 2 * MIB - PAGE, 40 * MIB, 33 * MIB, 63 * MIB] {
        let p = heap::malloc(size);
        assert!(ours(p) && usable(p) == size);
        read_behind(p, size);
        free(p);
        let p = heap::calloc(size, 1);
        read_behind(p, size);
        free(p);
    }
    // Grown in place, shrunk, moved, and one that cannot be moved.
    let mut p = heap::malloc(3 * MIB);
    for size in [
        3 * MIB + MIB / 2,
        2 * MIB,
        40 * MIB,
        39 * MIB,
        70 * MIB,
        3 * MIB,
        5 * MIB,
    ] {
        p = realloc(p, size);
        read_behind(p, size);
        bytes(p, size)[size - 1] = 1;
    }
    free(p);
}

#[test]
fn what_is_written_behind_a_block_is_no_part_of_the_next() {
    // Runs alone, so that no other test takes the block that is freed.
    alone(|| {
        set_up();
        let p = heap::malloc(4 * MIB);
        // SAFETY: no Rust object lies there; the program's mistake.
        unsafe { p.cast::<u8>().wrapping_add(4 * MIB).write_bytes(0xff, PAGE) };
        free(p);
        let q = heap::calloc(4 * MIB + PAGE, 1);
        assert_eq!(q, p);
        assert!(bytes(q, 4 * MIB + PAGE).iter().all(|b| *b == 0));
        let q = realloc(q, 3 * MIB);
        assert_eq!(q, p);
        // A block that has shrunk and grows again has zeros there, or what it had.
        let q = realloc(q, 4 * MIB);
        assert!(bytes(q, 4 * MIB).iter().all(|b| *b == 0));
        free(q);
    });
}

#[test]
fn realloc_keeps_contents() {
    set_up();
    let sizes = [
        100,
        MIB - 1,
        MIB,
        MIB + 1,
        5 * MIB,
        3 * MIB,
        30 * MIB,
        2 * MIB,
        2 * MIB - PAGE,
        600 << 10,
        400 << 10,
        10,
        2 * MIB,
        100 * MIB,
        100 * MIB + 1,
        MIB / 2,
        MIB / 2 - 1,
        17 * MIB,
    ];
    let mut p = realloc(std::ptr::null_mut(), 50);
    let mut old = 50;
    for (seed, size) in sizes.into_iter().enumerate() {
        fill(p, old, seed);
        p = realloc(p, size);
        assert!(!p.is_null() && usable(p) >= size);
        check(p, old.min(size), seed);
        bytes(p, size)[size - 1] = 9;
        old = size;
    }
    free(p);
}

#[test]
fn grown_memory_is_where_it_says() {
    // Runs alone, so that it gets no recycled block with other head-room.
    alone(|| {
        set_up();
        let p = heap::malloc(MIB);
        let a = find(p);
        let q = realloc(p, 2 * MIB - MIB / 8);
        assert_eq!(p, q, "grows in place while the run has room");
        assert_eq!(find(q).id, a.id);
        let r = realloc(q, 3 * MIB);
        assert_ne!(find(r).id, a.id, "a moved block is a new one");
        assert_eq!(host::block(a.id), None);
        assert!(
            realloc(r, 6 * MIB) == r,
            "a moved block got room for as much again"
        );
        free(r);
    });
}

#[test]
fn addresses_come_again_identities_do_not() {
    // Runs alone, so that no other test takes each address that is freed.
    alone(|| {
        set_up();
        let mut seen = HashMap::new();
        for _ in 0..50 {
            let p = heap::malloc(9 * MIB);
            let id = find(p).id;
            assert!(host::mark_in_use(id));
            *seen.entry(p.addr()).or_insert(0) += 1;
            free(p);
            assert_eq!(RECORDER.of(id), [Told::Release], "each life ends once");
            assert!(!host::mark_in_use(id));
            assert_eq!(host::block(id), None);
        }
        assert!(
            seen.values().any(|n| *n > 1),
            "this test saw no address again"
        );
    });
}

#[test]
fn observer_is_told_what_it_should() {
    set_up();
    let p = heap::malloc(5 * MIB);
    let unmarked = find(p).id;
    free(realloc(realloc(p, 6 * MIB), 3 * MIB));
    assert_eq!(RECORDER.of(unmarked), []);

    let p = heap::malloc(5 * MIB);
    let b = find(p);
    assert!(host::mark_in_use(b.id));
    assert_eq!(realloc(p, 7 * MIB), p);
    assert_eq!(realloc(p, 4 * MIB), p);
    let mut expected = vec![
        Told::Resized(7 * MIB),
        Told::Surrender(4 * MIB, 3 * MIB),
        Told::Resized(4 * MIB),
    ];
    assert_eq!(RECORDER.of(b.id), expected);
    let q = realloc(p, 40 * MIB);
    expected.extend([Told::Surrender(0, 4 * MIB), Told::Release]);
    assert_eq!(RECORDER.of(b.id), expected);
    let moved = find(q);
    assert!(host::mark_in_use(moved.id));
    assert!(realloc(q, 1 << 46).is_null());
    assert_eq!(
        RECORDER.of(moved.id),
        [Told::Surrender(0, moved.len), Told::Release]
    );
    let left = find(q);
    assert_ne!(left.id, moved.id, "a failed move ends the name too");
    assert!(host::prepare(&left, left.start, left.len));
    free(q);
    assert_eq!(RECORDER.of(left.id), [], "not marked again");
}

#[test]
fn quarantine_keeps_the_memory() {
    set_up();
    let p = heap::malloc(3 * MIB);
    let b = find(p);
    bytes(p, 3 * MIB)[MIB] = 42;
    assert!(host::mark_in_use(b.id));
    RECORDER.hold(b.id);
    free(p);
    assert_eq!(host::find(p.addr()), None);
    let others: Vec<_> = (0..8).map(|_| heap::malloc(3 * MIB)).collect();
    assert!(others.iter().all(|o| *o != p), "not handed out");
    heap::reap();
    assert_eq!(bytes(p, 3 * MIB)[MIB], 42, "still mapped");
    RECORDER.let_go(b.id);
    others.into_iter().for_each(free);
    assert_eq!(RECORDER.of(b.id), [Told::Release]);
    heap::reap();
}

#[test]
fn prepare_is_harmless_and_survives_growth() {
    set_up();
    let p = heap::malloc(9 * MIB);
    fill(p, 9 * MIB, 4);
    let b = find(p);
    assert!(host::prepare(&b, b.start + 3 * MIB, MIB));
    assert!(host::prepare(&b, b.start, b.len));
    assert!(host::prepare(&b, b.start + b.len, 0));
    check(p, 9 * MIB, 4);
    let q = realloc(p, 11 * MIB);
    let q = realloc(q, 90 * MIB);
    check(q, 9 * MIB, 4);
    bytes(q, 90 * MIB)[90 * MIB - 1] = 1;
    free(q);
}

#[test]
fn a_block_that_cannot_be_moved_is_copied() {
    set_up();
    let p = heap::malloc(5 * MIB);
    fill(p, 5 * MIB, 6);
    // Splits the mapping without the heap's knowledge, so mremap refuses.
    // SAFETY: changes the dumping of live pages only.
    unsafe {
        let part = NonNull::new(p.wrapping_byte_add(MIB)).unwrap();
        madvise(part, MIB, MmapAdvise::MADV_DONTDUMP)
    }
    .unwrap();
    let q = realloc(p, 60 * MIB);
    assert_ne!(p, q);
    check(q, 5 * MIB, 6);
    free(q);
}

#[test]
fn wild_pointers_into_our_range_are_ignored() {
    // Runs alone: the second free of an address must not meet a block that another test has there by then.
    alone(|| {
        set_up();
        let p = heap::malloc(3 * MIB);
        free(p.wrapping_byte_add(64));
        assert_eq!(find(p).start, p.addr());
        free(p);
        free(p);
    });
}

#[test]
fn the_program_may_protect_advise_and_unmap_its_blocks() {
    use semcache::host::adopt;
    set_up();
    let p = heap::malloc(4 * MIB);
    let b = find(p);
    assert!(host::mark_in_use(b.id));
    adopt::on_madvise(p.addr() + MIB, MIB, MmapAdvise::MADV_DONTNEED as i32);
    adopt::on_madvise(p.addr(), MIB, MmapAdvise::MADV_HUGEPAGE as i32);
    assert_eq!(RECORDER.of(b.id), [Told::Surrender(MIB, MIB)]);
    adopt::on_mprotect(p.addr(), PAGE, OPEN);
    assert_eq!(RECORDER.of(b.id)[1..], [Told::Surrender(0, PAGE)]);
    assert_eq!(find(p), b);
    adopt::on_mprotect(p.addr(), PAGE, ProtFlags::PROT_READ.bits());
    assert_eq!(
        RECORDER.of(b.id)[2..],
        [Told::Surrender(0, b.len), Told::Release]
    );
    assert_eq!(
        host::find(p.addr()),
        None,
        "guarded by the program: transient"
    );
    assert_eq!(adopt::on_munmap(p.addr() + MIB, PAGE), adopt::Unmap::Done);
    bytes(p, MIB)[5] = 1;
    free(p);
    let q = heap::malloc(4 * MIB);
    fill(q, 4 * MIB, 8);
    free(q);
}

#[test]
fn a_guarded_block_is_one_again_without_its_guards() {
    use semcache::host::{adopt, guards};
    set_up();
    let p = heap::malloc(MIB);
    let b = find(p);
    assert!(host::mark_in_use(b.id));
    adopt::on_mprotect(p.addr() + 8 * PAGE, 2 * PAGE, ProtFlags::PROT_READ.bits());
    assert_eq!(
        RECORDER.of(b.id),
        [Told::Surrender(0, b.len), Told::Release]
    );
    adopt::on_mprotect(p.addr() + 20 * PAGE, PAGE, ProtFlags::PROT_NONE.bits());
    adopt::on_mprotect(p.addr(), 10 * PAGE, OPEN);
    assert_eq!(host::find(p.addr()), None, "guarded elsewhere");
    adopt::on_mprotect(p.addr() + 20 * PAGE, PAGE, OPEN);
    let again = find(p);
    assert!(again.id != b.id && (again.start, again.len) == (b.start, b.len));
    assert!(host::mark_in_use(again.id) && host::prepare(&again, again.start, again.len));
    // Pages that a userfaultfd watches are guarded whatever their protection, until the userfaultfd is closed.
    assert!(guards::before_register(p.addr(), 4 * PAGE, 77));
    assert!(!guards::before_register(p.addr(), PAGE, 77));
    adopt::on_mprotect(p.addr(), MIB, OPEN);
    assert_eq!(host::find(p.addr()), None);
    let rect = semcache::base::Rect::new(p.addr(), 8, 8, 1);
    assert!(!guards::permits(&rect, false));
    guards::closed(78);
    assert_eq!(host::find(p.addr()), None);
    guards::closed(77);
    assert!(find(p).id != again.id && guards::permits(&rect, true));
    free(p);
    // Guards end with their block.
    let p = heap::malloc(MIB);
    adopt::on_mprotect(p.addr(), PAGE, ProtFlags::PROT_NONE.bits());
    free(p);
    let p = heap::malloc(MIB);
    adopt::on_mprotect(p.addr() + PAGE, PAGE, ProtFlags::PROT_NONE.bits());
    adopt::on_mprotect(p.addr() + PAGE, PAGE, OPEN);
    let _ = find(p);
    free(p);
}

/// Where the marks of a block lie: enough to see a lost or shared page, few enough for many blocks, and no two on one
/// address.
fn marks(len: usize) -> impl Iterator<Item = usize> {
    (0..len.saturating_sub(15))
        .step_by(PAGE * 16)
        .chain(len.checked_sub(8))
}

fn mark(p: *mut c_void, len: usize, tag: u64) {
    for at in marks(len) {
        // SAFETY: within a live block.
        unsafe {
            p.byte_add(at)
                .cast::<u64>()
                .write_unaligned(tag ^ at as u64)
        };
    }
}

/// The marks of a block of `of` bytes that lie in its first `len`.
fn marked(p: *mut c_void, len: usize, of: usize, tag: u64) {
    for at in marks(of).filter(|at| at + 8 <= len) {
        // SAFETY: within a live block.
        let found = unsafe { p.byte_add(at).cast::<u64>().read_unaligned() };
        assert_eq!(found, tag ^ at as u64, "at {at} of {of}");
    }
}

fn trace(seed: u64, steps: usize) {
    let mut rng = Rng::new(seed);
    let mut live: Vec<(usize, usize, u64)> = Vec::new();
    for step in 0..steps {
        let size = if rng.below(3) == 0 {
            rng.below(2 * MIB)
        } else {
            rng.below(12 * MIB)
        };
        let tag = seed << 32 | step as u64;
        match rng.below(4) {
            0 | 1 if live.len() < 20 => {
                let zero = rng.below(3) == 0;
                let p = if zero {
                    heap::calloc(size, 1)
                } else {
                    heap::malloc(size)
                };
                assert!(!p.is_null());
                if zero {
                    assert!(bytes(p, size).iter().step_by(64).all(|b| *b == 0));
                }
                mark(p, size, tag);
                live.push((p.expose_provenance(), size, tag));
            }
            2 if !live.is_empty() => {
                let i = rng.below(live.len());
                let (p, old, was) = live[i];
                let size = size.max(8);
                let q = realloc(std::ptr::with_exposed_provenance_mut(p), size);
                assert!(!q.is_null());
                marked(q, size.min(old), old, was);
                mark(q, size, tag);
                live[i] = (q.expose_provenance(), size, tag);
            }
            _ if !live.is_empty() => {
                let i = rng.below(live.len());
                let (p, size, tag) = live.swap_remove(i);
                let p = std::ptr::with_exposed_provenance_mut(p);
                if ours(p) && step % 3 == 0 {
                    let b = find(p);
                    host::mark_in_use(b.id);
                    assert!(host::prepare(&b, b.start, b.len));
                }
                marked(p, size, size, tag);
                free(p);
            }
            _ => {}
        }
    }
    for (p, size, tag) in live {
        let p = std::ptr::with_exposed_provenance_mut(p);
        marked(p, size, size, tag);
        free(p);
    }
}

#[test]
fn random_traces_on_eight_threads() {
    set_up();
    std::thread::scope(|s| {
        for t in 1..=8 {
            s.spawn(move || trace(t, 300));
        }
    });
}

#[test]
fn temporaries_do_not_fault_again() {
    alone(|| {
        set_up();
        let faults = || {
            let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
            usage.minor_page_faults()
        };
        let mut before = 0;
        for round in 0..100 {
            let (a, b) = (heap::malloc(8 * MIB), heap::malloc(8 * MIB));
            bytes(a, 8 * MIB).fill(round);
            bytes(b, 8 * MIB).fill(round);
            free(a);
            free(b);
            if round == 2 {
                before = faults();
            }
        }
        assert!(faults() - before < 100, "{}", faults() - before);
    });
}

#[test]
fn smaller_temporaries_do_not_fault_again_either() {
    alone(|| {
        set_up();
        free(heap::malloc(8 * MIB));
        let p = heap::malloc(MIB / 2);
        assert!(!ours(p));
        // SAFETY: the size field of glibc's chunk.
        let size = unsafe { p.cast::<usize>().sub(1).read() };
        assert_eq!(size & 2, 0, "a mapping of its own");
    });
}

#[test]
fn sparse_blocks_stay_sparse() {
    alone(|| {
        set_up();
        let resident = || -> usize {
            let s = std::fs::read_to_string("/proc/self/statm").expect("statm");
            s.split(' ')
                .nth(1)
                .and_then(|n| n.parse().ok())
                .expect("number")
        };
        let thp = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
            .unwrap_or_default();
        if thp.contains("[always]") {
            return;
        }
        let before = resident();
        // Asked for zeroed memory, since a plain malloc of this size gets huge pages.
        let p = heap::calloc(1024, MIB);
        for at in (0..1024 * MIB).step_by(64 * MIB) {
            bytes(p, 1024 * MIB)[at] = 1;
        }
        assert!(resident() - before < 600, "{} pages", resident() - before);
        free(p);
        assert!(resident() - before < 100, "a large block is given back");
    });
}

#[test]
fn growth_by_small_steps() {
    alone(|| {
        set_up();
        let run = |name: &str, grow: &dyn Fn(*mut c_void, usize) -> *mut c_void, touch: bool| {
            let start = Instant::now();
            let mut p = std::ptr::null_mut();
            let end = if touch { 256 * MIB } else { 1024 * MIB };
            for size in (MIB..=end).step_by(MIB) {
                p = grow(p, size);
                assert!(!p.is_null());
                if touch {
                    bytes(p, size)[size - MIB..].fill(7);
                }
            }
            eprintln!(
                "growth to {} MiB by 1 MiB, {name}, touched: {touch}: {:?}",
                end / MIB,
                start.elapsed()
            );
            p
        };
        for touch in [false, true] {
            // SAFETY: each pointer comes from the call before.
            let p = run("glibc", &|p, n| unsafe { __libc_realloc(p, n) }, touch);
            // SAFETY: a block of glibc's.
            unsafe { __libc_free(p) };
            free(run("ours", &realloc, touch));
        }
    });
}

#[test]
fn lookups_are_fast() {
    set_up();
    let p = heap::malloc(3 * MIB);
    let start = Instant::now();
    for i in 0..100_000 {
        assert!(host::find(p.addr() + i).is_some());
    }
    eprintln!("find, owned: {:?} each", start.elapsed() / 100_000);
    let b = find(p);
    let start = Instant::now();
    for _ in 0..10_000 {
        assert!(host::prepare(&b, b.start, b.len));
    }
    eprintln!("prepare, again: {:?} each", start.elapsed() / 10_000);
    let local = 0u8;
    let start = Instant::now();
    for _ in 0..10_000 {
        assert!(host::find((&raw const local).addr()).is_none());
    }
    eprintln!("find, transient: {:?} each", start.elapsed() / 10_000);
    free(p);
    let start = Instant::now();
    for _ in 0..10_000 {
        free(heap::malloc(3 * MIB));
    }
    eprintln!(
        "malloc and free of 3 MiB, recycled: {:?}",
        start.elapsed() / 10_000
    );
}

#[test]
fn foreign_free_unmaps() {
    alone(|| {
        set_up();
        for _ in 0..3 {
            let p = heap::malloc(5 * MIB);
            fill(p, 5 * MIB, 1);
            let b = find(p);
            host::mark_in_use(b.id);
            assert!(host::prepare(&b, b.start, b.len));
            // SAFETY: looks like a mapped chunk of glibc's, which is what this case tests.
            unsafe { __libc_free(p) };
            assert!(!host::prepare(&b, b.start, b.len));
            assert_eq!(host::find(p.addr()), None);
            assert_eq!(RECORDER.of(b.id), [Told::Release]);
            let q = heap::malloc(5 * MIB);
            fill(q, 5 * MIB, 2);
            // Whether the block grows in place or by moving, the header must still fit.
            let q = realloc(realloc(q, 6 * MIB), 20 * MIB);
            // SAFETY: as above.
            unsafe { __libc_free(q) };
            // glibc's allocator still works.
            // SAFETY: plain use.
            unsafe { __libc_free(__libc_malloc(3 * MIB)) };
        }
    });
}

#[test]
fn limited_address_space() {
    alone(|| {
        setrlimit(Resource::RLIMIT_AS, 4 << 30, 4 << 30).unwrap();
        set_up();
        assert_eq!(heap::degraded(), None);
        let p = heap::malloc(5 * MIB);
        assert!(!p.is_null() && !ours(p));
        fill(p, 5 * MIB, 1);
        let p = realloc(p, 9 * MIB);
        check(p, 5 * MIB, 1);
        free(p);
        assert!(heap::degraded().is_some());
        assert!(heap::malloc(8 << 30).is_null());
    });
}

#[test]
fn off_means_off() {
    alone(|| {
        heap::configure(0);
        let p = heap::malloc(50 * MIB);
        assert!(!p.is_null() && !ours(p));
        free(p);
        assert_eq!(heap::degraded(), None);
        heap::configure(MIB);
        let p = heap::malloc(5 * MIB);
        heap::configure(0);
        fill(p, 5 * MIB, 1);
        let p = realloc(p, 50 * MIB);
        check(p, 5 * MIB, 1);
        free(p);
    });
}

#[test]
fn fork_while_threads_allocate() {
    use std::sync::atomic::{AtomicBool, Ordering};
    alone(|| {
        set_up();
        static STOP: AtomicBool = AtomicBool::new(false);
        let threads: Vec<_> = (1..=3)
            .map(|t| {
                std::thread::spawn(move || {
                    let mut n = 0;
                    while !STOP.load(Ordering::Relaxed) {
                        trace(t + n, 20);
                        n += 10;
                    }
                })
            })
            .collect();
        let mine = heap::malloc(3 * MIB);
        fill(mine, 3 * MIB, 5);
        for _ in 0..40 {
            host::before_fork();
            // The forking thread may allocate meanwhile, as fork handlers of other libraries do.
            free(heap::malloc(2 * MIB));
            // SAFETY: the child touches this module and glibc's allocator only, which fork makes usable.
            let child = unsafe {
                testkit::forked(|| {
                    host::after_fork_child();
                    host::forget_users();
                    check(mine, 3 * MIB, 5);
                    let p = heap::malloc(4 * MIB);
                    fill(p, 4 * MIB, 1);
                    check(p, 4 * MIB, 1);
                    free(p);
                    free(mine);
                })
            };
            host::after_fork_parent();
            assert!(child.wait().success());
        }
        STOP.store(true, Ordering::Relaxed);
        for t in threads {
            t.join().expect("thread");
        }
        check(mine, 3 * MIB, 5);
    });
}

#[test]
fn what_device_libraries_allocate_is_glibcs() {
    set_up();
    let inside = semcache::process::driver_scope::DriverScope::new();
    let p = heap::malloc(5 * MIB);
    assert!(!p.is_null() && !ours(p));
    drop(inside);
    let q = heap::malloc(5 * MIB);
    assert!(ours(q));
    free(p);
    free(q);
}

#[test]
fn too_many_blocks_fall_through() {
    alone(|| {
        set_up();
        let mut blocks = Vec::new();
        loop {
            let p = heap::malloc(2 * MIB);
            assert!(!p.is_null());
            blocks.push(p);
            if !ours(p) {
                break;
            }
            assert_eq!(heap::degraded(), None);
            assert!(blocks.len() < 1 << 16);
        }
        assert!(blocks.len() > 1000);
        let (what, _) = heap::degraded().expect("said");
        assert_eq!(what, semcache::base::counters::Degraded::ManyBlocks);
        for p in blocks {
            free(p);
        }
        let p = heap::malloc(2 * MIB);
        assert!(ours(p), "there is room again");
        free(p);
    });
}
