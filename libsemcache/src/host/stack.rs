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
    /// The page in which the stack pointer lay when it was last found outside of all blocks, and the version of the
    /// tables of adopted blocks at that time.
    static SEEN: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Called where the program enters our code. If its stack pointer lies in a block, the program has switched to a stack
/// of its own there (a coroutine's), of which devices could get pages while the coroutine waits and another calls the
/// BLAS on matrices in it. So the block is tracked no longer ([`becomes_stack`]).
#[inline(never)]
pub fn runs_here() {
    let local = 0u8;
    let sp = (&raw const local).addr();
    // No page is closed any more in a child that a bare system call made, where any lock may be held for ever, nor in a
    // process that has restricted its own system calls, which reading the mappings would need.
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
    // The table of static data is filled only when it is first needed, which may be now.
    statics::refresh();
    // For a mapping the look-up itself notes that it is a stack.
    if let Some(adopt::Hit::Static(Some(_))) = adopt::lookup(sp) {
        becomes_stack(sp, 1);
    }
    SEEN.set(now);
}

/// Before the program uses these bytes as a stack, an alternate one for signals, a thread's or a context's: their pages
/// must never be closed, for the kernel kills a process if it cannot write a signal's frame. The newest contents of the
/// blocks that they lie in are brought home, and these are tracked no longer: a block of our malloc until it is freed,
/// static data for ever.
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
