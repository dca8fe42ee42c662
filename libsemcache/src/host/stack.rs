#![expect(unsafe_code, reason = "asks pthread for the stack's bounds")]
//! Where the calling thread's stack is. A stack that the program mapped itself looks like any other block;
//! closing a page of it would end the process at the next signal.

use super::{adopt, heap, statics, sys, theirs};

use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr;

use semcache_fault::broken;

std::thread_local! {
    /// The bounds, once asked for; (1, 0) if unknown. Const and without a destructor.
    static BOUNDS: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
    /// The page where the stack pointer was seen last, outside of all blocks that could be closed, and the version of
    /// adopted blocks then.
    static SEEN: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// The program is here with its stack pointer as it is. Should that lie in a block that could be closed, the program has
/// switched to a stack of its own there (a coroutine's), and another context may compute on matrices of that stack while
/// it waits. The block is a stack from now on ([`becomes_stack`]).
#[inline(never)]
pub fn runs_here() {
    let local = 0u8;
    let sp = (&raw const local).addr();
    // In a child that a bare system call made, any lock may be held for ever, and nothing is closed any more.
    // Nor is it where the program has restricted its own system calls, which a look at the mappings needs.
    if semcache_fault::lineage::orphaned() || heap::closed() || broken!("break-context") {
        return;
    }
    if heap::contains(sp) {
        if heap::block_at(sp).is_some() {
            becomes_stack(sp, 1);
        }
        return;
    }
    if !adopt::enabled() {
        return;
    }
    let now = (sp / sys::page_size(), adopt::version());
    if SEEN.get() == now {
        return;
    }
    // Static data is looked for at the first call that needs it: that may be later.
    statics::refresh();
    // A mapping is found to be a stack by this.
    if let Some(adopt::Hit::Static(Some(_))) = adopt::lookup(sp) {
        becomes_stack(sp, 1);
    }
    SEEN.set(now);
}

/// The program is about to make these bytes a stack, an alternate one for signals, a thread's or a context's: pages around
/// them are closed no longer, for where its frame should go the kernel asks no handler. Blocks that they lie in are left
/// alone from now on: an allocated one until it is freed, static data for ever.
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
    if adopt::enabled() && !heap::contains(addr) {
        // Static data is looked for at the first call that needs it: that may be later.
        statics::refresh();
        adopt::forget(first, len);
    }
}

/// Whether this very call runs on a stack within `[start, start + len)`.
#[inline(never)]
pub(super) fn is_here(start: usize, len: usize) -> bool {
    let local = 0u8;
    (&raw const local).addr().wrapping_sub(start) < len
}

/// Whether `addr` lies in the calling thread's stack. The main thread's is the kernel's, which is never
/// adopted, so it is not asked for (libc would read /proc/self/maps).
pub(super) fn contains(addr: usize) -> bool {
    let (start, end) = BOUNDS.with(|b| {
        b.get().unwrap_or_else(|| {
            let bounds = ask().unwrap_or((1, 0));
            b.set(Some(bounds));
            bounds
        })
    });
    start <= addr && addr < end
}

fn ask() -> Option<(usize, usize)> {
    if rustix::thread::gettid() == rustix::process::getpid() {
        return None;
    }
    let mut attr = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: `attr` is written by the call if it succeeds.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), attr.as_mut_ptr()) } != 0 {
        return None;
    }
    let (mut start, mut size) = (ptr::null_mut(), 0usize);
    // SAFETY: initialised above; both results are places of the right type; destroyed once.
    let known = unsafe {
        let rc = libc::pthread_attr_getstack(attr.as_ptr(), &raw mut start, &raw mut size);
        libc::pthread_attr_destroy(attr.as_mut_ptr());
        rc == 0
    };
    known.then(|| (start.addr(), start.addr() + size))
}
