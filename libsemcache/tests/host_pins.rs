#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test program, not the library in a user's process"
)]
#![expect(unsafe_code, reason = "drives malloc, mmap and fork")]
//! Pins follow pages: whatever a program does with its memory, the memory that is page-locked on the (simulated)
//! devices is always a block that is allocated or kept for the next malloc, with the very pages that were pinned. Pins
//! belong to the whole process, so each test runs in a re-executed child.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use nix::sys::mman::{
    MRemapFlags, MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, mremap, munmap,
};
use semcache::base::Interval;
use semcache::base::config::Pin;
use semcache::cache::pins_ahead::{PinsAhead, Stop};
use semcache::cache::{Cache, pins as budget};
use semcache::device::api::{Backend, Caps, Cell, DeviceError, Kernel, Region, Shape, Ticket};
use semcache::device::sim::{SimConfig, SimMachine};
use semcache::host::adopt::{self, Unmap};
use semcache::host::{self, Block, heap, pins};
use semcache::protect::WriteThroughGate;
use testkit::Rng;

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
const RW: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);

fn sim() -> &'static SimMachine {
    static SIM: OnceLock<SimMachine> = OnceLock::new();
    SIM.get_or_init(|| {
        SimMachine::new(SimConfig {
            devices: 1,
            memory: 64 << 20,
            ..SimConfig::default()
        })
        .expect("a machine")
    })
}

fn cache() -> &'static Cache {
    static CACHE: OnceLock<Cache> = OnceLock::new();
    static GATE: WriteThroughGate = WriteThroughGate;
    CACHE.get_or_init(|| Cache::new(sim(), &GATE, 2 * MIB, PAGE))
}

fn set_up() {
    heap::configure(MIB);
    adopt::configure(MIB);
    host::set_observer(cache());
}

/// Bytes of a piece that is pinned at once.
static PIECE: AtomicUsize = AtomicUsize::new(64 * MIB);

/// Whether a pinned range is a piece of this block.
fn piece_of((start, len): (usize, usize), (from, bytes): (usize, usize)) -> bool {
    let piece = PIECE.load(Relaxed);
    (start..start + len).contains(&from)
        && (from - start).is_multiple_of(piece)
        && bytes == piece.min(start + len - from)
}

/// Uses the whole of a block as an operand, as a call does.
fn operand(addr: usize) -> Option<Block> {
    let b = host::find(addr)?;
    use_as_operand(b, &[Some(b)]).then_some(b)
}

fn use_as_operand(b: Block, call: &[Option<Block>]) -> bool {
    use_as(b, true, call)
}

fn use_as(b: Block, written: bool, call: &[Option<Block>]) -> bool {
    host::prepare(&b, b.start, b.len) && {
        let fresh = cache().add_block(b);
        if host::mark_in_use(b.id) {
            cache().pin(&b, (b.start, b.len), written, call);
            true
        } else {
            assert!(fresh, "only a dead block is not marked");
            false
        }
    }
}

fn pointer(addr: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(addr)
}

fn there(addr: usize) -> NonNull<c_void> {
    NonNull::new(pointer(addr)).unwrap()
}

fn word(addr: usize) -> &'static mut u64 {
    // SAFETY: tests pass mapped, aligned addresses, and use one such reference at a time.
    unsafe { &mut *pointer(addr).cast::<u64>() }
}

fn map(len: usize) -> usize {
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_ANONYMOUS;
    let size = NonZeroUsize::new(len).unwrap();
    // SAFETY: a new mapping.
    let p = unsafe { mmap_anonymous(None, size, RW, flags) }.unwrap();
    adopt::on_mmap(p.addr().get(), len, RW.bits(), flags.bits(), -1);
    p.as_ptr().expose_provenance()
}

fn unmap(addr: usize, len: usize) {
    if adopt::on_munmap(addr, len) == Unmap::Proceed {
        assert!(!pinned_within(addr, len), "unmapped under a pin");
        // SAFETY: this test's mapping.
        unsafe { munmap(there(addr), len) }.unwrap();
    }
}

fn pinned_within(addr: usize, len: usize) -> bool {
    let all = sim().pinned();
    all.iter().any(|(s, l)| *s < addr + len && addr < s + l)
}

fn free(addr: usize) {
    // SAFETY: tests free what they allocated, once.
    unsafe { heap::free(pointer(addr)) }
}

/// The program's blocks: start, length, mapped by itself or allocated, and the words that it wrote.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Mine {
    start: usize,
    len: usize,
    mapped: bool,
    tag: u64,
}

#[derive(Default)]
struct World {
    mine: Vec<Mine>,
    /// Blocks that were freed while pinned, and the words in their pages.
    kept: BTreeMap<usize, (usize, u64)>,
    tags: u64,
}

fn mark(start: usize, len: usize, tag: u64) {
    for at in [0, len / 2 / PAGE * PAGE, len - 8] {
        *word(start + at) = tag;
    }
}

fn marked(start: usize, len: usize, tag: u64) -> bool {
    [0, len / 2 / PAGE * PAGE, len - 8]
        .iter()
        .all(|at| *word(start + at) == tag)
}

impl World {
    fn add(&mut self, start: usize, len: usize, mapped: bool) {
        assert_ne!(start, 0);
        // A block that was kept here belongs to a new allocation now.
        self.kept
            .retain(|s, (l, _)| *s >= start + len || s + *l <= start);
        self.tags += 1;
        mark(start, len, self.tags);
        self.mine.push(Mine {
            start,
            len,
            mapped,
            tag: self.tags,
        });
    }

    /// The bytes of a block, with its padding.
    fn length(start: usize) -> usize {
        host::find(start).expect("a live block").len
    }

    fn step(&mut self, rng: &mut Rng) {
        let size = MIB + rng.below(6 * MIB);
        let kind = rng.below(16);
        if self.mine.len() < 3 || kind < 4 && self.mine.len() < 12 {
            match rng.below(4) {
                0 => {
                    let len = size.next_multiple_of(PAGE);
                    let at = map(len);
                    self.add(at, len, true);
                }
                1 => {
                    let p = heap::calloc(1, size).addr();
                    for at in (0..size / 8 * 8).step_by(PAGE) {
                        assert_eq!(*word(p + at), 0, "calloc");
                    }
                    self.add(p, Self::length(p), false);
                }
                _ => {
                    let p = heap::malloc(size).addr();
                    self.add(p, Self::length(p), false);
                }
            }
            return;
        }
        let i = rng.below(self.mine.len());
        let m = self.mine[i];
        match kind {
            0..=9 => {
                let b = if kind < 7 {
                    operand(m.start).expect("a block")
                } else {
                    // A part of the block.
                    let b = host::find(m.start).expect("a block");
                    let at = rng.below(b.len / 2);
                    let len = 1 + rng.below(b.len - at);
                    assert!(host::prepare(&b, b.start + at, len));
                    cache().add_block(b);
                    assert!(host::mark_in_use(b.id));
                    cache().pin(&b, (b.start + at, len), true, &[Some(b)]);
                    b
                };
                assert_eq!((b.start, b.len), (m.start, m.len));
            }
            10 | 11 if m.mapped => {
                self.mine.swap_remove(i);
                unmap(m.start, m.len);
                assert!(!pinned_within(m.start, m.len));
            }
            10 | 11 => {
                self.mine.swap_remove(i);
                let pinned = pinned_within(m.start, m.len);
                free(m.start);
                if pinned {
                    self.kept.insert(m.start, (m.len, m.tag));
                }
            }
            12 if m.mapped => {
                // A page in the middle is unmapped; the remaining parts are new blocks.
                let hole = m.len / 2 / PAGE * PAGE;
                self.mine.swap_remove(i);
                unmap(m.start + hole, PAGE);
                assert!(!pinned_within(m.start + hole, PAGE));
                unmap(m.start, hole);
                unmap(m.start + hole + PAGE, m.len - hole - PAGE);
            }
            12 => {
                // SAFETY: a live block.
                let p = unsafe { heap::realloc(pointer(m.start), size) }.addr();
                assert_eq!(*word(p), m.tag);
                self.mine.swap_remove(i);
                self.add(p, Self::length(p), false);
            }
            13 if m.mapped => {
                let len = size.next_multiple_of(PAGE);
                let may_move = MRemapFlags::MREMAP_MAYMOVE;
                adopt::before_mremap(m.start, m.len, may_move.bits(), 0, len);
                assert!(!pinned_within(m.start, m.len));
                // SAFETY: this test's mapping.
                let p = unsafe { mremap(there(m.start), m.len, len, may_move, None) };
                let p = p.unwrap().addr().get();
                adopt::on_mremap(m.start, m.len, p, len);
                assert_eq!(*word(p), m.tag);
                self.mine.swap_remove(i);
                self.add(p, len, true);
            }
            13 => {
                let (at, n) = (m.start + m.len / 4 / PAGE * PAGE, 8 * PAGE);
                let unneeded = MmapAdvise::MADV_DONTNEED;
                adopt::on_madvise(at, n, unneeded as i32);
                assert!(!pinned_within(at, n));
                // SAFETY: part of a live block whose contents are not needed.
                unsafe { madvise(there(at), n, unneeded) }.unwrap();
            }
            14 if m.mapped => {
                adopt::on_mprotect(m.start, m.len, ProtFlags::PROT_NONE.bits());
                assert!(!pinned_within(m.start, m.len));
                adopt::on_mprotect(m.start, m.len, RW.bits());
                self.mine.swap_remove(i);
                unmap(m.start, m.len);
            }
            14 => self.fork(),
            _ => {
                heap::trim();
                self.kept.clear();
                let idle: Vec<_> = (sim().pinned().into_iter())
                    .filter(|p| !self.mine.iter().any(|m| piece_of((m.start, m.len), *p)))
                    .collect();
                assert_eq!(idle, [], "trimmed");
            }
        }
    }

    fn fork(&self) {
        cache().unpin_for_fork();
        host::before_fork();
        // SAFETY: the child touches these modules and glibc's allocator only, which fork makes usable.
        let child = unsafe {
            testkit::forked(|| {
                host::after_fork_child();
                host::forget_users();
                let none = pins::ranges().is_empty() && pins::bytes() == 0;
                for m in self.mine.iter().filter(|m| !m.mapped) {
                    free(m.start);
                }
                let p = heap::calloc(1, 3 * MIB);
                free(p.addr());
                heap::trim();
                assert!(none);
            })
        };
        host::after_fork_parent();
        assert!(
            child.wait().success(),
            "the child forgets pins and does without devices"
        );
    }

    fn check(&self) {
        // The thread that returns idle blocks may have changed one of the two lists and not yet the other.
        let agree = |_: &i32| {
            let (pinned, bytes) = (sim().pinned(), pins::bytes());
            let sum = pinned.iter().map(|p| p.1).sum::<usize>();
            let same = pinned == pins::ranges() && bytes == sum;
            if !same {
                std::thread::sleep(Duration::from_millis(5));
            }
            same
        };
        assert!((0..12_000).any(|n| agree(&n)), "both know the same");
        let pinned = sim().pinned();
        assert_eq!(sim().pin_violations(), 0);
        for (start, len) in pinned {
            let mut mine = self.mine.iter();
            if let Some(m) = mine.find(|m| piece_of((m.start, m.len), (start, len))) {
                assert!(marked(m.start, m.len, m.tag));
            } else {
                let kept = self.kept.range(..=start).next_back();
                let (&from, &(bytes, tag)) = kept.expect("a kept block");
                assert!(piece_of((from, bytes), (start, len)));
                assert!(marked(from, bytes, tag), "kept with its pages");
            }
        }
    }
}

#[test]
fn pins_follow_pages() {
    testkit::alone(|| pins_of_random_programs(64 * MIB));
}

#[test]
fn pins_follow_pages_in_pieces() {
    testkit::alone(|| pins_of_random_programs(2 * MIB));
}

fn pins_of_random_programs(piece: usize) {
    set_up();
    budget::set_piece(piece);
    PIECE.store(piece, Relaxed);
    // The limit is so low that pins end all the time; the janitor thread keeps freed blocks for seconds.
    budget::set_budget(40 * MIB);
    for seed in 1..=6 {
        let mut rng = Rng::new(seed);
        let mut world = World::default();
        for _ in 0..250 {
            world.step(&mut rng);
            world.check();
        }
        for m in std::mem::take(&mut world.mine) {
            if m.mapped {
                unmap(m.start, m.len);
            } else {
                free(m.start);
            }
        }
        heap::trim();
        assert_eq!(sim().pinned(), []);
        assert_eq!(sim().pin_violations(), 0);
    }
}

#[test]
fn threads_that_pin_free_and_trim() {
    testkit::alone(|| {
        set_up();
        budget::set_budget(30 * MIB);
        let shared = heap::malloc(4 * MIB).addr();
        std::thread::scope(|s| {
            for t in 1..=4 {
                s.spawn(move || {
                    let mut rng = Rng::new(t);
                    for _ in 0..150 {
                        let p = heap::malloc(MIB + rng.below(5 * MIB)).addr();
                        *word(p) = t;
                        operand(p);
                        operand(shared);
                        if rng.below(20) == 0 {
                            heap::trim();
                        }
                        let len = MIB + rng.below(3) * PAGE;
                        let q = map(len);
                        operand(q);
                        assert_eq!(*word(p), t);
                        unmap(q, len);
                        free(p);
                    }
                });
            }
        });
        free(shared);
        heap::trim();
        assert_eq!(sim().pinned(), []);
        assert_eq!(sim().pin_violations(), 0);
    });
}

#[test]
fn a_freed_matrix_comes_back_pinned_and_warm() {
    testkit::alone(|| {
        set_up();
        let large = 200 * MIB;
        let p = heap::malloc(large).addr();
        operand(p).expect("a block");
        let pinned = sim().pinned();
        let bytes: usize = pinned.iter().map(|(_, len)| len).sum();
        assert_eq!((pinned[0].0, bytes), (p, World::length(p)));
        let whole = (p, World::length(p));
        assert!(pinned.len() == 4 && pinned.iter().all(|range| piece_of(whole, *range)));
        *word(p + 100 * MIB) = 7;
        free(p);
        assert_eq!(sim().pinned(), pinned, "kept");
        let q = heap::malloc(large - PAGE).addr();
        assert_eq!((q, *word(q + 100 * MIB)), (p, 7), "the same pages");
        free(q);
        assert_eq!(sim().pinned(), pinned, "also when it was no operand");
        let q = heap::calloc(1, large).addr();
        assert_eq!((q, *word(q + 100 * MIB)), (p, 0));
        // A larger allocation cannot reuse the block: the pin would not cover all of it.
        free(q);
        let r = heap::malloc(large + MIB).addr();
        assert_ne!(r, p);
        // A freed block stays pinned for more than 3 s, in case an allocation reuses it; then its pin ends.
        let waited = std::time::Instant::now();
        free(r);
        while !sim().pinned().is_empty() {
            assert!(waited.elapsed() < Duration::from_secs(60), "still pinned");
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(waited.elapsed() > Duration::from_secs(3));
        assert_eq!(sim().pin_violations(), 0);
    });
}

#[test]
fn the_budget_goes_to_what_was_used_last() {
    testkit::alone(|| {
        set_up();
        budget::set_budget(20 * MIB);
        let all: Vec<_> = (0..4).map(|_| heap::malloc(8 * MIB).addr()).collect();
        let starts = || -> Vec<usize> { sim().pinned().iter().map(|p| p.0).collect() };
        for p in &all[..3] {
            operand(*p);
        }
        assert_eq!(starts(), all[1..3]);
        operand(all[1]);
        operand(all[3]);
        assert_eq!(starts(), [all[1], all[3]], "the third was older");
        // One call with three operands: no pin of the call ends to make room for another of the same call.
        let call: Vec<_> = all[1..].iter().map(|p| host::find(*p)).collect();
        for b in call.iter().flatten() {
            use_as_operand(*b, &call);
        }
        assert_eq!(starts(), [all[1], all[3]]);
        // A block that was refused for lack of room is pinned when there is room.
        free(all[3]);
        heap::trim();
        operand(all[2]);
        assert_eq!(starts(), all[1..3]);
        assert_eq!(sim().pin_violations(), 0);
    });
}

#[test]
fn what_is_not_worth_it() {
    testkit::alone(|| {
        set_up();
        // Small.
        let p = map(128 << 10);
        operand(p);
        // Large, untouched, and hardly used as an operand.
        let p = heap::malloc(64 * MIB).addr();
        let b = host::find(p).expect("a block");
        cache().add_block(b);
        assert!(host::mark_in_use(b.id));
        let part = |len| cache().pin(&b, (p, len), true, &[]);
        part(MIB);
        part(MIB + PAGE);
        assert_eq!(sim().pinned(), []);
        part(33 * MIB);
        assert_eq!(sim().pinned(), [(b.start, b.len)]);
        // The same, but its pages are present.
        let q = heap::malloc(64 * MIB).addr();
        for at in (0..64 * MIB).step_by(PAGE) {
            *word(q + at) = 1;
        }
        let c = host::find(q).expect("a block");
        cache().add_block(c);
        assert!(host::mark_in_use(c.id));
        cache().pin(&c, (q, MIB), true, &[]);
        assert_eq!(sim().pinned().len(), 2);
        // After the end nothing more happens.
        pins::end();
        free(p);
        unmap(map(2 * MIB), 2 * MIB);
        operand(heap::malloc(2 * MIB).addr());
        assert_eq!(sim().pin_violations(), 0);
    });
}

/// Counts what it is asked, and refuses.
#[derive(Debug)]
struct Unwilling(Mutex<usize>);

#[test]
fn a_refusal_is_remembered() {
    testkit::alone(|| {
        set_up();
        static UNWILLING: Unwilling = Unwilling(Mutex::new(0));
        static GATE: WriteThroughGate = WriteThroughGate;
        static CACHE: OnceLock<Cache> = OnceLock::new();
        let cache = CACHE.get_or_init(|| Cache::new(&UNWILLING, &GATE, 2 * MIB, PAGE));
        host::set_observer(cache);
        let asked = || *UNWILLING.0.lock().expect("lock");
        let p = heap::malloc(2 * MIB).addr();
        let pin = |p| {
            let b = host::find(p).expect("a block");
            cache.add_block(b);
            assert!(host::mark_in_use(b.id));
            cache.pin(&b, (b.start, b.len), true, &[]);
        };
        (0..10).for_each(|_| pin(p));
        assert_eq!(asked(), 1);
        assert_eq!((pins::bytes(), pins::ranges().len()), (0, 0));
        // The same pages may be pinned in another lifetime.
        free(p);
        let q = heap::malloc(2 * MIB).addr();
        assert_eq!(q, p);
        (0..10).for_each(|_| pin(q));
        assert_eq!(asked(), 2);
        free(q);
        heap::trim();
    });
}

impl Backend for Unwilling {
    fn devices(&self) -> &[Caps] {
        &[]
    }
    fn pin(&self, _: usize, _: usize) -> Result<(), DeviceError> {
        *self.0.lock().expect("lock") += 1;
        Err(DeviceError::Refused {
            device: semcache::base::DeviceId(0),
            what: "pin",
            code: 1,
        })
    }
    fn unpin(&self, _: usize, _: usize) {
        unreachable!("nothing is pinned");
    }
    fn cell(&self, _: semcache::base::DeviceId, _: usize) -> Option<Cell> {
        None
    }
    fn alloc(&self, _: semcache::base::DeviceId, _: usize) -> Result<u64, DeviceError> {
        unreachable!()
    }
    unsafe fn free(&self, _: semcache::base::DeviceId, _: u64) {}
    unsafe fn upload(
        &self,
        _: semcache::base::DeviceId,
        _: &[Ticket],
        _: &[Ticket],
        _: Region,
        _: Region,
        _: Shape,
    ) -> Result<Ticket, DeviceError> {
        unreachable!()
    }
    unsafe fn download(
        &self,
        _: semcache::base::DeviceId,
        _: &[Ticket],
        _: Region,
        _: Region,
        _: Shape,
    ) -> Result<Ticket, DeviceError> {
        unreachable!()
    }
    unsafe fn copy_peer(
        &self,
        _: semcache::base::DeviceId,
        _: semcache::base::DeviceId,
        _: &[Ticket],
        _: Region,
        _: Region,
        _: Shape,
    ) -> Result<Ticket, DeviceError> {
        unreachable!()
    }
    unsafe fn launch(
        &self,
        _: semcache::base::DeviceId,
        _: &[Ticket],
        _: &Kernel,
    ) -> Result<Ticket, DeviceError> {
        unreachable!()
    }
    fn done(&self, _: Ticket) -> Result<bool, DeviceError> {
        Ok(true)
    }
    fn wait(&self, _: Ticket) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// Bytes that are moved for the first time pass through staging memory, results excepted; a block whose bytes are moved again is
/// page-locked.
#[test]
fn an_input_that_comes_again_is_pinned() {
    testkit::alone(|| {
        set_up();
        budget::set_when(Pin::Again);
        let [input, result] = [8 * MIB; 2].map(|len| heap::malloc(len).addr());
        let starts = || -> Vec<usize> { sim().pinned().iter().map(|p| p.0).collect() };
        let [a, b] = [input, result].map(|p| host::find(p).expect("a block"));
        use_as(a, false, &[Some(a), Some(b)]);
        assert!(starts().is_empty());
        use_as(b, true, &[Some(a), Some(b)]);
        assert_eq!(starts(), [result]);
        use_as(a, false, &[Some(a), Some(b)]);
        let mut both = [input, result];
        both.sort_unstable();
        assert_eq!(starts(), both);
        // Another block at the same place is new.
        free(input);
        heap::trim();
        let input = heap::malloc(8 * MIB).addr();
        let a = host::find(input).expect("a block");
        use_as(a, false, &[Some(a), Some(b)]);
        assert_eq!(starts(), [result]);
        // Its pages come again where they were kept for the next block.
        free(input);
        assert_eq!(heap::malloc(8 * MIB).addr(), input);
        let a = host::find(input).expect("a block");
        use_as(a, false, &[Some(a), Some(b)]);
        assert_eq!(starts(), both);
        budget::set_when(Pin::Off);
        let other = host::find(heap::malloc(8 * MIB).addr()).expect("a block");
        use_as(other, true, &[Some(a), Some(b), Some(other)]);
        assert_eq!(starts(), both);
        assert_eq!(sim().pin_violations(), 0);
    });
}

/// Pieces of a result are pinned in the order in which tasks use them, by another thread, and each task waits for its own.
#[test]
fn results_are_pinned_ahead_of_tasks() {
    testkit::alone(|| {
        set_up();
        budget::set_piece(2 * MIB);
        let [input, result] = [8 * MIB; 2].map(|len| heap::malloc(len).addr());
        let [a, b] = [input, result].map(|p| host::find(p).expect("a block"));
        let call = [Some(a), Some(b)];
        let written = |operand| (operand == 1).then_some((b.start, b.len));
        assert!(use_as(a, false, &call));
        let inputs = sim().pinned();
        cache().add_block(b);
        assert!(host::mark_in_use(b.id));
        assert!(cache().pins_slowly(&b, (b.start, b.len)));
        let mut ahead = PinsAhead::new(&call, written);
        // The last quarter, the second and a part of the third, nothing but an input, and the last one again.
        let uses = [(1, 6, 8), (1, 2, 5), (0, 0, 8), (1, 7, 8)];
        for (operand, from, to) in uses {
            ahead.task([(operand, Interval::new(from * MIB, to * MIB))].into_iter());
        }
        ahead.claim(cache());
        let ready = || [0, 1, 2, 3].map(|task| ahead.ready(task));
        assert_eq!(ready(), [false, false, true, false]);
        std::thread::scope(|s| {
            s.spawn(|| ahead.run(cache()));
            while !ahead.ready(1) {
                ahead.wait(cache(), 1);
            }
        });
        assert_eq!(ready(), [true; 4]);
        let mut all: Vec<_> = [2, 4, 6].map(|m| (result + m * MIB, 2 * MIB)).into();
        all.extend(inputs);
        all.sort_unstable();
        assert_eq!(sim().pinned(), all, "the first quarter is used by no task");
        // A thread that is told to stop pins nothing more, and nobody waits for it.
        let mut ahead = PinsAhead::new(&call, written);
        ahead.task([(1, Interval::new(0, 8 * MIB))].into_iter());
        ahead.claim(cache());
        drop(Stop(&ahead));
        ahead.run(cache());
        assert!(ahead.ready(0));
        assert_eq!(sim().pinned(), all);
        // Without a thread the first task that waits has all pieces page-locked.
        let mut ahead = PinsAhead::new(&call, written);
        ahead.task([(1, Interval::new(0, 2 * MIB))].into_iter());
        ahead.claim(cache());
        while !ahead.ready(0) {
            ahead.wait(cache(), 0);
        }
        all.push((result, 2 * MIB));
        all.sort_unstable();
        assert_eq!(sim().pinned(), all);
        // Two results in one block have pieces in common.
        let both = heap::malloc(6 * MIB).addr();
        let c = host::find(both).expect("a block");
        cache().add_block(c);
        assert!(host::mark_in_use(c.id));
        let call = [Some(c), Some(c)];
        let mut ahead = PinsAhead::new(&call, |operand| Some((both + operand * 3 * MIB, 3 * MIB)));
        ahead.task(
            [0, 1]
                .map(|o| (o, Interval::new(o * 3 * MIB, o * 3 * MIB + 3 * MIB)))
                .into_iter(),
        );
        ahead.claim(cache());
        ahead.run(cache());
        all.extend([0, 2, 4].map(|m| (both + m * MIB, 2 * MIB)));
        all.sort_unstable();
        assert_eq!(sim().pinned(), all);
        assert_eq!(sim().pin_violations(), 0);
    });
}
