//! Dirty tracking on real memory. Where the kernel does not offer it, each test prints that and ends.

use super::super::apart;
use super::*;
use nix::sys::mman::{
    MRemapFlags, MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, mprotect, mremap, munmap,
};
use nix::sys::stat::fstat;
use nix::sys::uio::{pread, pwrite};
use nix::unistd::{close, dup2_raw, pipe, read, write};
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

const HUGE: usize = 2 << 20;
const NONE: [usize; 0] = [];

const OPEN: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);
const REPLACE: MapFlags = MapFlags::MAP_PRIVATE.union(MapFlags::MAP_FIXED);

/// Maps new memory.
///
/// # Safety
/// With flags that say so, it replaces what is mapped there.
unsafe fn map(at: usize, len: usize, flags: MapFlags) -> NonNull<c_void> {
    let (at, len) = (NonZeroUsize::new(at), NonZeroUsize::new(len).unwrap());
    // SAFETY: the caller's promise.
    unsafe { mmap_anonymous(at, len, OPEN, flags) }.unwrap()
}

/// Fresh memory, unmapped on drop.
struct Block {
    at: NonNull<u8>,
    len: usize,
}

impl Block {
    /// A block of `pages` pages, aligned to a huge page, none of them present.
    fn new(pages: usize) -> Block {
        let len = pages * page();
        // SAFETY: a new mapping, of which the unaligned ends are unmapped.
        unsafe {
            let all = map(apart(len + HUGE).addr(), len + HUGE, MapFlags::MAP_PRIVATE);
            let skip = all.addr().get().next_multiple_of(HUGE) - all.addr().get();
            if skip > 0 {
                munmap(all, skip).unwrap();
            }
            let at = all.byte_add(skip);
            if skip < HUGE {
                munmap(at.byte_add(len), HUGE - skip).unwrap();
            }
            Block { at: at.cast(), len }
        }
    }

    fn addr(&self) -> usize {
        self.at.as_ptr().expose_provenance()
    }

    fn write(&self, index: usize) {
        // SAFETY: inside the mapping.
        unsafe { self.at.add(index * page() + 17).write_volatile(1) };
    }

    fn fill(&self) {
        (0..self.len / page()).for_each(|i| self.write(i));
    }

    fn write_tracked(pages: usize) -> Option<(WpAsync, Block)> {
        let gate = gate()?;
        let block = Block::new(pages);
        block.fill();
        gate.register(block.addr(), block.len).unwrap();
        gate.track(block.addr(), block.len).unwrap();
        Some((gate, block))
    }

    /// The pages that a scan reports.
    fn scan(&self, gate: &WpAsync) -> Result<Vec<usize>> {
        let mut found = Vec::new();
        gate.scan(self.addr(), self.len, &mut found)?;
        Ok(found
            .iter()
            .flat_map(|i| (i.start..i.end).step_by(page()))
            .map(|at| (at - self.addr()) / page())
            .collect())
    }

    fn protect(&self, flags: ProtFlags) {
        // SAFETY: the test does not touch the block while it is inaccessible.
        unsafe { mprotect(self.at.cast(), self.len, flags) }.unwrap();
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: a mapping of this test, to which no reference is left.
        unsafe { munmap(self.at.cast(), self.len) }.unwrap();
    }
}

/// Serialises the tests, because descriptor numbers are process-wide.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn page() -> usize {
    semcache_fault::pages::page_size()
}

fn gate() -> Option<WpAsync> {
    WpAsync::new()
        .inspect_err(|e| eprintln!("no asynchronous write protection here: {e}"))
        .ok()
}

fn file(bytes: usize) -> std::fs::File {
    use std::io::Write;
    let mut f = tempfile::tempfile().unwrap();
    f.write_all(&vec![7; bytes]).unwrap();
    f
}

#[test]
fn the_processors_writes_show_once() {
    let _alone = alone();
    let Some((gate, block)) = Block::write_tracked(64) else {
        return;
    };
    assert_eq!(block.scan(&gate).unwrap(), NONE);
    for i in [0, 1, 5, 63, 5] {
        block.write(i);
    }
    assert_eq!(block.scan(&gate).unwrap(), [0, 1, 5, 63]);
    assert_eq!(block.scan(&gate).unwrap(), NONE);
    block.write(5);
    assert_eq!(block.scan(&gate).unwrap(), [5]);
    // SAFETY: inside the mapping.
    let read = unsafe { block.at.add(9 * page() + 17).read_volatile() };
    assert_eq!((read, block.scan(&gate).unwrap().len()), (1, 0));
}

#[test]
fn the_kernels_writes_show() {
    let _alone = alone();
    let Some((gate, block)) = Block::write_tracked(16) else {
        return;
    };
    let f = file(3 * page());
    // SAFETY: inside the mapping, and no other reference to it is alive.
    let part = |i: usize, n: usize| unsafe {
        std::slice::from_raw_parts_mut(block.at.as_ptr().add(i * page()), n)
    };
    pread(&f, part(3, 2 * page()), 0).unwrap();
    assert_eq!(block.scan(&gate).unwrap(), [3, 4]);
    let (reader, writer) = pipe().unwrap();
    write(&writer, b"abc").unwrap();
    assert_eq!(read(&reader, part(9, 100)).unwrap(), 3);
    assert_eq!(block.scan(&gate).unwrap(), [9]);
    assert_eq!(part(9, 3), b"abc");
}

#[test]
fn more_ranges_than_one_call_reports() {
    let _alone = alone();
    let Some((gate, block)) = Block::write_tracked(4 * REGIONS + 3) else {
        return;
    };
    let wanted: Vec<usize> = (0..block.len / page()).step_by(2).collect();
    wanted.iter().for_each(|i| block.write(*i));
    assert_eq!(block.scan(&gate).unwrap(), wanted);
    assert_eq!(block.scan(&gate).unwrap(), NONE);
}

#[test]
fn a_huge_page_tells_which_small_one() {
    let _alone = alone();
    let Some(gate) = gate() else { return };
    let block = Block::new(4 * HUGE / page());
    // SAFETY: changes no byte.
    let huge = unsafe { madvise(block.at.cast(), block.len, MmapAdvise::MADV_HUGEPAGE) };
    block.fill();
    gate.register(block.addr(), block.len).unwrap();
    gate.track(block.addr(), block.len).unwrap();
    assert_eq!(block.scan(&gate).unwrap(), NONE, "{huge:?}");
    let (a, b) = (HUGE / page() + 3, 3 * HUGE / page());
    block.write(a);
    block.write(b);
    assert_eq!(block.scan(&gate).unwrap(), [a, b]);
    block.write(a + 1);
    assert_eq!(block.scan(&gate).unwrap(), [a + 1]);
    // A scan of a part of a huge page reports and marks that part only.
    block.write(7);
    block.write(9);
    let mut found = Vec::new();
    gate.scan(block.addr() + 8 * page(), 4 * page(), &mut found)
        .unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(block.scan(&gate).unwrap(), [7]);
}

#[test]
fn memory_that_nobody_has_touched() {
    let _alone = alone();
    let Some(gate) = gate() else { return };
    let block = Block::new(3 * HUGE / page());
    gate.register(block.addr(), block.len).unwrap();
    gate.track(block.addr(), block.len).unwrap();
    block.write(2);
    block.write(HUGE / page() + 5);
    let found = block.scan(&gate).unwrap();
    assert!(found.contains(&2) && found.contains(&(HUGE / page() + 5)));
    block.write(100);
    assert!(block.scan(&gate).unwrap().contains(&100));
}

#[test]
fn marks_outlive_closing() {
    let _alone = alone();
    let Some((gate, block)) = Block::write_tracked(8) else {
        return;
    };
    block.write(1);
    block.protect(ProtFlags::PROT_NONE);
    assert_eq!(block.scan(&gate).unwrap(), [1]);
    // A write-back through the kernel makes a page dirty; a page that is write-tracked again while it is inaccessible
    // is not dirty afterwards.
    let mem = std::fs::File::options()
        .write(true)
        .open("/proc/self/mem")
        .unwrap();
    let at = |i: usize| i64::try_from(block.addr() + i * page()).unwrap();
    pwrite(&mem, &[9], at(3)).unwrap();
    pwrite(&mem, &[9], at(4)).unwrap();
    assert_eq!(block.scan(&gate).unwrap(), [3, 4]);
    pwrite(&mem, &[9], at(5)).unwrap();
    gate.track(block.addr(), block.len).unwrap();
    block.protect(OPEN);
    assert_eq!(block.scan(&gate).unwrap(), NONE);
    block.write(6);
    assert_eq!(block.scan(&gate).unwrap(), [6]);
}

#[test]
fn memory_that_moved_is_refused() {
    let _alone = alone();
    let Some((gate, block)) = Block::write_tracked(8) else {
        return;
    };
    block.write(1);
    let other = Block::new(8);
    // SAFETY: both blocks are this test's; the first's pages replace the second's.
    unsafe {
        mremap(
            block.at.cast(),
            block.len,
            block.len,
            MRemapFlags::MREMAP_MAYMOVE | MRemapFlags::MREMAP_FIXED,
            Some(other.at.cast()),
        )
    }
    .unwrap();
    assert!(other.scan(&gate).is_err(), "not registered there");
    // SAFETY: maps new memory in the hole that `mremap` left; the block unmaps it on drop.
    unsafe { map(block.addr(), block.len, REPLACE) };
    assert!(block.scan(&gate).is_err(), "other memory");
    assert!(gate.track(block.addr(), block.len).is_err());
}

#[test]
fn a_piece_that_was_replaced_is_refused() {
    let _alone = alone();
    let Some((gate, block)) = Block::write_tracked(8) else {
        return;
    };
    // SAFETY: replaces a page of this test's block.
    unsafe { map(block.addr() + 3 * page(), page(), REPLACE) };
    assert!(block.scan(&gate).is_err());
}

#[test]
fn what_another_has_is_refused() {
    let _alone = alone();
    let (Some((first, block)), Some(second)) = (Block::write_tracked(8), gate()) else {
        return;
    };
    assert_eq!(second.register(block.addr(), block.len), Err(Errno::BUSY));
    block.write(2);
    assert_eq!(block.scan(&first).unwrap(), [2]);
    first.unregister(block.addr(), block.len);
    assert!(block.scan(&first).is_err());
    second.register(block.addr(), block.len).unwrap();
    second.track(block.addr(), block.len).unwrap();
    block.write(4);
    assert_eq!(block.scan(&second).unwrap(), [4]);
}

#[test]
fn descriptors_that_somebody_closed() {
    let _alone = alone();
    for which in 0..2 {
        let Some((gate, block)) = Block::write_tracked(8) else {
            return;
        };
        let number = gate.descriptors()[which];
        assert!(number >= 64, "out of the way");
        // As a program does that closes all numbers; the gate notices before its next use.
        close(number).unwrap();
        assert!(block.scan(&gate).is_err());
        // Another file under that number is neither used nor closed.
        let stranger = file(1);
        // SAFETY: the number is free: it was closed above.
        let got = unsafe { dup2_raw(&stranger, number) }.unwrap();
        assert_eq!(got.as_raw_fd(), number);
        block.write(1);
        assert!(block.scan(&gate).is_err());
        drop(gate);
        assert!(fstat(&got).is_ok());
    }
}

#[test]
fn the_child_of_a_fork_asks_nobody() {
    let _alone = alone();
    let Some((gate, block)) = Block::write_tracked(8) else {
        return;
    };
    block.write(1);
    let mut found = Vec::with_capacity(8);
    // SAFETY: the child waits for nothing.
    let child = unsafe {
        testkit::forked(|| {
            block.write(3);
            assert!(gate.scan(block.addr(), block.len, &mut found).is_err());
        })
    };
    assert!(child.wait().success());
    assert_eq!(block.scan(&gate).unwrap(), [1]);
    block.write(2);
    assert_eq!(block.scan(&gate).unwrap(), [2]);
}
