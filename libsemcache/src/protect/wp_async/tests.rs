//! Dirty tracking on real memory. Where the kernel does not offer it, each test prints that and ends.

use super::super::apart;
use super::*;
use rustix::mm::{Advice, MprotectFlags, MremapFlags};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

const HUGE: usize = 2 << 20;
const NONE: [usize; 0] = [];

/// Fresh memory, unmapped on drop.
struct Block {
    at: *mut u8,
    len: usize,
}

impl Block {
    /// A block of `pages` pages, aligned to a huge page, none of them present.
    fn new(pages: usize) -> Block {
        let len = pages * page();
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, of which the unaligned ends are unmapped.
        unsafe {
            let all =
                rustix::mm::mmap_anonymous(apart(len + HUGE), len + HUGE, flags, MapFlags::PRIVATE)
                    .unwrap();
            let skip = all.addr().next_multiple_of(HUGE) - all.addr();
            if skip > 0 {
                rustix::mm::munmap(all, skip).unwrap();
            }
            let at = all.byte_add(skip);
            if skip < HUGE {
                rustix::mm::munmap(at.byte_add(len), HUGE - skip).unwrap();
            }
            Block { at: at.cast(), len }
        }
    }

    fn addr(&self) -> usize {
        self.at.expose_provenance()
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

    fn protect(&self, flags: MprotectFlags) {
        // SAFETY: the test does not touch the block while it is inaccessible.
        unsafe { rustix::mm::mprotect(self.at.cast(), self.len, flags) }.unwrap();
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: a mapping of this test, to which no reference is left.
        unsafe { rustix::mm::munmap(self.at.cast(), self.len) }.unwrap();
    }
}

/// Serialises the tests, because descriptor numbers are process-wide.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn page() -> usize {
    rustix::param::page_size()
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
    let part =
        |i: usize, n: usize| unsafe { std::slice::from_raw_parts_mut(block.at.add(i * page()), n) };
    rustix::io::pread(f.as_fd(), part(3, 2 * page()), 0).unwrap();
    assert_eq!(block.scan(&gate).unwrap(), [3, 4]);
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    rustix::io::write(&writer, b"abc").unwrap();
    assert_eq!(rustix::io::read(&reader, part(9, 100)).unwrap(), 3);
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
    let huge = unsafe { rustix::mm::madvise(block.at.cast(), block.len, Advice::LinuxHugepage) };
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
    block.protect(MprotectFlags::empty());
    assert_eq!(block.scan(&gate).unwrap(), [1]);
    // A write-back through the kernel makes a page dirty; a page that is write-tracked again while it is inaccessible
    // is not dirty afterwards.
    let mem = std::fs::File::options()
        .write(true)
        .open("/proc/self/mem")
        .unwrap();
    let at = |i: usize| (block.addr() + i * page()) as u64;
    rustix::io::pwrite(mem.as_fd(), &[9], at(3)).unwrap();
    rustix::io::pwrite(mem.as_fd(), &[9], at(4)).unwrap();
    assert_eq!(block.scan(&gate).unwrap(), [3, 4]);
    rustix::io::pwrite(mem.as_fd(), &[9], at(5)).unwrap();
    gate.track(block.addr(), block.len).unwrap();
    block.protect(MprotectFlags::READ | MprotectFlags::WRITE);
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
        rustix::mm::mremap_fixed(
            block.at.cast(),
            block.len,
            block.len,
            MremapFlags::MAYMOVE,
            other.at.cast(),
        )
    }
    .unwrap();
    assert!(other.scan(&gate).is_err(), "not registered there");
    // SAFETY: maps new memory in the hole that `mremap` left; the block unmaps it on drop.
    unsafe {
        rustix::mm::mmap_anonymous(
            block.at.cast(),
            block.len,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::FIXED,
        )
    }
    .unwrap();
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
    unsafe {
        rustix::mm::mmap_anonymous(
            block.at.add(3 * page()).cast(),
            page(),
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::FIXED,
        )
    }
    .unwrap();
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
        // SAFETY: closes a descriptor of the gate, as a program does that closes all numbers; the gate notices before
        // its next use.
        unsafe { rustix::io::close(number) };
        assert!(block.scan(&gate).is_err());
        // Another file under that number is neither used nor closed.
        let stranger = file(1);
        // SAFETY: the number is free: it was closed above.
        let got = unsafe { libc::dup2(stranger.as_raw_fd(), number) };
        assert_eq!(got, number);
        block.write(1);
        assert!(block.scan(&gate).is_err());
        drop(gate);
        // SAFETY: `dup2` above opened this number.
        let still = unsafe { BorrowedFd::borrow_raw(number) };
        assert!(rustix::fs::fstat(still).is_ok());
        // SAFETY: `dup2` above opened this number, and it is not used again.
        unsafe { rustix::io::close(number) };
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
    // SAFETY: the child makes system calls only, and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        block.write(3);
        let refused = gate.scan(block.addr(), block.len, &mut found).is_err();
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child of the fork above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(block.scan(&gate).unwrap(), [1]);
    block.write(2);
    assert_eq!(block.scan(&gate).unwrap(), [2]);
}
