#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test program, not the library in a user's process"
)]
#![expect(unsafe_code, reason = "maps memory, and drives malloc")]
//! While a block's contents are being written back for one thread, no other thread's system call may change pages of
//! the block: bytes that are written back later would overwrite what that call did to the pages.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use nix::sys::mman::{MRemapFlags, MapFlags, MmapAdvise, ProtFlags, mmap_anonymous, munmap};
use semcache::base::AllocId;
use semcache::host::{self, Block, Observer, Release, adopt, heap};

const PAGE: usize = 4096;
const LEN: usize = 64 * PAGE;
const RW: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);

/// Writes a block back slowly: until the other thread has looked for the block, and has finished its hook or had many
/// chances to.
struct Slow;

static BEGUN: AtomicUsize = AtomicUsize::new(0);
static HOME: AtomicBool = AtomicBool::new(true);
static LOOKED: AtomicBool = AtomicBool::new(true);
static THROUGH: AtomicBool = AtomicBool::new(false);

impl Observer for Slow {
    fn release(&self, _: Block) -> Release {
        Release::Now
    }
    fn abandon(&self, _: Block) -> Release {
        HOME.store(false, Ordering::SeqCst);
        BEGUN.fetch_add(1, Ordering::SeqCst);
        while !LOOKED.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        for _ in 0..500 {
            if THROUGH.load(Ordering::SeqCst) {
                break;
            }
            std::thread::yield_now();
        }
        HOME.store(true, Ordering::SeqCst);
        Release::Now
    }
    fn busy(&self, _: AllocId) -> bool {
        false
    }
    fn surrender(&self, _: Block, _: usize, _: usize) {}
    fn resized(&self, _: AllocId, _: usize, _: usize) {}
}

/// Tests run one at a time: the observer belongs to the process.
static TURN: Mutex<()> = Mutex::new(());

/// One thread guards the first page of a block in use; meanwhile another thread is about to change the block's last
/// page.
fn apart(start: usize, hook: fn(usize)) {
    let block = host::find(start).expect("a block");
    assert!(host::mark_in_use(block.id));
    LOOKED.store(false, Ordering::SeqCst);
    THROUGH.store(false, Ordering::SeqCst);
    let before = BEGUN.load(Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| adopt::on_mprotect(start, PAGE, ProtFlags::PROT_READ.bits()));
        while BEGUN.load(Ordering::SeqCst) == before {
            std::thread::yield_now();
        }
        let found = host::find(start + LEN - 1);
        LOOKED.store(true, Ordering::SeqCst);
        assert_eq!(found, None, "no call uses it meanwhile");
        hook(start + LEN - PAGE);
        let home = HOME.load(Ordering::SeqCst);
        THROUGH.store(true, Ordering::SeqCst);
        assert!(home, "the hook returned before the block was written back");
    });
    adopt::on_mprotect(start, PAGE, RW.bits());
}

const HOOKS: [fn(usize); 4] = [
    |page| adopt::on_madvise(page, PAGE, MmapAdvise::MADV_DONTNEED as i32),
    |page| adopt::on_mprotect(page, PAGE, ProtFlags::PROT_NONE.bits()),
    |page| adopt::on_mprotect(page, PAGE, RW.bits()),
    |page| adopt::before_mremap(page, PAGE, MRemapFlags::MREMAP_MAYMOVE.bits(), 0, PAGE),
];

fn set_up() {
    heap::configure(LEN);
    adopt::configure(PAGE);
    host::set_observer(&Slow);
}

#[test]
fn a_mapping_that_leaves() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    set_up();
    for hook in HOOKS {
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_ANONYMOUS;
        let len = NonZeroUsize::new(LEN).unwrap();
        // SAFETY: a new mapping.
        let p = unsafe { mmap_anonymous(None, len, RW, flags) }.unwrap();
        let at = p.addr().get();
        adopt::on_mmap(at, LEN, RW.bits(), flags.bits(), -1);
        apart(at, hook);
        assert_eq!(adopt::on_munmap(at, LEN), adopt::Unmap::Proceed);
        // SAFETY: this mapping.
        unsafe { munmap(p, LEN) }.unwrap();
    }
}

#[test]
fn an_allocation_that_leaves() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    set_up();
    for hook in HOOKS {
        let p = heap::malloc(LEN);
        assert!(heap::contains(p.addr()));
        apart(p.addr(), hook);
        // SAFETY: this allocation.
        unsafe { heap::free(p) };
    }
}
