//! Coroutine stacks: blocks that the program uses as stacks are not tracked.

use core::cell::Cell;

use semcache_fault::broken;

use super::{adopted, heap, statics, sys, theirs};

std::thread_local! {
    /// The number of the page of the stack pointer when it was last found outside of all blocks, and behind it the lower bits of the
    /// version of the tables of adopted blocks at that time.
    static SEEN: Cell<usize> = const { Cell::new(0) };
}

/// An address of a program has 47 bits, 12 of them within the page.
const VERSION_BITS: u32 = usize::BITS - 35;

/// Called where the program enters the runtime. If the stack pointer lies in a block, the program has switched to a
/// stack of its own there, a coroutine's. Its pages could be made inaccessible while the coroutine waits and another
/// one calls the BLAS on matrices in the same block. So the block is no longer tracked ([`becomes_stack`]).
#[inline(never)]
pub fn runs_here() {
    let local = 0u8;
    let sp = (&raw const local).addr();
    // No page is made inaccessible any more in a child that a bare system call made, where any lock may be held for
    // ever, nor in a process that has restricted its own system calls, which reading the mappings would need.
    if semcache_fault::lineage::orphaned() || heap::closed() || broken!("break-context") {
        return;
    }
    if heap::contains(sp) {
        if heap::block_at(sp).is_some() {
            becomes_stack(sp, 1);
        }
        return;
    }
    if !adopted::enabled() {
        return;
    }
    let now =
        (sp / sys::page_size()) << VERSION_BITS | adopted::version() & ((1 << VERSION_BITS) - 1);
    if SEEN.get() == now {
        return;
    }
    // The table of static data is filled only when it is first needed, which may be now.
    statics::refresh();
    // For a mapped block the look-up itself notes that the block is a stack.
    if let Some(adopted::Hit::Static(Some(_))) = adopted::lookup(sp) {
        becomes_stack(sp, 1);
    }
    SEEN.set(now);
}

/// Called before the program uses these bytes as a stack: an alternate one for signals, a thread's or a context's. The
/// pages of a stack must never be made inaccessible, for the kernel kills a process if it cannot write a signal's
/// frame. The newest contents of the blocks that contain the bytes are written back to the host, and these blocks are
/// no longer tracked: a block of semcache's `malloc` until it is freed, static data for ever.
pub fn becomes_stack(addr: usize, len: usize) {
    let page = sys::page_size();
    let first = addr & !(page - 1);
    let Some(len) = addr
        .checked_add(len)
        .and_then(|end| sys::whole_pages(end - first))
    else {
        return;
    };
    theirs::do_not_track(first, len);
    if adopted::enabled() && !heap::contains(addr) {
        // The table of static data is filled at the first call that needs it, which may come later than this one.
        statics::refresh();
        adopted::forget(first, len);
    }
}
