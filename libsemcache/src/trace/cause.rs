//! For which call or fault a thread works.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::nvtx;

/// The next number of a call or fault.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Calls of one thread inside each other, at most: a call inside a call is one of a signal handler that a bad address
/// of the outer call started.
const DEEPEST: usize = 4;

/// A call or fault for which a thread works. Two words, as the library has little thread-local memory.
#[derive(Clone, Copy)]
struct Frame {
    /// Its number; 0: none.
    id: u64,
    /// An address in its stack frame, without the lowest bit, which says whether it is a range of NVTX.
    stack: usize,
}

impl Frame {
    fn is_ranged(self) -> bool {
        self.stack & 1 == 1
    }

    /// Whether it lies above a frame that is alive, by an address in that.
    fn is_above(self, stack: usize) -> bool {
        self.stack & !1 > stack
    }
}

const NONE: Frame = Frame { id: 0, stack: 0 };

/// What a thread works for, the innermost last; behind them [`NONE`].
#[derive(Clone, Copy)]
struct Frames([Frame; DEEPEST]);

impl Frames {
    fn len(&self) -> usize {
        self.0.iter().take_while(|frame| frame.id != 0).count()
    }
}

std::thread_local! {
    static FRAMES: Cell<Frames> = const { Cell::new(Frames([NONE; DEEPEST])) };
}

/// The number of the call or fault for which this thread works; 0 if none.
#[must_use]
pub fn cause() -> u64 {
    let frames = FRAMES.get();
    frames.len().checked_sub(1).map_or(0, |i| frames.0[i].id)
}

/// Ends the innermost frames until `len` are left.
fn end_until(len: usize) {
    let mut frames = FRAMES.get();
    for last in (len..frames.len()).rev() {
        let ended = core::mem::replace(&mut frames.0[last], NONE);
        FRAMES.set(frames);
        if ended.is_ranged() {
            nvtx::pop();
        }
    }
}

/// Ends the frames that a signal handler of the program left by a jump: those that do not lie above `stack`, the
/// address of a frame that is alive, since stacks grow downwards.
fn end_left(stack: usize) {
    let frames = FRAMES.get();
    let alive = |frame: &&Frame| frame.is_above(stack);
    let alive = frames.0[..frames.len()].iter().take_while(alive).count();
    end_until(alive);
}

/// Until this is dropped, the calling thread works for one call or fault.
#[derive(Debug)]
pub struct Within {
    id: u64,
    /// Frames of the thread around this one.
    around: usize,
}

impl Within {
    /// Begins a new fault.
    #[expect(clippy::new_without_default, reason = "a guard, not a value")]
    #[must_use]
    pub fn new() -> Within {
        Within::begin(false)
    }

    /// Begins a new call of this routine with these sizes m, n and k, which is a range of NVTX if a tool is attached.
    #[must_use]
    pub fn call(name: &str, sizes: [u32; 3]) -> Within {
        let ranged = nvtx::attached();
        let within = Within::begin(ranged);
        if ranged {
            nvtx::push(name, sizes);
        }
        within
    }

    fn begin(ranged: bool) -> Within {
        let mark = 0_u64;
        let stack = (&raw const mark).addr();
        end_left(stack);
        let id = NEXT.fetch_add(1, Relaxed);
        let mut frames = FRAMES.get();
        let around = frames.len();
        if let Some(frame) = frames.0.get_mut(around) {
            let stack = stack | usize::from(ranged);
            *frame = Frame { id, stack };
            FRAMES.set(frames);
        }
        Within { id, around }
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        end_until(self.around);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call whose frame is left as by `siglongjmp`: nothing of it is dropped.
    #[inline(never)]
    fn leave() -> u64 {
        let within = Within::new();
        let id = within.id();
        core::mem::forget(within);
        core::hint::black_box(id)
    }

    /// At least this deep in the stack, calls `f`.
    #[inline(never)]
    fn deeper<R>(f: impl FnOnce() -> R) -> R {
        let room = core::hint::black_box([0_u8; 4096]);
        let result = f();
        core::hint::black_box(room);
        result
    }

    #[test]
    fn a_thread_works_for_the_innermost() {
        assert_eq!(cause(), 0);
        let outer = Within::new();
        assert_eq!(cause(), outer.id());
        deeper(|| {
            let inner = Within::new();
            assert!(inner.id() > outer.id());
            assert_eq!(cause(), inner.id());
        });
        assert_eq!(cause(), outer.id());
        drop(outer);
        assert_eq!(cause(), 0);
    }

    #[test]
    fn frames_left_by_a_jump_end() {
        // Below a live call: it ends them when it ends itself, and they are its causes until then.
        let outer = Within::new();
        let left = deeper(leave);
        assert_eq!(cause(), left);
        drop(outer);
        assert_eq!(cause(), 0);
        // With no call around: the next call of a frame that is not below theirs ends them.
        deeper(|| deeper(leave));
        deeper(leave);
        let next = Within::new();
        assert_eq!(cause(), next.id());
        drop(next);
        assert_eq!(cause(), 0);
    }

    #[test]
    fn more_frames_than_there_is_room_for() {
        fn nested(levels: usize) {
            let within = Within::new();
            if levels > 0 {
                deeper(|| nested(levels - 1));
            }
            drop(within);
        }
        nested(2 * DEEPEST);
        assert_eq!(cause(), 0);
    }
}
