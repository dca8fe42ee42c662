//! Coroutines and cancelled threads.

#![expect(
    unsafe_code,
    reason = "plays an unmodified program: makecontext, pthread_cancel"
)]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libc::{c_int, c_uint, pthread_t, ucontext_t};

use crate::call::call;
use crate::fortran;
use crate::world::World;

const SIDE: usize = 24;
const NN: usize = SIDE * SIDE;
const STACK: usize = 256 << 10;

/// An element of one of two factors.
fn factor(seed: usize, which: usize, at: usize) -> f64 {
    let number = u32::try_from((at * (which + 3) + seed) % 7).unwrap_or(0);
    f64::from(number) - 3.0
}

/// C = A B for the three matrices that lie behind each other.
fn multiply(at: *mut f64) {
    let (one, zero) = (1.0f64, 0.0f64);
    let (b, c) = (at.wrapping_add(NN), at.wrapping_add(2 * NN));
    call!(fortran::GEMM[1]; b'N', b'N', SIDE, SIDE, SIDE, &raw const one, at.cast_const(), SIDE, b.cast_const(), SIDE,
        &raw const zero, c.cast_const(), SIDE);
}

/// Number of elements of the three matrices that have a wrong value.
///
/// # Safety
/// `at` is the address of the three matrices.
unsafe fn wrong(at: *const f64, seed: usize) -> usize {
    let right = |i: usize| match i / NN {
        2 => (0..SIDE)
            .map(|k| {
                let (row, column) = (i % NN % SIDE, i % NN / SIDE);
                factor(seed, 0, k * SIDE + row) * factor(seed, 1, column * SIDE + k)
            })
            .sum(),
        which => factor(seed, which, i % NN),
    };
    // SAFETY: the caller's promise.
    (0..3 * NN)
        .filter(|&i| unsafe { at.add(i).read_volatile() } != right(i))
        .count()
}

/// A coroutine and the context that resumes it.
struct Flow {
    main: ucontext_t,
    other: ucontext_t,
    seed: usize,
    /// Its matrices.
    at: *mut f64,
    wrong: usize,
}

/// Offers matrices on its stack, and compares them afterwards.
extern "C" fn body(high: c_uint, low: c_uint) {
    let flow = ((high as usize) << 32 | low as usize) as *mut Flow;
    let mut matrices = [0.0f64; 3 * NN];
    // SAFETY: the flow outlives the coroutine, whose contexts it has; one of the two runs at a time.
    unsafe {
        let seed = (*flow).seed;
        (*flow).at = matrices.as_mut_ptr();
        for _ in 0..2 {
            for i in 0..2 * NN {
                matrices
                    .as_mut_ptr()
                    .add(i)
                    .write_volatile(factor(seed, i / NN, i % NN));
            }
            libc::swapcontext(&raw mut (*flow).other, &raw const (*flow).main);
            (*flow).wrong += wrong(matrices.as_ptr(), seed);
        }
    }
}

/// A coroutine on a stack in memory of any origin, and calls from another context on matrices of that stack while the
/// coroutine waits.
pub(super) fn context(w: &mut World) {
    w.note = "context".into();
    let mapped = w.rng.one_in(3);
    // SAFETY: memory for a stack that is freed when no code runs on it any more; contexts as the C library wants them.
    unsafe {
        let stack = if mapped {
            crate::block::map(STACK, false).cast::<c_void>()
        } else {
            libc::malloc(STACK)
        };
        assert!(!stack.is_null(), "no memory");
        let mut flow = Box::new(Flow {
            main: MaybeUninit::zeroed().assume_init(),
            other: MaybeUninit::zeroed().assume_init(),
            seed: w.rng.below(1000),
            at: ptr::null_mut(),
            wrong: 0,
        });
        let flow = &raw mut *flow;
        assert_eq!(libc::getcontext(&raw mut (*flow).other), 0);
        (*flow).other.uc_stack.ss_sp = stack;
        // Where in a page the top of the stack lies.
        (*flow).other.uc_stack.ss_size = STACK - 16 * w.rng.below(256);
        (*flow).other.uc_link = &raw mut (*flow).main;
        let function = std::mem::transmute::<extern "C" fn(c_uint, c_uint), extern "C" fn()>(body);
        let word = flow.addr();
        libc::makecontext(
            &raw mut (*flow).other,
            function,
            2,
            (word >> 32) as c_uint,
            (word & 0xffff_ffff) as c_uint,
        );
        for resumed in 0..3 {
            if resumed > 0 {
                multiply((*flow).at);
            }
            libc::swapcontext(&raw mut (*flow).main, &raw const (*flow).other);
        }
        assert_eq!((*flow).wrong, 0, "a coroutine saw other numbers");
        if mapped {
            libc::munmap(stack, STACK);
        } else {
            libc::free(stack);
        }
    }
}

unsafe extern "C-unwind" {
    fn pthread_create(
        thread: *mut pthread_t,
        attributes: *const c_void,
        start: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_testcancel();
}

/// What a thread computes until it is told to stop.
struct Work {
    at: *mut f64,
    calls: AtomicUsize,
    stop: AtomicBool,
}

/// No destructor in this function has to run when the thread ends.
unsafe extern "C-unwind" fn compute(work: *mut c_void) -> *mut c_void {
    // SAFETY: the pointer that `cancel` passes; `cancel` waits for the thread.
    let work = unsafe { &*work.cast::<Work>() };
    while !work.stop.load(Ordering::Acquire) {
        multiply(work.at);
        work.calls.fetch_add(1, Ordering::AcqRel);
    }
    loop {
        // SAFETY: ends the thread once it is cancelled.
        unsafe { pthread_testcancel() };
    }
}

/// A thread that is cancelled while it computes ends at its next cancellation point, not in a call.
pub(super) fn cancel(w: &mut World) {
    w.note = "cancel".into();
    let seed = w.rng.below(1000);
    let (before, after) = (w.rng.below(3), 1 + w.rng.below(3));
    // SAFETY: memory that is freed when the thread has ended.
    unsafe {
        let at = libc::malloc(3 * NN * 8).cast::<f64>();
        assert!(!at.is_null(), "no memory");
        for i in 0..2 * NN {
            at.add(i).write(factor(seed, i / NN, i % NN));
        }
        let work = Work {
            at,
            calls: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        };
        let reach = |calls: usize| {
            while work.calls.load(Ordering::Acquire) < calls {
                std::thread::yield_now();
            }
        };
        let mut thread = MaybeUninit::uninit();
        let argument = (&raw const work).cast_mut().cast();
        let failed = pthread_create(thread.as_mut_ptr(), ptr::null(), compute, argument);
        assert_eq!(failed, 0);
        let thread = thread.assume_init();
        reach(before);
        assert_eq!(libc::pthread_cancel(thread), 0);
        reach(before + after);
        work.stop.store(true, Ordering::Release);
        let mut result = ptr::null_mut();
        assert_eq!(libc::pthread_join(thread, &raw mut result), 0);
        assert_eq!(result.addr(), usize::MAX, "a thread was not cancelled");
        assert_eq!(wrong(at, seed), 0, "a cancelled thread's results");
        libc::free(at.cast());
    }
}
